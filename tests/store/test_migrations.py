"""The tables: made, brought up to date, and refused when they are of another version."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from oncue.errors import SchemaMismatch, StoreUnavailable
from oncue.store import PostgresStore, SqliteStore, Store, connect
from oncue.store import statements as sql_files
from tests.store.scene import NOW, OPTIONS, a_node, at, enter, find, fire, plan, put, see, settle, take, the_slot

MIGRATE = """
import asyncio, sys
from oncue.store import PostgresStore, SqliteStore

async def main(dialect, place):
    store = PostgresStore(place) if dialect == "postgres" else SqliteStore(place, migrate=False)
    try:
        if dialect == "sqlite":
            store.database._writer = await store.database._thread("writer", checkpoints=True)
            store.database._reader = await store.database._thread("reader", checkpoints=False)
        print(len(await store.migrate()))
    finally:
        await store.close()

sys.stdin.read()
asyncio.run(main(*sys.argv[1:]))
"""


def migrate_in_processes(dialect: str, place: str, count: int = 4) -> int:
    """Let several processes migrate at once; how many steps they took together."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATE, dialect, place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    answers = [process.communicate(timeout=60) for process in processes]
    assert [error for _, error in answers] == [""] * count
    return sum(int(told) for told, _ in answers)


async def postgres_schema(url: str) -> list[Any]:
    """Every column, index and constraint."""
    connection = await asyncpg.connect(url)
    try:
        columns = await connection.fetch(
            "select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns"
            " where table_schema = 'public' order by 1, 2"
        )
        indexes = await connection.fetch(
            "select indexname, indexdef from pg_indexes where schemaname = 'public' order by 1"
        )
        rules = await connection.fetch(
            "select conrelid::regclass::text, pg_get_constraintdef(oid) from pg_constraint"
            " where connamespace = 'public'::regnamespace order by 1, 2"
        )
    finally:
        await connection.close()
    return [tuple(row) for rows in (columns, indexes, rules) for row in rows]


def sqlite_schema(path: Path) -> list[Any]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("select type, name, tbl_name, sql from sqlite_schema order by 1, 2").fetchall()
    connection.close()
    return rows


async def opened(store: PostgresStore | SqliteStore) -> None:
    try:
        await store.open()
    finally:
        await store.close()


def test_both_dialects_have_the_same_steps() -> None:
    names = [[step.name for step in sql_files.migrations(dialect)] for dialect in ("postgres", "sqlite")]
    assert names[0] == names[1]
    assert [step.number for step in sql_files.migrations("postgres")] == list(range(1, len(names[0]) + 1))


async def test_postgresql_asks_for_migrate_and_works_after_it(empty_postgres: str) -> None:
    store = PostgresStore(empty_postgres)
    try:
        with pytest.raises(SchemaMismatch, match=r"no oncue tables in its schema 'public': run `oncue migrate`"):
            await store.open()
        assert await store.migrate() == [step.name for step in sql_files.migrations("postgres")]
        await store.open()
        await put(store)
        assert len(await take(store, await enter(store))) == 1
    finally:
        await store.close()


async def test_migrating_twice_does_nothing_the_second_time(empty_postgres: str) -> None:
    store = PostgresStore(empty_postgres)
    try:
        await store.migrate()
        once = await postgres_schema(empty_postgres)
        assert await store.migrate() == []
        assert await postgres_schema(empty_postgres) == once
    finally:
        await store.close()


