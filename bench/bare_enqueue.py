"""Bare ways to enqueue: an awaited insert per job, and one COPY."""

from __future__ import annotations

import time
import uuid

import asyncpg

from bench import bare_table, timing
from bench.bare_table import COLUMNS, INSERT, QUEUE

Row = tuple[uuid.UUID, str, str, str]


def one_by_one(dsn: str, jobs: int) -> float:
    """Inserts per second, one after the other, each committed."""
    bare_table.create(dsn)
    return timing.run(_one_by_one(dsn, jobs))


def copy(dsn: str, jobs: int) -> float:
    """Rows per second of a single COPY."""
    bare_table.create(dsn)
    return timing.run(_copy(dsn, jobs))


def rows(number: int) -> list[Row]:
    return [(uuid.uuid4(), "noop", QUEUE, "{}") for _ in range(number)]


async def _one_by_one(dsn: str, jobs: int) -> float:
    connection = await asyncpg.connect(dsn)
    insert = await connection.prepare(INSERT)
    todo = rows(jobs)
    started = time.monotonic()
    for row in todo:
        await insert.fetchval(*row)
    elapsed = time.monotonic() - started
    await connection.close()
    return jobs / elapsed


async def _copy(dsn: str, jobs: int) -> float:
    connection = await asyncpg.connect(dsn)
    todo = rows(jobs)
    started = time.monotonic()
    await connection.copy_records_to_table("jobs", records=todo, columns=COLUMNS)
    elapsed = time.monotonic() - started
    await connection.close()
    return jobs / elapsed
