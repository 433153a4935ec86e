"""The engine's executor, for a test: attempts run one at a time, in the test's own thread and on its own loop.

In production a plain function runs in a thread, where no event loop is running, and a process task in a process of its
own. Here both run where the test stands, and still see no running loop.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from oncue import errors
from oncue.clock import Clock
from oncue.engine.attempt import Handler, HandlerAttempt
from oncue.engine.executor import Executor, called
from oncue.engine.outcomes import SUCCESS, SizeLimits, kept
from oncue.engine.pending_starts import PendingStarts
from oncue.model import Claim, Failed, Outcome, Progress, Released, TimedOut
from oncue.policy.lifecycle import Ended
from oncue.telemetry import Telemetry

T = TypeVar("T")

LOOK_SECONDS = 0.05
"""How often the services are called while a handler waits for something."""


class InlineExecutor(Executor):
    def __init__(
        self,
        handlers: Mapping[str, Handler],
        clock: Clock,
        telemetry: Telemetry,
        limits: SizeLimits,
        ended: Callable[[Ended], None],
        starts: PendingStarts,
    ) -> None:
        super().__init__(handlers, clock, telemetry, 1, limits, ended, starts=starts)
        self.only: int | None = None
        """The job that alone may begin, until it has: the others are kept until `give_back`."""
        self.errors: list[BaseException] = []
        """What handlers raised that was not meant for oncue."""
        self._kept: list[Claim] = []
        self._raised: BaseException | None = None
        self._last_words: dict[tuple[int, int], Progress] = {}

    # --- what the test asks for ---------------------------------------------------------------------------------

    async def finish(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """Wait until nothing runs. A test that is stopped meanwhile gives back what it ran."""
        try:
            while self._seats:
                _, waiting = await asyncio.wait(self._seats, timeout=LOOK_SECONDS)
                if waiting:
                    await meanwhile()
        except asyncio.CancelledError:
            self.release_running("the test was stopped")
            raise
        error, self._raised = self._raised, None
        if error is not None:
            raise error

    def give_back(self) -> None:
        """What was passed over is as it was before."""
        passed_over, self._kept = self._kept, []
        self._end_waiting(passed_over, Released("passed over"))

    # --- what it does in its own way ----------------------------------------------------------------------------

    def submit(self, claims: list[Claim]) -> None:
        if self.only is not None:
            self._kept += [claim for claim in claims if claim.id != self.only]
            claims = [claim for claim in claims if claim.id == self.only]
            if claims:
                self.only = None
        super().submit(claims)

    def progressed(self) -> list[Progress]:
        """Also what an attempt said last: it ended before anybody could ask."""
        return [*super().progressed(), *self._last_words.values()]

    def saved(self, progress: list[Progress]) -> None:
        super().saved(progress)
        self._last_words.clear()

    @property
    def has_last_words(self) -> bool:
        return bool(self._last_words)

    async def _in_thread(self, function: Callable[..., Any], keyword_arguments: dict[str, Any]) -> Any:
        context = contextvars.copy_context()
        return out_of_the_loop(lambda: context.run(called, function, keyword_arguments))

    async def _in_process(self, attempt: HandlerAttempt, handler: Handler) -> Outcome:
        keyword_arguments = handler.bind(attempt.claim.args, attempt.claim.scheduled_for)
        if handler.is_async:
            result = await handler.function(**keyword_arguments)
        else:
            result = await self._in_thread(handler.function, keyword_arguments)
        return SUCCESS if result is None else kept(result, self._limits)

    def _failed(self, attempt: HandlerAttempt, handler: Handler, error: BaseException) -> Outcome:
        if not isinstance(error, Exception | SystemExit):
            self._raised = error  # Ctrl-C, or what a test framework throws: it ends the test
        outcome = super()._failed(attempt, handler, error)
        if isinstance(outcome, Failed) and not (isinstance(error, errors.HandlerDecision) and not outcome.final):
            self.errors.append(error)
        return outcome

    def _cancelled(self, attempt: HandlerAttempt) -> Outcome:
        outcome = super()._cancelled(attempt)
        if isinstance(outcome, Failed):
            self.errors.append(RuntimeError(outcome.error))
        return outcome

    def _blocked(self, attempt: HandlerAttempt, ended: float) -> Outcome:
        """The test's clock was moved beyond the attempt's time."""
        allowed = (attempt.deadline or ended) - attempt.started
        return TimedOut(f"timed out: cut off after {allowed:g} s")

    def _report(self, attempt: HandlerAttempt, outcome: Outcome, ended: float) -> None:
        if isinstance(outcome, TimedOut):
            self.errors.append(TimeoutError(outcome.error))
        if attempt.progress is not None and attempt.progress != attempt.saved:
            place = attempt.claim.id, attempt.claim.claim_no
            self._last_words[place] = Progress(*place, *attempt.progress, self._clock.at(ended))
        super()._report(attempt, outcome, ended)


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
