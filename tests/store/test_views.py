"""The views in the contracts' words, as an operator reads them."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from oncue.errors import NameClash
from oncue.model import (
    Cancelled,
    Decided,
    Failed,
    Lost,
    Outcome,
    Released,
    Revised,
    Schedule,
    Skipped,
    Started,
    Succeeded,
    TimedOut,
)
from oncue.policy.lifecycle import expire
from oncue.policy.options import Options
from oncue.store import PostgresStore, SqliteStore, Store
from oncue.store import statements as sql_files
from tests.store.scene import BROKEN, a_step, after, at, enter, find, fire, plan, put, query, see, settle, take
from tests.store.test_plans import nodes

COLUMNS = (
    *("id", "job_name", "scheduled_for", "started_at", "finished_at", "status", "worker_instance"),
    "error_message",
)
AT_MOST_ONCE = Options(delivery="at_most_once").stored()
VIEWS = ["job_runs", "executions", "delivery_attempts", "job_nodes", "cluster_jobs"]
RUNS = f"select {', '.join(COLUMNS)} from job_runs order by job_name, scheduled_for"


@pytest.fixture
def viewed(store: Store, runner: Any) -> Any:
    """A store with its views; they are gone after the test."""
    assert runner.run(store.create_views()) == list(sql_files.views(store.dialect))
    yield store
    runner.run(drop_views(store))


async def drop_views(store: Store) -> None:
    for name in reversed(VIEWS):
        await query(store, f"drop view if exists {name}")


def read(value: Any) -> Any:
    """An instant of either dialect: SQLite tells it as a text, in UTC."""
    if isinstance(value, str) and value[:2] == "20":
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value


async def runs(store: Store) -> list[tuple[Any, ...]]:
    return [tuple(map(read, row)) for row in await query(store, RUNS)]


async def ended(store: Store, schedule: Schedule, slot: datetime, outcome: Outcome) -> int:
    """Fire a slot and let a worker bring it to an end half a minute later; the id of its job."""
    (job_id,) = await fire(store, schedule, slot)
    node = await enter(store, "worker-1", expires_at=after(days=999))
    (claim,) = await take(store, node, now=slot)
    await settle(store, [claim], outcome, at=slot.replace(second=30))
    await store.nodes.leave(node, slot.replace(second=31))
    return job_id


ENDS: list[tuple[Outcome, str, str | None]] = [
    (Succeeded('"fine"'), "success", None),
    (Failed("it broke", final=True), "failed", "it broke"),
    (Cancelled("by hand"), "failed", "by hand"),
    (Lost("worker_startup_recovery"), "failed", "worker_startup_recovery"),
    (Lost("node_lost"), "skipped_timeout", "skipped_timeout: node_lost"),
    (TimedOut("over its maximum runtime"), "skipped_timeout", "skipped_timeout: over its maximum runtime"),
    (Released("stopped"), "skipped_timeout", "interrupted: stopped"),
    (Skipped("no news"), "skipped_timeout", "Skip: no news"),
    (Skipped("misfire"), "skipped_timeout", "Skip: misfire"),
]


@pytest.mark.contract("SLOT-6", "SLOT-7", "SLOT-8")
@pytest.mark.parametrize(("outcome", "status", "message"), ENDS)
async def test_a_run_is_told_in_the_contracts_words_before_and_after_its_job_is_pruned(
    viewed: Store, outcome: Outcome, status: str, message: str | None
) -> None:
    schedule = await plan(viewed, "brief-ß", options=AT_MOST_ONCE, max_retries=0)
    job_id = await ended(viewed, schedule, at(1), outcome)
    told = [(job_id, "brief-ß", at(1), at(1), at(1.5), status, "worker-1", message)]
    assert await runs(viewed) == told
    assert await viewed.jobs.prune(at(9), 10) == 1
    assert await runs(viewed) == told
    assert await viewed.jobs.prune(after(days=99), 10) == 0, "now the worker is forgotten"
    assert await query(viewed, "select * from oncue_nodes") == []
    assert await runs(viewed) == told


@pytest.mark.contract("SLOT-6", "SLOT-10")
async def test_a_misfire_is_a_run_that_never_started(viewed: Store) -> None:
    schedule = await plan(viewed, options=AT_MOST_ONCE, max_retries=0)
    (job_id,) = await fire(viewed, schedule, at(1))
    change = expire(await see(viewed, job_id), at(9))
    assert change is not None
    assert await viewed.jobs.apply([change], at(9)) == [True]
    told = [(job_id, "report", at(1), None, at(9), "skipped_timeout", None, "misfire")]
    assert await runs(viewed) == told
    assert await viewed.jobs.prune(at(10), 10) == 1
    assert await runs(viewed) == told


@pytest.mark.contract("SLOT-6")
async def test_a_run_that_has_not_started_has_no_row_and_one_that_has_is_running(viewed: Store) -> None:
    schedule = await plan(viewed, max_instances=9)
    queued, claimed, started, failed_once, released = await fire(viewed, schedule, *(at(n) for n in range(1, 6)))
    node = await enter(viewed, "worker-1")
    assert await runs(viewed) == []
    claims = {claim.id: claim for claim in await take(viewed, node, 5, now=at(6))}
    assert await runs(viewed) == [], "they are claimed, and wait for a seat"
    await settle(viewed, [claims[queued]], Released(), started=False)
    await viewed.jobs.mark_started([Started(started, claims[started].claim_no, at(7))])
    await settle(viewed, [claims[failed_once]], BROKEN, at=at(8))
    await settle(viewed, [claims[released]], Released(), at=at(8))
    found = {row[0]: row for row in await runs(viewed)}
    assert set(found) == {started, failed_once, released}
    assert claimed not in found
    assert {row[5] for row in found.values()} == {"running"}
    assert {row[4] for row in found.values()} == {None}
    assert [found[job_id][3] for job_id in (started, failed_once)] == [at(7), at(6)]
    assert found[started][6] == "worker-1"
    assert (found[started][7], found[failed_once][7]) == (None, "it broke")


@pytest.mark.contract("SLOT-6")
async def test_the_longest_names_are_told_whole(viewed: Store) -> None:
    schedule = await plan(viewed, "s" * 128)
    (job_id,) = await fire(viewed, schedule, at(1))
    node = await enter(viewed, "w" * 128)
    await settle(viewed, await take(viewed, node, now=at(1)), at=at(2))
    expected = [(job_id, "s" * 128, "w" * 128)]
    assert [(row[0], row[1], row[6]) for row in await runs(viewed)] == expected
    assert await viewed.jobs.prune(at(9), 10) == 1
    assert [(row[0], row[1], row[6]) for row in await runs(viewed)] == expected


@pytest.mark.contract("SLOT-6")
async def test_the_view_has_exactly_the_columns_of_the_clause(viewed: Any, database_url: str) -> None:
    schedule = await plan(viewed)
    await ended(viewed, schedule, at(1), Succeeded())
    assert await column_names(viewed) == COLUMNS


async def column_names(store: Any) -> tuple[str, ...]:
    if store.dialect == "sqlite":
        found = await store.database.write(lambda connection: connection.execute("select * from job_runs").description)
        return tuple(column[0] for column in found)
    async with store.database.connections.use() as connection:
        return tuple((await connection.fetchrow("select * from job_runs")).keys())


@pytest.mark.contract("SLOT-3", "SLOT-6")
async def test_there_is_one_run_for_each_slot_with_a_job_however_often_it_was_tried(viewed: Store) -> None:
    schedule, other = await plan(viewed, max_instances=99), await plan(viewed, "other")
    ids = [await ended(viewed, schedule, at(minute), BROKEN) for minute in (1, 2)]
    ids.append(await ended(viewed, other, at(1), BROKEN))
    assert await viewed.jobs.prune(at(9), 10) == 0, "both are to be tried again"
    node = await enter(viewed, "worker-2", expires_at=after(days=9))
    await viewed.jobs.promote(at(60), 10)
    await settle(viewed, await take(viewed, node, now=at(60)), at=at(61))
    assert await viewed.jobs.prune(at(60.5), 10) == 0
    first = await viewed.jobs.get(ids[0])
    assert first is not None
    current = await viewed.schedules.by_id(schedule.id)
    assert current is not None
    assert await viewed.slots.rerun(current, first, (await viewed.jobs.reserve(1))[0], at(62), by="tests")
    assert await viewed.jobs.prune(at(61.5), 1) == 1
    await put(viewed)
    keys = await query(viewed, "select job_name, scheduled_for, id from job_runs")
    assert sorted(row[2] for row in keys) == sorted(ids)
    assert len({row[:2] for row in keys}) == len(keys)


async def test_slots_without_a_job_are_no_runs(viewed: Store) -> None:
    schedule = await plan(viewed)
    decided = [Decided(at(1), "missed", "misfire", until=at(9), slots=9), Decided(at(10), "skipped", "max_instances")]
    assert await viewed.slots.decide([a_step(schedule, *decided)], at(11), by="tests") == [True]
    assert await runs(viewed) == []


async def test_a_deleted_schedule_keeps_its_runs(viewed: Store) -> None:
    schedule = await plan(viewed)
    await ended(viewed, schedule, at(1), Succeeded())
    current = await find(viewed)
    gone = replace(current, version=current.version + 1, deleted_at=at(2), next_run_at=None)
    assert await viewed.schedules.revise([Revised(gone, current.version, None)], at(2)) == [True]
    assert [row[5] for row in await runs(viewed)] == ["success"]


async def test_making_the_views_again_changes_nothing(viewed: Store) -> None:
    schedule = await plan(viewed)
    await ended(viewed, schedule, at(1), Succeeded())
    once = await runs(viewed)
    for _ in range(2):
        assert await viewed.create_views() == VIEWS
    assert await runs(viewed) == once


@pytest.mark.parametrize(
    ("foreign", "rows"),
    [
        ("table job_runs (id integer)", []),
        ("view job_runs as select 1 as id", [(1,)]),
        ("view job_runs as select id, task from oncue_jobs", []),
        ("view JOB_RUNS as select 1 as id", [(1,)]),
    ],
)
async def test_what_is_not_ours_is_refused_clearly_and_left_alone(
    store: Store, foreign: str, rows: list[tuple[int]]
) -> None:
    await query(store, f"create {foreign}")
    try:
        with pytest.raises(NameClash, match=r"^job_runs: .* not oncue's"):
            await store.create_views()
        assert await query(store, "select * from job_runs") == rows
    finally:
        await query(store, f"drop {foreign.split()[0]} job_runs")
    assert await store.create_views() == VIEWS
    await drop_views(store)


async def test_what_operators_built_on_a_view_outlives_its_renewal(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    await postgres_store.create_views()
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute("create view late_runs as select * from job_runs where status = 'skipped_timeout'")
        await connection.execute("grant select on job_runs to pg_monitor")
        assert await postgres_store.create_views() == VIEWS
        assert await connection.fetchval("select has_table_privilege('pg_monitor', 'job_runs', 'select')")
        assert await connection.fetch("select * from late_runs") == []
    finally:
        await connection.execute("drop view if exists late_runs")
        await connection.close()
        await drop_views(postgres_store)


# Half of the runs are in the ledger, the jobs of the others are still there, among as many plain jobs.
RUNS_EACH, SCHEDULES = 20_000, 100
FILL = f"""
insert into oncue_schedules (name, description, task, args, queue, priority, expression, tz, dst, missed, grace,
                             max_instances, enabled, options, max_retries, revision, started_at, version, cursor,
                             created_by, created_at, updated_at)
