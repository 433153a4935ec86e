"""Procrastinate: psycopg pool, uvloop, LISTEN/NOTIFY, a concurrency well above its default of one."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
import logging
import time

import uvloop
from procrastinate import App, PsycopgConnector

from bench import child

CONCURRENCY = 20
PAUSE = 0.02


def application(dsn: str) -> App:
    return App(connector=PsycopgConnector(conninfo=dsn, min_size=4, max_size=CONCURRENCY + 2))


async def fill_queue(dsn: str, jobs: int) -> None:
    app = application(dsn)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        deferrer = app.configure_task("noop")
        for start in range(0, jobs, 1_000):
            await deferrer.batch_defer_async(*({} for _ in range(min(1_000, jobs - start))))


async def drain_queue(dsn: str, jobs: int) -> None:
    app, finished = application(dsn), asyncio.Event()
    meter = child.Meter(jobs, finished.set)

    @app.task(name="noop")
    async def noop() -> None:
        meter.count()

    await work_until(app, finished)
    child.answer(rate=meter.rate())


async def measure_pickup(dsn: str, samples: int) -> None:
    app, finished = application(dsn), asyncio.Event()
    stopwatch = child.Stopwatch(samples, finished.set)

    @app.task(name="stamp")
    async def stamp(sent: int) -> None:
        stopwatch.stamp(sent)

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
    asyncio.get_running_loop().call_later(1, child.announce)
    await work_until(app, finished)
    child.answer(p50=stopwatch.p50())


async def work_until(app: App, finished: asyncio.Event) -> None:
    async with app.open_async():
        worker = asyncio.create_task(app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False))
        await finished.wait()
        worker.cancel()
        await asyncio.wait([worker])


async def feed_slowly(dsn: str, samples: int) -> None:
    app = application(dsn)
    async with app.open_async():
        deferrer = app.configure_task("stamp")
        for _ in range(samples):
            await asyncio.sleep(PAUSE)
            await deferrer.defer_async(sent=time.monotonic_ns())


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
