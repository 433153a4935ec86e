"""Deliveries in the origin's words: the views `executions` and `delivery_attempts`."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from oncue.identity import job_uid
from oncue.model import (
    DELIVER,
    WEBHOOKS_QUEUE,
    Cancelled,
    Claim,
    Failed,
    Outcome,
    Released,
    Skipped,
    Started,
    Succeeded,
    ToldDetails,
)
from oncue.policy import lifecycle
from oncue.store import PostgresStore, SqliteStore, Store
from oncue.store import statements as sql_files
from tests.store.scene import BROKEN, CRASHED, NOW, after, at, before, enter, fire, put, query, see, settle
from tests.store.test_plans import explained, nodes
from tests.store.test_views import drop_views, read
from tests.store.test_webhooks import deliveries, make, plan_webhook, take_deliveries

EXECUTIONS = ("id", "job_id", "scheduled_at", "status", "created_at")
ATTEMPTS = ("id", "execution_id", "attempt", "status_code", "error", "started_at", "finished_at")


@pytest.fixture
def viewed(store: Store, runner: asyncio.Runner) -> Iterator[Store]:
    """A store with its views; they are gone after the test."""
    runner.run(store.create_views())
    yield store
    runner.run(drop_views(store))


def value(found: Any) -> Any:
    """A value of either dialect: SQLite tells instants and UUIDs as texts."""
    if isinstance(found, str) and len(found) == 36 and found.count("-") == 4:
        return UUID(found)
    return found.astimezone(UTC) if isinstance(found, datetime) else read(found)


async def executions(store: Store) -> list[tuple[Any, ...]]:
    rows = await query(store, f"select {', '.join(EXECUTIONS)} from executions order by created_at, id")
    return [tuple(map(value, row)) for row in rows]


async def attempts(store: Store) -> list[tuple[Any, ...]]:
    rows = await query(store, f"select {', '.join(ATTEMPTS)} from delivery_attempts order by execution_id, attempt")
    return [tuple(map(value, row)) for row in rows]


async def statuses(store: Store) -> list[str]:
    return [row[3] for row in await executions(store)]


def answered(claim: Claim, outcome: Outcome, at: datetime, status: int | None = None) -> Any:
    details = None if status is None else json.dumps({"status": status, "url": "https://shop.example"})
    ended = lifecycle.Ended(claim, outcome, claim.claimed_at, at, details=details)
    return lifecycle.settle(ended, Random(1))


@pytest.mark.contract("HOOK-16")
async def test_the_views_have_exactly_the_columns_of_the_clause(viewed: Any) -> None:
    for view, columns in (("executions", EXECUTIONS), ("delivery_attempts", ATTEMPTS)):
        if viewed.dialect == "sqlite":
            asked = f"select * from {view}"
            found = await viewed.database.write(lambda connection, asked=asked: connection.execute(asked).description)
            assert tuple(column[0] for column in found) == columns
        else:
            async with viewed.database.connections.use() as connection:
                asked = (
                    "select column_name::text from information_schema.columns where table_name = $1 "
                    "order by ordinal_position"
                )
                assert tuple(row[0] for row in await connection.fetch(asked, view)) == columns


@pytest.mark.contract("HOOK-16")
async def test_an_execution_is_named_as_its_job_and_its_job_as_what_made_it(viewed: Store) -> None:
    webhook, schedule = await make(viewed), await plan_webhook(viewed)
    odd = NOW + timedelta(days=9, seconds=59, microseconds=123_457)
    (of_slot,) = await fire(viewed, schedule, at(1), now=at(1.5))
    (by_hand,) = await deliveries(viewed, created_at=odd)
    (ad_hoc,) = await deliveries(viewed, "https://other.example:443", created_at=odd)
    await put(viewed)
    assert await executions(viewed) == sorted(
        [
            (job_uid(of_slot, at(1.5)), job_uid(schedule.id, NOW), at(1), "emitted", at(1.5)),
            (job_uid(by_hand, odd), job_uid(webhook.id, NOW), odd, "emitted", odd),
            (job_uid(ad_hoc, odd), None, odd, "emitted", odd),
        ],
        key=lambda row: (row[4], row[0]),
    )


@pytest.mark.parametrize("micros", [0, 1, 999, 1000, 1001, 999_999])
@pytest.mark.parametrize("year", [1999, 2030, 2105, 2400])
async def test_the_names_are_those_that_oncue_gives(viewed: Store, year: int, micros: int) -> None:
    made = datetime(year, 5, 17, 23, 59, 59, micros, tzinfo=UTC)
    await deliveries(viewed, size=2, created_at=made)
    ids = [row[0] for row in await query(viewed, "select id from oncue_jobs order by id")]
    assert [row[0] for row in await executions(viewed)] == [job_uid(job_id, made) for job_id in ids]
    largest = 2**62 - 1
    await query(viewed, f"update oncue_jobs set id = {largest} where id = {ids[1]}")
    assert job_uid(largest, made) in [row[0] for row in await executions(viewed)]


ENDS: list[tuple[Outcome, str]] = [
    (Succeeded(), "delivered"),
    (Failed("410 Gone", final=True), "failed"),
    (Skipped("webhook_disabled"), "failed"),
    (Cancelled("by hand"), "failed"),
    (BROKEN, "emitted"),
    (CRASHED, "emitted"),
    (Released(), "emitted"),
]


@pytest.mark.contract("HOOK-16")
@pytest.mark.parametrize(("outcome", "status"), ENDS)
async def test_the_status_of_an_execution(viewed: Store, outcome: Outcome, status: str) -> None:
    node = await enter(viewed)
    await deliveries(viewed)
    assert await statuses(viewed) == ["emitted"]
    claims = await take_deliveries(viewed, node)
    assert await statuses(viewed) == ["emitted"]
    await settle(viewed, claims, outcome)
    assert await statuses(viewed) == [status]


@pytest.mark.contract("HOOK-16")
async def test_attempts_are_told_one_by_one_and_keep_their_names(viewed: Store) -> None:
    node = await enter(viewed, expires_at=after(days=9))
    (job_id,) = await deliveries(viewed, max_retries=1, created_at=NOW)
    uid = (await see(viewed, job_id)).uid
    assert await attempts(viewed) == []
    (claim,) = await take_deliveries(viewed, node)
    assert await attempts(viewed) == [], "it has not started"
    await viewed.jobs.mark_started([Started(job_id, claim.claim_no, at(1))])
    ((first, *running),) = await attempts(viewed)
    assert running == [uid, 1, None, None, at(1), None]
    await viewed.jobs.report_details([ToldDetails(job_id, claim.claim_no, '{"status": 102}')])
    assert [row[3] for row in await attempts(viewed)] == [102]
    ended = lifecycle.Ended(claim, Failed("503 Service Unavailable"), at(1), at(2), details='{"status": 503}')
    assert await viewed.jobs.apply([lifecycle.settle(ended, Random(1))], at(2)) == [True]
    told = (first, uid, 1, 503, "503 Service Unavailable", at(1), at(2))
    assert await attempts(viewed) == [told], "from the history, under the same name"
    await viewed.jobs.promote(after(days=1), 10)
    (claim,) = await take_deliveries(viewed, node, now=after(days=1))
    assert await attempts(viewed) == [told]
    await viewed.jobs.mark_started([Started(job_id, claim.claim_no, after(days=1))])
    second = (await attempts(viewed))[1][0]
    assert second != first
    assert await viewed.jobs.apply([answered(claim, Succeeded(), after(days=2), 204)], after(days=2)) == [True]
    assert await attempts(viewed) == [told, (second, uid, 2, 204, None, after(days=1), after(days=2))]
    job = lifecycle.revive(await see(viewed, job_id), after(days=3))
    assert job is not None
    assert await viewed.jobs.apply([job], after(days=3)) == [True]
    assert await attempts(viewed) == [told, (second, uid, 2, 204, None, after(days=1), after(days=2))]


@pytest.mark.contract("HOOK-16")
async def test_a_failure_without_an_answer_has_no_status_code(viewed: Store) -> None:
    node = await enter(viewed)
    await deliveries(viewed, size=5)
    claims = await take_deliveries(viewed, node)
    ends: list[tuple[Outcome, str | None]] = [
        (Failed("timeout", final=True), None),
        (Failed("odd", final=True), '{"status": "none"}'),
        (Skipped("webhook_disabled"), None),
        (CRASHED, None),
        (Released("shutdown"), None),
    ]
    dice = Random(1)
    for claim, (outcome, details) in zip(claims, ends, strict=True):
        ended = lifecycle.Ended(claim, outcome, claim.claimed_at, at(1), details=details)
        await viewed.jobs.apply([lifecycle.settle(ended, dice)], at(1))
    found = {row[1]: row[3:5] for row in await attempts(viewed)}
    told = [found[claim.uid] for claim in claims]
    errors = ["timeout", "odd", "webhook_disabled", "node_lost", "shutdown"]
    assert told == [(None, error) for error in errors]


@pytest.mark.contract("HOOK-16")
async def test_what_was_refused_before_it_began_has_no_attempt(viewed: Store) -> None:
    node = await enter(viewed)
    await deliveries(viewed, deadline_at=before(minutes=1))
    await settle(viewed, await take_deliveries(viewed, node), Skipped("deadline"), started=False)
    assert await statuses(viewed) == ["failed"]
    assert await attempts(viewed) == []


ORPHANS = """
SELECT e.id, e.job_id, e.scheduled_at FROM executions e LEFT JOIN delivery_attempts d ON d.execution_id = e.id
 WHERE e.status = 'emitted' AND e.created_at < NOW() - INTERVAL '15 minutes' AND d.id IS NULL
