"""The leader as a measured child: `fire URL SLOTS` decides what is due, `tick URL TICKS` times passes."""

from __future__ import annotations

import asyncio
import logging
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import asyncpg

from bench import child, database, pages, timing
from bench.oncue_side import FAR, NODE, migrated
from oncue import Oncue, cron
from oncue.engine.scheduler import Scheduler
from oncue.engine.service import Signal
from oncue.store import PostgresStore, Store
from oncue.store.contract import LEADER
from oncue.telemetry import Telemetry

ELSEWHERE = "elsewhere"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)

# A few dozen different rules that all had a slot at midnight, and none since.
COPY = """
insert into oncue_schedules (name, description, task, args, queue, priority, expression, tz, dst, missed, grace,
                             max_instances, enabled, options, max_retries, max_runtime, revision, started_at, version,
                             cursor, next_run_at, created_by, created_at, updated_at)
select 'copy-' || n, description, task, args, queue, priority,
       format('0 0 %s,%s * *', extract(day from $3::timestamptz at time zone 'UTC'), 1 + n % 28), tz, dst, missed,
       interval '3650 days', max_instances, enabled, options, max_retries, max_runtime, 1, $2, 1,
       case when n <= $4 then $3::timestamptz - interval '1 second' else $3::timestamptz + interval '3650 days' end,
       case when n <= $4 then $3::timestamptz else $3::timestamptz + interval '3651 days' end, created_by, created_at,
       updated_at
  from oncue_schedules, generate_series(1, $1::int) as n where name = 'template'
"""

# The jobs of the pass before would be in the way of the next. The schedules that are due have the first numbers:
# reading all of them would leave the caches cold for the pass that is timed.
REWIND = """
with finished as (
    update oncue_jobs set state = 'succeeded', finished_at = created_at where state = 'queued' returning schedule_id
)
update oncue_schedules
   set cursor = cursor - interval '1 day', next_run_at = cursor - interval '1 day' + interval '1 second'
 where id < 1000 and last_run_at is not null
"""


def fill(dsn: str, total: int, due: int) -> None:
    """So many schedules, of which so many are due."""
    timing.run(_fill(dsn, total, due))
    database.calm(dsn)


async def _fill(dsn: str, total: int, due: int) -> None:
    app = await migrated(dsn)
    await app.schedules.create("template", cron("0 0 1 1 *"), "noop", queue=ELSEWHERE)
    connection = await asyncpg.connect(dsn, command_timeout=None)
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    await connection.execute(COPY, total, LONG_AGO, midnight, due)
    await connection.execute("delete from oncue_schedules where name = 'template'")
    await connection.close()
    await app.aclose()


async def fire(url: str, slots: int) -> None:
    """A worker that serves another queue, so that it only schedules: from its election to its last slot."""
    app, finished = Oncue(url), asyncio.Event()
    app.override({"queues": "none-of-these"})
    seen, times = 0, {}

    def elected(event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        times["started"] = time.monotonic_ns()

    def decided(event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        nonlocal seen
        seen += 1
        if seen == slots:
            times["ended"] = time.monotonic_ns()
            finished.set()

    app.internals.telemetry.subscribe(elected, "leader.elected")
    app.internals.telemetry.subscribe(decided, "slot")
    async with app.worker():
        await finished.wait()
    child.answer(rate=slots / ((times["ended"] - times["started"]) / 1e9))


def tick_tally(dsn: str) -> pages.Tally:
    """The statements and the pages of a pass that finds schedules due, made by the scheduler itself."""
    return timing.run(_tick_tally(dsn))


async def _tick_tally(dsn: str) -> pages.Tally:
    store, now = PostgresStore(dsn), datetime.now(UTC)
    tally = pages.counted(store)
    scheduler = await _leading(store, now, Telemetry())
    before = replace(tally)
    await scheduler.tick(now)
    await store.close()
    return pages.Tally(tally.statements - before.statements, tally.pages - before.pages)


class Silent:
    """A leader for ever: elections are not what is timed."""

    epoch = 1
    outage = None
    elected = Signal()


async def _leading(store: Store, now: datetime, telemetry: Telemetry) -> Scheduler:
    await store.leases.acquire(LEADER, NODE, "bench", now, FAR, respect=None)
    leadership: Any = Silent()
    return Scheduler(store, NODE, leadership, Random(1), telemetry, interval=30.0, poll=0.0)


async def tick(url: str, ticks: int) -> None:
    """Passes of the scheduler, each of which finds a hundred schedules due; then those are made due again."""
    app = Oncue(url)
    connected = await app.internals.connected()
    rewind = await asyncpg.connect(url)
    scheduler = await _leading(connected.store, connected.now(), app.internals.telemetry)
    await scheduler.tick(connected.now())
    times = []
    for _ in range(ticks):
        await rewind.execute(REWIND)
        now = connected.now()
        started = time.perf_counter()
        await scheduler.tick(now)
        times.append(time.perf_counter() - started)
    await rewind.close()
    await app.aclose()
    child.answer(milliseconds=statistics.median(times) * 1000, mb=child.rss_mb())


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    child.dispatch(
        {
            "fire": lambda url, slots: timing.run(fire(url, int(slots))),
            "tick": lambda url, ticks: timing.run(tick(url, int(ticks))),
        }
    )
