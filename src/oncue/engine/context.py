"""What a handler may ask about the job that it is running."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from oncue.engine.details import merged
from oncue.engine.texts import bounded
from oncue.model import Claim, FollowUp

LONGEST_NOTE = 200
MOST_FOLLOW_UPS = 1000


class RunningJob(Protocol):
    """What is known of an attempt while it runs."""

    claim: Claim
    row_count: int | None
    progress: tuple[float, str | None] | None
    details: str | None
    follow_ups: tuple[FollowUp, ...]
    cancel_requested: bool

    def leave_seat(self) -> None:
        """Go on without a seat of this process: the attempt only waits for an answer from elsewhere."""
        ...


class Enqueueable(Protocol):
    """A task, or a task with the options of one enqueue."""

    def prepared(self, *args: Any, **kwargs: Any) -> FollowUp: ...


class JobContext:
    """The job that runs here. Get it with `oncue.current_job()`."""

    __slots__ = ("_claim", "_running")

    def __init__(self, running: RunningJob) -> None:
        self._running = running
        self._claim = running.claim

    @property
    def cancel_requested(self) -> bool:
        """True once this job is cancelled or its node gives it up. A plain function should look now and then.

        A process task need not: a signal interrupts it.
        """
        return self._running.cancel_requested

    @property
    def id(self) -> int:
        return self._claim.id

    @property
    def uid(self) -> UUID:
        """The same for every attempt: good as an idempotency key elsewhere."""
        return self._claim.uid

    @property
    def task(self) -> str:
        return self._claim.task

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def slot(self) -> datetime | None:
        """The slot that this job was made for, if a schedule made it."""
        return self._claim.scheduled_for

    @property
    def attempt(self) -> int:
        """1 for the first attempt that starts."""
        return self._claim.attempt + 1

    @property
    def retries_left(self) -> int:
        return max(self._claim.max_retries - self._claim.retry_count, 0)

    def rows(self, count: int) -> None:
        """Say how many rows this attempt has processed so far; the log and the metrics show it."""
        self._running.row_count = count

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Say how far this attempt has come: a number from 0 to 1, and a note of up to 200 characters.

        Both are shown on the job while it runs. Call it as often as you like: about once a second the latest is saved.
        """
        self._running.progress = (_checked_fraction(fraction), None if note is None else bounded(note, LONGEST_NOTE))

    def details(self, **fields: Any) -> None:
        """Tell what is worth knowing of this attempt: `details(status=200, ms=34)`. Later calls add to it.

        It is kept with the attempt, whatever ends it, and shown with it. Values are JSON. Of all of them together up to
        4,096 bytes are kept: the largest are cut, and say so.
        """
        self._running.details = merged(self._running.details, fields)

    def then(self, task: Enqueueable, /, *args: Any, **kwargs: Any) -> None:
        """Let a job of this task follow: `then(send_report, 7)`, `then(send_report.using(delay="5m"), 7)`.

        It is written in the transaction that ends this job, if this attempt succeeds, and only then.
        """
        if not hasattr(task, "prepared"):
            raise TypeError(f"then: expected a task or task.using(…), and then its arguments, not {task!r:.100}")
        if len(self._running.follow_ups) >= MOST_FOLLOW_UPS:
            raise ValueError(f"then: expected at most {MOST_FOLLOW_UPS:,} jobs that follow; use enqueue_many for more")
        self._running.follow_ups = (*self._running.follow_ups, task.prepared(*args, **kwargs))


def _checked_fraction(fraction: float) -> float:
    try:
        checked = float(fraction)
    except (TypeError, ValueError):
        checked = -1.0
    if not 0.0 <= checked <= 1.0:
        raise ValueError(f"fraction: expected a number from 0 to 1, not {fraction!r}")
    return checked


current: ContextVar[RunningJob] = ContextVar("oncue_current_job")


def current_job() -> JobContext:
    """The job whose handler is running. Raises LookupError outside of one."""
    try:
        return JobContext(current.get())
    except LookupError:
        raise LookupError("current_job() works only inside a handler that oncue is running") from None
