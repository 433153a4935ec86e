"""Runs one attempt, here and now: the same steps as the engine's executor, without threads and without waiting.

In production a plain function runs in a thread, where no event loop is running, and every attempt begins with an
empty context. Handlers see the same here.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from oncue.clock import Clock
from oncue.engine.attempt import Handler
from oncue.engine.context import current
from oncue.engine.execution import Execution, RunningAttempt
from oncue.engine.outcomes import SizeLimits, failure, kept
from oncue.model import Claim, Failed, Outcome, Progress, Succeeded, TimedOut
from oncue.policy import options
from oncue.policy.lifecycle import Ended, refusal
from oncue.policy.waiting import waiting_since
from oncue.telemetry import Telemetry

T = TypeVar("T")


@dataclass
class Running:
    """What `current_job()` tells of."""

    claim: Claim
    row_count: int | None = None
    progress: tuple[float, str | None] | None = None
    cancel_requested: bool = False


class Seat(Execution[RunningAttempt]):
    def __init__(self, handlers: Mapping[str, Handler], clock: Clock, telemetry: Telemetry, limits: SizeLimits) -> None:
        super().__init__(clock, 1, lambda _: None)
        self.progress: Progress | None = None
        """What the latest attempt has told of itself."""
        self._handlers = handlers
        self._telemetry = telemetry
        self._limits = limits

    async def attempt(self, claim: Claim) -> Ended:
        started_at, self.progress = self._clock.now(), None
        refused = refusal(claim, started_at)
        if refused is not None:
            return Ended(claim, refused, None, started_at)
        context, running = contextvars.Context(), Running(claim)
        context.run(current.set, running)
        self._tell_start(claim)
        outcome = await asyncio.get_running_loop().create_task(self._outcome(claim), context=context)
        ended_at = self._clock.now()
        told = running.progress
        self.progress = None if told is None else Progress(claim.id, claim.claim_no, *told, ended_at)
        if (ended_at - started_at).total_seconds() > self._allowed(claim):
            outcome = TimedOut(f"timed out: cut off after {self._allowed(claim):g} s")
        return Ended(claim, outcome, started_at, ended_at, running.row_count)

    async def _outcome(self, claim: Claim) -> Outcome:
        handler = self._handlers[claim.task]
        try:
            arguments = handler.bind(claim.args, claim.scheduled_for)
            if handler.is_async:
                result = await handler.function(**arguments)
            else:
                result = out_of_the_loop(lambda: handler.function(**arguments))
            return Succeeded() if result is None else kept(result, self._limits)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # it is the test itself that ends
            return Failed("asyncio.CancelledError: the handler cancelled itself")
        except (Exception, SystemExit) as error:  # but not Ctrl-C, nor what a test framework throws
            return failure(error, handler, claim, None, self._limits)

    def _tell_start(self, claim: Claim) -> None:
        self.started_total += 1
        waited = (self._clock.now() - waiting_since(claim)).total_seconds()
        self._telemetry.emit("job.start", {"wait": max(waited, 0.0)}, claim=claim)

    def _allowed(self, claim: Claim) -> float:
        """Seconds on the test's clock: a handler that moves it beyond this has timed out."""
        limits = [options.longest(claim.options)]
        if claim.deadline_at is not None:
            limits.append((claim.deadline_at - claim.claimed_at).total_seconds())
        return min((limit for limit in limits if limit is not None), default=float("inf"))


def out_of_the_loop(call: Callable[[], T]) -> T:
    """Call plain code as if no event loop ran in this thread."""
    loop = asyncio.get_running_loop()
    swap: Callable[..., Any] = getattr(asyncio.tasks, "_swap_current_task", lambda loop, task: None)  # from 3.12 on
    task = swap(loop, None)
    asyncio._set_running_loop(None)
    try:
        return call()
    finally:
        asyncio._set_running_loop(loop)
        swap(loop, task)
