"""While the database is away: a clear answer soon, nobody is let in, and it recovers by itself."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from oncue.server.api import AccessMode, routing
from tests.app.proxy import Proxy
from tests.server.conftest import Api, MakeApi, a_token, bearer
from tests.server.test_enqueueing import ADD

JOBS = "/api/admin/jobs"


@pytest.mark.contract("HOOK-12", "HOOK-14")
async def test_the_database_is_away_and_comes_back(
    make_api: MakeApi, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.application.enqueueing.ENQUEUE_PATIENCE_SECONDS", 0.2)
    async with Proxy(postgres_url) as proxy:
        api = make_api(proxy.url)
        assert (await api("POST", JOBS, ADD)).status_code == 201
        proxy.away = True
        proxy.hang_up()
        for method, path, body in (
            ("GET", JOBS, None), ("GET", f"{JOBS}/stats", None), ("GET", f"{JOBS}/1", None), ("POST", JOBS, ADD),
            ("PUT", f"{JOBS}/1/priority", {"priority": 5}), ("POST", "/api/admin/queues/mail/pause", None),
        ):  # fmt: skip
            async with asyncio.timeout(60):
                reply = await api(method, path, body)
            assert (reply.status_code, reply.json()["type"]) == (503, "/problems/database-unavailable"), path
            assert int(reply.headers["retry-after"]) >= 1
            assert "does not answer" in reply.json()["detail"]
        assert (await api("GET", "/health")).status_code == 200
        ready = await api("GET", "/health/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "database_unavailable")
        with_key = await api("POST", JOBS, ADD, headers={"Idempotency-Key": "k"})
        assert with_key.status_code == 503
        proxy.away = False
        assert (await api("POST", JOBS, ADD, headers={"Idempotency-Key": "k"})).status_code == 201
        assert (await api.get(f"{JOBS}/stats"))["queued"] == 2, "what was answered with 503 did not happen"
        await api.app.aclose()


async def test_a_job_that_another_session_holds_is_said_to_be_locked_and_its_key_may_be_used_again(
    make_api: MakeApi, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.store.postgres.connections.LOCK_SECONDS", 0.1)
    api = make_api(postgres_url)
    job_id = (await api("POST", JOBS, ADD)).json()["id"]
    boost, key = f"{JOBS}/{job_id}/boost", {"Idempotency-Key": "k"}
    psql = await asyncpg.connect(postgres_url)
    try:
        async with psql.transaction():
            await psql.fetch("select id from oncue_jobs where id = $1 for update", job_id)
            reply = await api("POST", boost, {"boost": 5}, headers=key)
    finally:
        await psql.close()
    assert (reply.status_code, reply.json()["type"]) == (503, "/problems/row-locked")
    assert "nothing was written" in reply.json()["detail"]
    assert int(reply.headers["retry-after"]) >= 1
    assert (await api("POST", boost, {"boost": 5}, headers=key)).json()["priority"] == 5
    await api.app.aclose()


@pytest.mark.contract("HOOK-12")
async def test_nobody_is_let_in_while_no_token_can_be_checked(make_api: MakeApi, postgres_url: str) -> None:
    async with Proxy(postgres_url) as proxy:
        local, remote = make_api(proxy.url), make_api(proxy.url, AccessMode.TOKEN)
        token = bearer(await a_token(local.app, "admin"))
        assert (await remote("GET", JOBS, headers=token)).status_code == 200
        proxy.away = True
        proxy.hang_up()
        for api in (local, remote):
            assert (await api("GET", JOBS, headers=token)).status_code == 503
            assert (await api("GET", "/nowhere", headers=token)).status_code == 503
            assert (await api("GET", "/health")).status_code == 200
        assert (await local("GET", JOBS)).status_code == 503, "whether a token was made is not known"
        assert (await remote("GET", JOBS)).status_code == 401, "who shows none is not let in either way"
        told = (await remote("GET", JOBS, headers=token)).text + (
            await remote("GET", "/health/ready", headers=token)
        ).text
        assert proxy.url.split("host=")[1] not in told, "a stranger is not told where the database is"
        proxy.away = False
        assert (await remote("GET", JOBS, headers=token)).status_code == 200
        assert (await local("GET", JOBS)).status_code == 401
        await local.app.aclose()
        await remote.app.aclose()


@pytest.mark.contract("HOOK-12")
async def test_a_database_that_says_nothing_is_not_waited_for(
    make_api: MakeApi, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Proxy(postgres_url) as proxy:
        patient = make_api(proxy.url)
        await patient.get(JOBS)
        monkeypatch.setattr(routing, "READ_SECONDS", 0.3)
        monkeypatch.setattr(routing, "CHANGE_SECONDS", 0.3)
        hurried = Api(patient.app)
        proxy.doomed = b"oncue_audit"
        reply = await hurried("GET", "/api/admin/audit-log")
        assert (reply.status_code, reply.json()["detail"]) == (503, "no answer within 0.3 s")
        proxy.doomed = b'insert into "public".oncue_jobs'
        reply = await hurried("POST", JOBS, ADD)
        assert reply.status_code == 503
        assert "unknown whether the request took effect" in reply.json()["detail"]
        await hurried.client.aclose()
        proxy.cut.set()
        assert (await patient("GET", JOBS)).status_code == 200
        await patient.app.aclose()


@pytest.mark.contract("HOOK-12")
async def test_tables_that_are_missing(make_api: MakeApi, empty_postgres: str) -> None:
    api = make_api(empty_postgres)
    reply = await api("GET", JOBS)
    assert (reply.status_code, "oncue migrate" in reply.json()["detail"]) == (503, True)