"""
STUCK = "SELECT * FROM executions WHERE status='emitted' AND created_at < now() - interval '15 min'"
BY_STATUS = "SELECT status, COUNT(*) FROM executions GROUP BY status"


@pytest.mark.contract("HOOK-16", "HOOK-11")
async def test_the_queries_of_the_origin_run_unchanged_on_postgresql(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    await postgres_store.create_views()
    long_ago, connection = datetime(2020, 1, 1, tzinfo=UTC), await asyncpg.connect(postgres_url)
    try:
        node = await enter(postgres_store)
        tried, orphan, done = [
            (await deliveries(postgres_store, name, created_at=long_ago))[0] for name in ("tried", "orphan", "done")
        ]
        await deliveries(postgres_store, "young", created_at=datetime(2200, 1, 1, tzinfo=UTC))
        claims = {claim.id: claim for claim in await take_deliveries(postgres_store, node)}
        await settle(postgres_store, [claims[tried]], BROKEN)
        await settle(postgres_store, [claims[done]])
        await settle(postgres_store, [claims[orphan]], Released(), started=False)
        assert [row["id"] for row in await connection.fetch(ORPHANS)] == [job_uid(orphan, long_ago)]
        stuck = {row["id"] for row in await connection.fetch(STUCK)}
        assert stuck == {job_uid(tried, long_ago), job_uid(orphan, long_ago)}
        assert dict(await connection.fetch(BY_STATUS)) == {"emitted": 3, "delivered": 1}
    finally:
        await connection.close()
        await drop_views(postgres_store)


@pytest.mark.contract("HOOK-16", "HOOK-18")
async def test_the_queries_of_the_operators_guide_run(postgres_store: PostgresStore, postgres_url: str) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
    told = guide.split("### The SQL to look with")[1].split("```")[1].removeprefix("sql\n")
    queries = [one for one in told.split(";\n") if one.strip()]
    assert len(queries) >= 5
    await postgres_store.create_views()
    connection = await asyncpg.connect(postgres_url)
    try:
        for one in queries:
            await connection.fetch(one)
    finally:
        await connection.close()
        await drop_views(postgres_store)


# --- through an index ---------------------------------------------------------------------------------------------

FILL = f"""
insert into oncue_jobs (task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at,
                        visible_at, max_retries, group_name, attempt, started_at, finished_at)
