"""Runs attempts: resolve, bind, run under a deadline, classify into an `Outcome`. It never touches the database.

Claimed jobs wait in a buffer; seats take them from there. A seat is a task that runs one job after another, so that a
coroutine that never suspends costs no task of its own and no switch. Seats are opened as the loop turns: one that is
still running when the loop comes round has suspended, and the next may start beside it. A job that changes its context
variables retires its seat, so that nothing leaks into the next job.

Plain functions run in threads. A thread cannot be stopped: one that is over its time is reported and fenced at once,
and keeps its seat until it really ends. Process tasks run in child processes, which can be stopped (`children`).

Queues may be limited, and processes are: which claims may take a seat is for `WaitingClaims` to say.

A coroutine that only waits for an answer from elsewhere may leave its seat and go on: a delivery to an endpoint that
hangs. Its task is then no seat any more, and ends with it. The limits of queues count it as before.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from oncue.clock import Clock
from oncue.engine import children
from oncue.engine.attempt import Handler, HandlerAttempt
from oncue.engine.children import Child, Children
from oncue.engine.clones import end_clone, generation
from oncue.engine.context import current
from oncue.engine.execution import Execution
from oncue.engine.job_lines import level_of
from oncue.engine.messages import Begun, News, Setup, Work
from oncue.engine.outcomes import SUCCESS, SizeLimits, failure, kept
from oncue.engine.pending_starts import PendingStarts
from oncue.model import DELIVER, Claim, Failed, Outcome, Progress, Released, Succeeded, TimedOut
from oncue.policy.lifecycle import Ended
from oncue.policy.suspicion import is_recorded
from oncue.policy.waiting import waiting_since
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

SLICE_SECONDS = 0.005
SWEEP_SECONDS = 1.0
GRACE_SECONDS = 2.0
LOOK_SECONDS = 0.05

_log = logging.getLogger("oncue.job")


class Executor(Execution[HandlerAttempt]):
    def __init__(
        self,
        handlers: Mapping[str, Handler],
        clock: Clock,
        telemetry: Telemetry,
        concurrency: int,
        limits: SizeLimits,
        ended: Callable[[Ended], None],
        *,
        processes: int = 1,
        setup: Setup | None = None,
        may_start: Callable[[], bool] = lambda: True,
        starts: PendingStarts | None = None,
    ) -> None:
        if children.in_child:
            raise RuntimeError(
                "a child process of a worker cannot be a worker itself; in a program that declares process tasks, "
                'start the worker under `if __name__ == "__main__":`'
            )
        in_processes = [name for name, handler in handlers.items() if handler.process]
        super().__init__(
            clock, concurrency, ended,
            in_processes=in_processes, processes=processes, may_start=may_start, starts=starts,
        )  # fmt: skip
        self._handlers = handlers
        self._telemetry = telemetry
        self._limits = limits
        self._look_at = float("-inf")
        self._limited = self._claims.allowed
        self._children = Children(processes, setup or Setup())
        self._seats: set[asyncio.Task[None]] = set()
        self._aside: set[asyncio.Task[None]] = set()
        """Those that were seats, and run an attempt that has left its seat."""
        self._threads: ThreadPoolExecutor | None = None
        self._generation = generation()
        self._turn_ends: float | None = None
        self._next_sweep = float("inf")
        self._closed = False
        self._tells_starts = True
        self._idle = asyncio.Event()
        self._idle.set()

    # --- what only handlers have --------------------------------------------------------------------------------

    def submit(self, claims: list[Claim]) -> None:
        if claims:
            self._tells_starts = _log.isEnabledFor(logging.INFO) or self._telemetry.wants("job.start")
            self._idle.clear()
            super().submit(claims)

    def progressed(self) -> list[Progress]:
        now = self._clock.now()
        return [
            Progress(*place, *attempt.progress, now)
            for place, attempt in self._running.items()
            if attempt.progress is not None and attempt.progress != attempt.saved and not attempt.reported
        ]

    def saved(self, progress: list[Progress]) -> None:
        for told in progress:
            attempt = self._running.get((told.job_id, told.claim_no))
            if attempt is not None:
                attempt.saved = (told.fraction, told.note)

    async def idle(self) -> None:
        await self._idle.wait()

    def close(self) -> None:
        self._closed = True
        self._claims.drop()  # a seat that is stopped must not take the next one
        self._starts.drop()
        for seat in (*self._seats, *self._aside):
            seat.cancel()
        self._children.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _end_waiting(self, claims: list[Claim], outcome: Outcome) -> None:
        super()._end_waiting(claims, outcome)
        self._note_idle()

    # --- deadlines ----------------------------------------------------------------------------------------------

    async def tick(self, now: datetime) -> datetime:
        """Cut off what is over its time."""
        reading, nearest = self._clock.monotonic(), float("inf")
        for attempt in list(self._running.values()):
            nearest = min(nearest, self._swept(attempt, reading))
        self._next_sweep = min(nearest, reading + SWEEP_SECONDS)
        return now + timedelta(seconds=max(self._next_sweep - reading, 0.0))

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        deadlines = [attempt.deadline for attempt in self._running.values() if attempt.deadline is not None]
        nearest = self._clock.at(min(deadlines)) if deadlines else None
        return await super().quiet_until(now, store) or nearest

    def _swept(self, attempt: HandlerAttempt, reading: float) -> float:
        """Do what is due to one attempt; when something will be due next."""
        if attempt.cut is not None:
            if not attempt.reported and reading >= attempt.cut_at + GRACE_SECONDS:
                self._report(attempt, attempt.cut, reading)
                if isinstance(attempt.task, Child):
                    attempt.task.kill()
            return float("inf") if attempt.reported else attempt.cut_at + GRACE_SECONDS
        if attempt.deadline is None:
            return float("inf")
        if reading >= attempt.deadline:
            allowed = attempt.deadline - attempt.started
            self._cut(attempt, TimedOut(f"timed out: cut off after {allowed:g} s"))
        return attempt.deadline

    def _can_be_cut(self, attempt: HandlerAttempt) -> bool:
        """A coroutine or a process can, a thread cannot."""
        return attempt.task is not None

    def _cut(self, attempt: HandlerAttempt, outcome: Outcome) -> None:
        if attempt.cut is not None:
            return
        attempt.cut, attempt.cut_at = outcome, self._clock.monotonic()
        if attempt.task is not None:
            attempt.task.cancel()
            self.signal.set()
        elif not attempt.reported:
            self._report(attempt, outcome, attempt.cut_at)

    # --- seats --------------------------------------------------------------------------------------------------

    def _fill_seats(self) -> None:
        self._open_seats(1)

    def _open_seats(self, count: int) -> None:
        """Open up to `count` seats, and look again when the loop comes round: twice as many each time."""
        free, ready = self.concurrency - len(self._seats), self._claims.ready()
        for _ in range(min(count, free, ready)):
            # An empty context of its own: no context variable of the code that woke us reaches a job.
            seat = asyncio.get_running_loop().create_task(self._sit(), context=contextvars.Context())
            self._seats.add(seat)
            seat.add_done_callback(self._left)
        if ready > count and free > count:
            asyncio.get_running_loop().call_soon(self._open_seats, count * 2)

    @property
    def aside(self) -> int:
        return len(self._aside)

    def leave_seat(self, attempt: HandlerAttempt) -> None:
        seat = attempt.task
        if isinstance(seat, asyncio.Task) and seat in self._seats:
            self._seats.discard(seat)
            self._aside.add(seat)
            self._fill_seats()
            self.seat_left.set()

    def _left(self, seat: asyncio.Task[None]) -> None:
        self._seats.discard(seat)
        if self._claims.ready():
            self._open_seats(1)
        self._note_idle()

    def _note_idle(self) -> None:
        if not self._running and not self.waiting:
            self._idle.set()

    async def _sit(self) -> None:
        claims, task = self._claims, asyncio.current_task()
        waiting, limited = claims.waiting, claims.allowed
        now = self._clock.monotonic()
        while waiting or limited:
            if now >= self._look_at and not self._still_ours(now):
                return
            claim = claims.take() if limited else waiting.popleft()
            if claim is None:
                return
            if claim.crashes:
                if not await self._may_begin(claim):
                    return
                now = self._clock.monotonic()
            attempt = self._begin(claim, now)
            if attempt is None:
                continue
            current.set(attempt)
            untouched = contextvars.copy_context()
            now = await self._run(attempt, self._handlers[claim.task], task)
            if task in self._aside:
                self._aside.discard(task)
                return
            if contextvars.copy_context() != untouched:
                return
            if self._turn_ends is None:
                self._begin_turn(now)
            elif now >= self._turn_ends:
                await asyncio.sleep(0)
                now = self._clock.monotonic()

    async def _may_begin(self, claim: Claim) -> bool:
        """Wait in this seat until a job may begin whose process died before. The lease may end meanwhile."""
        answer: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._starts.request(claim, lambda may: None if answer.done() else answer.set_result(may))
        return self._answered(claim, await answer)

    def _still_ours(self, now: float) -> bool:
        """Whether what waits may begin. If this process stood still, other nodes may have it by now."""
        if not self._may_start():
            self.release_waiting("lease_lost")
            return False
        self._look_at = now + LOOK_SECONDS
        return True

    def _begin_turn(self, now: float) -> None:
        """All seats together keep the loop for a moment only; a seat that was suspended has let go of it already."""
        self._turn_ends = now + SLICE_SECONDS
        asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn_ends = None

    async def _run(self, attempt: HandlerAttempt, handler: Handler, seat: asyncio.Task[None] | None) -> float:
        """Run an attempt to its end, in this seat; when it ended."""
        outcome: Outcome
        try:
            if handler.process:
                outcome = await self._in_process(attempt, handler)
            else:
                keyword_arguments = handler.bind(attempt.claim.args, attempt.claim.scheduled_for)
                if handler.is_async:
                    attempt.task = seat
                    result = await handler.function(**keyword_arguments)
                else:
                    result = await self._in_thread(handler.function, keyword_arguments)
                outcome = SUCCESS if result is None else kept(result, self._limits)
        except asyncio.CancelledError:
            outcome = self._cancelled(attempt)
        except BaseException as error:
            if generation() != self._generation:
                end_clone(error)
            outcome = self._failed(attempt, handler, error)
        if generation() != self._generation:
            end_clone(None)
        if attempt.cut is not None:
            outcome = self._after_cut(attempt.cut, outcome)
        ended = self._clock.monotonic()
        if attempt.deadline is not None and ended > attempt.deadline and attempt.cut is None:
            outcome = self._blocked(attempt, ended)
        del self._running[attempt.claim.id, attempt.claim.claim_no]
        if self._limited:
            self._claims.left(attempt.claim)
        if not attempt.reported:
            self._report(attempt, outcome, ended)
        return ended

    def _failed(self, attempt: HandlerAttempt, handler: Handler, error: BaseException) -> Outcome:
        return failure(error, handler, attempt.claim, attempt.cut, self._limits)

    def _blocked(self, attempt: HandlerAttempt, ended: float) -> Outcome:
        """It never let go of the event loop, so it could not be cut off. It is over its time all the same."""
        claim, taken = attempt.claim, ended - attempt.started
        _log.warning(
            "job %d (%s) kept the event loop for itself and went over its time: %.1f s; make it a plain function",
            claim.id, claim.task, taken,
        )  # fmt: skip
        return TimedOut(f"timed out: it took {taken:.1f} s and could not be cut off")

    def _begin(self, claim: Claim, started: float) -> HandlerAttempt | None:
        """Enter an attempt into the books, unless the job must not start after all."""
        if self._refused(claim, started):
            return None
        deadline = self._deadline(claim, started)
        attempt = self._running[claim.id, claim.claim_no] = HandlerAttempt(claim, started, deadline, self)
        attempt.marked = is_recorded(claim)
        self.started_total += 1
        if deadline is not None and deadline < self._next_sweep:
            self._sweep_at(deadline)
        if self._tells_starts:
            self._tell_start(claim, started)
        if claim.scheduled_for is not None:
            self._tell_day_began(claim)
        return attempt

    def _sweep_at(self, reading: float) -> None:
        self._next_sweep = reading
        self.signal.set()

    def _tell_start(self, claim: Claim, started: float) -> None:
        if _log.isEnabledFor(logging.INFO) and claim.task != DELIVER:  # of a delivery one line tells, at its end
            slot = "" if claim.scheduled_for is None else f" slot={claim.scheduled_for.isoformat()}"
            _log.log(
                level_of(claim),
                "job %d started task=%s queue=%s attempt=%d%s",
                claim.id, claim.task, claim.queue, claim.attempt + 1, slot,
            )  # fmt: skip
        if self._telemetry.wants("job.start"):
            wait = (self._clock.at(started) - waiting_since(claim)).total_seconds()
            self._telemetry.emit("job.start", {"wait": max(wait, 0.0)}, claim=claim)

    async def _in_thread(self, function: Callable[..., Any], keyword_arguments: dict[str, Any]) -> Any:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.concurrency, thread_name_prefix="oncue-job")
        context = contextvars.copy_context()
        call = asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: context.run(called, function, keyword_arguments)
        )
        return await call

    async def _in_process(self, attempt: HandlerAttempt, handler: Handler) -> Outcome:
        """Run an attempt in a child. Loading the code for the first time may take long: only then its time begins."""
        assert handler.place is not None
        attempt.deadline, attempt.task = None, (child := self._children.take())
        loop = asyncio.get_running_loop()

        def hear(message: Begun | News) -> None:
            if isinstance(message, News):
                attempt.row_count, attempt.progress, attempt.details, attempt.follow_ups = message
            else:
                with suppress(RuntimeError):  # the loop may have been closed by now
                    loop.call_soon_threadsafe(self._begun, attempt)

        done = await self._children.perform(child, Work(handler.place, attempt.claim, self._limits), hear)
        attempt.row_count, attempt.progress, details, attempt.follow_ups = done.news
        if details is not None:  # a child that died has told what it had to tell before
            attempt.details = details
        if attempt.cut is None or isinstance(done.outcome, Succeeded):
            return done.outcome
        return attempt.cut

    def _begun(self, attempt: HandlerAttempt) -> None:
        if attempt.cut is None:
            attempt.started = self._clock.monotonic()
            attempt.deadline = self._deadline(attempt.claim, attempt.started)
            if attempt.deadline is not None and attempt.deadline < self._next_sweep:
                self._sweep_at(attempt.deadline)

    def _cancelled(self, attempt: HandlerAttempt) -> Outcome:
        """A coroutine was cancelled: by us, because the executor is closed, or by its own doing."""
        if attempt.cut is not None:
            return attempt.cut
        if self._closed:
            return Released("stopped")
        _forget_cancelling()
        return Failed("asyncio.CancelledError: the handler cancelled itself")

    def _after_cut(self, cut: Outcome, outcome: Outcome) -> Outcome:
        """The seat goes on after a cut. A handler that finished all the same did so too late only for a time-out."""
        _forget_cancelling()
        return cut if isinstance(cut, TimedOut) else outcome


def _forget_cancelling() -> None:
    """The seat outlives its job: the next one must not look as if it were being cancelled."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


def called(function: Callable[..., Any], keyword_arguments: dict[str, Any]) -> Any:
    """Call a plain function, where no event loop is running."""
    worker = generation()
    try:
        return function(**keyword_arguments)
    except StopIteration as error:
        # A future refuses it, and the attempt would never end. In a coroutine the language does the same for us.
        raise RuntimeError("the function raised StopIteration") from error
    finally:
        if generation() != worker:
            end_clone(sys.exc_info()[1])
