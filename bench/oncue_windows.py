"""The planner as a measured child: `tick URL MINUTES` times passes, `crowd URL` opens and closes many at one instant.

`claim URL SECONDS` claims and settles ordinary jobs beside it, in another process. The planner is told the time, so no
run waits for a minute to pass. The subjects are copies of one, made by SQL.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, ClassVar

import asyncpg

from bench import child, database, pages, timing
from bench.oncue_side import FAR, NODE, migrated, node
from oncue import Oncue, daily
from oncue.clock import Clock, DatabaseClock
from oncue.engine.planner import Planner
from oncue.engine.service import Signal
from oncue.model import Claim, Succeeded
from oncue.policy.lifecycle import Ended, settle
from oncue.store import PostgresStore
from oncue.store.contract import LEADER, Store
from oncue.telemetry import Telemetry
from oncue.verbs.schedules.declaring import Declaring

WINDOW = "digest"
DUE_AT = "09:00"
CLAIMS = 100
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)

# Copies of one subject: a crowd is due in each of the first two hours' minutes, and all the others after that.
COPY_POSTGRES = """
insert into oncue_subjects
select schedule_id, 'user' || lpad(n::text, 7, '0'), due, tz, weekdays, days_off, args, version, since, day,
       opens_at + later, cutoff_at + later, next_at + later, job_id, last_date, status, reason, last_run_at, created_at,
       updated_at, removed_at
  from oncue_subjects cross join (
       select n, least((n - 1) / $2::int, 120) * interval '1 minute' as later
         from generate_series(1, $1::int) as n) as numbered
 where name = 'template'
"""
COPY_SQLITE = """
with recursive numbered (n) as (select 1 union all select n + 1 from numbered where n < :total)
insert into oncue_subjects
select schedule_id, printf('user%07d', n), due, tz, weekdays, days_off, args, version, since, day,
       opens_at + later, cutoff_at + later, next_at + later, job_id, last_date, status, reason, last_run_at, created_at,
       updated_at, removed_at
  from (select n, min((n - 1) / :crowd, 120) * 60000000 as later from numbered) cross join oncue_subjects
 where name = 'template'
"""
GONE = "delete from oncue_subjects where name = 'template'"


def make_app(url: str, hooks: bool = True) -> Oncue:
    app = Oncue(url)

    @app.task
    async def reset(user: str) -> None: ...

    @app.task(name=WINDOW, schedule=daily(window="60m", retry="10m"), on_cutoff=reset if hooks else None)
    async def digest(user: str) -> None: ...

    return app


def path_of(url: str) -> str | None:
    """The file of a SQLite database."""
    return url.removeprefix("sqlite:///") if url.startswith("sqlite:") else None


def fill(url: str, total: int, crowd: int, *, hooks: bool = True) -> None:
    """So many subjects, of which a crowd opens every minute from the first opening on: that is tomorrow."""
    timing.run(_fill(url, total, crowd, hooks))
    if path_of(url) is None:
        database.calm(url)


async def _fill(url: str, total: int, crowd: int, hooks: bool) -> None:
    await (await migrated(url)).aclose()
    app = make_app(url, hooks)
    await Declaring(app.internals).synchronise()
    await app.windows.add(WINDOW, "template", at=DUE_AT, days_off=[datetime.now(UTC).date()])
    await app.aclose()
    path = path_of(url)
    if path is None:
        connection = await asyncpg.connect(url, command_timeout=None)
        await connection.execute(COPY_POSTGRES, total, crowd)
        await connection.execute(GONE)
        await connection.close()
        return
    with closing(sqlite3.connect(path)) as file:
        with file:
            file.execute(COPY_SQLITE, {"total": total, "crowd": crowd})
            file.execute(GONE)
        file.execute("pragma wal_checkpoint(truncate)")


class Silent:
    """A leader for ever: elections are not what is timed."""

    epoch = 1
    followers: ClassVar[list[Signal]] = []


async def planner_on(store: Store, clock: Clock, now: datetime) -> Planner:
    await store.leases.acquire(LEADER, NODE, "bench", now, FAR, respect=None)
    leadership: Any = Silent()
    return Planner(store, NODE, leadership, clock, Telemetry(), interval=60.0, poll=0.5)


async def planned(planner: Planner, now: datetime) -> None:
    """All that is due at this instant is done."""
    while await planner.tick(now) <= now:
        pass


# --- one tick ---------------------------------------------------------------------------------------------------------


def tick_tally(dsn: str) -> pages.Tally:
    """The statements and the pages of a tick that opens a crowd's windows."""
    return timing.run(_tick_tally(dsn))


