"""Real workers on one database, what is done to them, and what must hold afterwards.

Two accounts of what happened are compared with the rows: the histories that the processes record (read by the checker
that the simulator uses too), and the marks that the handlers leave behind, which owe nothing to oncue.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from oncue import Job, Oncue, Task
from oncue.model import UNFINISHED, Lease, Node, Schedule
from oncue.sim.checker import Violation
from oncue.sim.history import Event, merged, read
from oncue.store.contract import LEADER, Store
from oncue.task import Call
from tests.process.load import Load
from tests.process.processes import PATIENCE, Mark, Process, marks_in, until
from tests.process.program import LEASE, flaky, once, plain_step, record, step
from tests.process.verdict import TOLERANCE, final_of, violations

__all__ = ["TOLERANCE", "Cluster", "Process", "until"]

T = TypeVar("T")

LOG_END = 3000
_LINES = "select count(*) from pg_stat_activity where datname = current_database() and application_name = any($1)"


class Cluster:
    def __init__(self, url: str, folder: Path, line: str | None = None) -> None:
        """`line`: another address of the same database, for the processes: a bad line."""
        self.lease_seconds = LEASE
        """Of the workers that are started from here on."""
        self.url = url
        self.line = line or url
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

    def start(
        self, *options: str, program: str = "tests.process.program:app", called: str | None = None, **environment: str
    ) -> Process:
        """Start a worker through the shell's own command; it is not ready yet. `called`: an earlier one's name."""
        name = f"worker{next(self._numbers)}"
        node = called or name
        arguments = ["oncue", "worker", "--app", program, "--name", node, "--lease", f"{self.lease_seconds:g}s"]
        if "--concurrency" not in options:
            arguments += ["--concurrency", "8"]
        told = {"TEST_LEASE": f"{self.lease_seconds}", **environment}
        process = self._started(name, [*arguments, *options], told)
        process.node_name = node
        return process

    def started(self, *options: str, **more: str) -> Process:
        """Start a worker and wait until it works."""
        worker = self.start(*options, **more)
        self.ready(worker)
        return worker

    def run(self, module: str, *arguments: str, **environment: str) -> Process:
        """Start another program on the same database."""
        return self._started(f"program{next(self._numbers)}", [module, *arguments], environment)

    def _started(self, name: str, arguments: list[str], environment: dict[str, str]) -> Process:
        process = Process(self.folder, name, f"{self.line}{_signature(self.line, name)}", arguments, environment)
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

    def silent(self, *gone: Process) -> None:
        """Wait until the database has done the last that these asked of it: it may have been held up on a bad line."""
        names = [process.name for process in gone]
        self.until(lambda: not asyncio.run(self._lines(names)), f"the database is done with {names}")

    async def _lines(self, names: list[str]) -> int:
        """How many lines to the database these processes have, though they may be dead. A file has none."""
        if self.url.startswith("sqlite"):
            return 0
        connection = await asyncpg.connect(self.url)
        try:
            return int(await connection.fetchval(_LINES, names))
        finally:
            await connection.close()

    def stop(self, *workers: Process) -> None:
        """SIGTERM: in good order."""
        for worker in workers:
            worker.send(signal.SIGTERM)
        for worker in workers:
            assert worker.ends() == 0, worker.said

    def freeze(self, worker: Process) -> None:
        """SIGSTOP, right after a beat, so that it stops in the middle of nothing that keeps others out."""
        while True:
            self.until_beats(worker)
            worker.send(signal.SIGSTOP)
            self.until(worker.process.is_stopped, f"{worker.name} stands still")
            if not self.is_locked():
                return
            worker.send(signal.SIGCONT)

    def is_locked(self) -> bool:
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
        receipts = self.app.wait(self.app.internals.enqueueing.write(call, [(arguments, {})] * times))
        return [receipt.id for receipt in receipts]

    @contextmanager
    def load(
        self, *tasks: Task[..., Any] | Call[...], pause: float = 0.05, times: int = 2, seconds: float = 0.02
    ) -> Iterator[Load]:
        """Enqueue so many jobs all the time, that take so long, from a thread of its own."""
        load = Load(self.enqueue, tasks or (step, plain_step, flaky, once), pause, times, seconds)
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
        return self.app.wait(self.app.jobs.get(job_id))

    def rows(self, ids: Sequence[int]) -> list[Job]:
        return [self.job(job_id) for job_id in ids]

    def jobs(self) -> list[Job]:
        return self.app.wait(self.app.jobs.list(limit=100_000))

    def node(self, worker: Process) -> Node | None:
        return next((node for node in self.app.wait(self.app.nodes.list()) if node.name == worker.node_name), None)

    # --- schedules --------------------------------------------------------------------------------------------------

    def ask(self, question: Callable[[Store], Awaitable[T]]) -> T:
        """Ask the store itself."""

        async def asked() -> T:
            return await question((await self.app.internals.connected()).store)

        return self.app.wait(asked())

    def time(self) -> datetime:
        return self.ask(lambda store: store.time())

    def lease(self, name: str = LEADER) -> Lease | None:
        """Who holds it, if it is not over."""
        lease = self.ask(lambda store: store.leases.get(name))
        return lease if lease is not None and lease.expires_at > self.time() else None

    def led(self, after: int = 0) -> tuple[Process, Lease]:
        """Wait until somebody leads, under a later epoch than this one."""

        def leader() -> tuple[Process, Lease] | None:
            lease = self.lease()
            if lease is None or lease.epoch <= after:
                return None
            namesakes = [process for process in self._processes if process.node_name == lease.holder_name]
            return namesakes[-1], lease

        found = self.until(leader, f"somebody leads, after epoch {after}")
        assert found is not None
        return found

    def schedule(self, task: Task[..., Any], rule: str = "* * * * * *", **options: Any) -> None:
        """Make a schedule with the name of its task."""
        self.app.wait(self.app.schedules.create(task.name, rule, task, **options))

    def schedules(self) -> list[Schedule]:
        return self.app.wait(self.app.schedules.list())

    # --- waiting ----------------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], T], wanted: str, seconds: float = PATIENCE) -> T:
        return until(condition, wanted, self._situation, seconds)

    def until_running(self, worker: Process, ids: Sequence[int]) -> None:
        """Wait until the handlers of these jobs run in a worker."""
        self.until(lambda: set(ids) <= {job for job, _ in worker.in_the_middle}, f"{worker.name} runs {ids}")

    def until_beats(self, worker: Process, times: int = 1) -> None:
        """Wait until a worker has renewed its lease so many times more."""
        before = _beats(worker)
        self.until(lambda: _beats(worker) >= before + times, f"{worker.name} beats")

    def until_busy(self, worker: Process) -> None:
        self.until(lambda: worker.in_the_middle, f"{worker.name} is in the middle of something")

    def until_done(self, ids: Sequence[int] | None = None, seconds: float = PATIENCE) -> None:
        """Wait until these jobs, or all of them, are finished."""
        wanted = "everything is done" if ids is None else f"{ids} are done"
        self.until(lambda: self._is_done(ids), wanted, seconds)

    def _is_done(self, ids: Sequence[int] | None) -> bool:
        if ids is None:
            return not self.app.wait(self.app.jobs.list(sorted(UNFINISHED), limit=1))
        return all(self.job(job_id).finished for job_id in ids)

    @property
    def processes(self) -> list[Process]:
        """All that were started."""
        return list(self._processes)

    @property
    def gone(self) -> list[Process]:
        """The processes that have ended, or were killed."""
        return [process for process in self._processes if process.process.poll() is not None]

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
        return [mark for path in sorted(self.folder.glob("*.marks")) for mark in marks_in(path)]

    @property
    def events(self) -> list[Event]:
        return merged(read(path) for path in sorted(self.folder.glob("*.history")))

    def violations(self, *, complete: bool = False, tolerance: float = TOLERANCE) -> list[Violation]:
        """What does not hold of the histories, the rows, the totals and the marks that the handlers left behind.

        `complete`: no process was killed and no reply lost, so that every event is there. `tolerance`: so many seconds
        after it happened a process may have written something down.
        """
        jobs = self.jobs()
        final = self.ask(lambda store: final_of(store, jobs))
        return violations(self.events, final, self.marks, complete=complete, tolerance=tolerance)

    def verify(self, *, complete: bool = False) -> None:
        found = self.violations(complete=complete)
        assert not found, "\n".join(map(str, found))


def _signature(url: str, name: str) -> str:
    """What makes PostgreSQL know whose line it is."""
    return "" if url.startswith("sqlite") else f"&application_name={name}"


def _beats(worker: Process) -> int:
    return sum(event.kind == "lease" for event in worker.history)
