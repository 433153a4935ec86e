"""`webhook_cron` as real processes on one database, and its API."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests.examples.conftest import ROOT
from tests.examples.services import PATIENCE, Service, clean_environment, workers
from tests.ports import free_port
from tests.process.processes import until

T = TypeVar("T")

NEVER = "0 0 29 2 *"
EVERY_SECOND = "* * * * * *"
PATH = f"{ROOT / 'examples/webhook_cron/src'}:{ROOT / 'src'}:{ROOT}"
ORIGIN = ("REDIS_URL", "RECONCILE_ENABLED", "RECONCILE_INTERVAL", "RECONCILE_THRESHOLD", "RECONCILE_BATCH_SIZE")


class Program:
    def __init__(self, url: str, folder: Path, **environment: str) -> None:
        self.url = url
        self.port = free_port()
        self._folder = folder
        theirs = {name: value for name, value in clean_environment().items() if name not in ORIGIN}
        ours = {
            "DATABASE_URL": url,
            "HTTP_ADDR": f"127.0.0.1:{self.port}",
            "ONCUE_WEBHOOKS_ALLOW": "127.0.0.0/8",
            "ONCUE_LEASE": "2s",
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
        """Start `webhook_cron serve` and wait until it answers."""
        service = self.start(**environment)
        self.until(lambda: self._answers(service), "it answers")
        return service

    def start(self, **environment: str) -> Service:
        """Start `webhook_cron serve`; it may end at once."""
        name, given = f"webhook_cron{len(self._services)}", {**self.environment, **environment}
        given = {variable: value for variable, value in given.items() if value}
        service = Service(name, self._folder, ("webhook_cron", "serve"), given, workers())
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

    def make(self, name: str, url: str, **fields: Any) -> dict[str, Any]:
        """Make a job; it comes due never, unless it is told otherwise."""
        return self.asked("POST", "/jobs", {"name": name, "schedule": NEVER, "url": url, **fields}, status=201)

    def trigger(self, name: str) -> str:
        """Emit an execution of a job now; its id."""
        number = self.asked("POST", f"/api/admin/scheduled-jobs/{name}/trigger", status=201)["job_id"]
        return str(self.asked("GET", f"/api/admin/jobs/{number}")["uid"])

    def execution(self, execution: str) -> dict[str, Any]:
        return self.asked("GET", f"/executions/{execution}")

    def executions(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.asked("GET", f"/jobs/{job['id']}/executions?limit=1000")["executions"]
        return found

    def asked(self, method: str, path: str, body: Any = None, status: int = 200) -> dict[str, Any]:
        reply = self.http.request(method, path, json=body)
        assert reply.status_code == status, f"{method} {path}: {reply.status_code} {reply.text}\n{self.said[-3000:]}"
        answer: dict[str, Any] = reply.json()
        return answer

    def ended(self, execution: str) -> dict[str, Any]:
        """An execution once it is delivered or has failed."""
        return self.until(
            lambda: found if (found := self.execution(execution))["status"] != "emitted" else None,
            f"{execution} ends",
        )  # type: ignore[return-value]

    def until(self, condition: Callable[[], T], wanted: str) -> T:
        return until(condition, wanted, lambda: self.said[-3000:], PATIENCE)
