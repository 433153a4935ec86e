"""A planner as a measured child: `tick URL SUBJECTS MINUTES` times passes, `close URL` closes a crowd, `claim URL`
claims meanwhile.

The planner is told the time, so no run waits for a minute to pass. All subjects have the same rule; `fill` makes them
by SQL, as copies of one.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import asyncpg

from bench import database, timing
from bench.oncue_side import FAR, NODE, migrated
from oncue import Oncue, daily
from oncue.clock import Clock
from oncue.engine.planner import Planner
from oncue.engine.service import Signal
from oncue.store.contract import LEADER, Store
from oncue.telemetry import Telemetry
from oncue.verbs.schedules.declaring import Declaring

WINDOW = "digest"
FIRST = "09:00"
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)

# Copies of one subject. The first ones are due at a minute each thousand, the others in two hours.
COPY_POSTGRES = """
insert into oncue_subjects
select schedule_id, 'user' || lpad(n::text, 7, '0'), due, tz, weekdays, days_off, args, version, since, day,
       opens_at + least((n - 1) / $2::int, 120) * interval '1 minute',
       cutoff_at + least((n - 1) / $2::int, 120) * interval '1 minute',
       next_at + least((n - 1) / $2::int, 120) * interval '1 minute',
       job_id, last_date, status, reason, last_run_at, created_at, updated_at, removed_at
  from oncue_subjects, generate_series(1, $1::int) as n where name = 'template'
"""
COPY_SQLITE = """
with recursive numbered (n) as (select 1 union all select n + 1 from numbered where n < :total)
insert into oncue_subjects
select schedule_id, printf('user%07d', n), due, tz, weekdays, days_off, args, version, since, day,
       opens_at + min((n - 1) / :crowd, 120) * 60000000, cutoff_at + min((n - 1) / :crowd, 120) * 60000000,
       next_at + min((n - 1) / :crowd, 120) * 60000000,
       job_id, last_date, status, reason, last_run_at, created_at, updated_at, removed_at
  from numbered, oncue_subjects where name = 'template'
"""
GONE = "delete from oncue_subjects where name = 'template'"


def make_app(url: str) -> Oncue:
    app = Oncue(url)

    @app.task
    async def reset(user: str) -> None: ...

    @app.task(name=WINDOW, schedule=daily(window="60m", retry="10m"), on_cutoff=reset)
    async def digest(user: str) -> None: ...

    return app


def path_of(url: str) -> str | None:
    return url.removeprefix("sqlite:///") if url.startswith("sqlite:") else None


def fill(url: str, total: int, crowd: int) -> None:
    """So many subjects, of which a crowd opens every minute from the first opening on."""
    timing.run(_fill(url, total, crowd))
    if path_of(url) is None:
        database.calm(url)


async def _fill(url: str, total: int, crowd: int) -> None:
    await (await migrated(url)).aclose()
    app = make_app(url)
    await Declaring(app.internals).synchronise()
    # Tomorrow: the planner is told that it is then.
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
    await app.windows.add(WINDOW, "template", at=FIRST, days_off=[datetime.now(UTC).date()])
    subject = await app.windows.subject(WINDOW, "template")
    assert subject.day == tomorrow
    await app.aclose()
    path = path_of(url)
    if path is None:
        connection = await asyncpg.connect(url, command_timeout=None)
        await connection.execute(COPY_POSTGRES, total, crowd)
        await connection.execute(GONE)
        await connection.close()
    else:
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(COPY_SQLITE, {"total": total, "crowd": crowd})
            file.execute(GONE)


class Silent:
    """A leader for ever: elections are not what is timed."""

    epoch = 1
    followers: ClassVar[list[Signal]] = []


async def planner_on(store: Store, clock: Clock) -> Planner:
    now = datetime.now(UTC)
    await store.leases.acquire(LEADER, NODE, "bench", now, FAR, respect=None)
    leadership: Any = Silent()
    return Planner(store, NODE, leadership, clock, Telemetry(), interval=60.0, poll=0.5)


async def planned(planner: Planner, now: datetime) -> None:
    """All that is due at this instant is done."""
    while await planner.tick(now) <= now:
        pass