select 'job-' || n, '', 'send', '{{}}', 'default', 0, '* * * * *', 'UTC', 'debian', 'latest', @grace, 1, @true, '', 3,
       1, @start, 1, @start, 'tests', @start, @start
  from @numbers({SCHEDULES});
insert into oncue_slots (schedule_id, scheduled_for, verdict, job_id, revision, decided_at, outcome, started_at,
                         finished_at)
select 1 + n % {SCHEDULES}, made, 'fired', n, 1, made, case when n % 1000 = 0 then 'failed' else 'succeeded' end, made,
       made
  from (select n, @start + n * @minute as made from @numbers({RUNS_EACH})) as old;
insert into oncue_slots (schedule_id, scheduled_for, verdict, job_id, revision, decided_at)
select 1 + n % {SCHEDULES}, @start + ({RUNS_EACH} + n) * @minute, 'fired', {RUNS_EACH} + n, 1,
       @start + ({RUNS_EACH} + n) * @minute
  from @numbers({RUNS_EACH});
insert into oncue_jobs (id, task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at,
                        visible_at, max_retries, attempt, schedule_id, scheduled_for, started_at, finished_at)
select {RUNS_EACH} + n, 'send', 'default', 0,
       case when n % 1000 = 0 then 'failed' when n % 1000 = 1 then 'cancelled' when n % 1000 = 2 then 'running'
            else 'succeeded' end,
       '{{}}', '', 'tests', made, made, made, made, 0, 1, 1 + n % {SCHEDULES}, made, made,
       case when n % 1000 <> 2 then made end
  from (select n, @start + ({RUNS_EACH} + n) * @minute as made from @numbers({RUNS_EACH})) as recent;
