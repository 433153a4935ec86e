"""An oncue worker as a measured child: `drain URL WARM` empties a paused queue, `pickup URL SAMPLES` times arrivals."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import asyncpg

from bench import child, timing
from oncue import Oncue
from oncue.cli.process import collect_rarely, switch_threads_often

QUEUE = "default"


def make_app(url: str) -> Oncue:
    app = Oncue(url)

    @app.task
    async def noop() -> None: ...

    @app.task
    async def stamp(sent: int) -> None:
        stopwatch.stamp(sent)

    return app


class Account:
    """What was settled, and when the last of it was; told by the worker's own telemetry, once per batch.

    After `warm` jobs all caches are warm: that is where the growth of the process is counted from.
    """

    def __init__(self, warm: int) -> None:
        self.warm = warm
        self.jobs = 0
        self.last = 0
        self.warm_mb = 0.0

    def __call__(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self.jobs += int(measurements["jobs"])
        self.last = time.monotonic_ns()
        if not self.warm_mb and self.jobs >= self.warm:
            self.warm_mb = child.rss_mb()


UNFINISHED = """
select exists (select 1 from oncue_jobs
                where state = 'queued' and isolation = 0 and group_name is null and address is null)
    or exists (select 1 from oncue_jobs where state = 'running')
    or exists (select 1 from oncue_jobs where group_name is not null and {grouped} = 'queued')
"""
GROUPED = {"sqlite": "state", "postgresql": "(state || '')"}
"""In the words of the index of groups."""


@contextlib.asynccontextmanager
async def watch(url: str) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
    """Looks whether anything is left to do, by the three smallest indexes."""
    unfinished = UNFINISHED.format(grouped=GROUPED[url.partition(":")[0]])
    if url.startswith("sqlite:"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:

            async def look() -> bool:
                return bool(file.execute(unfinished).fetchone()[0])

            yield look
    else:
        connection = await asyncpg.connect(url)
        yield lambda: connection.fetchval(unfinished)
        await connection.close()


async def drain(url: str, warm: int) -> None:
    switch_threads_often()  # as `oncue worker` does
    app, account = make_app(url), Account(warm)
    app.internals.telemetry.subscribe(account, "settle")
    await app.internals.connected()
    async with app.worker():
        collect_rarely()  # likewise
        child.announce_and_wait()
        started = time.monotonic_ns()
        await app.queues.resume(QUEUE)
        async with watch(url) as unfinished:
            while await unfinished():  # noqa: ASYNC110 (another process may do the last job)
                await asyncio.sleep(0.02)
        last_mb = child.rss_mb()
    # By now the account has heard of the last batch, too.
    child.answer(jobs=account.jobs, started=started, ended=account.last, warm_mb=account.warm_mb, last_mb=last_mb)
    await app.aclose()


async def pickup(url: str, samples: int) -> None:
    global stopwatch
    switch_threads_often()
    finished = asyncio.Event()
    stopwatch = child.Stopwatch(samples, finished.set)
    async with make_app(url).worker():
        collect_rarely()
        child.announce()
        await finished.wait()
    child.answer(p50=stopwatch.p50())


stopwatch = child.Stopwatch(0, lambda: None)

if __name__ == "__main__":
    child.dispatch(
        {
            "drain": lambda url, warm: timing.run(drain(url, int(warm))),
            "pickup": lambda url, samples: timing.run(pickup(url, int(samples))),
        }
    )