async def _tick_tally(dsn: str) -> pages.Tally:
    store = PostgresStore(dsn)
    tally = pages.counted(store)
    planner = await planner_on(store, DatabaseClock(), datetime.now(UTC))
    first = await store.windows.next_at()
    assert first is not None
    await planned(planner, first)
    before = replace(tally)
    await planned(planner, first + MINUTE)
    await store.close()
    return pages.Tally(tally.statements - before.statements, tally.pages - before.pages)


class Steps:
    """Counts what SQLite does, in steps of its machine: they are to a file what pages are to a server."""

    EVERY = 100

    def __init__(self) -> None:
        self.steps = 0
        self.statements = 0

    def watch(self, connection: sqlite3.Connection) -> None:
        connection.set_progress_handler(self._step, self.EVERY)
        connection.set_trace_callback(self._statement)

    def _step(self) -> int:
        self.steps += self.EVERY
        return 0

    def _statement(self, text: str) -> None:
        self.statements += 1


async def tick(url: str, minutes: int) -> None:
    """Ticks of the planner, each of which finds a crowd due: openings, then cutoffs."""
    app = make_app(url)
    connected = await app.internals.connected()
    planner = await planner_on(connected.store, connected.clock, connected.now())
    first = await connected.store.windows.next_at()
    assert first is not None
    await planned(planner, first)
    times = []
    for minute in range(1, minutes):
        started = time.perf_counter()
        await planned(planner, first + minute * MINUTE)
        times.append(time.perf_counter() - started)
    counted = Steps()
    if path_of(url) is not None:
        database_: Any = connected.store.database  # type: ignore[attr-defined]
        await database_.read(counted.watch)
        await database_.write(counted.watch)
        counted.steps = counted.statements = 0
        await planned(planner, first + minutes * MINUTE)
    await app.aclose()
    child.answer(milliseconds=statistics.median(times) * 1000, steps=counted.steps, statements=counted.statements)


# --- a crowd ----------------------------------------------------------------------------------------------------------


async def crowd(url: str, subjects: int) -> None:
    """All windows open at one instant, and end at another. The cutoff waits for the rig's starting shot."""
    app = make_app(url)
    connected = await app.internals.connected()
    planner = await planner_on(connected.store, connected.clock, connected.now())
    first = await connected.store.windows.next_at()
    assert first is not None
    started = time.monotonic()
    await planned(planner, first)
    opened = time.monotonic() - started
    child.announce_and_wait()
    started = time.monotonic()
    await planned(planner, first + HOUR)
    closed = time.monotonic() - started
    (decided,) = [row.subjects for row in await app.windows.day(WINDOW, first.date()) if row.event == "cutoff_reached"]
    assert decided == subjects, f"{decided} of {subjects} days were decided"
    await app.aclose()
    child.answer(open_rate=subjects / opened, close_rate=subjects / closed)


async def claim(url: str) -> None:
    """Claim and settle ordinary jobs, a batch after the other, until the rig says stop: how many, and how long."""
    app = make_app(url)
    connected = await app.internals.connected()
    store, now = connected.store, connected.now()
    await store.nodes.register(node(now))
    child.announce()
    jobs, started, stop = 0, time.monotonic(), child.told()
    latest = started
    while not stop():
        claims = await store.jobs.claim(NODE, ["default"], ["noop"], CLAIMS, now)
        if not claims:  # all are done: the rig has yet to say stop
            await asyncio.sleep(0.01)
            continue
        await store.jobs.apply([_success(one, now) for one in claims], now)
        jobs, latest = jobs + len(claims), time.monotonic()
    elapsed = latest - started
    await app.aclose()
    child.answer(rate=jobs / elapsed if jobs else 0.0, jobs=jobs)


def _success(claim: Claim, now: datetime) -> Any:
    return settle(Ended(claim, Succeeded(None), now, now), Random(1))


async def bulk(url: str, rows: int) -> None:
    """Add so many subjects in one call: rows per second, and by how much the process grows after the first tenth."""
    await (await migrated(url)).aclose()
    app, memory = make_app(url), []
    await Declaring(app.internals).synchronise()
    every: Callable[[int], None] = lambda done: memory.append(child.rss_mb())  # noqa: E731
    given = ({"subject": f"user{number:07}", "at": f"{number % 24:02}:{number % 60:02}"} for number in range(rows))
    started = time.monotonic()
    await app.windows.add_many(WINDOW, given, progress=every)
    elapsed = time.monotonic() - started
    await app.aclose()
    child.answer(rate=rows / elapsed, grown_mb=memory[-1] - memory[len(memory) // 10])


if __name__ == "__main__":
    child.dispatch(
        {
            "tick": lambda url, minutes: timing.run(tick(url, int(minutes))),
            "crowd": lambda url, subjects: timing.run(crowd(url, int(subjects))),
            "claim": lambda url: timing.run(claim(url)),
            "bulk": lambda url, rows: timing.run(bulk(url, int(rows))),
        }
    )
