"""An attempt that runs in this worker, and the task that it is an attempt of."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from oncue.engine.execution import RunningAttempt
from oncue.engine.messages import CodePlace, Told
from oncue.model import Claim, Failed, Outcome
from oncue.policy.error_classes import ErrorClasses


class Handler(Protocol):
    """What the executor needs to know of a task."""

    name: str
    is_async: bool
    process: bool
    place: CodePlace | None
    """Where a child process finds the function, if that is where it runs."""
    function: Callable[..., Any]
    error_classes: ErrorClasses
    """What kind of failure its exceptions are."""

    def bind(self, args: str, slot: datetime | None = None) -> dict[str, Any]:
        """The arguments, and the slot if the function wants it, checked against its type hints."""
        ...

    def on_error(self, error: Exception, retry_count: int) -> Failed | None:
        """The word of a custom retry policy."""
        ...


class Stoppable(Protocol):
    """What an attempt runs in, if it can be stopped from outside: the task of a coroutine, or a child process."""

    def cancel(self) -> object: ...


class SeatKeeper(Protocol):
    """Where attempts run that have a seat."""

    def leave_seat(self, attempt: HandlerAttempt) -> None: ...


class HandlerAttempt(RunningAttempt):
    """An attempt that runs a handler, with what it said of itself."""

    __slots__ = ("cut", "cut_at", "deadline", "progress", "saved", "seats", "task")

    def __init__(self, claim: Claim, started: float, deadline: float | None, seats: SeatKeeper | None = None) -> None:
        super().__init__(claim, started)
        self.deadline = deadline
        self.seats = seats
        self.task: Stoppable | None = None
        self.cut: Outcome | None = None
        self.cut_at = 0.0
        self.progress: Told | None = None
        self.saved: Told | None = None

    def leave_seat(self) -> None:
        """Go on without a seat: this attempt only waits for an answer, and the next job may have its seat."""
        if self.seats is not None:
            self.seats.leave_seat(self)
