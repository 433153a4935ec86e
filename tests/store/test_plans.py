"""The hot statements read what they need through an index and nothing else, however many finished jobs are kept.

PostgreSQL plans are checked with statistics and without, as custom and as generic plans, at several batch sizes:
a good plan that flips at the thousandth row is a bad plan. What a minute's upkeep reads is held to the same.
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

from oncue.model import PARKED
from oncue.store import PostgresStore, SqliteStore
from oncue.store import statements as sql_files
from oncue.store.shared import BEGINNING
from tests.store.scene import NOW, OPTIONS, a_batch, a_node, after, before, enter, put, settle, take

BATCHES = (1, 100, 500, 1000)
NODE = UUID(int=7)
WINDOW = 99_999
LARGE = {"oncue_jobs", "oncue_schedules", "oncue_slots", "oncue_subjects"}

# 200,000 jobs: seven in ten finished, and some in every other state, spread over three queues and ten priorities.
FILL = f"""
insert into oncue_jobs (task, queue, priority, state, args, options, key, enqueued_by, created_at, updated_at,
                        order_at, visible_at, deadline_at, start_by, max_retries, isolation, node_id, claimed_at,
                        run_until, finished_at)
select 'send', (array['default', 'mail', 'web'])[1 + n % 3], n % 10 * 10, state, '{{}}',
       '{OPTIONS}', case when n % 5 = 0 then n::text end, 'tests', made, made, made,
       case when state in ('scheduled', 'retrying') then made + interval '40 days' else made end,
       case when n % 4 = 0 then made + interval '60 days' end, case when n % 6 = 1 then made + interval '60 days' end,
       3, case when state = 'queued' and n % 500 = 3 then 1 when state = 'queued' and n % 500 = 7 then 2 else 0 end,
       case when state = 'running' then '{NODE}'::uuid end, made, case when state = 'running' then made end,
       case when state in ('succeeded', 'failed', 'cancelled', 'skipped') then made end
  from (select n, timestamptz '2029-12-01' + n * interval '1 second' as made,
               case when n % 100 < 60 then 'succeeded' when n % 100 < 65 then 'failed'
                    when n % 100 < 70 then 'skipped' when n % 100 < 72 then 'running'
                    when n % 100 < 77 then 'scheduled' when n % 100 < 80 then 'retrying' else 'queued' end as state
          from generate_series(1, 200000) as n) as numbered
"""

# 45,000 schedules with a few slots each, one with 20,000 slots and as many parked jobs, and jobs for all of them.
FILL_LEDGER = f"""
insert into oncue_schedules (name, description, task, args, queue, priority, expression, tz, dst, missed, grace,
                             max_instances, enabled, options, max_retries, max_runtime, revision, started_at, version,
                             cursor, next_run_at, created_by, created_at, updated_at)
select 'job-' || n, '', 'send', '{{}}', 'default', 0, '* * * * *', 'UTC', 'debian', 'latest', '5 minutes', 1,
       n % 50 > 0, '{OPTIONS}', 3, '10 minutes', 1, made, 1, made,
       case when n % 50 > 0 then made + n % 600 * interval '1 hour' end,
       'tests', made, made
  from (select n, timestamptz '2029-12-20' as made from generate_series(1, 45000) as n) as numbered;

insert into oncue_jobs (id, task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at,
                        visible_at, max_retries, finished_at, schedule_id, scheduled_for)
select 1000000 + n, 'send', 'default', 0, state, '{{}}', '{OPTIONS}', 'tests', made, made, made,
       case when state = 'scheduled' then timestamptz '9999-01-01 00:00:00+00' else made end, 3,
       case when state = 'succeeded' then made end, schedule_id, made
  from (select n, timestamptz '2029-12-20' + n * interval '1 second' as made,
               case when n > 40000 then 7 else 1 + n % 30000 end as schedule_id,
               case when n > 40000 then 'scheduled' when n % 10 = 0 then 'queued' else 'succeeded' end as state
          from generate_series(1, 60000) as n) as numbered;

insert into oncue_slots (schedule_id, scheduled_for, until, verdict, job_id, revision, decided_at, outcome, started_at)
select schedule_id, scheduled_for, null, 'fired', id, 1, created_at, null, null from oncue_jobs
 where schedule_id is not null
