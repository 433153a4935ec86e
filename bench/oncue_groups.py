"""Groups of a queue, and workers of them as measured children: `work URL FILE` notes when each handler starts."""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from bench import child, database, pages, timing
from bench.crew import race, rate
from bench.oncue_side import NODE, WARM, draining, migrated, node
from bench.oncue_worker import QUEUE
from oncue import Oncue
from oncue.cli.process import switch_threads_often
from oncue.model import Batch, Claim
from oncue.settings import Settings
from oncue.store import PostgresStore, Store

START = struct.Struct("<q")
ELSEWHERE = UUID(int=2)
LIMIT = 2
CHUNK = 1000
TASKS = ["noop"]

# A million waiting jobs, by SQL, for speed. Their groups are woken by jobs that come by the store's own verb.
FILL = """
insert into oncue_jobs (task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at,
                        visible_at, max_retries, max_runtime, claim_no, attempt, group_name)
select 'noop', 'default', 0, 'queued', '{}', '{}', 'bench', at, at, at, at, 3, interval '1 hour', 0, 0,
       'full-' || n % $2::int
  from generate_series(1, $1::int) as n
 cross join lateral (select timestamptz '2026-01-01' + n * interval '1 millisecond' as at) as t
"""


def drain(dsn: str, jobs: int, groups: int, limit: int | None) -> float:
    """Jobs per second of one worker process, from the starting shot to the last settled job."""
    timing.run(_prepare_drain(dsn, jobs, groups, limit))
    database.calm(dsn)
    return rate(race([draining(dsn, WARM)]), jobs)


async def _prepare_drain(dsn: str, jobs: int, groups: int, limit: int | None) -> None:
    app = await migrated(dsn)
    await app.queues.pause(QUEUE)
    await app.queues.limit(QUEUE, per_group=limit)
    await app.aclose()
    await _with_store(dsn, lambda store: _enqueue(store, [(f"group-{n}", jobs // groups) for n in range(groups)]))


async def _enqueue(store: Store, groups: Sequence[tuple[str | None, int]]) -> None:
    """So many jobs of each of these groups, by the verb that writes several batches at once."""
    now = datetime.now(UTC)
    for start in range(0, len(groups), CHUNK):
        part = groups[start : start + CHUNK]
        ids = iter(await store.jobs.reserve(sum(jobs for _, jobs in part)))
        await store.jobs.enqueue([_batch(group, [next(ids) for _ in range(jobs)], now) for group, jobs in part])


def _batch(group: str | None, ids: list[int], now: datetime) -> Batch:
    return Batch(
        "noop", QUEUE, 0, "queued", "{}", 3, 3600.0, now, now, None, "bench", None, ids, ["{}"] * len(ids), group=group
    )  # fmt: skip


async def _with_store(dsn: str, work: Callable[[Store], Awaitable[None]]) -> None:
    store = PostgresStore(dsn)
    await work(store)
    await store.close()


def fill_for_claims(dsn: str, seats: int, claims: int, waiting: int, full: int) -> None:
    """Jobs without a group and jobs of groups that have room, for so many claims; and so many jobs that wait in groups
    that have none."""
    timing.run(_fill(dsn, seats * (claims + 1), waiting, full))
    database.calm(dsn)


async def _fill(dsn: str, claimed: int, waiting: int, full: int) -> None:
    app = await migrated(dsn)
    await app.queues.limit(QUEUE, per_group=LIMIT)
    await app.aclose()
    if waiting:
        connection = await asyncpg.connect(dsn)
        await connection.execute(FILL, waiting, full, timeout=600)
        await connection.close()
    await _with_store(dsn, lambda store: _saturate(store, full if waiting else 0))
    open_groups = [(f"open-{n}", LIMIT) for n in range(claimed)]
    await _with_store(dsn, lambda store: _enqueue(store, [(None, claimed), *open_groups]))


async def _saturate(store: Store, full: int) -> None:
    """Another node claims what the groups allow: that runs from here on, and the rest waits."""
    await _enqueue(store, [(f"full-{n}", 1) for n in range(full)])
    now = datetime.now(UTC)
    await store.nodes.register(replace(node(now), id=ELSEWHERE, name="elsewhere"))
    running = 0
    while claims := await _claim_grouped(store, ELSEWHERE, 1000, now):
        running += len(claims)
    assert running == full * LIMIT, f"{running} jobs of {full} groups run"


async def _claim_grouped(store: Store, node_id: UUID, seats: int, now: datetime) -> list[Claim]:
    await store.groups.wake([QUEUE], 1000, now)
    return await store.groups.claim(node_id, [QUEUE], TASKS, seats, now)


def claim_pages(dsn: str, seats: int, claims: int, *, grouped: bool) -> list[int]:
    """Pages that each of some claims touches, by the verbs that a worker uses: of jobs without a group or with one."""

    async def measure() -> list[int]:
        store, now, found = PostgresStore(dsn), datetime.now(UTC) + timedelta(hours=1), []
        tally = pages.counted(store)
        await store.nodes.register(node(now))
        while (await store.groups.wake([QUEUE], 1000, now)).wakeups:
            pass  # what was enqueued is no part of a claim
        for _ in range(claims):
            before = tally.pages
            if grouped:
                claimed = await _claim_grouped(store, NODE, seats, now)
            else:
                await store.jobs.promote(now, 1000)
                await store.groups.wake([QUEUE], 1000, now)
                claimed = await store.jobs.claim(NODE, [QUEUE], TASKS, seats, now)
            assert len(claimed) == seats, f"claimed {len(claimed)} of {seats}"
            found.append(tally.pages - before)
        await store.close()
        return found

    return timing.run(measure())


def paced_app(url: str, trace: int | None = None) -> Oncue:
    app = Oncue(settings=Settings(database_url=url))

    @app.task
    async def stamped() -> None:
        if trace is not None:
            os.write(trace, START.pack(time.monotonic_ns()))

    return app


def prepare_rate(dsn: str, per_second: int, jobs: int, group: str | None) -> None:
    """A paused queue full of jobs that a rate holds for: of all of them, as the queue's or as a group's."""

    async def prepare() -> None:
        await (await migrated(dsn)).aclose()
        app = paced_app(dsn)
        await app.queues.pause(QUEUE)
        if group is None:
            await app.queues.limit(QUEUE, rate=f"{per_second}/s")
        else:
            await app.queues.limit(QUEUE, group=group, rate_per_group=f"{per_second}/s")
        await app.find("stamped").using(group=group).aenqueue_many([()] * jobs)
        await app.aclose()

    timing.run(prepare())
    database.calm(dsn)


def resume(dsn: str) -> None:
    async def go_on() -> None:
        app = paced_app(dsn)
        await app.queues.resume(QUEUE)
        await app.aclose()

    timing.run(go_on())


async def work(url: str, path: str) -> None:
    switch_threads_often()  # as `oncue worker` does
    app = paced_app(url, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    async with app.worker():
        child.announce()
        await stop.wait()
    child.answer(done=True)


if __name__ == "__main__":
    child.dispatch({"work": lambda url, path: timing.run(work(url, path))})
