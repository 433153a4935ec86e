"""`news_agent` as real processes on one database, and its API."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx
from news_agent import database
from sqlalchemy import text

from tests.examples.conftest import ROOT
from tests.examples.services import PATIENCE, Service, clean_environment, workers
from tests.ports import free_port
from tests.process.processes import until

T = TypeVar("T")

PATH = f"{ROOT / 'examples/news_agent/src'}:{ROOT / 'src'}:{ROOT}"
ORIGIN = ("TICK_MS", "MAX_CONCURRENCY", "JOB_TIMEOUT_MS", "WINDOW_MINUTES", "RETRY_DELAY_MINUTES")


class Program:
    def __init__(self, url: str, folder: Path, **environment: str) -> None:
        self.url = url
        self.port = free_port()
        self._folder = folder
        theirs = {
            name: value
            for name, value in clean_environment().items()
            if name not in ORIGIN and not name.startswith("NEWS_")
        }
        ours = {
            "DATABASE_URL": url,
            "HTTP_ADDR": f"127.0.0.1:{self.port}",
            "ONCUE_LEASE": "2s",
            "TICK_MS": "100",
            "RETRY_DELAY_MINUTES": "0.02",
            "PYTHONPATH": PATH,
        }
        self.environment = {**theirs, **ours, **environment}
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", verify=False, timeout=PATIENCE)
        self._services: list[Service] = []

    def close(self) -> None:
        for service in self._services:
            service.kill()
        self.http.close()

    # --- processes --------------------------------------------------------------------------------------------------

    def serve(self, **environment: str) -> Service:
        """Start `news_agent serve` and wait until it answers."""
        service = self.start(**environment)
        self.until(lambda: self._answers(service), "it answers")
        return service

    def start(self, **environment: str) -> Service:
        """Start `news_agent serve`; it may end at once."""
        name, given = f"news_agent{len(self._services)}", {**self.environment, **environment}
        service = Service(name, self._folder, ("news_agent", "serve"), given, workers())
        self._services.append(service)
        return service

    def _answers(self, service: Service) -> bool:
        assert service.process.poll() is None, service.said
        with suppress(httpx.TransportError):
            return self.http.get("/health/ready").status_code == 200
        return False

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another of its commands, or `oncue` on its application."""
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(command, cwd=self._folder, env=self.environment, capture_output=True, text=True)

    @property
    def said(self) -> str:
        """What the latest process has logged."""
        return self._services[-1].said

    # --- the API ----------------------------------------------------------------------------------------------------

    def sign_up(self, name: str, at: str, **fields: Any) -> int:
        """Sign up a user; the user's number."""
        return int(self.asked("POST", "/api/users", {"name": name, "at": at, **fields}, status=201)["id"])

    def day(self, user: int, day: str | None = None) -> dict[str, Any]:
        return self.asked("GET", f"/api/users/{user}" + ("" if day is None else f"?day={day}"))

    def asked(self, method: str, path: str, body: Any = None, status: int = 200) -> dict[str, Any]:
        reply = self.http.request(method, path, json=body)
        assert reply.status_code == status, f"{method} {path}: {reply.status_code} {reply.text}\n{self.said[-3000:]}"
        answer: dict[str, Any] = reply.json()
        return answer

    # --- the database -----------------------------------------------------------------------------------------------

    def execute(self, statement: str, **values: Any) -> None:
        """Write to the tables past the program."""
        engine = database.connect(self.url)
        with database.writing(engine) as connection:
            connection.execute(text(statement), values)
        engine.dispose()

    def until(self, condition: Callable[[], T], wanted: str) -> T:
        return until(condition, wanted, lambda: self.said[-3000:], PATIENCE)
