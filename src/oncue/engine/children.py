"""Child processes, where the jobs of process tasks run: the worker's side.

A child is started for the first job that needs it, from nothing (a fork would take the worker's connections, locks
and listening sockets along), and kept for the next job. It has a session of its own, so that it leads a group of
processes to which everything belongs that its jobs start. A job is cut off by a signal to that whole group, and after
the cut nothing of it is left: the next job gets another process.

Whatever may block (starting, writing, reading, waiting for an end) happens in threads, one for each child.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from signal import SIGKILL, SIGTERM, Signals
from typing import Any, TypeAlias

from oncue.engine.messages import Begun, Done, News, Setup, Work
from oncue.model import Failed

START = """import sys
if sys.argv[2] not in sys.path: sys.path.insert(0, sys.argv[2])
from oncue.process_tasks.child import main
main(int(sys.argv[1]))"""
HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOOK_SECONDS = 0.25
LEAVE_SECONDS = 0.5
RESTARTS = 1

Wire: TypeAlias = "Connection[Any, Any]"
Hear: TypeAlias = Callable[[Begun | News], None]

in_child = False
"""Whether this process is itself such a child. It must not be a worker."""


class Child:
    """A seat for jobs in a process, which is started when it is needed and replaced when it is gone.

    `perform` and `retire` block and are called in threads, one at a time; the rest is called by the event loop.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._wire: Wire | None = None
        self._engaged = False
        self._stopping = False

    @property
    def has_process(self) -> bool:
        return self._process is not None

    def engage(self) -> None:
        """There is a job: from here on until it has ended there is something to cut off."""
        with self._lock:
            self._engaged, self._stopping = True, False

    def cancel(self) -> None:
        """Ask the job, and everything that it has started, to stop."""
        with self._lock:
            if self._engaged and not self._stopping:
                self._stopping = True
                if self._wire is not None:
                    _shut(self._wire)  # tells the child that the signal comes from us
                self._signal(SIGTERM)

    def kill(self) -> None:
        """Stop the job, and everything that it has started."""
        with self._lock:
            if self._engaged:
                self._stopping = True
                self._signal(SIGKILL)

    def perform(self, work: Work, hear: Hear) -> Done:
        """Run one job to its end. If it was cut off, nothing of it is left when this returns."""
        done = self._performed(work, hear)
        for _ in range(RESTARTS):
            if isinstance(done, Done) or self._stopping:
                break
            done = self._performed(work, hear)
        with self._lock:
            self._engaged = False
        if self._stopping:
            self._ended()
        return done if isinstance(done, Done) else Done(Failed(done))

    def _performed(self, work: Work, hear: Hear) -> Done | str:
        """Run one job; or why it never began: that is not its fault, and may be tried again."""
        begun = False
        try:
            wire = self._started()
            wire.send(work)
            while not isinstance(message := self._next_message(wire), Done):
                begun = True
                hear(message)
            return message
        except (EOFError, OSError) as error:
            if not self.has_process:
                return f"no process could be started for it: {error}"
        except BaseException:
            self._ended()  # whatever it said was not understood: it must not be taken for the next job's answer
            raise
        how = _exit_text(self._ended())
        return Done(Failed(how)) if begun else f"{how} before the job began; the worker's log may say why"

    def retire(self) -> None:
        """Let the process go. It may end in its own way; what its jobs have left running is killed."""
        with self._lock:  # the attempt that waited for its last job may be gone, while that job is about to end it
            process, wire = self._process, self._wire
        if process is not None and wire is not None:
            _shut(wire)
            with suppress(subprocess.TimeoutExpired):
                process.wait(LEAVE_SECONDS)
            self._ended()

    def _started(self) -> Wire:
        if self._process is not None and self._process.poll() is not None:
            self._ended()  # it died between two jobs
        if self._wire is None and not self._stopping:
            self._start()
        if self._wire is None or self._stopping:
            raise EOFError("it was stopped before it began")
        return self._wire

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        wire: Wire = Connection(ours.detach())
        try:
            with theirs:
                process = subprocess.Popen(
                    # Without the current folder (-P): a file there could stand in the way of what is needed to start.
                    [sys.executable, *_flags(), "-P", "-c", START, str(theirs.fileno()), HOME],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except BaseException:
            wire.close()
            raise
        with self._lock:
            self._process, self._wire = process, wire
        wire.send(([os.path.abspath(entry) for entry in sys.path], sys.argv))
        wire.send(self._setup)

    def _next_message(self, wire: Wire) -> Any:
        """What the child says next. A process that a job has forked may hold the wire open: that means nothing."""
        while not wire.poll(LOOK_SECONDS):
            if self._process is not None and self._process.poll() is not None:
                raise EOFError
        return wire.recv()

    def _ended(self) -> int:
        """End what is left of the process and of its group; with which code it has ended."""
        with self._lock:
            process, wire = self._process, self._wire
            self._signal(SIGKILL)
            self._process = self._wire = None
        if process is None or wire is None:
            return 0
        wire.close()
        return process.wait()

    def _signal(self, number: Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


class Children:
    """The children of one worker. Not one is started before its first job."""

    def __init__(self, most: int, setup: Setup) -> None:
        self._most = most
        self._idle = [Child(setup) for _ in range(most)]
        self._busy: set[Child] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    def take(self) -> Child:
        child = self._idle.pop()
        child.engage()
        self._busy.add(child)
        return child

    async def perform(self, child: Child, work: Work, hear: Hear) -> Done:
        """Run a job in a child that was taken; `hear` is called in another thread."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._most, thread_name_prefix="oncue-process")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, child.perform, work, hear)
        finally:
            self._busy.discard(child)
            if not self._closed:
                self._idle.insert(len(self._idle) if child.has_process else 0, child)
            else:
                threading.Thread(target=child.retire, daemon=True).start()  # no other thread ends it

    def close(self) -> None:
        """End all of them: at once, if there is a job in the middle of something."""
        if self._closed:
            return
        self._closed = True
        for child in self._busy:
            child.kill()
        if self._threads is not None:
            for child in self._idle:
                self._threads.submit(child.retire)
            self._threads.shutdown(wait=False)


def _shut(wire: Wire) -> None:
    """Close our half of the wire: the other half is still listened to."""
    with suppress(OSError), socket.socket(fileno=os.dup(wire.fileno())) as half:
        half.shutdown(socket.SHUT_WR)


def _flags() -> list[str]:
    """The options that this interpreter was started with: -O, -W, -X and the like."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    memory = " (was it out of memory?)" if -code == SIGKILL else ""
    return f"its process was killed by {_signal_name(-code)}{memory}"


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