union all
select 1 + n % 30000, made, case when n % 9 = 0 then made + interval '1 hour' end, 'fired',
       case when n % 3 = 0 then null else n end, 1, made, case when n % 3 > 0 then 'succeeded' end, made
  from (select n, timestamptz '2029-11-01' + n * interval '1 second' as made from generate_series(1, 60000) as n) as old
"""

# A quarter of that, and hardly anything waits.
MOSTLY_FINISHED = FILL.replace("200000", "50000").replace(
    "else 'queued'", "when n % 10000 < 9999 then 'succeeded' else 'queued'"
)


def asked(batch: int) -> dict[str, tuple[str, list[Any]]]:
    """Each hot statement, the index that it must use, and what it is asked for in a batch of this size."""
    ids = list(range(1, batch + 1))
    texts, fences, instants, seconds = ["x"] * batch, [1] * batch, [NOW] * batch, [NOW.timestamp()] * batch
    queues, tasks = ["default", "mail"], ["send", "fetch"]
    states = ["running"] * batch
    documents, guards = ["{}"] * batch, [[str(NODE)] * batch, fences, [True] * batch]
    change = [ids, states, fences, ["succeeded"] * batch, texts, texts, instants, fences, fences, fences]
    change += [instants, instants, documents, texts, fences, documents, [None] * batch, *guards]
    change += [fences, [NOW.date()] * batch, instants, instants, fences, None]
    alike = [told[0] if isinstance(told, list) else told for told in change]
    alike[0], alike[2], alike[20] = change[0], change[2], change[20]  # ids, fences and versions
    return {
        "claim": (
            "oncue_jobs_claimable and oncue_jobs_addressed",
            [NODE, queues, tasks, batch, NOW, [None] * len(queues), 1],
        ),
        "claim_apart": (
            "oncue_jobs_claimable and oncue_jobs_addressed",
            [NODE, queues, tasks, batch, NOW, [None] * len(queues), 1, 8, NOW],
        ),
        "promote": ("oncue_jobs_later", [NOW, batch]),
        "next_due": ("oncue_jobs_later", []),
        "apply": ("oncue_jobs_pkey", [NOW, *change]),
        "apply_alike": ("oncue_jobs_pkey", [NOW, *alike]),
        "apply_free": ("oncue_jobs_pkey", [NOW, *change]),
        "report_details": ("oncue_jobs_pkey or oncue_jobs_running", [ids, fences, documents]),
        "report_details_free": ("oncue_jobs_pkey or oncue_jobs_running", [ids, fences, documents]),
        "mark_started": ("oncue_jobs_pkey or oncue_jobs_running", [ids, fences, instants]),
        "mark_started_free": ("oncue_jobs_pkey or oncue_jobs_running", [ids, fences, instants]),
        "begin": ("oncue_jobs_pkey or oncue_jobs_running", [ids, fences, instants]),
        "running": ("oncue_jobs_pkey or oncue_jobs_running", [ids]),
        "held": ("oncue_jobs_running", [NODE]),
        "node_work": ("oncue_jobs_running", [[NODE], batch]),
        "orphaned": ("oncue_jobs_running", [NOW, batch]),
        "overdue": ("oncue_jobs_running", [NOW, batch]),
        "expired": ("oncue_jobs_deadline and oncue_jobs_start_by and oncue_jobs_pkey", [NOW, batch]),
        "expired_among": ("oncue_jobs_pkey", [NOW, batch, ids]),
        "forget_nodes": ("oncue_jobs_running", [NOW]),
        "prune": (
            "oncue_jobs_finished and oncue_jobs_pkey and oncue_slots_live",
            [NOW, None, None, None, None, NOW, batch],
        ),
        "levels": ("oncue_jobs_claimable and oncue_jobs_set_apart", []),
        "age": ("oncue_jobs_claimable and oncue_jobs_set_apart", [1, "mail", 50, NOW, 10, NOW, batch]),
        "touch": ("oncue_jobs_pkey", [ids, NOW, "send"]),
        "apply_plain": ("oncue_jobs_pkey", [NOW, ids, fences, seconds, seconds]),
        "standing": ("oncue_jobs_key", ["send", [str(number) for number in ids]]),
        "re_emit": ("oncue_jobs_pkey", [ids]),
        "orphans": ("oncue_jobs_grouped", [NOW, 0, batch, "mail"]),
    }


def asked_of_the_ledger(batch: int) -> dict[str, tuple[str, list[Any]]]:
    """The same for schedules, slots and leases."""
    ids = list(range(1, batch + 1))
    jobs, ones, texts = [1_000_000 + number for number in ids], [1] * batch, ["x"] * batch
    instants, nothing = [NOW] * batch, [None] * batch
    decided = [ids, instants, ["fired"] * batch, texts, jobs, nothing, nothing, ones]
    return {
        "due": ("oncue_schedules_due and oncue_jobs_schedule and oncue_slots_pkey", [NOW, batch, PARKED, *BEGINNING]),
        "next_run": ("oncue_schedules_due", []),
        "decide_plain": ("oncue_schedules_pkey", [NOW, NODE, 1, ids, ones, instants, instants, jobs, "x"]),
        "decide": (
            "oncue_schedules_pkey",
            [NOW, NODE, 1, ids, ones, instants, instants, [True] * batch, "x", *decided, "queued", NOW],
        ),
        "decide_free": (
            "oncue_schedules_pkey",
            [NOW, NODE, 1, ids, ones, instants, instants, [True] * batch, "x", *decided, "queued", NOW],
        ),
        "schedule": ("oncue_schedules_name_key", ["job-7"]),
        "unfinished": ("oncue_jobs_schedule", [7, PARKED, batch]),
        "with_room": ("oncue_jobs_parked and oncue_schedules_pkey and oncue_jobs_schedule", [batch]),
        "release_parked": (
            "oncue_jobs_pkey and oncue_jobs_parked and oncue_jobs_schedule and oncue_schedules_pkey",
            [NOW, ids, ones, batch],
        ),
        "slots": ("oncue_slots_pkey and oncue_slots_ranges", [7, before(minutes=batch), NOW, 100_000]),
        "latest_slots": ("oncue_slots_pkey and oncue_jobs_pkey", [7, batch, NOW]),
        "coming": ("oncue_schedules_due", [*BEGINNING, batch]),
        "prune_slots": ("oncue_slots_old and oncue_schedules_pkey", [before(days=400), batch]),
        "repeat": ("oncue_jobs_pkey", [NOW, None, None, None, None, None, 1, "failed", 1, 2, 7, 1, "x"]),
        "retries_of": ("oncue_jobs_retry_of and oncue_jobs_pkey", [7]),
        "change_webhook": (
            "oncue_schedules_group and oncue_schedules_pkey",
            [
                NOW,
                *[None] * 5,
                "orders",
                1,
                "",
                "",
                "",
                "{}",
                "",
                None,
                30,
                "[]",
                "",
                0,
                None,
                None,
                True,
                None,
                None,
                "x",
                NOW,
                NOW,
                None,
                False,
                "{}",
                3,
            ],
        ),
        "acquire": ("", ["leader", NODE, "x", NOW, NOW, "exclusive"]),
        "renew": ("", ["leader", NODE, 1, NOW, NOW, "exclusive"]),
    }


# A window with 100,000 subjects, of which a thousand are due every minute; one in ten is removed.
FILL_SUBJECTS = f"""
insert into oncue_schedules (id, name, description, task, args, queue, priority, expression, tz, dst, missed, grace,
                             max_instances, enabled, options, max_retries, revision, started_at, version, cursor,
                             created_by, created_at, updated_at)
