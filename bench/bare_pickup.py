"""The shortest durable path from enqueue to start: insert and notify, wake, claim; in two processes."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid

import asyncpg

from bench import bare_table, child, crew, timing
from bench.bare_table import BATCH, CLAIM, QUEUE, SETTLE

# One statement is one transaction: the notification leaves with the commit of the row.
INSERT_AND_NOTIFY = """
with job as (insert into jobs (uid, task, queue, args) values ($1, 'noop', $2, $3) returning id)
select pg_notify('jobs', id::text) from job
"""
# Longer than any pickup, so that each job meets an idle system.
PAUSE = 0.02


def p50(dsn: str, samples: int) -> float:
    """Median milliseconds from the call that enqueues to the start of the job."""
    bare_table.create(dsn)
    listener = crew.Child("bench.bare_pickup", dsn, samples)
    try:
        listener.wait_ready()
        timing.run(feed(dsn, samples))
        return float(listener.result()["p50"])
    finally:
        listener.stop()


async def feed(dsn: str, samples: int) -> None:
    connection = await asyncpg.connect(dsn)
    insert = await connection.prepare(INSERT_AND_NOTIFY)
    for _ in range(samples):
        await asyncio.sleep(PAUSE)
        await insert.fetch(uuid.uuid4(), QUEUE, json.dumps({"sent": time.monotonic_ns()}))
    await connection.close()


class Listener:
    def __init__(self, samples: int, claimer: asyncpg.Connection) -> None:
        self.claimer = claimer
        self.node = uuid.uuid4()
        self.woken, self.finished = asyncio.Event(), asyncio.Event()
        self.stopwatch = child.Stopwatch(samples, self.finished.set)

    def wake(self, *_: object) -> None:
        self.woken.set()

    async def run(self) -> None:
        while not self.finished.is_set():
            await self.woken.wait()
            self.woken.clear()
            await self.serve()

    async def serve(self) -> None:
        batch = await self.claimer.fetch(CLAIM, self.node, QUEUE, BATCH)
        for row in batch:
            await self.start(json.loads(row["args"]))
        await self.claimer.execute(SETTLE, [r["id"] for r in batch], [r["claim_no"] for r in batch])

    async def start(self, args: dict[str, int]) -> None:
        self.stopwatch.stamp(args["sent"])


async def listen(dsn: str, samples: int) -> None:
    listening, claimer = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    listener = Listener(samples, claimer)
    await listener.serve()
    await listening.add_listener("jobs", listener.wake)
    child.announce()
    await listener.run()
    child.answer(p50=listener.stopwatch.p50())


if __name__ == "__main__":
    timing.run(listen(sys.argv[1], int(sys.argv[2])))
