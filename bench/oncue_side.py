"""The oncue side of every figure. Each function gets an empty database (or path) and returns one number.

Whatever is timed runs as a user would run it: tasks declared on an app, jobs enqueued by its API, worker
processes started as children (`bench.crew.Child` and `race`), and only the settings that the guide names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn


class NotReady(NotImplementedError):
    """This part of oncue is not wired to the benchmarks yet."""


@dataclass(frozen=True)
class Statement:
    """One SQL statement with its parameters, ready for EXPLAIN."""

    sql: str
    args: Sequence[object] = ()


def drain_pg(dsn: str, jobs: int, processes: int) -> float:
    """Jobs per second: migrate, enqueue `jobs` calls of an empty `async def`, `bench.database.calm(dsn)`, start
    `processes` workers, and time from the first claim to the last settled job, start-up excluded."""
    not_ready("drain_pg")


def enqueue_one(dsn: str, jobs: int) -> float:
    """Jobs per second when each `await task.aenqueue(...)` is awaited before the next, on one connection."""
    not_ready("enqueue_one")


def enqueue_bulk(dsn: str, jobs: int) -> float:
    """Jobs per second of one bulk enqueue of `jobs` calls; making the list of calls is not timed."""
    not_ready("enqueue_bulk")


def pickup_p50(dsn: str, samples: int) -> float:
    """Median milliseconds from just before `aenqueue` to the first line of the task, with the worker in another
    process and a pause of `bench.bare_pickup.PAUSE` between jobs; stamps are `time.monotonic_ns()`."""
    not_ready("pickup_p50")


def drain_sqlite(path: Path, jobs: int) -> float:
    """Jobs per second of one worker process on a SQLite file with synchronous=FULL; `path` does not exist yet."""
    not_ready("drain_sqlite")


def fill_for_claims(dsn: str, queued: int, finished: int) -> None:
    """Migrate, then put so many finished and queued jobs into the tables (by SQL, for speed), and
    `bench.database.calm(dsn)`."""
    not_ready("claim_scaling")


def claim_statements(dsn: str, seats: int) -> list[Statement]:
    """Every statement that one claim of `seats` jobs sends, in order, exactly as the store sends it."""
    not_ready("claim_scaling")


def memory_growth_mb(dsn: str, jobs: int) -> float:
    """Megabytes by which a worker's resident memory (`bench.child.rss_mb`) grows from its 10,000th job, when all
    caches are warm, to its last."""
    not_ready("memory")


def not_ready(figure: str) -> NoReturn:
    raise NotReady(f"oncue is not wired to {figure} yet: fill in bench/oncue_side.py")