values ({WINDOW}, 'digest', '', 'send', '{{}}', 'windows', 0, '@window 1h retry 10m', 'UTC', 'debian', 'latest',
        '5 minutes', 1, true, '{OPTIONS}', 3, 1, '2029-12-20', 1, '2029-12-20', 'tests', '2029-12-20', '2029-12-20');
insert into oncue_subjects (schedule_id, name, due, weekdays, days_off, args, version, since, day, opens_at, cutoff_at,
                            next_at, job_id, created_at, updated_at, removed_at)
select {WINDOW}, 'user' || n, n % 1440, 127, '[]', '{{}}', 1, made, '2030-01-01', made, made + interval '1 hour',
       case when n % 10 > 0 then made end, n, made, made, case when n % 10 = 0 then made end
  from (select n, timestamptz '2030-01-01' + n % 1440 * interval '1 minute' as made
          from generate_series(1, 100000) as n) as numbered;
insert into oncue_slots (schedule_id, subject, scheduled_for, verdict, job_id, revision, decided_at, outcome)
select {WINDOW}, 'user' || n % 1000, timestamptz '2029-11-01' + n / 1000 * interval '1 day', 'fired', n, 1,
       '2029-12-01', 'succeeded'
  from generate_series(1, 50000) as n
"""


def asked_of_windows(batch: int) -> dict[str, tuple[str, list[Any]]]:
    """The same for subjects and their days."""
    ids, names = list(range(1, batch + 1)), [f"user{number}" for number in range(1, batch + 1)]
    instant, day = NOW.isoformat(), NOW.date().isoformat()
    row = {"schedule_id": WINDOW, "day": day, "opens_at": instant, "cutoff_at": instant, "next_at": instant}
    given = [{**row, "ordinal": number, "name": name, "version": 1} for number, name in enumerate(names, 1)]
    decided = [{"ordinal": number, "scheduled_for": instant, "verdict": "fired", "slots": 1} for number in ids]
    tallies = [{"ordinal": number, "day": day, "bucket": 1, "event": "opened"} for number in ids]
    nothing: list[list[str]] = [[]] * 5
    return {
        "windows": ("oncue_schedules_windows", []),
        "subjects": ("oncue_subjects_pkey", [WINDOW, names]),
        "subjects_page": ("oncue_subjects_pkey", [WINDOW, "user7", batch]),
        "due_subjects": ("oncue_subjects_due", [WINDOW, NOW, batch, before(days=1), "user7"]),
        "next_subject": ("oncue_schedules_windows and oncue_subjects_due", []),
        "unfinished_jobs": ("oncue_jobs_pkey", [ids]),
        "put_subjects": ("oncue_subjects_pkey", [NOW, json.dumps(given), *nothing, ids]),
        "advance": (
            "oncue_subjects_pkey",
            [NOW, NODE, 1, *map(json.dumps, (given, decided, [], tallies)), *nothing],
        ),
        "undecided": ("oncue_jobs_addressed", [NOW, False, batch, 7]),
        "subject_slots": ("oncue_slots_pkey", [WINDOW, "user7", before(days=30), NOW, batch]),
        "prune_days": ("oncue_slots_old_days and oncue_subjects_removed", [before(days=30), batch, day]),
    }


def literal(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        items = [json.dumps(str(item)) if item is not None else "null" for item in value]
        return "'{" + ", ".join(items) + "}'"
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


def scanned(part: dict[str, Any]) -> str | None:
    """The large table that a part of a plan reads from end to end, if it does."""
    if part["Node Type"].endswith("Seq Scan") and part["Relation Name"] in LARGE:
        return str(part["Relation Name"])
    whole = part["Node Type"] in ("Index Scan", "Index Only Scan") and "Index Cond" not in part
    return str(part["Index Name"]) if whole and part["Index Name"].endswith(("_pkey", "_key")) else None


def trouble(plan: dict[str, Any], indexes: str) -> str | None:
    parts = list(nodes(plan))
    if scans := list(filter(None, map(scanned, parts))):
        return f"scans {scans}"
    used = {part["Index Name"] for part in parts if "Index Name" in part}
    for index in filter(None, indexes.split(" and ")):
        if used.isdisjoint(index.split(" or ")):
            return f"does not use {index} but {sorted(used)}"
    return None


async def test_hot_statements_keep_their_plans_on_postgresql(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    found = []
    try:
        await connection.execute(FILL)
        await connection.execute(FILL_LEDGER)
        await connection.execute(FILL_SUBJECTS)
        for about in ("with no statistics", "analysed"):
            if about == "analysed":
                await connection.execute("analyze")
            for mode in ("force_custom_plan", "force_generic_plan"):
                await connection.execute(f"set plan_cache_mode = {mode}")
                for batch in BATCHES:
                    asked_for = asked(batch) | asked_of_the_ledger(batch) | asked_of_windows(batch)
                    for name, (index, arguments) in asked_for.items():
                        if wrong := trouble(await explained(connection, name, arguments), index):
                            found.append(f"{name} at {batch} with {mode}, {about}: {wrong}")
    finally:
        await connection.close()
    assert not found, "\n".join(found)


# 100,000 jobs of one group, and no other.
ONE_GROUP = f"""
insert into oncue_jobs (task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at,
                        visible_at, max_retries, group_name)
