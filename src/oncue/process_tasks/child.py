"""The program of a child process: it runs one job after another, until its worker shuts the wire.

Jobs run in the main thread, where a signal can reach them: when the worker cuts a job off, it shuts its half of the
wire and sends SIGTERM, which becomes an exception here, so that the job can tidy up. A SIGTERM from anyone else is not
for the job: a supervisor that sends it to every process it knows means the worker, which drains.

A second thread tells what the handler says of itself, and notices when the worker is gone: then it kills the group.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import select
import signal
import sys
import threading
from contextlib import suppress
from dis import opname
from multiprocessing.connection import Connection
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from oncue.engine import children
from oncue.engine.context import current
from oncue.engine.messages import Begun, CodePlace, Done, News, Setup, Told, Work
from oncue.engine.outcomes import SUCCESS, described, failure, kept
from oncue.model import Claim, Failed, FollowUp, Outcome
from oncue.observe import logs
from oncue.process_tasks import code_places

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from oncue.application.lifespans import Lifespans
    from oncue.task import Task

T = TypeVar("T")

LOOK_MILLISECONDS = 250


def main(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)  # what a job starts must not keep the wire open
    children.in_child = True
    wire: Connection[Any, Any] = Connection(descriptor)
    path, sys.argv = wire.recv()
    sys.path[:] = path
    JobLoop(wire, wire.recv()).serve()


class Running:
    """What `current_job()` tells of."""

    cancel_requested = False

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.row_count: int | None = None
        self.progress: Told | None = None
        self.details: str | None = None
        self.follow_ups: tuple[FollowUp, ...] = ()

    @property
    def news(self) -> News:
        return News(self.row_count, self.progress, self.details, self.follow_ups)

    def leave_seat(self) -> None:
        """A child process is the seat of its job."""


class JobLoop:
    def __init__(self, wire: Connection[Any, Any], setup: Setup) -> None:
        self._wire = wire
        self._setup = setup
        self._worker = os.getppid()
        self._main_thread = threading.get_ident()
        nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        self._for_the_worker = {signal.SIGINT} if nohup else {signal.SIGINT, signal.SIGHUP}
        self._saying = threading.Lock()
        self._tasks: dict[CodePlace, Task[Any, Any]] = {}
        self._running: Running | None = None
        self._said = News(None, None, None)
        self._in_handler = self._interrupted = False
        self._main_task: asyncio.Task[Any] | None = None
        self._loop: KeptLoop | None = None

    def serve(self) -> None:
        self._listen_to_signals()
        self._set_up_logging()
        os.register_at_fork(after_in_child=self._be_somebody_else)
        threading.Thread(target=self._watch, name="oncue-watch", daemon=True).start()
        while (work := self._next()) is not None:
            self._done(work)
            self._listen_to_signals()  # whatever the job has made of them
        if self._loop is not None:
            self._loop.close()

    def _next(self) -> Work | None:
        try:
            work: Work = self._wire.recv()
        except (EOFError, OSError):
            if self._is_left_alone():
                self._end_everything()
            return None
        return work

    # --- one job ------------------------------------------------------------------------------------------------

    def _done(self, work: Work) -> None:
        running = Running(work.claim)
        outcome = contextvars.Context().run(self._outcome, work, running)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        with self._saying:
            self._running = None
            self._wire.send(Done(outcome, running.news))

    def _outcome(self, work: Work, running: Running) -> Outcome:
        claim, limits = work.claim, work.limits
        current.set(running)
        try:
            task = self._found(work)
        except BaseException as error:
            return Failed(described(error, limits))
        with self._saying:
            self._running, self._said = running, News(None, None, None)
            self._wire.send(Begun())
        try:
            result = self._called(task, claim)
            return SUCCESS if result is None else kept(result, limits)
        except asyncio.CancelledError:
            return Failed("asyncio.CancelledError: the handler cancelled itself")
        except BaseException as error:
            return failure(error, task, claim, None, limits)

    def _found(self, work: Work) -> Task[Any, Any]:
        """The task, with its application set up as it is in the worker."""
        task = self._tasks.get(work.place)
        if task is None:
            task = self._tasks[work.place] = code_places.find(work.place)
            self._set_up_logging()  # again: its module may have done so too
            if self._setup.settings is not None:
                task.app.configure(self._setup.settings)
        lifespans = task.app.internals.lifespans
        if self._loop is None and lifespans.declared:
            self._loop = KeptLoop(lifespans)
        return task

    def _set_up_logging(self) -> None:
        if self._setup.logging is not None:
            logs.configure(*self._setup.logging)

    def _called(self, task: Task[Any, Any], claim: Claim) -> Any:
        self._in_handler, self._interrupted = True, False
        try:
            if self._must_stop():  # the signal came before there was anything to interrupt
                raise SystemExit
            arguments = task.bind(claim.args, claim.scheduled_for)
            if task.is_async:
                run = asyncio.run if self._loop is None else self._loop.run
                return run(self._awaited(task, arguments))
            return task.function(**arguments)
        finally:
            self._in_handler, self._main_task = False, None

    async def _awaited(self, task: Task[Any, Any], arguments: dict[str, Any]) -> Any:
        self._main_task = asyncio.current_task()
        return await task.function(**arguments)

    # --- being stopped ------------------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        signal.signal(signal.SIGTERM, self._terminated)
        for number in self._for_the_worker:
            signal.signal(number, _ignored)  # not SIG_IGN, which would be passed on to what a job starts

    def _be_somebody_else(self) -> None:
        """A job has forked this process: signals mean to it what they mean to everyone, and it has no wire."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if signal.SIGHUP in self._for_the_worker:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self._wire.close()

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        if not self._must_stop():
            return
        self._interrupted = True
        if self._main_task is None or self._main_task.done():
            interrupt(frame, SystemExit)
        else:
            self._cancel(self._main_task, frame)

    def _cancel(self, main: asyncio.Task[Any], frame: FrameType | None) -> None:
        """Cancel a coroutine. If one is busy at this moment, it may never come to its next `await`: interrupt it."""
        loop = main.get_loop()
        busy = asyncio.current_task(loop)
        if busy is not main:
            main.cancel()
            loop.call_soon_threadsafe(lambda: None)  # the loop may be asleep
        if busy is not None:
            interrupt(frame, asyncio.CancelledError)

    def _must_stop(self) -> bool:
        """Whether a handler runs that the worker has cut off, and was not interrupted yet: that is done only once.

        The worker has then shut its half of the wire, which it leaves silent during a job.
        """
        return self._in_handler and not self._interrupted and self._wire.poll(0)

    # --- being left alone ---------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._is_left_alone(LOOK_MILLISECONDS):
            with suppress(OSError):
                self._tell()
            if self._must_stop():  # a signal that comes just before the main thread falls asleep does not wake it up
                signal.pthread_kill(self._main_thread, signal.SIGTERM)
        self._end_everything()

    def _tell(self) -> None:
        with self._saying:
            if self._running is not None and (news := self._running.news) != self._said:
                self._wire.send(news)
                self._said = news

    def _is_left_alone(self, patience: int = 0) -> bool:
        """Whether the worker is gone; if it is not, look for so many milliseconds longer.

        A wire that was closed on both sides is told of even to someone who asks for nothing. A process that the
        worker has forked may hold it open; but then this one has another parent by now.
        """
        gone = select.poll()
        gone.register(self._wire.fileno(), 0)
        return bool(gone.poll(patience)) or os.getppid() != self._worker

    def _end_everything(self) -> NoReturn:
        """Nobody wants to know what becomes of this job: end it, and whatever it has started."""
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


