"""The crawler's services as real processes on one database, and what the database and the site say of them."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx
from community_crawler import database
from community_crawler.communities import add, id_of
from community_crawler.site.graph import FIRST
from community_crawler.tables import communities
from sqlalchemy import inspect, select

from oncue import Job, Oncue
from oncue.model import UNFINISHED
from tests.examples.conftest import ROOT
from tests.examples.crawler.conftest import SOURCE
from tests.examples.services import LEASE, PATIENCE, Service, clean_environment, get, workers
from tests.ports import free_port
from tests.process.nursery import Nursery
from tests.process.processes import until

T = TypeVar("T")

SITE = "tests.examples.crawler.site_process"
WORKER = "tests.examples.crawler.worker_process"
TOGETHER = ("-c", "from community_crawler.together import main; main()")


class Crew:
    def __init__(self, url: str, folder: Path, **environment: str) -> None:
        self.engine = database.connect(url)
        self.app = Oncue(url)
        self._crawl = self.app.task(name="crawl", queue="crawl", key=lambda subreddit_id: f"community:{subreddit_id}")(
            _crawl
        )
        self._folder = folder
        self._ports = free_port(), free_port()
        self.site_url, self.web_url = (f"http://127.0.0.1:{port}" for port in self._ports)
        theirs = {name: value for name, value in clean_environment().items() if not name.startswith("CRAWLER_")}
        ours = {"DATABASE_URL": url, "CRAWLER_SITE": self.site_url, "PYTHONPATH": f"{SOURCE}:{ROOT / 'src'}:{ROOT}"}
        self._environment = {**theirs, **ours, **environment}
        self._services: list[Service] = []

    def close(self) -> None:
        for service in self._services:
            if service.name.startswith("together") and service.process.poll() is None:
                service.stop()  # only it can end what it has started
            service.kill()
        self.app.close()
        self.engine.dispose()

    # --- processes --------------------------------------------------------------------------------------------------

    def site(self, size: int, **manners: float) -> None:
        options = [part for name, value in manners.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        port = ("--port", str(self._ports[0]))
        self._start("site", SITE, *port, "--size", str(size), *options, nursery=workers())

    def worker(self, name: str = "worker") -> Service:
        return self._start(name, WORKER, "--lease", LEASE, "--name", name, nursery=workers())

    def until_ready(self) -> None:
        """Wait until all that were started have begun. Together that is faster than one by one."""
        for service in self._services:
            self.until(lambda service=service: self._is_ready(service), f"{service.name} is ready")  # type: ignore[misc]

    def _is_ready(self, service: Service) -> bool:
        assert service.process.poll() is None, service.said
        if service.name.startswith("site"):
            return url_answers(f"{self.site_url}/robots.txt")
        return "is working on" in service.said

    def together(self, *options: str) -> Service:
        ports = ("--port", str(self._ports[1]), "--site-port", str(self._ports[0]))
        return self._start("together", *TOGETHER, *ports, *options)

    def _start(self, name: str, *command: str, nursery: Nursery | None = None) -> Service:
        service = Service(f"{name}{len(self._services)}", self._folder, command, self._environment, nursery)
        self._services.append(service)
        return service

    def ask_for(self, name: str = FIRST) -> None:
        database.create_tables(self.engine)
        now = self.app.wait(self.app.internals.connected()).now()
        self._crawl.using(priority=60).enqueue(add(self.engine, self.site_url, name, now))

    def curl(self, *arguments: str) -> tuple[int, Any]:
        """What `curl` gets: the status and the document."""
        form = ("--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}")
        done = subprocess.run(["curl", *form, *arguments], capture_output=True, text=True, check=True)
        body, _, status = done.stdout.rpartition("\n")
        return int(status), httpx.Response(200, text=body).json() if body else None

    def admin(self, path: str) -> str:
        return f"{self.web_url}/api/admin{path}"

    def get(self, path: str) -> Any:
        return self._called(200, self.admin(path))

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        return self._called(status, "-X", "POST", self.admin(path), *_data(body))

    def put(self, path: str, body: Any) -> Any:
        return self._called(200, "-X", "PUT", self.admin(path), *_data(body))

    def _called(self, expected: int, *arguments: str) -> Any:
        status, document = self.curl(*arguments)
        assert status == expected, (arguments, status, document)
        return document

    # --- what there is ----------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """What the site has seen of its visitors."""
        found: dict[str, Any] = get(f"{self.site_url}/stats").json()
        return found

    def statuses(self) -> dict[str, str]:
        """Each community that is known, and what is known of it."""
        if not inspect(self.engine).has_table("communities"):
            return {}
        with database.reading(self.engine) as connection:
            return {row.name: row.status for row in connection.execute(select(communities))}

    def number(self, name: str = FIRST) -> int | None:
        return id_of(self.engine, self.site_url, name)

    def jobs(self) -> list[Job]:
        return self.app.wait(self.app.jobs.list(task="crawl", limit=10_000))

    def is_done(self) -> bool:
        """Whether there was something to do, and nothing is left."""
        some = self.app.wait(self.app.jobs.list(limit=1))
        return bool(some) and not self.app.wait(self.app.jobs.list(tuple(UNFINISHED), limit=1))

    def until(self, condition: Callable[[], T], wanted: str) -> T:
        return until(condition, wanted, self._situation, PATIENCE)

    def _situation(self) -> str:
        logs = "\n".join(f"--- {service.name}\n{service.said[-2000:]}" for service in self._services)
        return f"{Counter(self.statuses().values())}\n{logs}"


def _data(body: Any) -> tuple[str, ...]:
    return () if body is None else ("-H", "Content-Type: application/json", "-d", json.dumps(body))


def key_of(subreddit_id: int) -> str:
    return f"community:{subreddit_id}"


def _crawl(subreddit_id: int) -> None:
    """What is enqueued is a task's name and its arguments: the crawler's own of this name will run."""


def url_answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return get(url).is_success
    return False
