"""`/health`, `/health/ready` and `/metrics`, asked over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import httpx
import pytest

from oncue import Oncue
from oncue.errors import StoreFull
from oncue.observe.prometheus import PrometheusMetrics
from oncue.server import address
from oncue.server.api import AccessMode, process_api
from oncue.server.health import Readiness
from oncue.server.http import HttpServer
from oncue.settings import load


@asynccontextmanager
async def served(
    app: Oncue, readiness: Readiness, access: AccessMode = AccessMode.LOOPBACK
) -> AsyncIterator[httpx.AsyncClient]:
    """What a worker answers."""
    listening = address.listen(address.ListenAddress("127.0.0.1", 0))
    url = address.url(listening, "here")
    server = HttpServer(
        process_api(app, readiness, PrometheusMetrics(app.internals.telemetry).registry, access), listening
    )
    await server.start()
    async with httpx.AsyncClient(base_url=url, verify=False) as client:
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


async def test_a_worker_that_is_asked_for_the_admin_api_tells_which_processes_have_it(sqlite_url: str) -> None:
    app = Oncue(sqlite_url)
    async with served(app, Readiness(app)) as client:
        reply = await client.get("/api/admin/windows")
        assert (reply.status_code, "`oncue run` and `oncue serve` have it" in reply.json()["detail"]) == (404, True)
        assert (await client.get("/nowhere")).json()["detail"] == "There is nothing at /nowhere."
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


def heard(app: Oncue, event: str) -> asyncio.Event:
    """Set when telemetry tells of it, from whichever thread."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    app.internals.telemetry.subscribe(lambda *_: loop.call_soon_threadsafe(told.set), event)
    return told


def an_app(url: str, name: str, **settings: Any) -> Oncue:
    return Oncue(settings=load({"database_url": url, "node_name": name, **settings}, environment={}))


async def ready_of(readiness: Readiness) -> tuple[bool, dict[str, Any]]:
    async with asyncio.timeout(60):
        return await readiness.report()


@pytest.mark.contract("HOOK-14")
async def test_readiness_tells_who_leads(database_url: str) -> None:
    app = an_app(database_url, "alpha")
    _, body = await ready_of(Readiness(app))
    assert body["leader"] == {"name": None, "none_since": None}
    elected = heard(app, "leader.elected")
    async with app.worker() as node:
        await asyncio.wait_for(elected.wait(), 60)
        is_ready, body = await ready_of(Readiness(app, node))
        assert is_ready
        leader = body["leader"]
        assert (leader["name"], leader["id"], leader["epoch"]) == ("alpha", str(node.node.id), 1)
        assert datetime.fromisoformat(leader["since"]) <= await app.now()
        assert body["node"]["leads"]
    is_ready, body = await ready_of(Readiness(app))
    assert is_ready, "a web process is ready without a leader"
    assert body["leader"]["name"] is None
    assert datetime.fromisoformat(body["leader"]["none_since"]) <= await app.now()
    await app.aclose()


@pytest.mark.contract("HOOK-14", "SLOT-2")
async def test_readiness_tells_for_whom_a_worker_stands_by(database_url: str) -> None:
    first, second = an_app(database_url, "first", exclusive=True), an_app(database_url, "second")
    taken = heard(first, "exclusive.taken")
    async with first.worker() as holder:
        await asyncio.wait_for(taken.wait(), 60)
        async with second.worker() as node:
            is_ready, body = await ready_of(Readiness(second, node))
            assert (is_ready, body["status"]) == (True, "standing_by")
            assert body["standing_by"] == "standing by: first is the exclusive worker"
            assert (body["exclusive"]["name"], body["exclusive"]["id"]) == ("first", str(holder.node.id))
        is_ready, body = await ready_of(Readiness(first, holder))
        assert (is_ready, body["status"]) == (True, "ready")
        assert "standing_by" not in body
    _, body = await ready_of(Readiness(second))
    assert "exclusive" not in body
    await first.aclose()
    await second.aclose()


async def test_metrics(sqlite_url: str) -> None:
    app = Oncue(sqlite_url)
    async with served(app, Readiness(app)) as client:
        app.internals.telemetry.emit("claim", {"jobs": 3})
        reply = await client.get("/metrics")
        assert reply.headers["content-type"].startswith("text/plain")
        assert "oncue_claimed_jobs_total 3.0" in reply.text
        modern = await client.get("/metrics", headers={"accept": "application/openmetrics-text"})
        assert modern.text.endswith("# EOF\n")
        assert (await client.head("/metrics", params={"name[]": "x"})).status_code == 200
        assert (await client.get("/api/admin/jobs")).status_code == 404, "a worker's port has no API"
    await app.aclose()


@pytest.mark.contract("HOOK-14")
async def test_elsewhere_a_probe_shows_a_token(sqlite_url: str) -> None:
    app = Oncue(sqlite_url)
    async with served(app, Readiness(app), AccessMode.TOKEN) as client:
        assert (await client.get("/health")).status_code == 200
        assert (await client.head("/health")).status_code == 200
        for path in ("/health/ready", "/metrics", "/nowhere"):
            assert (await client.get(path)).status_code == 401
        _, token = await app.tokens.create("probe", ["read"])
        client.headers["Authorization"] = f"Bearer {token}"
        assert (await client.get("/health/ready")).json()["status"] == "ready"
        assert "oncue_is_leader" in (await client.get("/metrics")).text
    await app.aclose()


async def test_a_worker_on_a_full_disk_is_not_ready_and_says_why(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It can still read. It keeps no lease and ends no job, which is one outage and not an error of each service."""
    app = an_app(sqlite_url, "alpha", lease="2s", beat="0.2s")
    async with app.worker() as node:
        readiness = Readiness(app, node)
        assert (await ready_of(readiness))[0]
        stores = {node.membership._store, (await app.internals.connected()).store}

        def full(work: Any) -> Any:
            raise StoreFull("SQLite has no room left: database or disk is full")

        with pytest.MonkeyPatch.context() as patch:
            for store in stores:
                patch.setattr(store.database._writer, "write", full)
            body = await until(readiness, lambda body: body["status"] == "database_full")
            assert body["database"] == {"status": "full", "error": "SQLite has no room left: database or disk is full"}
            body = await until(readiness, lambda body: not body["node"]["alive"])
            assert (body["status"], body["database"]["status"]) == ("database_full", "full")
        await until(readiness, lambda body: body["status"] == "ready")
    told = [record.getMessage() for record in caplog.records if "room" in record.getMessage()]
    assert len([line for line in told if "everything is tried again until there is room" in line]) == 1
    assert not [line for line in told if "will try again" in line]
    await app.aclose()


async def until(readiness: Readiness, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            _, body = await readiness.report()
            if holds(body):
                return body
            await asyncio.sleep(0.05)
