"""PgQueuer: asyncpg pool, uvloop, large batches. Its status writes are buffered to the batch size."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
import logging
import time

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench import child

BATCH = 500
PAUSE = 0.02


async def connect(dsn: str) -> PgQueuer:
    pool = await asyncpg.create_pool(dsn, min_size=4, max_size=4)
    return PgQueuer.from_asyncpg_pool(pool)


async def install(dsn: str) -> Queries:
    queries = Queries.from_asyncpg_connection(await asyncpg.connect(dsn))
    await queries.install()
    return queries


async def fill_queue(dsn: str, jobs: int) -> None:
    queries = await install(dsn)
    for start in range(0, jobs, 10_000):
        number = min(10_000, jobs - start)
        await queries.enqueue(["noop"] * number, [b"{}"] * number, [0] * number)


async def drain_queue(dsn: str, jobs: int) -> None:
    queuer = await connect(dsn)
    meter = child.Meter(jobs, queuer.shutdown.set)

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:
        meter.count()

    await queuer.run(batch_size=BATCH)
    child.answer(rate=meter.rate())


async def measure_pickup(dsn: str, samples: int) -> None:
    await install(dsn)
    queuer = await connect(dsn)
    stopwatch = child.Stopwatch(samples, queuer.shutdown.set)

    @queuer.entrypoint("stamp")
    async def stamp(job: Job) -> None:
        stopwatch.stamp(int(job.payload or 0))

    asyncio.get_running_loop().call_later(1, child.announce)
    await queuer.run(batch_size=10)
    child.answer(p50=stopwatch.p50())


async def feed_slowly(dsn: str, samples: int) -> None:
    queries = Queries.from_asyncpg_connection(await asyncpg.connect(dsn))
    for _ in range(samples):
        await asyncio.sleep(PAUSE)
        await queries.enqueue("stamp", str(time.monotonic_ns()).encode())


def fill(dsn: str, jobs: str) -> None:
    uvloop.run(fill_queue(dsn, int(jobs)))


def drain(dsn: str, jobs: str) -> None:
    uvloop.run(drain_queue(dsn, int(jobs)))


def pickup(dsn: str, samples: str) -> None:
    uvloop.run(measure_pickup(dsn, int(samples)))


def feed(dsn: str, samples: str) -> None:
    uvloop.run(feed_slowly(dsn, int(samples)))


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    child.dispatch({"fill": fill, "drain": drain, "pickup": pickup, "feed": feed})
