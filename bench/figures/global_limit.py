"""global_limit: four nodes share a queue of which at most K jobs run at once, everywhere together.

With handlers of 10 ms the limit itself allows K / 10 ms jobs a second: how much of that is reached, and how many ran at
once at the most, with all nodes alive and with nodes killed on the way.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import asyncpg

from bench import timing
from bench.crew import Child
from bench.figures.context import Bench
from bench.oncue_limited import EVENT, HANDLER_SECONDS, QUEUE, make_app
from bench.settings import SCRATCH
from bench.verdict import Figure, at_least, limited

K = 50
SHARED_SECONDS = 30.0
SHARED = "select coalesce(sum(seats), 0) from oncue_seats where seats >= $1"
LEFT = f"""
select exists (select from oncue_jobs where state = 'queued' and queue = '{QUEUE}')
    or exists (select from oncue_jobs where state in ('running', 'scheduled', 'retrying') and queue = '{QUEUE}')
"""


@dataclass
class Crew:
    """The nodes at work, and where each of them writes what it does."""

    dsn: str
    folder: Path
    nodes: list[Child] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    """When the nodes that were killed were certainly gone."""

    def start(self) -> None:
        self.nodes.append(Child("bench.oncue_limited", "work", self.dsn, self._trace(len(self.nodes))))

    def kill(self, place: int) -> None:
        self.nodes[place].stop()
        self.ends[self._trace(place).name] = time.monotonic_ns()

    def _trace(self, number: int) -> Path:
        return self.folder / f"{number}.trace"

    def finish(self) -> None:
        for number, node in enumerate(self.nodes):
            if self._trace(number).name not in self.ends:
                node.go()
                node.result()

    def events(self) -> list[tuple[int, int]]:
        """Every begin (1) and end (-1) of a handler, in order. What a killed node was doing ended when it was gone."""
        found: list[tuple[int, int]] = []
        for path in self.folder.glob("*.trace"):
            whole = path.read_bytes()
            events = list(EVENT.iter_unpack(whole[: len(whole) // EVENT.size * EVENT.size]))
            open_at_the_end = sum(step for _, step in events)
            found += events + [(self.ends[path.name], -1)] * open_at_the_end if path.name in self.ends else events
        return sorted(found)


def measure(bench: Bench) -> list[Figure]:
    jobs, nodes, kills = bench.settings.limited_jobs, bench.settings.limited_nodes, bench.settings.kills
    peaks: list[int] = []

    def healthy(dsn: str) -> float:
        rate, peak = timing.run(_run(dsn, jobs, nodes, _until_done))
        peaks.append(peak)
        return rate

    def killed(dsn: str) -> float:
        _, peak = timing.run(_run(dsn, jobs, nodes, partial(_killing, kills=kills)))
        return float(peak)

    rate = bench.medians({"healthy": bench.on_postgres(healthy)})["healthy"]
    worst = bench.on_postgres(killed)()
    return [
        at_least("global_limit", rate, K / HANDLER_SECONDS, 0.84),
        limited("global_limit, most at once", max(peaks), K, "jobs"),
        limited("global_limit, most at once, nodes killed", worst, K, "jobs"),
    ]


def bare(bench: Bench) -> list[Figure]:
    return []


async def _run(
    dsn: str, jobs: int, nodes: int, act: Callable[[Crew, asyncpg.Connection], Awaitable[None]]
) -> tuple[float, int]:
    await _prepare(dsn, jobs)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="limit-", dir=SCRATCH) as folder:
        crew = Crew(dsn, Path(folder))
        connection = await asyncpg.connect(dsn)
        try:
            for _ in range(nodes):
                crew.start()
            for node in crew.nodes:
                node.wait_ready()
            await _shared(connection, nodes)
            await _resume(dsn)
            await act(crew, connection)
            crew.finish()
            done = await connection.fetchval("select count(*) from oncue_jobs where state = 'succeeded'")
            assert done == jobs, f"{done} of {jobs} jobs succeeded"
        finally:
            await connection.close()
            for node in crew.nodes:
                node.stop()
        return _account(crew.events(), jobs)


async def _prepare(dsn: str, jobs: int) -> None:
    app = make_app(dsn)
    store = app.internals.make_store()
    await store.migrate()
    await store.close()
    await app.queues.limit(QUEUE, globally=K)
    await app.queues.pause(QUEUE)
    await app.find("short").aenqueue_many([()] * jobs)
    await app.aclose()


async def _resume(dsn: str) -> None:
    app = make_app(dsn)
    await app.queues.resume(QUEUE)
    await app.aclose()


async def _shared(connection: asyncpg.Connection, nodes: int) -> None:
    """Wait until the nodes have shared the seats among themselves: start-up is not what is measured."""
    async with asyncio.timeout(SHARED_SECONDS):
        while await connection.fetchval(SHARED, K // nodes) < K:  # noqa: ASYNC110 (the nodes are other processes)
            await asyncio.sleep(0.05)


async def _until_done(crew: Crew, connection: asyncpg.Connection) -> None:
    while await connection.fetchval(LEFT):  # noqa: ASYNC110 (the nodes are other processes)
        await asyncio.sleep(0.05)


async def _killing(crew: Crew, connection: asyncpg.Connection, kills: int) -> None:
    """Kill one node after the other, as a supervisor would start others."""
    for place in range(kills):
        await asyncio.sleep(0.6)
        crew.kill(place)
        crew.start()
        await asyncio.to_thread(crew.nodes[-1].wait_ready)
    await _until_done(crew, connection)


def _account(events: list[tuple[int, int]], jobs: int) -> tuple[float, int]:
    """Jobs a second from the first start to the last end, and how many ran at once at the most."""
    running = most = 0
    for _, step in events:
        running += step
        most = max(most, running)
    return jobs / ((events[-1][0] - events[0][0]) / 1e9), most