class KeptLoop:
    """The event loop of a child whose jobs share what its lifespans have opened; without any, each job has its own."""

    def __init__(self, lifespans: Lifespans) -> None:
        self._runner = asyncio.Runner()
        self._opened = lifespans.opened()
        try:
            self._runner.run(self._opened.__aenter__())
        except BaseException:
            self._runner.close()  # the next job tries again, on a loop of its own
            raise

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a job to its end. What it has left running is cancelled; what the lifespans run is not."""
        loop = self._runner.get_loop()
        before = asyncio.all_tasks(loop)
        try:
            return self._runner.run(coroutine, context=contextvars.copy_context())
        finally:
            left = asyncio.all_tasks(loop) - before
            for task in left:
                task.cancel()
            self._runner.run(_ended(left))

    def close(self) -> None:
        self._runner.run(self._opened.__aexit__(None, None, None))
        self._runner.close()


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def interrupt(frame: FrameType | None, error: type[BaseException]) -> None:
    """Raise an error where a signal has interrupted the main thread, so that its `finally` blocks run.

    At the backward jump of a loop, Python may pass over the `try` that the loop stands in (CPython issues 108214 and
    130279). There the error is raised just before the next instruction, which is traced. Lines are not traced: from
    Python 3.12 on, an error that the tracing of a line raises at a backward jump passes over the `try` as well.
    """
    if frame is None or "JUMP_BACKWARD" not in _instruction(frame):
        raise error

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if _instruction(frame) == "NOP":  # the one that stands for `try:` belongs to no `try`, nor to the outer one
            return trace
        sys.settrace(None)
        frame.f_trace_lines, frame.f_trace_opcodes = True, False
        raise error

    frame.f_trace, frame.f_trace_lines, frame.f_trace_opcodes = trace, False, True
    sys.settrace(_passed_over)  # the last step: Python 3.12 looks here whether there are instructions to trace


def _instruction(frame: FrameType) -> str:
    """The name of the one that a frame has come to."""
    return opname[frame.f_code.co_code[frame.f_lasti]]


def _passed_over(frame: FrameType, event: str, argument: Any) -> None:
    """Tracing needs a function for frames that begin. None of them is the one to interrupt."""


def _ignored(number: int, frame: FrameType | None) -> None:
    """A Ctrl-C or a hang-up is for the worker, which drains."""
