"""Is the process there (`/health`), and may it be given work (`/health/ready`)?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.responses import JSONResponse

from oncue.app import Oncue
from oncue.engine.node import WorkerNode
from oncue.errors import StoreError
from oncue.model import Lease, Queue
from oncue.observe.labels import OTHER, busiest
from oncue.records.documents import instant
from oncue.server.api.documents import PROBLEM, REASONS
from oncue.server.api.models.control import Health, Ready
from oncue.server.api.problems import MEDIA_TYPE
from oncue.server.api.routing import PUBLIC, Routes
from oncue.store.contract import EXCLUSIVE, LEADER

STATES = ("queued", "running", "later")
DATABASE_SECONDS = 2.0
BACKLOG_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Known:
    """What the database told, and when by its own clock."""

    at: datetime
    queues: Sequence[Queue]
    leader: Lease | None
    exclusive: Lease | None
    latency: float


@dataclass(frozen=True, slots=True)
class Silence:
    """Why the database told nothing."""

    error: str


class Readiness:
    """What is known of this process. Counting a long backlog takes a while, so that an answer serves for a moment."""

    def __init__(self, app: Oncue, node: WorkerNode | None = None) -> None:
        self._app = app
        self.node = node
        self.draining = False
        self._kept: tuple[float, Known] | None = None

    async def report(self) -> tuple[bool, dict[str, Any]]:
        """Whether this process is ready, and why. A worker that stands by is ready: it takes over when it must."""
        answer = await self._answer()
        status = self._status(answer)
        body = {"status": status, **(_silent(answer) if isinstance(answer, Silence) else _told(answer))}
        if status == "database_full":
            body["database"] = {"status": "full", "error": self._full()}
        if self.node is not None:
            body["node"] = _node(self.node)
        if (holder := self._stands_by_for(answer)) is not None:
            body["standing_by"] = f"standing by: {holder.holder_name} is the exclusive worker"
        return status in ("ready", "standing_by"), body

    def _status(self, answer: Known | Silence) -> str:
        if self.draining:
            return "draining"
        if isinstance(answer, Silence):
            return "database_unavailable"
        if self._full() is not None:
            return "database_full"
        if self.node is not None and not self.node.membership.is_alive():
            return "lease_lost"
        return "ready" if self._stands_by_for(answer) is None else "standing_by"

    def _full(self) -> str | None:
        """Why the worker in this process cannot write. It can still read, but it keeps no lease and ends no job."""
        return None if self.node is None else self._app.internals.telemetry.outages.full

    def _stands_by_for(self, answer: Known | Silence) -> Lease | None:
        """The exclusive worker for which the worker in this process stands by, if any."""
        if self.node is None or isinstance(answer, Silence):
            return None
        holder = _standing(answer.exclusive, answer.at)
        return None if holder is None or holder.holder == self.node.node.id else holder

    async def _answer(self) -> Known | Silence:
        if self._kept is not None and time.monotonic() - self._kept[0] < BACKLOG_SECONDS:
            return self._kept[1]
        try:
            async with asyncio.timeout(DATABASE_SECONDS):
                answer = await self._asked()
        except StoreError as error:
            return Silence(str(error))
        except TimeoutError:
            return Silence(f"no answer within {DATABASE_SECONDS:g} s")
        # Only a good answer is kept: the way back to ready should not wait.
        self._kept = (time.monotonic(), answer)
        return answer

    async def _asked(self) -> Known:
        began = time.monotonic()
        connected = await self._app.internals.connected()
        queues = await connected.store.queues.all()
        leader, exclusive = await connected.store.leases.get(LEADER), await connected.store.leases.get(EXCLUSIVE)
        return Known(connected.now(), queues, leader, exclusive, time.monotonic() - began)


def _silent(silence: Silence) -> dict[str, Any]:
    return {"database": {"status": "unavailable", "error": silence.error}}


def _told(known: Known) -> dict[str, Any]:
    told = {
        "database": {"status": "ok", "latency_ms": round(known.latency * 1000, 1)},
        "leader": leader_record(known.leader, known.at),
        "backlog": _backlog(known.queues),
    }
    exclusive = _standing(known.exclusive, known.at)
    return told if exclusive is None else {**told, "exclusive": _holder(exclusive)}


def _standing(lease: Lease | None, now: datetime) -> Lease | None:
    return lease if lease is not None and lease.expires_at > now else None


def leader_record(lease: Lease | None, now: datetime) -> dict[str, Any]:
    """The node that leads; or that none does, and since when: for ever, if none ever has."""
    if lease is None:
        return {"name": None, "none_since": None}
    if lease.expires_at <= now:
        return {"name": None, "none_since": instant(lease.expires_at)}
    return _holder(lease)


def _holder(lease: Lease) -> dict[str, Any]:
    return {
        "name": lease.holder_name,
        "id": str(lease.holder),
        "epoch": lease.epoch,
        "since": instant(lease.acquired_at),
    }


def _backlog(queues: Sequence[Queue]) -> dict[str, Any]:
    by_name = {
        queue.name: {
            "queued": queue.queued,
            "running": queue.running,
            "later": queue.later,
            "paused": queue.paused_at is not None,
        }
        for queue in queues
    }
    totals = {state: sum(queue[state] for queue in by_name.values()) for state in STATES}
    named = busiest(by_name, lambda name: sum(by_name[name][state] for state in STATES))
    shown = {name: by_name[name] for name in by_name if name in named}
    if len(named) < len(by_name):
        rest = {state: totals[state] - sum(queue[state] for queue in shown.values()) for state in STATES}
        shown[OTHER] = {**rest, "paused": False}
    return {**totals, "queues": shown}


def _node(node: WorkerNode) -> dict[str, Any]:
    executor, trouble = node.executor, node.membership.trouble
    told = {
        "id": str(node.node.id),
        "name": node.naming.shown,
        "alive": node.membership.is_alive(),
        "leads": node.leadership.epoch is not None,
        "queues": list(node.node.queues),
        "running": executor.running,
        "buffered": executor.waiting,
        "concurrency": executor.concurrency,
    }
    return told if trouble is None else {**told, "error": f"the lease could not be renewed: {trouble}"}


def away(error: str) -> JSONResponse:
    """The answer to requests whose token cannot be checked, since the database is away."""
    return JSONResponse({"status": "database_unavailable", **_silent(Silence(error))}, 503)


def add(routes: Routes, readiness: Readiness) -> None:
    @routes.probe(
        "/health", needs=PUBLIC, tags=["health"], summary="Is the process there?", response_model=Health,
    )  # fmt: skip
    async def health() -> JSONResponse:
        """Answers every request, without a token."""
        return JSONResponse({"status": "ok"})

    @routes.probe(
        "/health/ready", needs="read", when_away=away, tags=["health"], summary="May it be given work?",
        response_model=Ready, responses={**_refusals(), 503: {"model": Ready, "description": "Not ready."}},
    )  # fmt: skip
    async def ready() -> JSONResponse:
        """The database, who leads, the backlog, and the worker in this process if there is one."""
        is_ready, body = await readiness.report()
        return JSONResponse(body, 200 if is_ready else 503)


def _refusals() -> dict[int | str, dict[str, Any]]:
    return {
        status: {"description": REASONS[status], "content": {MEDIA_TYPE: {"schema": PROBLEM}}} for status in (401, 403)
    }
