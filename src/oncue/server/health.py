"""Is the process there (`/health`), and may it be given work (`/health/ready`)?"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from oncue.engine.node import WorkerNode
from oncue.errors import StoreError
from oncue.operations import Operations

DATABASE_SECONDS = 2.0
BACKLOG_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Database:
    """What the database answered; `backlog` is None if it did not."""

    backlog: dict[str, dict[str, Any]] | None
    latency: float
    error: str | None = None


class Readiness:
    """What is known of this process. Counting a long backlog takes a while, so that an answer serves for a moment."""

    def __init__(self, app: Operations, node: WorkerNode | None = None) -> None:
        self._app = app
        self.node = node
        self.draining = False
        self._asked: tuple[float, Database] | None = None

    async def report(self) -> tuple[bool, dict[str, Any]]:
        """Whether this process is ready, and why."""
        database = await self._database()
        described: dict[str, Any] = {"database": _described(database)}
        if database.backlog is not None:
            described["backlog"] = _totals(database.backlog) | {"queues": database.backlog}
        if self.node is not None:
            described["node"] = _node(self.node)
        status = self._status(database)
        return status == "ready", {"status": status, **described}

    def _status(self, database: Database) -> str:
        if self.draining:
            return "draining"
        if database.error is not None:
            return "database_unavailable"
        if self.node is not None and not self.node.membership.is_alive():
            return "lease_lost"
        return "ready"

    async def _database(self) -> Database:
        if self._asked is not None and time.monotonic() - self._asked[0] < BACKLOG_SECONDS:
            return self._asked[1]
        began = time.monotonic()
        try:
            async with asyncio.timeout(DATABASE_SECONDS):
                queues = await self._app.queues()
        except StoreError as error:
            return Database(None, time.monotonic() - began, str(error))
        except TimeoutError:
            return Database(None, DATABASE_SECONDS, f"no answer within {DATABASE_SECONDS:g} s")
        backlog = {
            queue.name: {
                "queued": queue.queued,
                "running": queue.running,
                "later": queue.later,
                "paused": queue.paused_at is not None,
            }
            for queue in queues
        }
        # Only a good answer is kept: the way back to ready should not wait.
        answer = Database(backlog, time.monotonic() - began)
        self._asked = (time.monotonic(), answer)
        return answer


def _described(database: Database) -> dict[str, Any]:
    if database.error is not None:
        return {"status": "unavailable", "error": database.error}
    return {"status": "ok", "latency_ms": round(database.latency * 1000, 1)}


def _totals(backlog: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {state: sum(queue[state] for queue in backlog.values()) for state in ("queued", "running", "later")}


def _node(node: WorkerNode) -> dict[str, Any]:
    executor = node.executor
    return {
        "id": str(node.node.id),
        "name": node.node.name,
        "alive": node.membership.is_alive(),
        "queues": list(node.node.queues),
        "running": executor.running,
        "buffered": executor.waiting,
        "concurrency": executor.concurrency,
    }


def health_router(readiness: Readiness) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.api_route("/health", methods=["GET", "HEAD"])
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @router.api_route("/health/ready", methods=["GET", "HEAD"])
    async def ready() -> JSONResponse:
        is_ready, body = await readiness.report()
        return JSONResponse(body, 200 if is_ready else 503)

    return router