select case when n % 3 = 0 then '{DELIVER}' else 'send' end,
       case when n % 3 = 0 then '{WEBHOOKS_QUEUE}' else 'mail' end, 0,
       case when n % 100 < 2 then 'queued' when n % 100 < 3 then 'running' when n % 100 < 50 then 'failed'
            else 'succeeded' end, '{{}}', '', 'tests', @made, @made, @made, @made, 3, 'g' || n % 50,
       1, @made, @made
  from @numbers;
insert into oncue_attempts (job_id, attempt, claim_no, started_at, finished_at, outcome, error)
select id, 0, -1, created_at, created_at, 'failed', 'it broke' from oncue_jobs where id % 2 = 1
"""
ONE = "select id from executions where status = 'delivered' order by created_at limit 1"


def scans(plan: dict[str, Any]) -> list[str]:
    found = [part for part in nodes(plan) if part["Node Type"].endswith("Seq Scan")]
    return [part["Relation Name"] for part in found if part["Relation Name"] in ("oncue_jobs", "oncue_attempts")]


@pytest.mark.contract("HOOK-16")
@pytest.mark.parametrize("analysed", [False, True])
async def test_executions_are_found_by_id_through_an_index_on_postgresql(
    postgres_store: PostgresStore, postgres_url: str, analysed: bool
) -> None:
    await postgres_store.create_views()
    connection = await asyncpg.connect(postgres_url)
    made, series = "timestamptz '2029-01-01' + n * interval '1 second'", "generate_series(1, 60000) as n"
    try:
        await connection.execute(FILL.replace("@made", made).replace("@numbers", series))
        if analysed:
            await connection.execute("analyze")
        wanted = await connection.fetchval(
            "select id from executions where status = 'delivered' order by created_at limit 1"
        )
        for where in (f"executions where id = '{wanted}'", f"delivery_attempts where execution_id = '{wanted}'"):
            assert len(await connection.fetch(f"select * from {where}")) == (1 if "executions" in where else 2)
            plan = json.loads(await connection.fetchval(f"explain (format json) select * from {where}"))[0]["Plan"]
            assert scans(plan) == [], where
            assert "oncue_jobs_execution" in {part.get("Index Name") for part in nodes(plan)}, where
        assert len(await connection.fetch("select * from executions where status = 'emitted'")) == 600
        for where in ("status = 'emitted'", "status = 'emitted' and created_at < now() - interval '15 min'"):
            explain = f"explain (format json) select * from executions where {where}"
            plan = json.loads(await connection.fetchval(explain))[0]["Plan"]
            assert scans(plan) == [], where
            used = {part["Index Name"] for part in nodes(plan) if part.get("Index Name", "").startswith("oncue_jobs")}
            assert "oncue_jobs_ended" not in used, "what has ended is not looked at"
    finally:
        await connection.close()
        await drop_views(postgres_store)


@pytest.mark.contract("HOOK-16")
@pytest.mark.parametrize("analysed", [False, True])
async def test_executions_are_found_by_id_through_an_index_on_sqlite(sqlite_store: SqliteStore, analysed: bool) -> None:
    await sqlite_store.create_views()
    recursion = "with recursive s (n) as (select 1 union all select n + 1 from s where n < 20000) select n from s"

    def plans(connection: sqlite3.Connection) -> dict[str, list[str]]:
        fill = FILL.replace("@made", "1861920000000000 + n * 1000000").replace("@numbers", f"({recursion})")
        for statement in fill.split(";\n"):
            connection.execute(statement)
        if analysed:
            connection.execute("analyze")
        (wanted,) = connection.execute(
            "select id from executions where status = 'delivered' order by created_at limit 1"
        ).fetchone()
        asked = [
            f"executions where id = '{wanted}'",
            f"delivery_attempts where execution_id = '{wanted}'",
            "executions where status = 'emitted'",
        ]
        assert [len(connection.execute(f"select * from {one}").fetchall()) for one in asked] == [1, 2, 199]
        return {one: [row[3] for row in connection.execute(f"explain query plan select * from {one}")] for one in asked}

    for one, steps in (await sqlite_store.database.write(plans)).items():
        assert [step for step in steps if re.match(r"SCAN [ja]\b", step)] == [], (one, steps)
        if "id = " in one:
            assert any(step.startswith("SEARCH j USING INDEX oncue_jobs_execution") for step in steps), (one, steps)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("analysed", [False, True])
async def test_the_deliveries_to_an_endpoint_are_read_through_their_index_on_postgresql(
    postgres_store: PostgresStore, postgres_url: str, analysed: bool, mode: str
) -> None:
    connection = await asyncpg.connect(postgres_url)
    made, series = "timestamptz '2029-01-01' + n * interval '1 second'", "generate_series(1, 60000) as n"
    try:
        await connection.execute(FILL.replace("@made", made).replace("@numbers", series))
        if analysed:
            await connection.execute("analyze")
        await connection.execute(f"set plan_cache_mode = {mode}")
        plan = await explained(connection, "executions", ["g3", ["succeeded", "queued", "running"], 10**12, 20])
        assert scans(plan) == []
        used = {part["Index Name"] for part in nodes(plan) if "Index Name" in part}
        assert "oncue_jobs_endpoint" in used, used
        assert "oncue_jobs_ended" not in used, "no delivery to another endpoint is looked at"
    finally:
        await connection.close()


async def test_the_deliveries_to_an_endpoint_are_read_through_their_index_on_sqlite(sqlite_store: SqliteStore) -> None:
    def plan(connection: sqlite3.Connection) -> list[str]:
        asked = {"endpoint": "g3", "states": '["succeeded"]', "before": 10**12, "limit": 20}
        statement = sql_files.load("sqlite")["executions"]
        return [row[3] for row in connection.execute(f"explain query plan {statement}", asked)]

    steps = await sqlite_store.database.write(plan)
    assert any("oncue_jobs_endpoint (group_name=? AND state=? AND id<?)" in step for step in steps), steps
