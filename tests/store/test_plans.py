"""The hot statements read what they need through an index and nothing else, however many finished jobs are kept.

PostgreSQL plans are checked with statistics and without, as custom and as generic plans, at three batch sizes:
a good plan that flips at the thousandth row is a bad plan.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from oncue.store import PostgresStore, SqliteStore
from oncue.store import statements as sql_files
from tests.store.scene import NOW, OPTIONS, a_batch, a_node, after, before, enter, put, settle, take

BATCHES = (100, 500, 1000)
NODE = UUID(int=7)

# 200,000 jobs: seven in ten finished, and some in every other state, spread over three queues and ten priorities.
FILL = f"""
insert into oncue_jobs (task, queue, priority, state, args, options, key, enqueued_by, created_at, updated_at,
                        order_at, visible_at, max_retries, crashes, node_id, claimed_at, run_until, finished_at)
select 'send', (array['default', 'mail', 'web'])[1 + n % 3], n % 10 * 10, state, '{{}}',
       '{OPTIONS}', case when n % 5 = 0 then n::text end, 'tests', made, made, made,
       case when state in ('scheduled', 'retrying') then made + interval '40 days' else made end,
       3, case when state = 'queued' and n % 500 = 3 then 1 else 0 end,
       case when state = 'running' then '{NODE}'::uuid end, made, case when state = 'running' then made end,
       case when state in ('succeeded', 'failed', 'cancelled', 'skipped') then made end
  from (select n, timestamptz '2029-12-01' + n * interval '1 second' as made,
               case when n % 100 < 60 then 'succeeded' when n % 100 < 65 then 'failed'
                    when n % 100 < 70 then 'skipped' when n % 100 < 72 then 'running'
                    when n % 100 < 77 then 'scheduled' when n % 100 < 80 then 'retrying' else 'queued' end as state
          from generate_series(1, 200000) as n) as numbered
