"""No request holds the event loop for long: others are answered in between, and heartbeats go out."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from oncue.engine.counting import take_sample
from oncue.server.api import pages
from oncue.server.api.intake import LARGEST_BODY, MOST_FIELDS
from oncue.store.sqlite.values import micros
from tests.server.conftest import Api, MakeApi, a_token, bearer
from tests.store.scene import a_batch
from tests.turns import measured_turns

MOST_SECONDS = 0.1
JOBS, SCHEDULES = "/api/admin/jobs", "/api/admin/scheduled-jobs"
EVERY_SECOND = {"name": "tick", "cron_expression": "* * * * * *", "task": "add", "args": {"a": 1}}

Prepare: TypeAlias = Callable[[Api], Awaitable[Any]]


async def nothing(api: Api) -> None:
    await api.app.internals.connected()


async def many_queues(api: Api) -> None:
    connected = await api.app.internals.connected()
    ids, now = await connected.store.jobs.reserve(20_000), connected.now()
    await connected.store.jobs.enqueue([a_batch(len(ids), task="add", created_at=now)._replace(ids=ids)])
    with sqlite3.connect(api.app.settings.database_url.removeprefix("sqlite:///")) as connection:
        connection.execute("update oncue_jobs set queue = 'queue-' || id")
    connection.close()
    await take_sample(connected.store, now)


async def a_schedule(api: Api) -> None:
    assert (await api.client.post(SCHEDULES, json=EVERY_SECOND)).status_code == 201


async def an_old_schedule(api: Api) -> None:
    """One that had a slot every second for the last thirteen hours, and decided none of them."""
    await a_schedule(api)
    now = await api.app.now()
    ago = micros(now) - 49_000 * 1_000_000
    with sqlite3.connect(api.app.settings.database_url.removeprefix("sqlite:///")) as connection:
        connection.execute("update oncue_revisions set started_at = ?", (ago,))
        connection.execute(
            "update oncue_schedules set created_at = ?, started_at = ?, cursor = ?", (ago, ago, micros(now))
        )
    connection.close()


async def many_revisions(api: Api) -> None:
    """A schedule with large arguments that was edited often."""
    body = {**EVERY_SECOND, "task": "boom", "args": {"text": "é\n" * 40_000}}
    assert (await api.client.post(SCHEDULES, json=body)).status_code == 201
    with sqlite3.connect(api.app.settings.database_url.removeprefix("sqlite:///")) as connection:
        names = [row[1] for row in connection.execute("pragma table_info(oncue_revisions)")]
        copied = ", ".join("number.value" if name == "revision" else name for name in names)
        numbers = json.dumps(list(range(2, 250)))
        connection.execute(
            f"insert into oncue_revisions select {copied} from oncue_revisions, json_each(?) as number", (numbers,)
        )
    connection.close()


def filled(count: int, item: Any) -> str:
    text = json.dumps([item] * count)
    assert len(text) < LARGEST_BODY - 1000
    return text


HOSTILE = f'{{"task": "add", "args": {{"a": {filled(240_000, {})}}}}}'
UNKNOWN = json.dumps({"task": "add", **{f"f{number}": 1 for number in range(60_000)}})
JOB = {"task": "boom", "args": {"text": "x" * 900}}
WIDE_JOB = {"task": "add", **{f"f{number}": 1 for number in range(MOST_FIELDS - 1)}}


@pytest.mark.parametrize(
    ("prepare", "method", "path", "content", "status"),
    [
        pytest.param(nothing, "GET", "/openapi.json", None, 200, id="openapi"),
        pytest.param(nothing, "POST", JOBS, HOSTILE, 422, id="a megabyte of objects"),
        pytest.param(nothing, "POST", JOBS, UNKNOWN, 422, id="unknown fields"),
        pytest.param(
            nothing, "POST", f"{JOBS}/bulk", f'{{"jobs": {filled(1000, WIDE_JOB)}}}', 422, id="unknown fields of jobs"
        ),
        pytest.param(nothing, "POST", f"{JOBS}/bulk", f'{{"jobs": {filled(1000, JOB)}}}', 201, id="a thousand jobs"),
        pytest.param(a_schedule, "GET", f"{SCHEDULES}/tick/preview?count=1000", None, 200, id="preview"),
        pytest.param(
            a_schedule, "POST", f"{SCHEDULES}/tick/backfill", '{"from": "-1d", "to": "now", "dry_run": true}', 200,
            id="backfill",
        ),
        pytest.param(many_revisions, "GET", f"{SCHEDULES}/tick/revisions", None, 200, id="revisions"),
        pytest.param(an_old_schedule, "GET", f"{SCHEDULES}/tick/audit?from=-1d", None, 200, id="audit"),
    ],
)  # fmt: skip
async def test_no_request_holds_the_loop(
    make_api: MakeApi, sqlite_url: str, prepare: Prepare, method: str, path: str, content: str | None, status: int
) -> None:
    api = make_api(sqlite_url)
    await prepare(api)
    headers = {"Idempotency-Key": "k", **bearer(await a_token(api.app, "admin"))}
    with measured_turns() as turns:
        reply = await api.client.request(method, path, content=content, headers=headers)
    assert reply.status_code == status, reply.text[:500]
    assert turns.longest < MOST_SECONDS, turns.longest


async def test_twenty_thousand_queues_hold_nobody_up(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    await many_queues(api)
    for path in ("/api/admin/queues", "/health/ready", f"{JOBS}/stats", f"{JOBS}?limit=1000", "/metrics"):
        with measured_turns() as turns:
            assert (await api.client.get(path)).status_code == 200
        assert turns.longest < MOST_SECONDS, path


async def test_a_far_page_of_schedules_is_the_same_page(api: Api) -> None:
    for number in range(7):
        body = {**EVERY_SECOND, "name": f"tick-{number}", "cron_expression": "0 0 * * *"}
        assert (await api("POST", SCHEDULES, body)).status_code == 201
    found = await api.get(f"{SCHEDULES}?offset=4&limit=2")
    assert [schedule["name"] for schedule in found["scheduled_jobs"]] == ["tick-4", "tick-5"]
    assert (await api.get(f"{SCHEDULES}?offset=99"))["scheduled_jobs"] == []


@pytest.mark.parametrize("limit", [7, pages.RECORDS_A_TURN, 1000])
@pytest.mark.parametrize(
    ("path", "named", "verb"),
    [(SCHEDULES, "scheduled_jobs", "schedules"), ("/api/admin/audit-log", "entries", "audit_log")],
)
async def test_of_large_schedules_no_more_are_read_than_a_page_shows_and_a_few(
    api: Api, monkeypatch: pytest.MonkeyPatch, path: str, named: str, verb: str, limit: int
) -> None:
    monkeypatch.setattr(pages, "LARGEST_PAGE", 20_000)
    for number in range(pages.RECORDS_A_TURN):
        body = {**EVERY_SECOND, "name": f"s-{number:02}", "task": "boom", "args": {"text": "x" * 1000}}
        assert (await api("POST", SCHEDULES, body)).status_code == 201
    noun = getattr(api.app, verb)
    ask, read = noun.list, 0

    async def counted(**wanted: Any) -> Any:
        nonlocal read
        rows = await ask(**wanted)
        read += len(rows)
        return rows

    monkeypatch.setattr(noun, "list", counted)
    shown: list[Any] = []
    link: str | None = f"{path}?limit={limit}"
    while link is not None:
        read = 0
        page = await api.get(link)
        assert 1 <= len(page[named]) <= min(limit, 20)
        assert read <= len(page[named]) + pages.RECORDS_A_TURN
        shown, link = shown + page[named], page["next"]
    assert len({row["id"] for row in shown}) == len(shown) == pages.RECORDS_A_TURN
