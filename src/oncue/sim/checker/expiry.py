"""Time to wait: a job has its deadline, and before its first attempt its slot's grace. Not longer, and not less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oncue.model import TERMINAL, WAITING
from oncue.sim.checker.eras import in_era_of, when
from oncue.sim.checker.evidence import Evidence
from oncue.sim.checker.leaders import LEADER
from oncue.sim.checker.peace import Weather
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event

LIMITS = {"deadline": "deadline_at", "misfire": "start_by"}


@dataclass(slots=True)
class _Wait:
    """A job that waits: how it was written, since when, and how often it was attempted."""

    written: Event
    since: Event
    attempt: int = 0
    spread: bool = False
    """Of a cluster job: whether its parts were written. Then it has begun."""

    @property
    def end(self) -> int | None:
        """When it has waited for long enough, by the database's clock."""
        told = self.written.fields
        limits = [told.get("deadline_at"), told.get("start_by") if not (self.attempt or self.spread) else None]
        return min((limit for limit in limits if limit is not None), default=None)


def _may_expire(written: Event) -> bool:
    """Whether a job's limits are what it was written with. The deadline of a parked one counts from its release."""
    limited = any(written.fields.get(limit) is not None for limit in LIMITS.values())
    return limited and not written.fields.get("parked", False)


@dataclass(slots=True)
class _Lead:
    """Since when, and until when, a node leads."""

    since: int = 0
    until: int = -1

    def note(self, event: Event) -> None:
        if event.kind == "hold.end":
            self.until = -1
        elif when(event) > self.until:
            self.since = when(event)
        if event.kind == "hold":
            self.until = in_era_of(event, event.fields["until"])


@promise("nothing waits past its time")
def _ended_in_time(evidence: Evidence) -> Iterator[Broken]:
    """A job that may not wait any longer is ended, claimed or not, while a node leads and nothing disturbs the cluster.

    Asked for with `late`. The new deadline of a job that an operator starts over is not known.
    """
    if evidence.late is None or not evidence.certain:
        return
    weather, most, lead = Weather(evidence), round(evidence.late * 1e6), _Lead()
    waiting: dict[int, _Wait] = {}
    written: dict[int, Event] = {}

    def overdue(wait: _Wait, now: Event) -> int:
        """For how long it should have been ended by now."""
        if wait.end is None or when(now) > lead.until:
            return 0
        due = max(when(wait.since), in_era_of(now, wait.end))
        return when(now) - max(due, lead.since, weather.fine_since(when(now)))

    for event in evidence.told("job", "claim", "change", "hold", "hold.end", "spread"):
        told = event.fields
        if event.kind in ("hold", "hold.end"):
            if told.get("name", LEADER) == LEADER:
                lead.note(event)
        elif event.kind == "job":
            if _may_expire(event):
                written[told["id"]], waiting[told["id"]] = event, _Wait(event, event)
        elif event.kind == "spread":
            if told["id"] in waiting:
                waiting[told["id"]].spread = True
        elif told["id"] in written and told.get("accepted", True):
            wait = waiting.pop(told["id"], None)
            if wait is not None and overdue(wait, event) > most:
                yield Broken(f"job {told['id']} waited {_late(wait, event):g} s past its time", (wait.written, event))
            if event.kind == "change" and told["from_state"] in TERMINAL:
                del written[told["id"]]
            elif event.kind == "change" and told["state"] in WAITING:
                spread = told["id"] in evidence.spread and wait is not None and wait.spread
                waiting[told["id"]] = _Wait(written[told["id"]], event, told["attempt"], spread)
    for job_id, wait in waiting.items():
        if overdue(wait, evidence.events[-1]) > most:
            yield Broken(f"job {job_id} waits past its time for ever", (wait.written,))


def _late(wait: _Wait, now: Event) -> float:
    return (now.at - (wait.end or now.at)) / 1e6


@promise("nothing is given up before its time")
def _not_too_soon(evidence: Evidence) -> Iterator[Broken]:
    """Only what has not started by its deadline, or by the end of its slot's grace, is skipped for being late."""
    for story in evidence.jobs.values():
        if story.written is None or not _may_expire(story.written):
            continue
        for change in story.changes:
            told = change.fields
            if told["from_state"] in TERMINAL:
                break
            if told["state"] != "skipped" or told["outcome"] is not None or told["reason"] not in LIMITS:
                continue
            end = story.written.fields.get(LIMITS[told["reason"]])
            spread = evidence.spread.get(story.id)
            in_time = spread is not None and when(spread) < when(change) and spread.fields["at"] < (end or 0)
            begun = told["reason"] == "misfire" and (told["attempt"] > 0 or in_time)
            early = end is None or begun or change.at + evidence.tolerance < end
            if early and not evidence.is_unsure(change):
                yield Broken(f"job {story.id} was given up before its time", (story.written, change))