"""

# A quarter of that, and hardly anything waits.
MOSTLY_FINISHED = FILL.replace("200000", "50000").replace(
    "else 'queued'", "when n % 10000 < 9999 then 'succeeded' else 'queued'"
)


def asked(batch: int) -> dict[str, tuple[str, list[Any]]]:
    """Each hot statement, the index that it must use, and what it is asked for in a batch of this size."""
    ids = list(range(1, batch + 1))
    texts, fences, instants = ["x"] * batch, [1] * batch, [NOW] * batch
    queues, tasks = ["default", "mail"], ["send", "fetch"]
    states = ["running"] * batch
    change = [ids, states, fences, ["succeeded"] * batch, texts, texts, instants, fences, fences, fences]
    return {
        "claim": ("oncue_jobs_claimable", [NODE, queues, tasks, batch, NOW, True]),
        "promote": ("oncue_jobs_later", [NOW, batch]),
        "next_due": ("oncue_jobs_later", []),
        "apply": ("oncue_jobs_pkey", [NOW, *change, instants, instants, ["{}"] * batch, texts]),
        "mark_started": ("oncue_jobs_pkey or oncue_jobs_running", [ids, fences, instants]),
        "running": ("oncue_jobs_pkey or oncue_jobs_running", [ids]),
        "held": ("oncue_jobs_running", [NODE]),
        "stranded": ("oncue_jobs_running", [NOW, batch]),
        "overdue": ("oncue_jobs_running", [NOW, batch]),
        "forget_nodes": ("oncue_jobs_running", [NOW]),
        "prune": ("oncue_jobs_finished", ["failed", NOW, batch]),
        "lanes": ("oncue_jobs_claimable", []),
        "age": ("oncue_jobs_claimable", [1, "mail", 50, NOW, 10, NOW, batch]),
        "touch": ("oncue_jobs_pkey", [ids, NOW, "send"]),
        "apply_plain": ("oncue_jobs_pkey", [NOW, ids, fences, instants, instants]),
        "standing": ("oncue_jobs_key", ["send", [str(number) for number in ids]]),
    }


def literal(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return "'" + json.dumps([str(item) for item in value]).replace("[", "{").replace("]", "}") + "'"
    return "'" + (value.isoformat() if isinstance(value, datetime) else str(value)) + "'"


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


async def explained(
    connection: asyncpg.Connection, name: str, arguments: list[Any], options: str = ""
) -> dict[str, Any]:
    body = sql_files.load("postgres")[name].rstrip(";")
    await connection.execute(f"prepare asked as {body}")
    values = f"({', '.join(map(literal, arguments))})" if arguments else ""
    try:
        text = await connection.fetchval(f"explain ({options} format json) execute asked{values}")
    finally:
        await connection.execute("deallocate asked")
    plan: dict[str, Any] = json.loads(text)[0]["Plan"]
    return plan


def trouble(plan: dict[str, Any], index: str) -> str | None:
    parts = list(nodes(plan))
    if any(part["Node Type"].endswith("Seq Scan") and part["Relation Name"] == "oncue_jobs" for part in parts):
        return "scans the jobs table"
    if not any(part.get("Index Name") in index.split(" or ") for part in parts):
        return f"does not use {index} but {[part.get('Index Name') for part in parts if 'Index Name' in part]}"
    return None


@pytest.mark.parametrize("analysed", [False, True])
async def test_hot_statements_keep_their_plans_on_postgresql(postgres_url: str, analysed: bool) -> None:
    connection = await asyncpg.connect(postgres_url)
    found = []
    try:
        await connection.execute(FILL)
        if analysed:
            await connection.execute("analyze")
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"set plan_cache_mode = {mode}")
            for batch in BATCHES:
                for name, (index, arguments) in asked(batch).items():
                    if wrong := trouble(await explained(connection, name, arguments), index):
                        found.append(f"{name} at {batch} with {mode} {wrong}")
    finally:
        await connection.close()
    assert not found, "\n".join(found)


async def test_counting_what_waits_reads_no_finished_jobs(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    found = []
    try:
        await connection.execute(MOSTLY_FINISHED)
        await connection.execute("analyze")
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"set plan_cache_mode = {mode}")
            for name in ("depth", "live_counts"):
                found.append(trouble(await explained(connection, name, [100_000]), "oncue_jobs_claimable"))
    finally:
        await connection.close()
    assert found == [None] * 4


class Anything(defaultdict[str, Any]):
    """Parameters for a statement that is only explained."""

    def __missing__(self, key: str) -> Any:
        return None


SQLITE_INDEXES = {
    "best": "oncue_jobs_claimable",
    "suspect": "oncue_jobs_suspects",
    "promote": "oncue_jobs_later",
    "next_due": "oncue_jobs_later",
    "held": "oncue_jobs_running",
    "stranded": "oncue_jobs_running",
    "overdue": "oncue_jobs_running",
    "prune": "oncue_jobs_finished",
    "forget_nodes": "oncue_jobs_running",
    "lanes": "oncue_jobs_claimable",
    "age": "oncue_jobs_claimable",
    "standing": "oncue_jobs_key",
}
# A listing goes from the newest job down and ends at its limit.
LISTINGS = {"jobs"}


@pytest.mark.parametrize("analysed", [False, True])
async def test_no_statement_scans_the_jobs_table_on_sqlite(sqlite_store: SqliteStore, analysed: bool) -> None:
    node = await enter(sqlite_store)
    await put(sqlite_store, 3000)
    await settle(sqlite_store, await take(sqlite_store, node, 2000))
    await take(sqlite_store, node, 100)
    await put(sqlite_store, 100, state="scheduled", visible_at=after(days=1))

    def plans(connection: sqlite3.Connection) -> dict[str, list[str]]:
        if analysed:
            connection.execute("analyze")
        return {
            name: [row[3] for row in connection.execute(f"explain query plan {body}", Anything())]
            for name, body in sql_files.load("sqlite").items()
        }

    found = await sqlite_store._writer.write(plans)
    scans = {
        name: step
        for name, steps in found.items()
        for step in steps
        if name not in LISTINGS and re.match(r"SCAN (oncue_jobs|j|same|next)( USING AUTOMATIC .*)?$", step)
    }
    assert scans == {}
    missed = {name: found[name] for name, index in SQLITE_INDEXES.items() if index not in " ".join(found[name])}
    assert missed == {}


async def pages(connection: asyncpg.Connection) -> int:
    """How many pages a claim of 100 touches to find its jobs."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        arguments = [NODE, ["default"], ["send"], 100, NOW, False]
        plan = await explained(connection, "claim", arguments, "analyze, buffers,")
    finally:
        await transaction.rollback()
    (search,) = (part for part in nodes(plan) if part.get("Index Name") == "oncue_jobs_claimable")
    assert search["Actual Rows"] == 100, "it reads more than it takes"
    return int(search["Shared Hit Blocks"] + search["Shared Read Blocks"])


async def test_a_claim_touches_no_more_pages_when_finished_jobs_are_kept(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    await postgres_store.register(replace(a_node(), id=NODE))
    connection = await asyncpg.connect(postgres_url)
    try:
        await postgres_store.enqueue([a_batch(200, created_at=before(days=1))])
        alone = await pages(connection)
        await connection.execute(MOSTLY_FINISHED.replace("else 'queued'", "else 'succeeded'"))
        await connection.execute("vacuum analyze oncue_jobs")
        crowded = await pages(connection)
    finally:
        await connection.close()
    assert crowded <= alone + 5


@pytest.mark.parametrize("queued", [1, 100, 150])
async def test_statistics_from_before_a_burst_do_not_make_a_claim_read_all_of_it(
    postgres_store: PostgresStore, postgres_url: str, queued: int
) -> None:
    await postgres_store.register(replace(a_node(), id=NODE))
    connection = await asyncpg.connect(postgres_url)
    try:
        await postgres_store.enqueue([a_batch(queued, created_at=before(days=1))])
        await connection.execute(MOSTLY_FINISHED.replace("else 'queued'", "else 'succeeded'"))
        await connection.execute("analyze")
        await postgres_store.enqueue([a_batch(3000, created_at=before(days=1))])
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"set plan_cache_mode = {mode}")
            assert await pages(connection) < 50
    finally:
        await connection.close()
