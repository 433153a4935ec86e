"""The bare drain loop: claim 500, run 500 empty coroutines, settle 500; history kept.

Two connections: the next batch is claimed while the last one is run and settled.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import Sequence

import asyncpg

from bench import bare_table, child, crew, timing
from bench.bare_table import BATCH, CLAIM, QUEUE, SETTLE


def drain(dsn: str, jobs: int, processes: int = 1) -> float:
    """Jobs per second of as many loops as there are processes."""
    bare_table.create(dsn)
    bare_table.fill(dsn, jobs)
    answers = crew.race(crew.Child("bench.bare_postgres", dsn) for _ in range(processes))
    done = sum(answer["jobs"] for answer in answers)
    if done != jobs:
        raise crew.ChildFailed(f"the bare loop settled {done} of {jobs} jobs")
    return crew.rate(answers)


async def noop() -> None:
    """The job."""


async def execute_all(batch: Sequence[asyncpg.Record]) -> None:
    for _ in batch:
        await noop()


class Loop:
    def __init__(self, claimer: asyncpg.Connection, settler: asyncpg.Connection) -> None:
        self.claimer, self.settler = claimer, settler
        self.node = uuid.uuid4()
        self.settled = 0

    async def warm_up(self) -> None:
        """Parse and plan on jobs that do not exist, so that no measured statement is a first one."""
        await self.claimer.fetch(CLAIM, self.node, "no such queue", 0)
        await self.settler.execute(SETTLE, [], [])

    async def claim(self) -> Sequence[asyncpg.Record]:
        return await self.claimer.fetch(CLAIM, self.node, QUEUE, BATCH)

    async def settle(self, batch: Sequence[asyncpg.Record]) -> None:
        ids, claims = [row["id"] for row in batch], [row["claim_no"] for row in batch]
        status = await self.settler.execute(SETTLE, ids, claims)
        self.settled += int(status.split()[-1])

    async def run(self) -> None:
        batch = await self.claim()
        while batch:
            following = asyncio.create_task(self.claim())
            await execute_all(batch)
            await self.settle(batch)
            batch = await following


async def work(dsn: str) -> None:
    loop = Loop(await asyncpg.connect(dsn), await asyncpg.connect(dsn))
    await loop.warm_up()
    child.announce_and_wait()
    started = time.monotonic_ns()
    await loop.run()
    child.answer(jobs=loop.settled, started=started, ended=time.monotonic_ns())


if __name__ == "__main__":
    timing.run(work(sys.argv[1]))