async def test_a_schema_migrated_step_by_step_equals_a_fresh_one(
    empty_postgres: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = sql_files.migrations("postgres")
    for count in range(1, len(steps) + 1):
        monkeypatch.setattr(sql_files, "migrations", lambda dialect, count=count: steps[:count])
        store = PostgresStore(empty_postgres)
        try:
            assert await store.migrate() == [steps[count - 1].name]
        finally:
            await store.close()
    assert await postgres_schema(empty_postgres) == await postgres_schema(postgres_url)


def test_several_processes_migrate_postgresql_at_once(empty_postgres: str) -> None:
    assert migrate_in_processes("postgres", empty_postgres) == len(sql_files.migrations("postgres"))


async def test_a_failed_step_leaves_nothing_behind(empty_postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = sql_files.migrations("postgres")
    broken = (*steps, sql_files.Migration(len(steps) + 1, "broken", "create table half (id int); select 1 / 0"))
    monkeypatch.setattr(sql_files, "migrations", lambda dialect: broken)
    store = PostgresStore(empty_postgres)
    try:
        with pytest.raises(Exception, match="division by zero"):
            await store.migrate()
        assert await store.version() == 0
    finally:
        await store.close()


async def test_a_newer_postgresql_schema_is_refused(empty_postgres: str) -> None:
    store = PostgresStore(empty_postgres)
    await store.migrate()
    connection = await asyncpg.connect(empty_postgres)
    try:
        await connection.execute("insert into oncue_migrations values (999, 'from the future', now())")
        assert await store.migrate() == []
        with pytest.raises(SchemaMismatch, match=r"schema version 999, newer than .* upgrade oncue"):
            await store.open()
    finally:
        await connection.close()
        await store.close()


async def test_a_database_that_does_not_exist_is_named(postgres_url: str) -> None:
    store = PostgresStore(postgres_url.replace("/oncue_", "/nowhere_"))
    with pytest.raises(StoreUnavailable, match="nowhere_"):
        await opened(store)


async def test_sqlite_migrates_itself_at_open(tmp_path: Path) -> None:
    path = tmp_path / "fresh.db"
    await opened(SqliteStore(str(path)))
    assert {"oncue_jobs", "oncue_nodes"} <= {row[1] for row in sqlite_schema(path)}


async def test_opening_sqlite_twice_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "twice.db"
    await opened(SqliteStore(str(path)))
    once = sqlite_schema(path)
    await opened(SqliteStore(str(path)))
    assert sqlite_schema(path) == once


async def test_a_sqlite_schema_migrated_step_by_step_equals_a_fresh_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, stepped = tmp_path / "fresh.db", tmp_path / "stepped.db"
    await opened(SqliteStore(str(fresh)))
    steps = sql_files.migrations("sqlite")
    for count in range(1, len(steps) + 1):
        monkeypatch.setattr(sql_files, "migrations", lambda dialect, count=count: steps[:count])
        await opened(SqliteStore(str(stepped)))
    assert sqlite_schema(stepped) == sqlite_schema(fresh)


async def test_sqlite_without_leave_to_migrate_asks_for_it(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match=r"no oncue tables: run `oncue migrate`"):
        await opened(SqliteStore(str(tmp_path / "empty.db"), migrate=False))


async def test_a_newer_sqlite_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    connection = sqlite3.connect(path)
    connection.execute("pragma user_version = 999")
    connection.close()
    with pytest.raises(SchemaMismatch, match=r"schema version 999, newer than .* upgrade oncue"):
        await opened(SqliteStore(str(path)))


def test_several_processes_open_a_new_sqlite_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    assert migrate_in_processes("sqlite", str(path)) == len(sql_files.migrations("sqlite"))


async def test_several_stores_open_a_new_sqlite_file_at_once(tmp_path: Path) -> None:
    stores = [SqliteStore(str(tmp_path / "shared.db")) for _ in range(8)]
    try:
        await asyncio.gather(*(store.open() for store in stores))
    finally:
        for store in stores:
            await store.close()


async def test_a_sqlite_file_in_a_folder_that_is_not_there_is_refused_clearly(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no folder"):
        await opened(SqliteStore(str(tmp_path / "missing" / "oncue.db")))


async def test_a_file_that_is_no_database_is_refused_clearly(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Sir or Madam, " * 100)
    store = connect(f"sqlite:///{path}")
    with pytest.raises(Exception, match="not a database"):
        await opened(store)  # type: ignore[arg-type]


# --- from one version to the next ---------------------------------------------------------------------------------

FIRST_NODE = a_node("worker-1")
# What version 1 wrote: a running job with an attempt before it, one that is queued, and one that is done.
AT_VERSION_1 = """
insert into oncue_nodes (id, name, host, pid, boot_id, version, queues, tasks, concurrency, started_at, beat_at,
                         expires_at)
values ('{node}', 'worker-1', 'host-1', 4711, 'boot-1', '0.1', {queues}, {tasks}, 8, {now}, {now}, {later});
insert into oncue_jobs (id, task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at,
                        visible_at, max_retries, claim_no, attempt, node_id, claimed_at, started_at, finished_at)
values (1, 'send', 'default', 0, 'running', '{{"number":1}}', '{options}', 'tests', {now}, {now}, {now}, {now}, 3, 2, 2,
        '{node}', {now}, {now}, null),
       (2, 'send', 'default', 5, 'queued', '{{"number":2}}', '{options}', 'tests', {now}, {now}, {now}, {now}, 3, 0, 0,
        null, null, null, null),
       (3, 'send', 'default', 0, 'succeeded', '{{"number":3}}', '{options}', 'tests', {now}, {now}, {now}, {now}, 3, 1,
        1, '{node}', {now}, {now}, {now});
insert into oncue_attempts (job_id, attempt, claim_no, node_id, started_at, finished_at, outcome)
values (1, 1, 1, '{node}', {now}, {now}, 'failed')
"""


def as_written_by_version_1(dialect: str) -> list[str]:
    if dialect == "postgres":
        values = {"now": f"timestamptz '{NOW.isoformat()}'", "queues": "'{default,mail}'", "tasks": "'{send}'"}
        values["later"] = f"timestamptz '{FIRST_NODE.expires_at.isoformat()}'"
    else:
        values = {
            "now": str(int(NOW.timestamp()) * 1_000_000),
            "queues": """'["default","mail"]'""",
            "tasks": """'["send"]'""",
        }
        values["later"] = str(int(FIRST_NODE.expires_at.timestamp()) * 1_000_000)
    return AT_VERSION_1.format(node=FIRST_NODE.id, options=OPTIONS, **values).split(";\n")


async def check_what_version_1_left(store: Store) -> None:
    """Everything of before is there and goes on, and what is new works beside it."""
    assert await store.nodes.alive() == [FIRST_NODE]
    (held,) = await store.jobs.held(FIRST_NODE.id)
    assert (held.id, held.claim_no) == (1, 2)
    assert [row.outcome for row in await store.jobs.attempts(1)] == ["failed"]
    (claim,) = await take(store, FIRST_NODE.id)
    assert (claim.id, claim.scheduled_for, claim.start_by) == (2, None, None)
    assert await settle(store, [claim, *await store.jobs.running([1])]) == [True, True]
    for number in (1, 2, 3):
        job = await see(store, number)
        assert (job.state, job.args, job.schedule_id, job.scheduled_for) == (
            "succeeded",
            {"number": number},
            None,
            None,
        )

    schedule = await plan(store)
    (job_id,) = await fire(store, schedule, at(1))
    await settle(store, await take(store, FIRST_NODE.id, now=at(1)), at=at(2))
    assert await store.jobs.prune(at(3), 10) == 4
    slot = await the_slot(store, await find(store), at(1))
    assert (slot.job_id, slot.state, slot.worker) == (job_id, "succeeded", "worker-1")
    successor = a_node("worker-1")
    assert await store.nodes.namesakes(successor) == [FIRST_NODE]
    assert await store.nodes.declare_lost(FIRST_NODE.id, at(3))


async def test_a_postgresql_of_version_1_in_use_is_brought_up_to_date(
    empty_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(empty_postgres)
    try:
        with monkeypatch.context() as past:
            steps = sql_files.migrations("postgres")
            past.setattr(sql_files, "migrations", lambda dialect: steps[:1])
            assert await store.migrate() == [steps[0].name]
        connection = await asyncpg.connect(empty_postgres)
        try:
            for statement in as_written_by_version_1("postgres"):
                await connection.execute(statement)
            await connection.execute("select setval('oncue_job_ids', 3)")
        finally:
            await connection.close()
        with pytest.raises(SchemaMismatch, match=r"schema version 1, this oncue needs \d+: run `oncue migrate`"):
            await store.open()
        assert await store.migrate() == [step.name for step in steps[1:]]
        await store.open()
        await check_what_version_1_left(store)
    finally:
        await store.close()


async def test_a_sqlite_file_of_version_1_in_use_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.db"
    with monkeypatch.context() as past:
        steps = sql_files.migrations("sqlite")
        past.setattr(sql_files, "migrations", lambda dialect: steps[:1])
        await opened(SqliteStore(str(path)))
    with sqlite3.connect(path) as connection:
        for statement in as_written_by_version_1("sqlite"):
            connection.execute(statement)
        connection.execute("update oncue_job_ids set last = 3")
    connection.close()
    with pytest.raises(SchemaMismatch, match=r"schema version 1, this oncue needs \d+: run `oncue migrate`"):
        await opened(SqliteStore(str(path), migrate=False))
    store = SqliteStore(str(path))
    try:
        await store.open()
        await check_what_version_1_left(store)
    finally:
        await store.close()


async def test_both_dialects_have_the_same_tables_and_indexes(tmp_path: Path, postgres_url: str) -> None:
    path = tmp_path / "fresh.db"
    await opened(SqliteStore(str(path)))
    only_here = {"oncue_job_ids", "oncue_clock", "oncue_migrations"}  # a sequence, the server's clock, a pragma
    lite = {row[1] for row in sqlite_schema(path) if not row[1].startswith("sqlite_")} - only_here
    rows = await postgres_schema(postgres_url)
    full = {row[0] for row in rows if len(row) == 5} | {row[0] for row in rows if row[1].startswith("CREATE INDEX")}
    full |= {
        row[0] for row in rows if row[1].startswith("CREATE UNIQUE") and not row[0].endswith(("_pkey", "name_key"))
    }
    assert full - only_here == lite
