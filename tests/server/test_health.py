"""`/health`, `/health/ready` and `/metrics`, asked over a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from oncue import Oncue
from oncue.observe.prometheus import PrometheusMetrics
from oncue.server import address
from oncue.server.health import Readiness
from oncue.server.http import HttpServer, process_api


@asynccontextmanager
async def served(app: Oncue, readiness: Readiness) -> AsyncIterator[httpx.AsyncClient]:
    listening = address.listen(address.Address("127.0.0.1", 0))
    url = address.url(listening, "here")
    server = HttpServer(process_api(readiness, PrometheusMetrics(app.telemetry).registry), listening)
    await server.start()
    async with httpx.AsyncClient(base_url=url) as client:
        try:
            yield client
        finally:
            await server.close()


@pytest.mark.contract("HOOK-14")
async def test_health_and_readiness(database_url: str) -> None:
    app = Oncue(database_url)

    @app.task
    async def add(a: int) -> int:
        return a

    await add.using(queue="mail").aenqueue(1)
    await add.using(queue="mail", delay="1h").aenqueue(2)
    async with app.worker() as node, served(app, Readiness(app, node)) as client:
        health = await client.get("/health")
        assert (health.status_code, health.json()) == (200, {"status": "ok"})
        ready = await client.get("/health/ready")
        body = ready.json()
        assert (ready.status_code, body["status"], body["database"]["status"]) == (200, "ready", "ok")
        assert (body["backlog"]["queued"], body["backlog"]["later"]) == (1, 1)
        assert body["backlog"]["queues"]["mail"]["paused"] is False
        assert (body["node"]["name"], body["node"]["alive"]) == (node.node.name, True)
    await app.aclose()


@pytest.mark.contract("HOOK-14")
async def test_a_draining_process_is_not_ready(sqlite_url: str) -> None:
    app = Oncue(sqlite_url)
    readiness = Readiness(app)
    readiness.draining = True
    async with served(app, readiness) as client:
        assert (await client.get("/health")).status_code == 200
        reply = await client.get("/health/ready")
        assert (reply.status_code, reply.json()["status"]) == (503, "draining")
    await app.aclose()


@pytest.mark.contract("HOOK-14", "HOOK-12")
async def test_without_its_database_it_is_not_ready_but_healthy() -> None:
    app = Oncue("postgresql://nobody@127.0.0.1:1/nothing")
    async with served(app, Readiness(app)) as client:
        assert (await client.get("/health")).status_code == 200
        reply = await client.get("/health/ready")
        assert (reply.status_code, reply.json()["status"]) == (503, "database_unavailable")
        assert "PostgreSQL does not answer" in reply.json()["database"]["error"]


async def test_metrics(sqlite_url: str) -> None:
    app = Oncue(sqlite_url)
    async with served(app, Readiness(app)) as client:
        app.telemetry.emit("claim", {"jobs": 3})
        reply = await client.get("/metrics")
        assert reply.headers["content-type"].startswith("text/plain")
        assert "oncue_claimed_jobs_total 3.0" in reply.text
        modern = await client.get("/metrics", headers={"accept": "application/openmetrics-text"})
        assert modern.text.endswith("# EOF\n")
