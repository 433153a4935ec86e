"""The example's services as real processes on one database, and what the database says of them."""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
from k2_daily_brief import database
from k2_daily_brief.runs import job_runs
from sqlalchemy import inspect, select

from oncue import Job, Oncue
from oncue.model import Node, Schedule
from oncue.settings import BARE_NAMES
from tests.examples.conftest import ROOT, SOURCE
from tests.ports import free_port
from tests.process.nursery import OURS, Forked, Nursery
from tests.process.processes import until

T = TypeVar("T")

# Nobody here speaks https, and to read the list of all authorities takes longer than to ask for a page.
get = partial(httpx.get, verify=False)

LEASE = "2s"
EVERY_SECOND = "* * * * * *"
NEVER = "0 0 29 2 *"
PATIENCE = 60.0
FEEDS = ("courier", "wire", "gazette")
"""Those of the samples that take no time; a broken one comes with them."""
UNITS = ROOT / "examples/daily_brief/systemd"
WEB = ("-c", "from k2_daily_brief.web.serve import main; main()")


def started_by(unit: str) -> list[str]:
    """The options that a unit file gives to its command."""
    lines = (UNITS / f"{unit}.service").read_text("utf-8").splitlines()
    (command,) = (line.partition("=")[2] for line in lines if line.startswith("ExecStart="))
    return shlex.split(command)[1:]


@cache
def workers() -> Nursery:
    """Where processes of the examples come from: what they import of others takes them two seconds of work."""
    others = ("sqlalchemy", "feedparser", "sklearn.feature_extraction.text", "aiohttp.web")
    programs = [ROOT / "examples" / name / "src" for name in ("crawler", "webhook_cron", "news_agent")]
    made = Nursery(*others, path=(SOURCE, *programs, *OURS))
    atexit.register(made.close)
    return made


class Service:
    """A process of ours, and what it says. One from a nursery is alone, others may have processes of their own."""

    process: subprocess.Popen[bytes] | Forked

    def __init__(
        self,
        name: str,
        folder: Path,
        command: Sequence[str],
        environment: dict[str, str],
        nursery: Nursery | None = None,
    ) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._log.touch()
        if nursery is not None:
            self.process = nursery.start(command, folder, environment, self._log)
            return
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def kill(self) -> None:
        """SIGKILL to all of it: no time for anything."""
        if isinstance(self.process, Forked):
            self.process.kill()
        elif self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


class Services:
    def __init__(self, url: str, folder: Path, **environment: str) -> None:
        self.url = url
        self.engine = database.connect(url)
        self._folder = folder
        self._port = free_port()
        self.web_url = f"http://127.0.0.1:{self._port}"
        ours = {
            "DATABASE_URL": url,
            "PYTHONPATH": f"{SOURCE}:{ROOT / 'src'}:{ROOT}",
            "K2_WEB_URL": self.web_url,
            "K2_FEEDS": ",".join(f"{self.web_url}/samples/{name}.xml" for name in (*FEEDS, "broken")),
        }
        self._environment = {**clean_environment(), **ours, **environment}
        self._services: list[Service] = []

    def close(self) -> None:
        for service in self._services:
            service.kill()
        self.engine.dispose()

    # --- processes --------------------------------------------------------------------------------------------------

    def web(self, workers: int = 1) -> Service:
        """Start the web service and wait until every one of its processes has answered."""
        return self._serving(workers, *WEB, "--port", str(self._port))

    def gunicorn(self, workers: int) -> Service:
        """The same as its unit file starts it, on a port of the test's own."""
        bind = ("--bind", f"127.0.0.1:{self._port}")
        return self._serving(workers, "-m", "gunicorn", *started_by("k2dailybrief-web"), *bind)

    def _serving(self, workers: int, *command: str) -> Service:
        service = self._start("web", *command, "--workers", str(workers))
        seen: set[int] = set()
        self.until(lambda: len(self._answering(seen)) == workers, f"{workers} web processes answer")
        return service

    def _answering(self, seen: set[int]) -> set[int]:
        with suppress(httpx.TransportError):
            seen.add(get(f"{self.web_url}/health").json()["pid"])
        return seen

    def worker(self, *options: str, name: str = "worker") -> Service:
        """Start a worker; it is not ready yet."""
        return self._start_worker(name, "tests.examples.free_worker", "--lease", LEASE, *options)

    def held_worker(self, job: str, name: str = "worker") -> Service:
        """Start a worker and wait until it is in the middle of a job, where it stays."""
        mark = self._folder / f"{job}.held"
        service = self._start_worker(name, "tests.examples.held_worker", job, str(mark), "--lease", LEASE)
        self.until(mark.exists, f"{name} is in the middle of {job}")
        return service

    def _start_worker(self, name: str, *command: str) -> Service:
        return self._start(name, *command, nursery=workers())

    def _start(self, name: str, *command: str, nursery: Nursery | None = None) -> Service:
        numbered = f"{name}{len(self._services)}"
        service = Service(numbered, self._folder, command, self._environment, nursery)
        self._services.append(service)
        return service

    def oncue(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the shell command `oncue` on the example's application."""
        command = [sys.executable, "-m", "oncue", *arguments, "--app", "k2_daily_brief.jobs:app"]
        return subprocess.run(command, cwd=self._folder, env=self._environment, capture_output=True, text=True)

    def run_now(self, schedule: str) -> None:
        """What `oncue trigger` does, without a process of its own."""
        app = Oncue(self.url)
        try:
            app.wait(app.schedules.run_now(schedule))
        finally:
            app.close()

    # --- the database -----------------------------------------------------------------------------------------------

    def runs(self, job: str | None = None) -> list[Any]:
        """The rows of the view `job_runs`, oldest first."""
        if not inspect(self.engine).has_table("job_runs"):
            return []
        view = job_runs()
        query = select(view).order_by(view.c.scheduled_for)
        if job is not None:
            query = query.where(view.c.job_name == job)
        with database.reading(self.engine) as connection:
            return list(connection.execute(query))

    def started_runs(self, job: str | None = None) -> list[Any]:
        """Those that a worker has begun."""
        return [run for run in self.runs(job) if run.started_at is not None]

    def nodes_jobs_and_schedules(self) -> tuple[list[Node], list[Job], list[Schedule]]:
        """What oncue's own tables say."""
        app = Oncue(self.url)
        try:
            return app.wait(app.nodes.list()), app.wait(app.jobs.list()), app.wait(app.schedules.list())
        finally:
            app.close()

    def running(self, task: str) -> Job:
        """The job of a task that a worker holds. Its run may have no row yet: that begins when its start is written."""
        _, jobs, _ = self.nodes_jobs_and_schedules()
        return next(job for job in jobs if job.task == task and job.state == "running")

    def until(self, condition: Callable[[], T], wanted: str) -> T:
        return until(condition, wanted, self._situation, PATIENCE)

    def until_run(self, job: str, status: str, times: int = 1, after: datetime | None = None) -> None:
        """Wait until a job has this many runs of this status, of slots after the given one."""

        def enough() -> bool:
            slots = [run.scheduled_for for run in self.runs(job) if run.status == status]
            return len([slot for slot in slots if after is None or slot > after]) >= times

        self.until(enough, f"{times} runs of {job} end as {status}")

    def _situation(self) -> str:
        logs = [f"--- {service.name} ({service.process.poll()})\n{service.said[-3000:]}" for service in self._services]
        return "\n".join([*map(str, self.runs()), *logs])


def clean_environment() -> dict[str, str]:
    ours = set(BARE_NAMES.values())
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("ONCUE_", "K2_")) and name not in ours
    }
