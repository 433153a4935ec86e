"""Cluster jobs as a measured child: `part URL SAMPLES LISTEN` is a node that times the start of its parts.

The process that measures is the other node: it leads, and creates cluster jobs one after the other. LISTEN is `yes`, or
`no` for a node that hears no notifications and finds its parts by polling.
"""

from __future__ import annotations

import asyncio
import time

from bench import child, timing
from bench.bare_pickup import PAUSE
from bench.crew import Child
from oncue import Oncue
from oncue.cli.process import collect_rarely, switch_threads_often
from oncue.settings import Settings

MUTED_PAUSE = 0.137
"""Between two jobs whose parts are found by polling: not in step with the polls."""
LOOK = 0.05

stopwatch: child.Stopwatch | None = None


def make_app(url: str, name: str, *, listen: bool = True) -> Oncue:
    app = Oncue(settings=Settings(database_url=url, node_name=name, pg_listen=listen))

    @app.cluster_task
    async def touch(sent: int) -> None:
        if stopwatch is not None:
            stopwatch.stamp(sent)

    return app


def delays(dsn: str, samples: int, *, listen: bool) -> dict[str, float]:
    """Milliseconds from just before the leader creates a cluster job to the first line of its part on another node:
    their median, and their 99th percentile."""
    return timing.run(_delays(dsn, samples, listen))


async def _delays(dsn: str, samples: int, listen: bool) -> dict[str, float]:
    switch_threads_often()
    app = make_app(dsn, "leader")
    store = app.internals.make_store()
    await store.migrate()
    await store.close()
    async with app.worker() as leader:
        collect_rarely()
        while leader.leadership.epoch is None:  # noqa: ASYNC110 (an election sets no event)
            await asyncio.sleep(LOOK)
        node = Child("bench.oncue_cluster", "part", dsn, samples, "yes" if listen else "no")
        try:
            await asyncio.to_thread(node.wait_ready)
            await _create(app, samples, PAUSE if listen else MUTED_PAUSE)
            return await asyncio.to_thread(node.result)
        finally:
            node.stop()


async def _create(app: Oncue, samples: int, pause: float) -> None:
    """Create cluster jobs, each once the last one is over."""
    touch = app.find("touch")
    while sum(node.named for node in await app.nodes.list()) < 2:  # noqa: ASYNC110 (nor does a name)
        await asyncio.sleep(LOOK)
    for _ in range(samples):
        receipt = await touch.aenqueue(time.monotonic_ns())
        await asyncio.sleep(PAUSE)  # a look at once would compete with the claims that are measured
        while not (await app.jobs.get(receipt.id)).finished:  # noqa: ASYNC110 (nor does its end)
            await asyncio.sleep(PAUSE)
        await asyncio.sleep(pause)


async def part(url: str, samples: int, *, listen: bool) -> None:
    global stopwatch
    switch_threads_often()
    finished = asyncio.Event()
    stopwatch = child.Stopwatch(samples, finished.set)
    async with make_app(url, "other", listen=listen).worker():
        collect_rarely()
        child.announce()
        await finished.wait()
    child.answer(p50=stopwatch.p50(), p99=stopwatch.p99())


if __name__ == "__main__":
    child.dispatch(
        {"part": lambda url, samples, listen: timing.run(part(url, int(samples), listen=listen == "yes"))},
    )
