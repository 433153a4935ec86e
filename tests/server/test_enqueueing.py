"""Enqueueing over HTTP, one job or many; and requests that are sent twice, or cut off in the middle."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from oncue import cron
from oncue.model import KeptRequest, Owner
from oncue.verbs.schedules.declaring import Declaring
from tests.app.proxy import Proxy
from tests.server.conftest import Api, MakeApi, a_token, bearer

JOBS = "/api/admin/jobs"
ADD = {"task": "add", "args": {"a": 1}}
KEEPS_TO_SLOTS: dict[str, Any] = {"delivery": "at_most_once", "schedule": cron("0 0 1 1 *")}


async def test_one_job(api: Api) -> None:
    options = {"queue": "mail", "priority": 60, "delay": "1h30m", "key": "one", "deadline": 7200, "max_retries": 7}
    reply = await api("POST", JOBS, {**ADD, **options})
    receipt = reply.json()
    assert (reply.status_code, receipt["created"]) == (201, True)
    assert reply.headers["location"] == f"{JOBS}/{receipt['id']}"
    job = await api.get(reply.headers["location"])
    assert (job["queue"], job["priority"], job["key"], job["max_retries"]) == ("mail", 60, "one", 7)
    assert (job["status"], job["args"], job["enqueued_by"]) == ("scheduled", {"a": 1}, "local")
    made, due, ends = (datetime.fromisoformat(job[name]) for name in ("created_at", "visible_at", "deadline_at"))
    assert (due - made, ends - made) == (timedelta(minutes=90), timedelta(hours=2))
    again = await api("POST", JOBS, {**ADD, "key": "one"})
    assert (again.status_code, again.json()) == (200, {**receipt, "created": False})
    assert again.headers["location"] == f"{JOBS}/{receipt['id']}"
    at = (await api("POST", JOBS, {**ADD, "at": "2099-01-31T09:00:00+02:00"})).json()
    assert (await api.app.jobs.get(at["id"])).visible_at.isoformat() == "2099-01-31T07:00:00+00:00"


async def test_the_tables_of_another_application_take_nothing(api: Api) -> None:
    connection = await api.app.internals.connected()
    assert await connection.store.application.own(Owner("orders", True, connection.now()), None, connection.now())
    api.app.configure(api.app.settings.overridden({"name": "blog"}))
    for path, body in ((JOBS, ADD), (f"{JOBS}/bulk", {"jobs": [ADD]})):
        reply = await api("POST", path, body)
        assert (reply.status_code, "'orders'" in reply.json()["detail"]) == (409, True)
    assert await api.app.jobs.list() == []


@pytest.mark.contract("QUE-3")
async def test_a_node_with_the_longest_name_can_be_addressed(api: Api) -> None:
    address = f"node:{'x' * 128}"
    reply = await api("POST", JOBS, {**ADD, "address": address})
    assert reply.status_code == 201, reply.text
    assert (await api.app.jobs.get(reply.json()["id"])).address == address


async def test_a_tasks_own_key_holds(api: Api) -> None:
    crawl = {"task": "crawl", "args": {"subreddit_id": 7}}
    first = (await api("POST", JOBS, crawl)).json()
    again = await api("POST", JOBS, {**crawl, "priority": 60})
    assert (again.status_code, again.json()) == (200, {**first, "created": False})
    many = await api("POST", f"{JOBS}/bulk", {"jobs": [crawl, {**crawl, "args": {"subreddit_id": 8}}]})
    assert [(job["id"] == first["id"], job["created"]) for job in many.json()["jobs"]] == [(True, False), (False, True)]
    refused = await api("POST", JOBS, {**crawl, "key": "mine"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "key")
    made = await api("POST", "/api/admin/scheduled-jobs", {"name": "hourly", "cron_expression": "@hourly", **crawl})
    assert made.json()["key"] == "community:7"
    conflict = await api("POST", "/api/admin/scheduled-jobs/hourly/trigger", {})
    assert (conflict.status_code, conflict.json()["job_id"]) == (409, first["id"])


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"task": "nobody"}, "task"),
    ({}, "task"),
    ({"task": None}, "task"),
    ({"task": "add"}, "args.a"),
    ({"task": "add", "args": {"a": "x"}}, "args.a"),
    ({"task": "add", "args": {"a": 1, "c": 2}}, "args.c"),
    ({"task": "add", "args": [1]}, "args"),
    ({**ADD, "priority": 101}, "priority"),
    ({**ADD, "priority": True}, "priority"),
    ({**ADD, "queue": "a b"}, "queue"),
    ({**ADD, "queue": ""}, "queue"),
    ({**ADD, "delay": "soon"}, "delay"),
    ({**ADD, "delay": -1}, "delay"),
    ({**ADD, "delay": 1e300}, "delay"),
    ({**ADD, "delay": True}, "delay"),
    ({**ADD, "delay": "1s", "at": "2099-01-31T09:00:00Z"}, "at"),
    ({**ADD, "at": "2099-01-31T09:00:00"}, "at"),
    ({**ADD, "at": "9999-12-31T23:59:59-23:59"}, "at"),
    ({**ADD, "at": "3000-01-01T00:00:00Z"}, "at"),
    ({**ADD, "at": 0}, "at"),
    ({**ADD, "key": ""}, "key"),
    ({**ADD, "key": "k" * 513}, "key"),
    ({**ADD, "deadline": "later"}, "deadline"),
    ({**ADD, "max_retries": -1}, "max_retries"),
    ({**ADD, "max_retries": 10**20}, "max_retries"),
    ({**ADD, "prioritty": 5}, "prioritty"),
    ({"task": "add", "args": {"a": 1, "b": "x" * 300_000}}, "args.b"),
]
"""Bodies, and the field that is wrong in each."""


async def test_what_is_refused_names_its_field(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    for body, field in REFUSED:
        reply = await api("POST", JOBS, body)
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, field), reply.text
        many = await api("POST", f"{JOBS}/bulk", {"jobs": [ADD, body]})
        assert (many.status_code, many.json()["errors"][0]["field"]) == (422, f"jobs.1.{field}"), many.text
    assert await api.app.jobs.list() == [], "all or none"


async def test_many_jobs(api: Api) -> None:
    told: list[float] = []
    api.app.internals.telemetry.subscribe(lambda event, measured, _: told.append(measured["jobs"]), "enqueue")
    jobs = [ADD, {**ADD, "key": "k"}, {**ADD, "key": "k"}, {"task": "boom", "priority": 9}, {**ADD, "key": "k"}, ADD]
    reply = await api("POST", f"{JOBS}/bulk", {"jobs": jobs})
    body = reply.json()
    assert (reply.status_code, body["created"], body["duplicates"]) == (201, 4, 2)
    ids = [receipt["id"] for receipt in body["jobs"]]
    assert ids[1] == ids[2] == ids[4]
    assert [job.task for job in reversed(await api.app.jobs.list())] == ["add", "add", "boom", "add"]
    assert sum(told) == 4
    repeated = await api("POST", f"{JOBS}/bulk", {"jobs": [jobs[1]]})
    assert (repeated.status_code, repeated.json()["created"]) == (200, 0)
    for wrong in ([], [ADD] * 1001, None, {}, "x"):
        reply = await api("POST", f"{JOBS}/bulk", {"jobs": wrong})
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "jobs")
    for body, words in (
        ({"jobs": []}, "jobs: expected at least 1 item, not 0"),
        ({"jobs": [ADD] * 1001}, "jobs: expected at most 1000 items, not 1001"),
    ):
        assert (await api("POST", f"{JOBS}/bulk", body)).json()["detail"] == words
    assert (await api("GET", f"{JOBS}?limit=ten")).json()["detail"] == "limit: expected a valid integer, not 'ten'"
    empty = (await api("POST", JOBS, {**ADD, "key": ""})).json()["detail"]
    assert empty == "key: expected a text of at least 1 character, not ''"


async def test_a_server_without_an_application_says_so(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    api.app.internals.tasks.clear()
    reply = await api("POST", JOBS, ADD)
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "task")
    assert "This process knows no tasks: start it with --app" in reply.json()["detail"]


# --- idempotency keys -----------------------------------------------------------------------------------------------


async def test_sent_again_it_is_answered_again(api: Api) -> None:
    headers = {"Idempotency-Key": "order-7"}
    first = await api("POST", JOBS, ADD, headers=headers)
    again = await api("POST", JOBS, content='{"args": {"a" :1},\n "task": "add"}', headers=headers)
    assert (first.status_code, first.headers.get("idempotency-replayed")) == (201, None)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
    assert (again.json(), again.headers["location"]) == (first.json(), first.headers["location"])
    assert again.headers["content-type"] == first.headers["content-type"]
    assert len(await api.app.jobs.list()) == 1
    for method, path, body in (("POST", JOBS, {**ADD, "priority": 1}), ("POST", f"{JOBS}/1/retry", None)):
        other = await api(method, path, body, headers=headers)
        assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
        assert other.json()["errors"][0]["field"] == "Idempotency-Key"
    assert (await api("POST", JOBS, ADD, headers={"Idempotency-Key": "order-8"})).json()["id"] != first.json()["id"]
    for wrong in ("", "a b", "k" * 256, "\x7f", "é".encode()):
        reply = await api("POST", JOBS, ADD, headers={"Idempotency-Key": wrong})
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "Idempotency-Key"), wrong
    assert len(await api.app.jobs.list()) == 2


async def test_a_key_belongs_to_whoever_used_it(api: Api) -> None:
    tokens = [await a_token(api.app, "enqueue") for _ in range(2)]
    replies = [await api("POST", JOBS, ADD, headers={"Idempotency-Key": "k", **bearer(token)}) for token in tokens]
    assert [reply.status_code for reply in replies] == [201, 201]
    assert replies[0].json() != replies[1].json()


async def test_what_is_kept_and_what_is_not(api: Api) -> None:
    headers = {"Idempotency-Key": "k"}
    assert (await api("POST", JOBS, {"task": "later"}, headers=headers)).status_code == 422

    @api.app.task
    async def later() -> None: ...

    assert (await api("POST", JOBS, {"task": "later"}, headers=headers)).status_code == 201, "a refusal is not kept"
    missing = await api("POST", f"{JOBS}/99/retry", headers={"Idempotency-Key": "r"})
    again = await api("POST", f"{JOBS}/99/retry", headers={"Idempotency-Key": "r"})
    assert (missing.status_code, again.status_code, again.headers["idempotency-replayed"]) == (404, 404, "true")
    assert again.headers["content-type"] == "application/problem+json"
    wanted = {"name": "ci", "scopes": ["admin"]}
    made = await api("POST", "/api/admin/tokens", wanted, headers={"Idempotency-Key": "t"})
    secret = bearer(made.json()["token"])
    headers = {"Idempotency-Key": "t", **secret}
    assert (await api("POST", "/api/admin/tokens", wanted, headers=headers)).status_code == 201, "another actor"
    repeated = await api("POST", "/api/admin/tokens", wanted, headers=headers)
    assert (repeated.status_code, "only once" in repeated.json()["detail"]) == (409, True)
    kept = await begun(api, "t", f"token:ci#{made.json()['id']}")
    assert kept is not None
    assert "oncue_" not in (kept.answer or ""), "a secret is kept nowhere"


async def begun(api: Api, key: str, actor: str = "local") -> KeptRequest | None:
    """What is kept of a request."""
    connected = await api.app.internals.connected()
    return await connected.store.requests.begin(actor, key, KeptRequest("", connected.now(), ()))


async def cut_off(api: Api, key: str, ago: timedelta = timedelta(0)) -> KeptRequest:
    """Make a request what it would be if its process had died before it could keep the answer."""
    connected, kept = await api.app.internals.connected(), await begun(api, key)
    assert kept is not None
    unfinished = dataclasses.replace(kept, status=None, answer=None, started_at=kept.started_at - ago)
    await connected.store.requests.prune(connected.now() + timedelta(seconds=1), 100)
    assert await connected.store.requests.begin("local", key, unfinished) is None
    return kept


async def test_cut_off_after_writing_a_job_is_written_once(api: Api) -> None:
    headers, many = {"Idempotency-Key": "k"}, {"jobs": [{**ADD, "key": "x"}, {**ADD, "delay": "1h"}, {"task": "boom"}]}
    first = await api("POST", f"{JOBS}/bulk", many, headers=headers)
    written = await api.app.jobs.list()
    await cut_off(api, "k")
    again = await api("POST", f"{JOBS}/bulk", many, headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    assert "idempotency-replayed" not in again.headers
    assert [job.id for job in await api.app.jobs.list()] == [job.id for job in written]
    replayed = await api("POST", f"{JOBS}/bulk", many, headers=headers)
    assert (replayed.json(), replayed.headers["idempotency-replayed"]) == (first.json(), "true")


async def test_a_duplicate_takes_a_number_only_if_its_request_was_cut_off(api: Api) -> None:
    """Duplicates are common, and cost nothing. Whoever may have asked before must not be able to write it any more."""
    body, headers = {**ADD, "key": "x"}, {"Idempotency-Key": "k"}
    standing = (await api("POST", JOBS, body)).json()
    first = await api("POST", JOBS, body, headers=headers)
    assert (first.status_code, first.json()) == (200, {**standing, "created": False})
    assert len(await api.app.jobs.list()) == 1
    kept = await cut_off(api, "k")
    assert (await api("POST", JOBS, body, headers=headers)).json() == first.json()
    job = await api.get(f"{JOBS}/{kept.ids[0]}")
    assert (job["status"], job["reason"], job["result"]["duplicate_of"]) == ("skipped", "duplicate", standing["id"])


async def test_cut_off_before_writing_it_is_written_under_its_numbers(api: Api) -> None:
    connected = await api.app.internals.connected()
    assert (await api("POST", JOBS, ADD, headers={"Idempotency-Key": "k"})).status_code == 201
    kept = await cut_off(api, "k")
    await api.app.jobs.cancel(kept.ids[0])
    assert await connected.store.jobs.prune(connected.now() + timedelta(seconds=1), 10) == 1
    replies = await asyncio.gather(*(api("POST", JOBS, ADD, headers={"Idempotency-Key": "k"}) for _ in range(5)))
    assert {reply.json()["id"] for reply in replies} == set(kept.ids)
    assert [job.id for job in await api.app.jobs.list()] == list(kept.ids)


async def test_the_answer_of_the_database_is_lost(make_api: MakeApi, postgres_url: str) -> None:
    """The process that was asked gets no answer and dies; the next one writes nothing more."""
    async with Proxy(postgres_url) as proxy:
        dying, other = make_api(proxy.url), make_api(postgres_url)
        await dying.get(JOBS)
        proxy.doomed = b'insert into "public".oncue_jobs'
        asking = asyncio.ensure_future(dying("POST", JOBS, ADD, headers={"Idempotency-Key": "k"}))
        await asyncio.wait_for(proxy.swallowed.wait(), 60)
        asking.cancel()
        proxy.cut.set()
        await asyncio.gather(asking, return_exceptions=True)
        reply = await other("POST", JOBS, ADD, headers={"Idempotency-Key": "k"})
        assert reply.status_code == 201
        assert [job.id for job in await other.app.jobs.list()] == [reply.json()["id"]]
        await dying.app.aclose()


@pytest.mark.parametrize(
    ("path", "body"), [("boost", {"boost": 1}), ("retry", None), ("cancel", None)], ids=lambda value: str(value)
)
async def test_what_cannot_be_repeated_is_told_to_be_unknown(
    make_api: MakeApi, sqlite_url: str, path: str, body: Any
) -> None:
    api = make_api(sqlite_url)
    where, headers = f"{JOBS}/{(await api('POST', JOBS, ADD)).json()['id']}/{path}", {"Idempotency-Key": "k"}
    await api("POST", where, body, headers=headers)
    await cut_off(api, "k")
    soon = await api("POST", where, body, headers=headers)
    assert (soon.status_code, soon.json()["type"]) == (409, "/problems/still-being-answered")
    assert int(soon.headers["retry-after"]) >= 1
    await cut_off(api, "k", ago=timedelta(seconds=61))
    late = await api("POST", where, body, headers=headers)
    assert (late.status_code, late.json()["type"]) == (409, "/problems/effect-unknown")
    assert "/api/admin/audit-log" in late.json()["detail"]
    await cut_off(api, "k", ago=timedelta(hours=25))
    assert (await api("POST", where, body, headers=headers)).json().get("type") != "/problems/effect-unknown"


async def test_what_can_be_repeated_is(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    schedule = {"name": "daily", "cron_expression": "@daily", **ADD}
    await api("POST", "/api/admin/scheduled-jobs", schedule)
    calls: list[tuple[str, Any]] = [
        ("/api/admin/queues/mail/pause", None), ("/api/admin/queues/mail/resume", None),
        ("/api/admin/scheduled-jobs/daily/toggle", {"enabled": False}),
        ("/api/admin/scheduled-jobs/daily/backfill", {"from": "-3d"}),
    ]  # fmt: skip
    for path, body in calls:
        await api("POST", path, body, headers={"Idempotency-Key": path})
        await cut_off(api, path)
        again = await api("POST", path, body, headers={"Idempotency-Key": path})
        assert (again.status_code, again.headers.get("idempotency-replayed")) == (200, None)
    assert again.json()["made"] == 0


async def together(*requests: Awaitable[httpx.Response]) -> list[httpx.Response]:
    return list(await asyncio.gather(*requests))


async def test_sent_several_times_at_once(api: Api) -> None:
    headers = {"Idempotency-Key": "k"}
    replies = await together(*(api("POST", JOBS, ADD, headers=headers) for _ in range(6)))
    assert len({reply.json()["id"] for reply in replies}) == len(await api.app.jobs.list()) == 1
    assert {reply.status_code for reply in replies} == {201}


@pytest.mark.contract("SLOT-11")
@pytest.mark.parametrize("declared_here", [True, False])
async def test_a_task_that_keeps_to_its_slots_is_refused(
    make_api: MakeApi, database_url: str, declared_here: bool
) -> None:
    api, worker = make_api(database_url), make_api(database_url).app
    for app in (api.app, worker):
        keeps = declared_here or app is worker
        app.task(name="brief", **(KEEPS_TO_SLOTS if keeps else {}))(lambda: None)
    await Declaring(worker.internals).synchronise()
    one = await api("POST", JOBS, {"task": "brief"})
    many = await api("POST", f"{JOBS}/bulk", {"jobs": [ADD, {"task": "brief"}]})
    for reply, place in ((one, "task"), (many, "jobs.1.task")):
        assert (reply.status_code, reply.json()["type"]) == (422, "/problems/invalid-field")
        (error,) = reply.json()["errors"]
        assert error["field"] == place
        assert "`oncue trigger brief`" in error["message"]
        assert "POST /api/admin/scheduled-jobs/brief/trigger" in error["message"]
    assert await api.app.jobs.list() == []
    triggered = await api("POST", "/api/admin/scheduled-jobs/brief/trigger")
    assert triggered.status_code == 201
    assert [job.task for job in await api.app.jobs.list()] == ["brief"]
