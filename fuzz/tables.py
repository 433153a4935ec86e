"""A fingerprint of every table: whoever was refused must not have changed one."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from contextlib import closing

import asyncpg

NOT_COMPARED = {"oncue_clock"}
"""It keeps the latest instant that anybody has seen."""
CLOCK = "last_used_at"
"""When a token was last used: written for one that is valid, whatever it is refused for."""


async def fingerprints(url: str) -> dict[str, str]:
    """Of each table, and of the numbers that were handed out."""
    found = _of_sqlite(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else await _of_postgres(url)
    assert len(found) > 10, "these are not all tables"
    return found


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    names = sorted({*before, *after})
    return [
        f"{name}: {before.get(name)} became {after.get(name)}" for name in names if before.get(name) != after.get(name)
    ]


def _of_sqlite(path: str) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        found = {}
        for (name,) in tables:
            columns = [row[1] for row in connection.execute(f"pragma table_info({name})") if row[1] != CLOCK]
            found[name] = _digest(map(repr, connection.execute(f"select {', '.join(columns)} from {name}")))
        return {name: digest for name, digest in found.items() if name not in NOT_COMPARED}


async def _of_postgres(url: str) -> dict[str, str]:
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("select tablename from pg_tables where schemaname = 'public'")
        found = {}
        for (name,) in tables:
            rows = await connection.fetch(f"select (to_jsonb(t) - '{CLOCK}')::text from {name} t")
            found[name] = _digest(row[0] for row in rows)
        numbers = await connection.fetch("select sequencename::text, last_value from pg_sequences")
        return {**found, **{name: f"{last} handed out" for name, last in numbers}}
    finally:
        await connection.close()


def _digest(rows: Iterable[str]) -> str:
    ordered = sorted(rows)
    digest = hashlib.sha256("\n".join(ordered).encode()).hexdigest()
    return f"{len(ordered)} rows {digest[:16]}"
