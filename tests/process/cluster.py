"""Real workers on one database, what is done to them, and what must hold afterwards.

Two accounts of what happened are compared with the rows: the histories that the processes record (read by the checker
that the simulator uses too), and the marks that the handlers leave behind, which owe nothing to oncue.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from oncue import Job, Oncue, StoreUnavailable, Task
from oncue.model import TERMINAL, Lease, Node
from oncue.settings import BARE_NAMES
from oncue.sim.checker import Final, check
from oncue.sim.history import Event, merged, read
from oncue.store.contract import LEADER, Store
from oncue.task import Call
from tests.process.program import LEASE, flaky, once, plain_step, record, step

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
TOLERANCE = LEASE / 2
LOOK_SECONDS = 0.02
LOG_END = 3000


class Mark(NamedTuple):
    """A line that a handler has written: `what` is start, end, failed or cut."""

    what: str
    job: int
    attempt: int
    pid: int
    worker: str


class Refused(AssertionError):
    """Something that had to happen did not."""


def until(condition: Callable[[], T], wanted: str, about: Callable[[], str] = str, seconds: float = PATIENCE) -> T:
    """Wait for a condition; what it answered."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise Refused(f"it did not happen within {seconds:g} s: {wanted}\n{about()}")
        time.sleep(LOOK_SECONDS)
    return found


class Process:
    """A process of the program, and the files that it writes."""

    def __init__(
        self, folder: Path, name: str, url: str, arguments: Sequence[str], environment: dict[str, str]
    ) -> None:
        self.name = name
        self.folder = folder
        self._log = folder / f"{name}.log"
        ours = {"PYTHONPATH": str(ROOT), "DATABASE_URL": url, "PROGRAM_FOLDER": str(folder), "PROGRAM_NAME": name}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=folder, env={**_clean_environment(), **ours, **environment}, stdout=log, stderr=log,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8", "replace")

    @property
    def marks(self) -> list[Mark]:
        path = self.folder / f"{self.name}.marks"
        return _marks(path) if path.exists() else []

    @property
    def history(self) -> list[Event]:
        path = self.folder / f"{self.name}.history"
        return read(path) if path.exists() else []

    @property
    def in_the_middle(self) -> set[tuple[int, int]]:
        """The (job, attempt) of handlers that have begun here and not ended."""
        marks = self.marks
        begun = {(mark.job, mark.attempt) for mark in marks if mark.what == "start"}
        return begun - {(mark.job, mark.attempt) for mark in marks if mark.what != "start"}

    def is_working(self) -> bool:
        assert self.process.poll() is None, f"{self.name} has ended:\n{self.said}"
        return "is working on" in self.said

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends(self, seconds: float = PATIENCE) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def _clean_environment() -> dict[str, str]:
    ours = set(BARE_NAMES.values())
    return {name: value for name, value in os.environ.items() if not name.startswith("ONCUE_") and name not in ours}


def _marks(path: Path) -> list[Mark]:
    marks = []
    for line in path.read_text("ascii").splitlines():
        what, job, attempt, pid = line.split()
        marks.append(Mark(what, int(job), int(attempt), int(pid), path.stem))
    return marks