insert into oncue_jobs (id, task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at,
                        visible_at, max_retries, attempt, started_at, finished_at)
select 1000000 + n, 'send', 'default', 0, case when n % 2 = 0 then 'failed' else 'succeeded' end, '{{}}', '', 'tests',
       made, made, made, made, 0, 1, made, made
  from (select n, @start + n * @minute as made from @numbers(@plain)) as plain;
"""
WALKED = {"oncue_jobs", "oncue_slots"}
BEGINNING = datetime(2029, 1, 1, tzinfo=UTC)
LATE = BEGINNING + timedelta(minutes=2 * RUNS_EACH - 10)
BOTH_HALVES = {
    "status = 'skipped_timeout'": ("oncue_slots_status", "oncue_jobs_run_status"),
    "status = 'failed'": ("oncue_slots_status", "oncue_jobs_run_status"),
    "status = 'running'": ("oncue_slots_status", "oncue_jobs_run_status"),
    f"started_at > '{LATE:%Y-%m-%d %H:%M}'": ("oncue_slots_started", "oncue_jobs_run_started"),
}


def filling(**words: str) -> str:
    """The statements of `FILL` in the words of a dialect."""
    text = re.sub(r"@numbers\(([^)]*)\)", words["numbers"], FILL)
    for word in ("grace", "true", "start", "minute", "plain"):
        text = text.replace(f"@{word}", words[word])
    return text


@pytest.mark.contract("SLOT-6")
async def test_runs_are_found_through_an_index_on_postgresql(postgres_store: PostgresStore, postgres_url: str) -> None:
    await postgres_store.create_views()
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(
            filling(
                numbers=r"generate_series(1, \1) as n", grace="interval '5 minutes'", true="true",
                start="timestamptz '2029-01-01 00:00+00'", minute="interval '1 minute'", plain="20000",
            )
        )  # fmt: skip
        await connection.execute("analyze; set timezone = 'UTC'")
        for where, indexes in BOTH_HALVES.items():
            explain = f"explain (format json) select * from job_runs where {where}"
            parts = list(nodes(json.loads(await connection.fetchval(explain))[0]["Plan"]))
            used = {part.get("Index Name") for part in parts}
            assert used >= set(indexes), (where, used)
            scans = [part for part in parts if part["Node Type"] == "Seq Scan" and part["Relation Name"] in WALKED]
            assert scans == [], where
        (found,) = await connection.fetch("select count(*) from job_runs where status = 'failed'")
        assert found[0] == 60
    finally:
        await connection.close()
        await drop_views(postgres_store)


@pytest.mark.contract("SLOT-6")
@pytest.mark.parametrize("analysed", [False, True])
async def test_runs_are_found_through_an_index_on_sqlite(sqlite_store: SqliteStore, analysed: bool) -> None:
    await sqlite_store.create_views()
    recursion = r"select 1 union all select n + 1 from series where n < \1"
    series = f"(with recursive series (n) as ({recursion}) select n from series)"

    def plans(connection: sqlite3.Connection) -> dict[str, list[str]]:
        statements = filling(
            numbers=series, grace="300000000", true="1", start=f"{int(BEGINNING.timestamp())}000000",
            minute="60000000", plain="20000",
        )  # fmt: skip
        for statement in statements.split(";\n"):
            connection.execute(statement)
        if analysed:
            connection.execute("analyze")
        assert connection.execute("select count(*) from job_runs where status = 'failed'").fetchone() == (60,)
        return {
            where: [row[3] for row in connection.execute(f"explain query plan select * from job_runs where {where}")]
            for where in BOTH_HALVES
        }

    for where, steps in (await sqlite_store.database.write(plans)).items():
        assert [step for step in steps if re.match(r"SCAN [sj]\b", step)] == [], where
        for index in BOTH_HALVES[where]:
            assert any(step.startswith("SEARCH") and index in step for step in steps), (where, steps)
