"""Daily windows when something is in the way: no room in the file, terms that change, subjects that come late."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from oncue import Oncue
from oncue.doctor import checks, examining
from oncue.errors import StoreFull
from oncue.model import Day, DayCount, NextDay
from oncue.policy.lifecycle import close_day
from tests.app.test_windows import Bench, app, led, stored
from tests.observe.watch import Watch

__all__ = ["app"]

OPENING, CUTOFF = (datetime(2030, 1, 2, hour, tzinfo=UTC) for hour in (8, 9))


async def limit_room(bench: Bench, pages: int) -> None:
    """Let the file grow by so many pages."""
    database: Any = bench.store.database  # type: ignore[attr-defined]

    def work(connection: sqlite3.Connection) -> None:
        used = connection.execute("pragma page_count").fetchone()[0]
        connection.execute(f"pragma max_page_count = {used + pages}")

    await database._writer.read(work)


async def use_up(app: Oncue) -> None:
    """Fill what is free in the file's own pages."""
    with contextlib.suppress(StoreFull):
        while True:
            await app.find("other").aenqueue_many([()] * 100)


@pytest.mark.contract("WIN-2", "WIN-5", "WIN-6")
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_full_disk_leaves_no_day_half_decided_and_costs_none(app: Oncue) -> None:
    bench, names = await led(app), [f"user{number:03}" for number in range(200)]
    for name in names:
        await bench.put(name)
    await limit_room(bench, 2)
    with pytest.raises(StoreFull):
        await bench.plan(OPENING)
    assert await app.jobs.list(limit=1) == []
    await limit_room(bench, 100_000)
    await bench.plan(OPENING)
    await limit_room(bench, 0)
    await use_up(app)
    with pytest.raises(StoreFull):
        await bench.plan(CUTOFF)
    assert {(await stored(app, name)).status for name in names} == {None}
    await limit_room(bench, 100_000)
    await bench.plan(CUTOFF)
    assert {(await stored(app, name)).status for name in names} == {"cutoff_reached"}
    assert await app.windows.day("digest", OPENING.date()) == [
        DayCount(540, "cutoff_reached", 200),
        DayCount(540, "opened", 200),
    ]


@pytest.mark.contract("WIN-6", "WIN-7")
async def test_the_end_of_a_day_moves_its_subject_on_only_if_its_row_is_as_it_was(app: Oncue) -> None:
    bench = await led(app)
    for name in ("ann", "bob"):
        await bench.put(name)
    await bench.plan(OPENING)
    ann, bob = await stored(app, "ann"), await stored(app, "bob")
    later = Day(date(2030, 1, 3), OPENING + timedelta(days=1), CUTOFF + timedelta(days=1))
    jobs = {job.id: job for job in await bench.store.windows.unfinished([ann.job_id or 0, bob.job_id or 0])}
    changes = [
        close_day(jobs[one.job_id or 0], CUTOFF, "cutoff_reached", "cutoff_reached", (), NextDay(version, later, 540))
        for one, version in ((ann, ann.version), (bob, bob.version - 1))
    ]
    assert await bench.store.jobs.apply(changes, CUTOFF) == [True, True]
    ann, bob = await stored(app, "ann"), await stored(app, "bob")
    assert {(one.last_date, one.status) for one in (ann, bob)} == {(OPENING.date(), "cutoff_reached")}
    assert (ann.day, ann.opens_at, ann.cutoff_at, ann.next_at, ann.job_id) == (*later, later.opens_at, None)
    assert (bob.day, bob.next_at) == (OPENING.date(), CUTOFF), "the planner comes back to it"
    assert await app.windows.day("digest", OPENING.date()) == [
        DayCount(540, "cutoff_reached", 2),
        DayCount(540, "opened", 2),
    ]


@pytest.mark.contract("WIN-9")
async def test_a_subject_that_comes_in_its_window_wakes_the_planner(app: Oncue) -> None:
    bench = await led(app)
    early, poll, tick = OPENING - timedelta(minutes=30), timedelta(seconds=0.5), timedelta(seconds=60)
    assert await bench.planner.tick(early) == early + tick
    bench.planner.wake()
    assert await bench.planner.tick(early + poll) == early + tick, "there was nothing"
    known = await bench.put("ann")
    row = dataclasses.replace(known, opens_at=early, next_at=early)
    assert await bench.store.windows.put([row], early) == [True]
    bench.planner.wake()
    assert await bench.planner.tick(early + 1.2 * poll) == early + 2 * poll, "it looks once a poll"
    assert (await stored(app, "ann")).job_id is None
    await bench.plan(early + 2 * poll)
    assert (await stored(app, "ann")).job_id is not None


@pytest.mark.contract("WIN-2", "WIN-14")
async def test_days_that_no_leader_decides_are_told_by_metrics_alerts_and_the_doctor(app: Oncue) -> None:
    """An application that has windows and no other schedule needs a leader too."""
    bench = await led(app)
    await bench.put("ann")
    watch, late = Watch(bench.store), timedelta(minutes=3)
    await watch.look(OPENING + late)
    value = watch.metrics.registry.get_sample_value
    assert value("oncue_schedules_enabled") == 1
    assert value("oncue_schedule_overdue_seconds") == late.total_seconds()
    assert "OncueSchedulerLate" in watch.firing()
    snapshot = await examining._snapshot(bench.store, OPENING + late)  # type: ignore[arg-type]
    assert snapshot.next_run == OPENING
    assert checks.leader(snapshot).status == "warn", "a node leads, and yet the day is not opened"
    await bench.plan(OPENING + late)
    await watch.look(OPENING + late)
    assert value("oncue_schedule_overdue_seconds") == 0