class Cluster:
    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.app = Oncue(url)
        self._history_file = (folder / "test.history").open("w")
        self.history = record(self.app, self._history_file, "test")
        self._processes: list[Process] = []
        self._numbers = count(1)

    def close(self) -> None:
        for process in self._processes:
            process.close()
        self.app.close()
        self._history_file.close()

    # --- processes --------------------------------------------------------------------------------------------------

    def start(self, *options: str, program: str = "tests.process.program:app", **environment: str) -> Process:
        """Start a worker through the shell's own command; it is not ready yet."""
        name = f"worker{next(self._numbers)}"
        arguments = ["oncue", "worker", "--app", program, "--name", name, "--lease", f"{LEASE:g}s"]
        if "--concurrency" not in options:
            arguments += ["--concurrency", "8"]
        return self._started(name, [*arguments, *options], environment)

    def started(self, *options: str, **more: str) -> Process:
        """Start a worker and wait until it works."""
        worker = self.start(*options, **more)
        self.ready(worker)
        return worker

    def run(self, module: str, *arguments: str) -> Process:
        """Start another program on the same database."""
        return self._started(f"program{next(self._numbers)}", [module, *arguments], {})

    def _started(self, name: str, arguments: list[str], environment: dict[str, str]) -> Process:
        process = Process(self.folder, name, self.url, arguments, environment)
        self._processes.append(process)
        return process

    def ready(self, *workers: Process) -> None:
        for worker in workers:
            self.until(lambda worker=worker: worker.is_working(), f"{worker.name} is ready")  # type: ignore[misc]

    def kill(self, *workers: Process) -> None:
        """SIGKILL: no time for anything."""
        for worker in workers:
            worker.send(signal.SIGKILL)
        for worker in workers:
            self.died(worker)

    def died(self, worker: Process) -> None:
        """Wait until a worker was killed, by us or by itself, and note it."""
        assert worker.ends() == -signal.SIGKILL, worker.said
        self.history.add(worker.name, "crash")

    def stop(self, *workers: Process) -> None:
        """SIGTERM: in good order."""
        for worker in workers:
            worker.send(signal.SIGTERM)
        for worker in workers:
            assert worker.ends() == 0, worker.said

    def freeze(self, worker: Process) -> None:
        """SIGSTOP, right after a beat, so that it stops in the middle of nothing that keeps others out."""
        while True:
            beats = _beats(worker)
            self.until(lambda beats=beats: _beats(worker) > beats, f"{worker.name} beats")  # type: ignore[misc]
            worker.send(signal.SIGSTOP)
            os.waitid(os.P_PID, worker.process.pid, os.WSTOPPED)
            if not self._is_locked():
                return
            worker.send(signal.SIGCONT)

    def _is_locked(self) -> bool:
        if not self.url.startswith("sqlite"):
            return False
        connection = sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=0.2, isolation_level=None)
        try:
            connection.execute("begin immediate")
        except sqlite3.OperationalError:
            return True
        finally:
            connection.close()
        return False

    # --- jobs -------------------------------------------------------------------------------------------------------

    def enqueue(self, what: Task[..., Any] | Call[...], *arguments: Any, times: int = 1) -> list[int]:
        call = what if isinstance(what, Call) else Call(what)
        receipts = self.app.wait(self.app.write(call, [(arguments, {})] * times))
        return [receipt.id for receipt in receipts]

    @contextmanager
    def load(self, *tasks: Task[..., Any]) -> Iterator[Load]:
        """Enqueue all the time, from a thread of its own."""
        load = Load(self, tasks or (step, plain_step, flaky, once))
        load.start()
        try:
            yield load
        finally:
            load.finish()

    def open(self, *gates: str) -> None:
        """Let the jobs end that wait for these gates."""
        for gate in gates:
            (self.folder / f"{gate}.gate").touch()

    def job(self, job_id: int) -> Job:
        return self.app.wait(self.app.job(job_id))

    def rows(self, ids: Sequence[int]) -> list[Job]:
        return [self.job(job_id) for job_id in ids]

    def jobs(self) -> list[Job]:
        return self.app.wait(self.app.jobs(limit=100_000))

    def node(self, worker: Process) -> Node | None:
        return next((node for node in self.app.wait(self.app.nodes()) if node.name == worker.name), None)

    # --- schedules --------------------------------------------------------------------------------------------------

    def ask(self, question: Callable[[Store], Awaitable[T]]) -> T:
        """Ask the store itself."""

        async def asked() -> T:
            return await question((await self.app.connected()).store)

        return self.app.wait(asked())

    def time(self) -> datetime:
        return self.ask(lambda store: store.time())

    def lease(self, name: str = LEADER) -> Lease | None:
        """Who holds it, if it is not over."""
        lease = self.ask(lambda store: store.lease(name))
        return lease if lease is not None and lease.expires_at > self.time() else None

    def led(self, after: int = 0) -> tuple[Process, Lease]:
        """Wait until somebody leads, under a later epoch than this one."""

        def leader() -> tuple[Process, Lease] | None:
            lease = self.lease()
            if lease is None or lease.epoch <= after:
                return None
            return next(process for process in self._processes if process.name == lease.holder_name), lease

        found = self.until(leader, f"somebody leads, after epoch {after}")
        assert found is not None
        return found

    def schedule(self, task: Task[..., Any], rule: str = "* * * * * *", **options: Any) -> None:
        """Make a schedule with the name of its task."""
        self.app.wait(self.app.create_schedule(task.name, rule, task, **options))

    # --- waiting ----------------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], T], wanted: str, seconds: float = PATIENCE) -> T:
        return until(condition, wanted, self._situation, seconds)

    def until_running(self, worker: Process, ids: Sequence[int]) -> None:
        """Wait until the handlers of these jobs run in a worker."""
        self.until(lambda: set(ids) <= {job for job, _ in worker.in_the_middle}, f"{worker.name} runs {ids}")

    def until_busy(self, worker: Process) -> None:
        self.until(lambda: worker.in_the_middle, f"{worker.name} is in the middle of something")

    def until_done(self, ids: Sequence[int] | None = None, seconds: float = PATIENCE) -> None:
        """Wait until these jobs, or all of them, are finished."""
        wanted = "everything is done" if ids is None else f"{ids} are done"
        self.until(lambda: all(job.finished for job in self._wanted(ids)), wanted, seconds)

    def _wanted(self, ids: Sequence[int] | None) -> list[Job]:
        return self.jobs() if ids is None else self.rows(ids)

    def _situation(self) -> str:
        states = Counter(job.state for job in self.jobs())
        logs = [
            f"--- {process.name} ({process.process.poll()})\n{process.said[-LOG_END:]}" for process in self._processes
        ]
        return "\n".join([f"jobs: {dict(states)}", *logs])

    # --- the verdict ------------------------------------------------------------------------------------------------

    @property
    def logs(self) -> str:
        return "\n".join(process.said for process in self._processes)

    @property
    def marks(self) -> list[Mark]:
        return [mark for path in sorted(self.folder.glob("*.marks")) for mark in _marks(path)]

    @property
    def events(self) -> list[Event]:
        return merged(read(path) for path in sorted(self.folder.glob("*.history")))

    def verify(self, *, complete: bool = False) -> None:
        """Every promise is kept by the histories, and the marks and the totals tell the same as the rows.

        `complete`: no process was killed and no reply lost, so that every event is there.
        """
        jobs = self.jobs()
        final = Final(tuple(jobs), self._totals())
        violations = check(self.events, final, complete=complete, ordered=False, tolerance=TOLERANCE)
        assert not violations, "\n".join(map(str, violations))
        assert final.totals == {state: sum(job.state == state for job in jobs) for state in sorted(TERMINAL)}
        _compare_marks(self.marks, jobs)

    def _totals(self) -> dict[str, int]:
        queues = self.app.wait(self.app.queues())
        return {state: sum(getattr(queue, state) for queue in queues) for state in sorted(TERMINAL)}


