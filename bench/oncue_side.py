"""The oncue side of every figure. Each function gets an empty database (or path) and returns one number.

Whatever is timed runs as a user would run it: tasks declared on an app, jobs enqueued by its API, worker processes
started as children, and the settings that oncue has by default.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg

from bench import database, pages, timing
from bench.bare_pickup import PAUSE
from bench.crew import Child, race, rate
from bench.oncue_worker import QUEUE, make_app
from oncue import Oncue
from oncue.model import Node
from oncue.store import PostgresStore

NODE = uuid.UUID(int=1)
FAR = datetime(2200, 1, 1, tzinfo=UTC)
WARM = 10_000


class NotReady(NotImplementedError):
    """This part of oncue is not wired to the benchmarks."""


def drain_pg(dsn: str, jobs: int, processes: int) -> float:
    """Jobs per second from the starting shot to the last settled job; workers are up and idle before it."""
    timing.run(_prepare_drain(dsn, jobs))
    database.calm(dsn)
    return rate(race(draining(dsn) for _ in range(processes)), jobs)


def drain_sqlite(path: Path, jobs: int) -> float:
    """The same on a SQLite file; oncue always runs it with synchronous=FULL."""
    url = f"sqlite:///{path}"
    timing.run(_prepare_drain(url, jobs))
    return rate(race([draining(url)]), jobs)


def enqueue_one(dsn: str, jobs: int) -> float:
    """Jobs per second when each `await task.aenqueue()` is awaited before the next."""

    async def measure() -> float:
        app = await migrated(dsn)
        noop = app.find("noop")
        await noop.aenqueue()
        started = time.perf_counter()
        for _ in range(jobs):
            await noop.aenqueue()
        elapsed = time.perf_counter() - started
        await app.aclose()
        return jobs / elapsed

    return timing.run(measure())


def enqueue_bulk(dsn: str, jobs: int) -> float:
    """Jobs per second of one bulk enqueue."""

    async def measure() -> float:
        app = await migrated(dsn)
        rows: list[Any] = [()] * jobs
        await app.internals.connected()
        started = time.perf_counter()
        await app.find("noop").aenqueue_many(rows)
        elapsed = time.perf_counter() - started
        await app.aclose()
        return jobs / elapsed

    return timing.run(measure())


def pickup_p50(dsn: str, samples: int) -> float:
    """Median milliseconds from just before `aenqueue` to the first line of the task, in another process."""
    timing.run(_prepare_drain(dsn, 0))
    worker = Child("bench.oncue_worker", "pickup", dsn, samples)
    try:
        worker.wait_ready()
        timing.run(_feed(dsn, samples))
        return float(worker.result()["p50"])
    finally:
        worker.stop()


def fill_for_claims(dsn: str, queued: int, finished: int) -> None:
    """Put so many finished and queued jobs into the tables, by SQL, for speed."""

    async def fill() -> None:
        app = await migrated(dsn)
        await app.aclose()
        connection = await asyncpg.connect(dsn, command_timeout=None)
        await connection.execute(_FILL, "succeeded", finished)
        await connection.execute(_FILL, "queued", queued)
        await connection.close()

    timing.run(fill())
    database.calm(dsn)


def claim_pages(dsn: str, seats: int, claims: int) -> list[int]:
    """Pages that each of some claims touches, by the verbs that a worker uses and in their order."""

    async def measure() -> list[int]:
        store, now, found = PostgresStore(dsn), datetime.now(UTC) + timedelta(hours=1), []
        tally = pages.counted(store)
        await store.nodes.register(node(now))
        for _ in range(claims):
            before = tally.pages
            await store.jobs.promote(now, 1000)
            claimed = await store.jobs.claim(NODE, [QUEUE], ["noop"], seats, now)
            assert len(claimed) == seats, f"claimed {len(claimed)} of {seats}"
            found.append(tally.pages - before)
        await store.close()
        return found

    return timing.run(measure())


def node(now: datetime) -> Node:
    return Node(
        id=NODE, name="bench", host="bench", pid=1, boot_id="", version="", queues=(QUEUE,), tasks=("noop",),
        concurrency=100, address=None, started_at=now, beat_at=now, expires_at=FAR,
    )  # fmt: skip


def memory_growth_mb(dsn: str, jobs: int) -> float:
    """Megabytes by which a worker grows from its 10,000th job to its last; of a tiny run, from the middle one."""
    timing.run(_prepare_drain(dsn, jobs))
    database.calm(dsn)
    [answer] = race([draining(dsn, min(WARM, jobs // 2))])
    return float(answer["last_mb"] - answer["warm_mb"])


def draining(url: str, warm: int = WARM) -> Child:
    return Child("bench.oncue_worker", "drain", url, warm)


async def migrated(url: str) -> Oncue:
    app = make_app(url)
    store = app.internals.make_store()
    if store.dialect == "postgres":
        await store.migrate()
        await store.close()
    return app


async def _prepare_drain(url: str, jobs: int) -> None:
    """A paused queue full of jobs: workers start, find nothing to do, and wait for it to be resumed."""
    app = await migrated(url)
    if jobs:
        await app.queues.pause(QUEUE)
    for start in range(0, jobs, 100_000):
        await app.find("noop").aenqueue_many([()] * min(100_000, jobs - start))
    await app.aclose()


async def _feed(dsn: str, samples: int) -> None:
    app = make_app(dsn)
    stamp = app.find("stamp")
    await app.internals.connected()
    for _ in range(samples):
        await asyncio.sleep(PAUSE)
        await stamp.aenqueue(time.monotonic_ns())
    await app.aclose()


_FILL = """
insert into oncue_jobs (task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at,
                        visible_at, max_retries, max_runtime, claim_no, attempt, finished_at)
select 'noop', 'default', 0, $1, '{}', '{}', 'bench', at, at, at, at, 3, interval '1 hour',
       case when $1 = 'queued' then 0 else 1 end, case when $1 = 'queued' then 0 else 1 end,
       case when $1 = 'queued' then null else at end
  from (select timestamptz '2026-01-01' + n * interval '1 millisecond' as at from generate_series(1, $2::int) as n) as t
"""
