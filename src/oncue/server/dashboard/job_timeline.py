"""The life of one job as a line: when it was made, waited, ran, and what became of each attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from oncue.model import PARKED, Attempt, Job

WIDTH = 1000
NARROWEST = 6
"""So wide is the shortest attempt in the line: it would not be seen otherwise."""
MOST_ATTEMPTS = 100
"""A job that snoozes for ever has thousands: the newest are shown."""

Named = Callable[[UUID | None], str | None]


class Stretch(NamedTuple):
    """A part of the line, of so many thousandths."""

    kind: str
    x: float
    width: float
    says: str


class LifeEvent(NamedTuple):
    """Something that happened at an instant, or will."""

    at: datetime
    kind: str
    text: str
    note: str = ""
    lasted: float | None = None


def running_attempt(job: Job) -> Attempt | None:
    """The attempt that is being made: it is in no list yet."""
    began = job.started_at or job.claimed_at
    if job.state != "running" or began is None:
        return None
    return Attempt(job.id, job.attempt + 1, job.claim_no, job.node_id, began, None, "running", None, job.details)


def stretches(job: Job, attempts: Sequence[Attempt], now: datetime) -> list[Stretch]:
    """What waited and what ran, from when it was made until it ended or now."""
    start, end = job.created_at, job.finished_at or now
    whole = (end - start).total_seconds()
    if whole <= 0:
        return []

    def place(moment: datetime) -> float:
        return min(max((moment - start).total_seconds() / whole, 0.0), 1.0) * WIDTH

    due = place(job.visible_at) if not attempts else 0.0
    found = [Stretch("waits", 0, WIDTH, "waits")]
    if due > 0 and job.visible_at > job.created_at:
        found.append(Stretch("later", 0, due, "not due yet"))
    for attempt in attempts:
        x, then = place(attempt.started_at), place(attempt.finished_at or end)
        width = max(then - x, NARROWEST)
        says = f"attempt {attempt.attempt}: {attempt.outcome}"
        found.append(Stretch(attempt.outcome, round(min(x, WIDTH - width), 1), round(width, 1), says))
    return found


def events(job: Job, attempts: Sequence[Attempt], named: Named, *, is_cut: bool = False) -> list[LifeEvent]:
    """Oldest first. What is still to come is the last."""
    found = [LifeEvent(job.created_at, "made", f"Enqueued by {job.enqueued_by}")]
    if job.order_at != job.created_at and job.order_at > job.created_at:
        found.append(LifeEvent(job.order_at, "due", "In the queue"))
    if is_cut:
        found.append(LifeEvent(attempts[0].started_at - timedelta.resolution, "cut", "… earlier attempts are left out"))
    for attempt in attempts:
        node = named(attempt.node_id)
        on = f" on {node}" if node else ""
        found.append(LifeEvent(attempt.started_at, "began", f"Attempt {attempt.attempt} began{on}"))
        if attempt.finished_at is not None:
            ended = f"Attempt {attempt.attempt}: {attempt.outcome}"
            found.append(LifeEvent(attempt.finished_at, attempt.outcome, ended, lasted=attempt.duration))
    if job.cancel_requested_at is not None:
        found.append(LifeEvent(job.cancel_requested_at, "cancel", "Asked to stop"))
    if job.finished_at is not None:
        found.append(LifeEvent(job.finished_at, job.state, f"Ended: {job.state}", job.reason or ""))
    found.sort(key=lambda event: event.at)
    return found + _to_come(job)


def _to_come(job: Job) -> list[LifeEvent]:
    coming = []
    if job.state in ("scheduled", "retrying") and job.visible_at != PARKED:
        coming.append(LifeEvent(job.visible_at, "next", "Due again" if job.state == "retrying" else "Due"))
    if job.deadline_at is not None and not job.finished and job.attempt == 0:
        coming.append(LifeEvent(job.deadline_at, "deadline", "Deadline: it is skipped if it has not begun"))
    if job.state == "running" and job.run_until is not None:
        coming.append(LifeEvent(job.run_until, "deadline", "Its maximum runtime is over"))
    return sorted(coming, key=lambda event: event.at)