select 'send', 'mail', 0, 'queued', '{{}}', '{OPTIONS}', 'tests', made, made, made, made, 3, 'big'
  from (select timestamptz '2029-12-01' + n * interval '1 second' as made
          from generate_series(1, 100000) as n) as numbered;
insert into oncue_groups (queue, name, ready_at, version)
values ('mail', 'big', null, 1), ('mail', 'small', '2029-12-01', 1);
"""


async def test_a_table_that_is_one_group_is_not_read_for_the_jobs_of_another(postgres_url: str) -> None:
    """The planner took every job for one of the group that it was asked for, and the first ones for the nearest."""
    connection = await asyncpg.connect(postgres_url)
    asked = {
        "claim_grouped": [NODE, ["mail", "web"], ["send"], 10, NOW, [None, None], 0, None],
        "ages": [NOW, 20],
        "groups": ["mail", 100, None],
        "group": ["mail", "small"],
        "count_ahead_in_group": ["mail", 0, NOW, 7, 10_000, "small"],
        "orphans": [NOW, 0, 100, "mail"],
    }
    found = []
    try:
        await connection.execute(ONE_GROUP)
        await connection.execute(FILL_LEDGER.partition(";")[0])
        await connection.execute("analyze")
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"set plan_cache_mode = {mode}")
            for name, arguments in asked.items():
                if wrong := trouble(await explained(connection, name, arguments), "oncue_jobs_grouped"):
                    found.append(f"{name} with {mode}: {wrong}")
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
            found.append(trouble(await explained(connection, "live_counts", [100_000]), "oncue_jobs_claimable"))
    finally:
        await connection.close()
    assert found == [None] * 2


FILL_AUDIT = """
insert into oncue_audit (at, actor, action, subject)
select now(), 'actor ' || n % 2000, 'test', 'job:' || n from generate_series(1, 20000) as n
"""


async def test_the_audit_log_of_a_subject_or_an_actor_is_read_by_its_index(postgres_url: str) -> None:
    asked = {"audit_log_by": (["actor 7", None, 100], "oncue_audit_actor"),
             "audit_log_of": (["job:7", None, None, 100], "oncue_audit_subject")}  # fmt: skip
    connection, found = await asyncpg.connect(postgres_url), []
    try:
        await connection.execute(FILL_AUDIT)
        await connection.execute("analyze oncue_audit")
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"set plan_cache_mode = {mode}")
            for name, (arguments, index) in asked.items():
                found += [name] if index not in json.dumps(await explained(connection, name, arguments)) else []
    finally:
        await connection.close()
    assert found == []


class Anything(defaultdict[str, Any]):
    """Parameters for a statement that is only explained."""

    def __missing__(self, key: str) -> Any:
        return None


SQLITE_INDEXES = {
    "best": "oncue_jobs_claimable",
    "addressed": "oncue_jobs_addressed",
    "few": "oncue_jobs_restricted",
    "alone": "oncue_jobs_restricted",
    "promote": "oncue_jobs_later",
    "next_due": "oncue_jobs_later",
    "held": "oncue_jobs_running",
    "node_work": "oncue_jobs_running",
    "orphaned": "oncue_jobs_running",
    "overdue": "oncue_jobs_running",
    "expired": "oncue_jobs_deadline",
    "expired_among": "INTEGER PRIMARY KEY",
    "pick_old": "oncue_jobs_finished",
    "forget_nodes": "oncue_jobs_running",
    "levels": "oncue_jobs_claimable",
    "age": "oncue_jobs_claimable",
    "standing": "oncue_jobs_key",
    "due": "oncue_schedules_due",
    "next_run": "oncue_schedules_due",
    "unfinished": "oncue_jobs_schedule",
    "with_room": "oncue_jobs_parked",
    "release_parked": "oncue_jobs_parked",
    "keep_outcomes": "oncue_slots_live",
    "old_slots": "oncue_slots_old",
    "retries_of": "oncue_jobs_retry_of",
    "slots": "oncue_slots_ranges",
    "coming": "oncue_schedules_due",
    "latest_slots": "(schedule_id=? AND subject=? AND scheduled_for<?)",
    "latest_slots_of": "(schedule_id=? AND subject=? AND scheduled_for>?)",
    "wake_released": "oncue_jobs_schedule",
    "retell_schedules": "oncue_schedules_group",
    "orphans": "oncue_jobs_grouped",
    "orphans_of_group": "oncue_jobs_grouped",
    "held_back": "oncue_groups_held_back",
    "forget_tripped": "oncue_groups_held_back",
    "due_subjects": "oncue_subjects_due",
    "next_subject": "oncue_subjects_due",
    "subjects": "(schedule_id=? AND name=?)",
    "move_subjects": "(schedule_id=? AND name=?)",
    "finalize": "(schedule_id=? AND name=?)",
    "tally_finalized": "(schedule_id=? AND name=?)",
    "unfinished_jobs": "(rowid=?)",
    "prune_days": "oncue_slots_old_days",
    "audit_log_by": "oncue_audit_actor",
    "audit_log_of": "oncue_audit_subject",
}
# A listing goes from one end and stops at its limit; what an application declared is read when it starts; an audit
# reads all jobs that are kept.
LISTINGS = {"jobs", "jobs_with_key", "jobs_by_rows", "schedules", "declared", "doubled"}

FILL_SQLITE = f"""
with recursive numbered (n) as (select 1 union all select n + 1 from numbered where n < 20000)
insert into oncue_schedules (name, description, task, args, queue, priority, expression, tz, dst, missed, grace,
                             max_instances, enabled, options, max_retries, revision, started_at, version, cursor,
                             next_run_at, created_by, created_at, updated_at)
