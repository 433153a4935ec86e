"""What a handler may ask about the job that it is running."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import Protocol
from uuid import UUID

from oncue.model import Claim


class RunningJob(Protocol):
    """What is known of an attempt while it runs."""

    claim: Claim
    row_count: int | None
    cancel_requested: bool


class JobContext:
    """The job that runs here. Get it with `oncue.current_job()`."""

    __slots__ = ("_claim", "_running")

    def __init__(self, running: RunningJob) -> None:
        self._running = running
        self._claim = running.claim

    @property
    def cancel_requested(self) -> bool:
        """True once somebody wants this job to stop. A plain function should look at it now and then."""
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


current: ContextVar[RunningJob] = ContextVar("oncue_current_job")


def current_job() -> JobContext:
    """The job whose handler is running. Raises LookupError outside of one."""
    try:
        return JobContext(current.get())
    except LookupError:
        raise LookupError("current_job() works only inside a handler that oncue is running") from None
