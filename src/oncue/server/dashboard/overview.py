"""The overview: how much is done, how fast, what waits, what fails, and what needs attention."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from oncue.engine.counting import latest_sample
from oncue.engine.survey import Survey, survey
from oncue.model import Job, JobFilter, Minute, Queue
from oncue.policy.error_summary import error_summary
from oncue.server.dashboard.attention import matters
from oncue.server.dashboard.lately import lately
from oncue.server.dashboard.rendering import chart

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

LATEST = 300
"""Of so many jobs that have ended the percentiles are taken."""
FAILURES = 8
HISTORY = timedelta(hours=1)
RECENT = timedelta(seconds=30)
FEWEST_SECONDS = 1.0
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Pulse(NamedTuple):
    """How many jobs have ended since the beginning, and how many wait, at an instant."""

    at: datetime
    succeeded: int
    failed: int
    waiting: int | None = None


class Pulses:
    """What the overview has seen while it was looked at: finer than the minutes that are stored."""

    def __init__(self) -> None:
        self._seen: deque[Pulse] = deque(maxlen=2000)

    def add(self, pulse: Pulse) -> None:
        if not self._seen or (pulse.at - self._seen[-1].at).total_seconds() >= FEWEST_SECONDS:
            self._seen.append(pulse)

    def since(self, start: datetime) -> list[Pulse]:
        return [pulse for pulse in self._seen if pulse.at >= start]


def add(dashboard: Dashboard) -> None:
    pulses = Pulses()

    @dashboard.page("/", "overview.html", title="Overview", room="")
    async def overview(view: View) -> dict[str, Any]:
        connected = await view.app.internals.connected()
        store, now = connected.store, connected.now()
        queues = await view.app.queues.list()
        found = await survey(store, await latest_sample(store, now), now)
        nodes, leader = await view.app.nodes.list(), await view.app.cluster.leader()
        pulses.add(_pulse(queues, now))
        telling = dashboard.telling()
        series = [*_of_minutes(await store.alerts.minutes(now - HISTORY)), *pulses.since(now - HISTORY)]
        ended = await store.jobs.find(JobFilter(("succeeded", "failed"), limit=LATEST, short=True))
        failed = await store.jobs.find(JobFilter(("failed",), limit=FAILURES, short=True))
        return {
            "now": now, "queues": _busiest(queues), "totals": _totals(queues), "nodes": nodes, "leader": leader,
            "next_run": found.next_run, "happenings": await lately(view, found, nodes, leader, telling),
            "telling": telling,
            "matters": await matters(view, found, now), "oldest": _oldest(found, now),
            "rate": _rate(pulses.since(now - RECENT) or series[-2:]), "chart": _drawn(series),
            "run": _percentiles(_took(job) for job in ended), "wait": _percentiles(_waited(job) for job in ended),
            "measured": len(ended), "failures": [(job, error_summary(job.error)) for job in failed],
        }  # fmt: skip


def _pulse(queues: Sequence[Queue], now: datetime) -> Pulse:
    waiting = sum(queue.queued for queue in queues)
    return Pulse(now, sum(q.succeeded for q in queues), sum(q.failed for q in queues), waiting)


def _of_minutes(minutes: Iterable[Minute]) -> list[Pulse]:
    """The totals that the leader has noted, minute by minute."""
    by_minute: dict[datetime, dict[str, tuple[int, int]]] = {}
    for one in minutes:
        if one.kind == "totals":
            told = int(one.figures.get("succeeded", 0)), int(one.figures.get("failed", 0))
            by_minute.setdefault(one.minute, {})[one.name] = told
    return [
        Pulse(minute, sum(s for s, _ in totals.values()), sum(f for _, f in totals.values()))
        for minute, totals in sorted(by_minute.items())
    ]


def _rates(pulses: Sequence[Pulse]) -> list[tuple[datetime, float, float]]:
    """Jobs a second between each instant and the one before. Totals never shrink: where they seem to, they are of
    other queues."""
    found = []
    for before, after in pairwise(sorted(pulses)):
        seconds = (after.at - before.at).total_seconds()
        succeeded, failed = after.succeeded - before.succeeded, after.failed - before.failed
        if seconds > 0 and succeeded >= 0 and failed >= 0:
            found.append((after.at, succeeded / seconds, failed / seconds))
    return found


def _rate(pulses: Sequence[Pulse]) -> float | None:
    """Jobs that end in a second, over all of these instants."""
    if len(pulses) < 2:
        return None
    first, last = min(pulses), max(pulses)
    seconds = (last.at - first.at).total_seconds()
    return max(last.succeeded + last.failed - first.succeeded - first.failed, 0) / seconds if seconds else None


def _drawn(pulses: Sequence[Pulse]) -> str | None:
    rates = _rates(pulses)
    if not rates:
        return None
    succeeded, failed = [round(rate, 3) for _, rate, _ in rates], [round(rate, 3) for _, _, rate in rates]
    return chart("", [at for at, _, _ in rates], succeeded=succeeded, failed=failed)


def _totals(queues: Sequence[Queue]) -> dict[str, int]:
    names = ("queued", "running", "later", "succeeded", "failed", "cancelled", "skipped")
    return {name: sum(getattr(queue, name) for queue in queues) for name in names}


def _busiest(queues: Sequence[Queue]) -> list[Queue]:
    return sorted(queues, key=lambda queue: (-queue.queued - queue.running - queue.later, queue.name))[:6]


def _oldest(found: Survey, now: datetime) -> float | None:
    since = [age.since for age in found.ages if age.kind == "queued"]
    return (now - min(since)).total_seconds() if since else None


def _took(job: Job) -> float | None:
    return None if job.started_at is None or job.finished_at is None else _between(job.started_at, job.finished_at)


def _waited(job: Job) -> float | None:
    """From when it was due until it began; only of first attempts, since others waited for their retry on purpose."""
    if job.started_at is None or job.attempt != 1:
        return None
    return _between(max(job.created_at, job.visible_at), job.started_at)


def _between(start: datetime, end: datetime) -> float:
    return max((end - start).total_seconds(), 0.0)


def _percentiles(seconds: Iterable[float | None]) -> dict[str, float | None]:
    known = sorted(value for value in seconds if value is not None)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {
        name: known[min(int(share * len(known)), len(known) - 1)] if known else None for name, share in shares.items()
    }
