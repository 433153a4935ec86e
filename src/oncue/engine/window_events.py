"""What the jobs of windows tell: attempts that begin and end, days that have their outcome, and what waits.

Of plain jobs nothing is told here: the executor and the settler ask whether a job is one of a window's day, and that is
all that it costs the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from oncue.engine.counting import latest_sample
from oncue.model import Claim, DayStatus, Failed, Outcome, Sample, Schedule, Succeeded, TimedOut
from oncue.policy import options, windows
from oncue.policy.error_classes import UNKNOWN
from oncue.policy.lifecycle import Ended
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

FINALIZED = "sched.finalize"


class WindowEvents:
    """Counts the attempts of windows' jobs in this process, and tells of each."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._in_flight: dict[str, int] = {}

    def began(self, claim: Claim, most: int) -> None:
        """An attempt of a job with a slot begins. `most` may run here at once."""
        if options.read(claim.options).window is not None:
            self._count(claim.queue, 1, most)

    def stopped(self, claim: Claim, outcome: Outcome, seconds: float, most: int) -> None:
        """An attempt of a window's job has ended. One that was given back or cancelled has no result."""
        self._count(claim.queue, -1, most)
        told = _result(outcome)
        if told is not None:
            self._telemetry.emit("sched.job.stop", {"duration_ms": seconds * 1000}, **told, window=claim.task)

    def _count(self, queue: str, change: int, most: int) -> None:
        in_flight = self._in_flight[queue] = max(self._in_flight.get(queue, 0) + change, 0)
        self._telemetry.emit("sched.executor.in_flight", {"in_flight": in_flight}, max_concurrency=most, queue=queue)


def _result(outcome: Outcome) -> dict[str, str] | None:
    if isinstance(outcome, Succeeded):
        return {"result": "ok"}
    if isinstance(outcome, Failed):
        return {"result": "error", "error_class": outcome.error_class or UNKNOWN}
    return {"result": "timeout", "error_class": UNKNOWN} if isinstance(outcome, TimedOut) else None


def tell_finalized(
    telemetry: Telemetry, window: str, cutoff_at: datetime, status: str, day: str, reason: str | None = None
) -> None:
    """A user's day has its outcome. `today` is the date that the day belongs to."""
    telemetry.emit(
        FINALIZED, {},
        status=status, due_bucket=windows.bucket_of(cutoff_at), today=day, window=window, reason=reason,
    )  # fmt: skip


def tell_settled_day(telemetry: Telemetry, ended: Ended, status: DayStatus) -> None:
    """The end of a job has decided its day: by a success, or by one that came too late."""
    claim, window = ended.claim, options.read(ended.claim.options).window
    if window is not None and window.cutoff_at is not None and claim.scheduled_for is not None:
        tell_finalized(telemetry, claim.task, window.cutoff_at, status, str(claim.scheduled_for.date()))


async def tell_load(store: Store, telemetry: Telemetry, of: Sequence[Schedule], now: datetime) -> None:
    """How much of the queues of windows waits and runs in the whole cluster, by the leader's sample."""
    if not of or not telemetry.wants("sched.queue.depth"):
        return
    sample = await latest_sample(store, now)
    for queue in sorted({window.queue for window in of}):
        limits = await store.queues.limits(queue)
        telemetry.emit(
            "sched.queue.depth", {"depth": _jobs(sample, queue, "queued")},
            today=str(now.date()), queue=queue, in_flight=_jobs(sample, queue, "running"),
            max_concurrency=limits.globally,
        )  # fmt: skip


def _jobs(sample: Sample, queue: str, kind: str) -> int:
    return sum(count.jobs for count in sample.counts if count.queue == queue and count.kind == kind)
