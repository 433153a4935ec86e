"""Bare batched updates: what any record of days must do at a cutoff, and nothing else.

Read a thousand users that are due, write what their day came to and when they are due next, commit.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path

import asyncpg

from bench import database, timing
from bench.bare_sqlite import connect

BATCH = 1000
TABLE = """
create table users (
    name text primary key, version bigint not null, next_at {instant} not null, cutoff_at {instant} not null,
    last_date date, status text)
"""
INDEX = "create index due on users (next_at, name)"
FILL_POSTGRES = "insert into users select 'user' || n, 1, $2, $2, null, null from generate_series(1, $1::int) as n"
FILL_SQLITE = """
with recursive numbered (n) as (select 1 union all select n + 1 from numbered where n < ?)
insert into users select 'user' || n, 1, 1, 1, null, null from numbered
"""
CUTOFF, TOMORROW = datetime(2026, 1, 1, 9, tzinfo=UTC), datetime(2026, 1, 2, 8, tzinfo=UTC)


def close_postgres(dsn: str, users: int) -> float:
    """Users per second, in batches of a thousand, each committed."""
    database.execute(dsn, TABLE.format(instant="timestamptz") + " with (fillfactor = 80)", INDEX)
    timing.run(_fill(dsn, users))
    database.calm(dsn)
    return timing.run(_close_postgres(dsn, users))


async def _fill(dsn: str, users: int) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(FILL_POSTGRES, users, CUTOFF)
    await connection.close()


async def _close_postgres(dsn: str, users: int) -> float:
    connection = await asyncpg.connect(dsn)
    due = await connection.prepare(
        "select name, version from users where next_at <= $1 order by next_at, name limit $2"
    )
    update = await connection.prepare(
        """update users u set last_date = $3, status = 'cutoff_reached', next_at = $4, version = u.version + 1
             from unnest($1::text[], $2::bigint[]) as d (name, version)
            where u.name = d.name and u.version = d.version"""
    )
    started = time.monotonic()
    while rows := await due.fetch(CUTOFF, BATCH):
        await update.fetch([row[0] for row in rows], [row[1] for row in rows], date(2026, 1, 1), TOMORROW)
    elapsed = time.monotonic() - started
    await connection.close()
    return users / elapsed


def close_sqlite(path: Path, users: int) -> float:
    with closing(connect(path)) as connection:
        connection.execute(TABLE.format(instant="integer"))
        connection.execute(INDEX)
        connection.execute(FILL_SQLITE, (users,))
        connection.execute("pragma wal_checkpoint(truncate)")
        started = time.monotonic()
        while rows := connection.execute(
            "select name, version from users where next_at <= 1 order by next_at, name limit ?", (BATCH,)
        ).fetchall():
            _write(connection, rows)
        return users / (time.monotonic() - started)


def _write(connection: sqlite3.Connection, rows: list[tuple[str, int]]) -> None:
    connection.execute("begin immediate")
    connection.executemany(
        """update users set last_date = '2026-01-01', status = 'cutoff_reached', next_at = 2, version = version + 1
            where name = ? and version = ?""",
        rows,
    )
    connection.execute("commit")
