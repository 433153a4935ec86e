"""Schedules inside a test: they fire when the test lets time pass."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from oncue import InvalidJob, Oncue, cron
from oncue.testing import use

NOON = datetime(2030, 6, 3, 12, tzinfo=UTC)


@pytest.fixture
def app() -> Oncue:
    return Oncue("sqlite:///nowhere.db")


def test_slots_fire_when_they_are_due_and_jobs_run_in_time(app: Oncue) -> None:
    ran = []

    @app.task(schedule=cron("0 3 * * *", tz="Europe/Berlin"), delivery="at_most_once")
    def nightly(slot: datetime) -> None:
        ran.append((slot, oncue.clock.now()))

    with use(app, now=NOON) as oncue:
        assert oncue.elapse("3d") == {"succeeded": 3}
        assert oncue.clock.now() == NOON + timedelta(days=3)
    first = datetime(2030, 6, 4, 1, tzinfo=UTC)
    assert ran == [(first + timedelta(days=n), first + timedelta(days=n)) for n in range(3)]


def test_nothing_fires_before_the_test_began_nor_when_only_the_clock_moves(app: Oncue) -> None:
    @app.task(schedule=cron("0 * * * *"))
    def hourly() -> None: ...

    with use(app, now=NOON) as oncue:
        oncue.clock.advance("5h")
        assert oncue.drain() == {}
        assert oncue.jobs() == []


def test_an_outage_is_a_clock_that_jumps(app: Oncue) -> None:
    @app.task(schedule=cron("0 * * * *"), missed="latest", grace="30m")
    def hourly() -> None: ...

    with use(app, now=NOON) as oncue:
        oncue.clock.advance("5h10m")
        assert oncue.elapse("1m") == {"succeeded": 1}
        found = app.wait(app.schedules.audit("hourly", NOON))
    assert found.counts() == {"missed": 4, "fired": 1}
    assert found.holds


def test_retries_and_delayed_jobs_run_on_the_way(app: Oncue) -> None:
    times = []

    @app.task(max_retries=1)
    def flaky() -> None:
        times.append(oncue.clock.now())
        if len(times) == 1:
            raise ValueError("not yet")

    with use(app, now=NOON) as oncue:
        flaky.using(delay="1h").enqueue()
        assert oncue.elapse("2h") == {"succeeded": 1}
    assert times[0] == NOON + timedelta(hours=1)
    assert timedelta(seconds=48) <= times[1] - times[0] <= timedelta(seconds=72)


async def test_in_async_code(app: Oncue) -> None:
    @app.task(schedule=cron("@hourly"))
    async def hourly(slot: datetime) -> None: ...

    with use(app, now=NOON) as oncue:
        assert await oncue.aelapse("90m") == {"succeeded": 1}
        slot = await app.schedules.run_now("hourly")
        assert await oncue.adrain() == {"succeeded": 1}
        assert slot.verdict == "manual"


@pytest.mark.contract("SLOT-11")
def test_code_under_test_is_refused_what_production_refuses_and_a_handler_is_performed_all_the_same(app: Oncue) -> None:
    @app.task(schedule=cron("0 3 * * *"), delivery="at_most_once")
    def nightly(slot: datetime) -> str:
        return slot.isoformat()

    with use(app, now=NOON) as oncue:
        with pytest.raises(InvalidJob, match=r"`app\.schedules\.run_now\('nightly'\)`"):
            nightly.enqueue(NOON)
        assert oncue.jobs() == []
        assert oncue.perform(nightly, NOON).result == NOON.isoformat()
        assert oncue.perform(nightly.using(priority=9), NOON).state == "succeeded"
        app.wait(app.schedules.run_now("nightly"))
        assert oncue.drain() == {"succeeded": 1}