def _beats(worker: Process) -> int:
    return sum(event.kind == "lease" for event in worker.history)


def _compare_marks(marks: Sequence[Mark], jobs: Sequence[Job]) -> None:
    rows = {job.id: job for job in jobs}
    starts = Counter((mark.job, mark.attempt) for mark in marks if mark.what == "start")
    ends = Counter((mark.job, mark.attempt) for mark in marks if mark.what == "end")
    assert [place for place, times in starts.items() if times > 1] == [], "an attempt began twice"
    assert [place for place, times in ends.items() if times > 1] == [], "an attempt ended twice"
    assert [(job, attempt) for job, attempt in starts if attempt > rows[job].attempt] == [], "it ran after its end"
    begun = Counter(job for job, _ in starts)
    assert [job.id for job in jobs if job.task == once.name and begun[job.id] > 1] == [], "it ran more than once"
    unproved = [job.id for job in jobs if job.state == "succeeded" and (job.id, job.attempt) not in ends]
    assert unproved == [], "these succeeded without having run to their end"


class Load(threading.Thread):
    """Someone who enqueues all the time, and remembers what was acknowledged."""

    PAUSE = 0.05

    def __init__(self, cluster: Cluster, tasks: Sequence[Task[..., Any]]) -> None:
        super().__init__(name="load")
        self.ids: list[int] = []
        self.refused = 0
        self._cluster = cluster
        self._tasks = tasks
        self._over = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._over.wait(self.PAUSE):
                self._enqueue()
        except BaseException as error:
            self._error = error

    def _enqueue(self) -> None:
        for task in self._tasks:
            try:
                self.ids += self._cluster.enqueue(task, times=2)
            except StoreUnavailable:
                self.refused += 1

    def finish(self) -> None:
        self._over.set()
        self.join()
        if self._error is not None:
            raise self._error