select 'job-' || n, '', 'send', '{{}}', 'default', 0, '* * * * *', 'UTC', 'debian', 'latest', 300000000, 1, 1,
       '{OPTIONS}', 3, 1, 1, 1, 1, case when n % 50 > 0 then n end, 'tests', 1, 1
  from numbered;

insert into oncue_slots (schedule_id, scheduled_for, until, verdict, job_id, revision, decided_at, outcome, started_at)
select id, 1000 + id, case when id % 9 = 0 then 2000 + id end, 'fired', case when id % 3 > 0 then id end, 1, 1,
       case when id % 3 = 1 then 'succeeded' end, case when id % 3 = 1 then id end
  from oncue_schedules;
"""
SCAN = re.compile(
    r"SCAN (oncue_jobs|oncue_schedules|oncue_slots|oncue_subjects|j|s|t|same|next)"
    r"( USING (AUTOMATIC|.*autoindex) .*)?$"
)


@pytest.mark.parametrize("analysed", [False, True])
async def test_no_statement_scans_a_large_table_on_sqlite(sqlite_store: SqliteStore, analysed: bool) -> None:
    node = await enter(sqlite_store)
    await put(sqlite_store, 3000)
    await settle(sqlite_store, await take(sqlite_store, node, 2000))
    await take(sqlite_store, node, 100)
    await put(sqlite_store, 100, state="scheduled", visible_at=after(days=1))

    def plans(connection: sqlite3.Connection) -> dict[str, list[str]]:
        for statement in FILL_SQLITE.split(";\n"):
            connection.execute(statement)
        if analysed:
            connection.execute("analyze")
        return {
            name: [row[3] for row in connection.execute(f"explain query plan {body}", Anything())]
            for name, body in sql_files.load("sqlite").items()
            if name != "load_changes"  # its values have no names, and it reads nothing
        }

    found = await sqlite_store.database.write(plans)
    scans = {name: step for name, steps in found.items() for step in steps if name not in LISTINGS and SCAN.match(step)}
    assert scans == {}
    missed = {name: found[name] for name, index in SQLITE_INDEXES.items() if index not in " ".join(found[name])}
    assert missed == {}


@pytest.mark.parametrize("statement", ["take", "apply", "apply_plain", "enqueue", "promote"])
async def test_no_condition_of_an_index_builds_a_table_for_each_row(sqlite_store: SqliteStore, statement: str) -> None:
    """One is for what the statement is about, one for the states that there are."""

    def steps(connection: sqlite3.Connection) -> list[str]:
        body = sql_files.load("sqlite")[statement]
        return [row[1] for row in connection.execute(f"explain {body}", Anything())]

    assert (await sqlite_store.database.write(steps)).count("OpenEphemeral") <= 2


async def test_plans_from_when_no_group_was_there_do_not_read_all_of_many(postgres_url: str) -> None:
    """A worker asks while the tables are empty, and PostgreSQL keeps the plans of what it asks often."""
    read = "select sum(seq_tup_read) from pg_stat_user_tables where relname in ('oncue_jobs', 'oncue_groups')"
    store, connection = PostgresStore(postgres_url, size=1), await asyncpg.connect(postgres_url)
    await store.open()
    try:
        await connection.execute("vacuum analyze oncue_jobs, oncue_groups")
        before_it = int(await connection.fetchval(read))
        await store.nodes.register(replace(a_node(), id=NODE))
        where = (["mail"], ["send"], 200, NOW)
        for _ in range(8):
            await store.groups.wake(["mail"], 1000, NOW)
            await store.groups.claim(NODE, *where)
        await store.jobs.enqueue([a_batch(queue="mail", group=f"tenant {number}") for number in range(4000)])
        claimed = 0
        while claimed < 4000:
            await store.groups.wake(["mail"], 1000, NOW)
            claimed += len(await store.groups.claim(NODE, *where))
    finally:
        await store.close()  # then the server counts what its session has read
    try:
        assert int(await connection.fetchval(read)) - before_it < 50 * 4000
    finally:
        await connection.close()


async def test_a_window_analysed_while_it_was_empty_is_read_by_its_indexes(postgres_url: str) -> None:
    connection, found = await asyncpg.connect(postgres_url), []
    try:
        await connection.execute("vacuum analyze")
        for filling in (FILL, FILL_LEDGER, FILL_SUBJECTS):
            await connection.execute(filling)
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"set plan_cache_mode = {mode}")
            for batch in BATCHES:
                for name, (index, arguments) in asked_of_windows(batch).items():
                    if wrong := trouble(await explained(connection, name, arguments), index):
                        found.append(f"{name} at {batch} with {mode}: {wrong}")
    finally:
        await connection.close()
    assert not found, "\n".join(found)


async def test_a_claim_is_not_planned_each_time(postgres_url: str) -> None:
    """Planning takes longer than a claim of one job."""
    asked = "select generic_plans from pg_prepared_statements where statement like $1"
    store = PostgresStore(postgres_url, size=1)
    await store.open()
    try:
        await store.nodes.register(replace(a_node(), id=NODE))
        await store.jobs.enqueue([a_batch(5000)])
        async with store.database.use() as connection:
            await connection.execute("analyze")
        for _ in range(8):
            await store.jobs.claim(NODE, ["default", "mail"], ["send"], 1, NOW)
        async with store.database.use() as connection:
            assert [row[0] for row in await connection.fetch(asked, "%skip locked) as common) as best%")] == [3]
    finally:
        await store.close()


async def test_a_claim_s_plan_from_when_nothing_was_there_does_not_last(postgres_url: str) -> None:
    """A worker asks while the table is empty, and PostgreSQL keeps the plan: it reads the table from end to end."""
    read = "select seq_tup_read from pg_stat_user_tables where relname = 'oncue_jobs'"
    store, connection = PostgresStore(postgres_url, size=1), await asyncpg.connect(postgres_url)
    await store.open()
    try:
        await connection.execute("alter table oncue_jobs set (autovacuum_enabled = false)")
        await connection.execute("vacuum analyze oncue_jobs")
        before_it = int(await connection.fetchval(read))
        await store.nodes.register(replace(a_node(), id=NODE))
        for _ in range(8):
            await store.jobs.claim(NODE, ["default"], ["send"], 100, NOW)
        await store.jobs.enqueue([a_batch(5000)])
        while await store.jobs.claim(NODE, ["default"], ["send"], 100, NOW):
            pass
    finally:
        await store.close()  # then the server counts what its session has read
    try:
        assert int(await connection.fetchval(read)) - before_it <= 3 * 5000
    finally:
        await connection.close()


async def pages(connection: asyncpg.Connection) -> int:
    """How many pages a claim of 100 touches to find its jobs, by the statement that touches more."""
    arguments = [NODE, ["default"], ["send"], 100, NOW, [None], None]
    return max([
        await pages_of(connection, "claim", arguments), await pages_of(connection, "claim_apart", [*arguments, 0, NOW])
    ])  # fmt: skip


async def pages_of(connection: asyncpg.Connection, statement: str, arguments: list[Any]) -> int:
    transaction = connection.transaction()
    await transaction.start()
    try:
        plan = await explained(connection, statement, arguments, "analyze, buffers,")
    finally:
        await transaction.rollback()
    (search,) = (part for part in nodes(plan) if part.get("Index Name") == "oncue_jobs_claimable")
    assert search["Actual Rows"] == 100, "it reads more than it takes"
    return int(search["Shared Hit Blocks"] + search["Shared Read Blocks"])


async def test_a_claim_touches_no_more_pages_when_finished_jobs_are_kept(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    await postgres_store.nodes.register(replace(a_node(), id=NODE))
    connection = await asyncpg.connect(postgres_url)
    try:
        await postgres_store.jobs.enqueue([a_batch(200, created_at=before(days=1))])
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
    await postgres_store.nodes.register(replace(a_node(), id=NODE))
    connection = await asyncpg.connect(postgres_url)
    try:
        await postgres_store.jobs.enqueue([a_batch(queued, created_at=before(days=1))])
        await connection.execute(MOSTLY_FINISHED.replace("else 'queued'", "else 'succeeded'"))
        await connection.execute("analyze")
        await postgres_store.jobs.enqueue([a_batch(3000, created_at=before(days=1))])
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"set plan_cache_mode = {mode}")
            assert await pages(connection) < 50
    finally:
        await connection.close()


async def test_an_outage_long_ago_does_not_make_a_look_at_one_slot_read_all_since(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(FILL_LEDGER)
        await connection.execute(
            "insert into oncue_slots (schedule_id, scheduled_for, until, verdict, revision, decided_at) "
            "values (7, '2028-01-01', '2028-02-01', 'missed', 1, '2028-02-01')"
        )
        (slot,) = await connection.fetchrow("select max(scheduled_for) from oncue_slots where schedule_id = 7")
        plan = await explained(connection, "slots", [7, slot, slot, 100], "analyze,")
    finally:
        await connection.close()
    assert plan["Actual Rows"] == 1
    read = [part["Actual Rows"] + part.get("Rows Removed by Filter", 0) for part in nodes(plan)]
    assert max(read) <= 1


async def test_the_latest_slots_are_found_without_a_look_at_the_others(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(FILL_LEDGER)
        await connection.execute("analyze")
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"set plan_cache_mode = {mode}")
            plan = await explained(connection, "latest_slots", [7, 10, NOW], "analyze,")
            read = [part["Actual Rows"] * part["Actual Loops"] for part in nodes(plan)]
            assert (plan["Actual Rows"], max(read)) == (10, 10), mode
    finally:
        await connection.close()


async def test_groups_in_turn_are_read_off_their_index_on_sqlite(sqlite_store: SqliteStore) -> None:
    """A claim holds the file's only lock for writing: it must not sort all groups that are ready."""

    def plan(connection: sqlite3.Connection) -> list[str]:
        asked = dict.fromkeys(re.findall(r":(\w+)", sql_files.load("sqlite")["groups_in_turn"]))
        rows = connection.execute(f"explain query plan {sql_files.load('sqlite')['groups_in_turn']}", asked)
        return [row[3] for row in rows]

    found = await sqlite_store.database.write(plan)
    assert any("USING INDEX oncue_groups_ready (queue=?" in step for step in found), found
    assert not any("TEMP B-TREE" in step for step in found), found
