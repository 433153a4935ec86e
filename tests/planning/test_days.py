"""The plan of a window's day: its arithmetic, and how close it is to what the engine does in virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random

import pytest

from oncue import Oncue, daily
from oncue.application.connecting import Connection
from oncue.model import EVERY_DAY, Claim, Subject
from oncue.planning import reading
from oncue.planning.days import DayEngine, DayScenario, SubjectWindow, planned
from oncue.policy import windows
from oncue.sim.driver import finish
from oncue.sim.member import Crew
from oncue.sim.script import Act
from oncue.sim.world import World
from oncue.verbs.schedules.declaring import Declaring

START = datetime(2030, 1, 2, 6, tzinfo=UTC)
HOUR = 3600.0


def a_day(
    *minutes: int,
    seats: int = 1,
    takes: str = "10m",
    failures: float = 0.0,
    timeout: float | None = None,
    seed: int = 1,
) -> DayScenario:
    """Subjects whose cutoffs are so many minutes after seven; each window is open for an hour before."""
    subjects = [
        SubjectWindow(minute * 60.0, HOUR + minute * 60, f"user{number:04}") for number, minute in enumerate(minutes)
    ]
    return DayScenario(
        START, sorted(subjects), seats, 600.0, timeout, reading.spread(takes), failures, seed, notice=1.0
    )


# --- arithmetic -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("WIN-6", "WIN-19")
def test_a_success_at_the_cutoff_is_a_miss() -> None:
    """One seat does five jobs of ten minutes within the hour; the sixth would end at the cutoff."""
    found = planned(a_day(*[0] * 6))
    assert (found.misses, found.needed, found.unavoidable) == (1, 2, 0)
    assert [(one.cutoff, one.subjects, one.misses, one.latest) for one in found.buckets] == [
        (START + timedelta(hours=1), 6, 1, 600.0)
    ]
    assert [(one.seats, one.misses) for one in found.others] == [(2, 0)]


def test_the_earliest_cutoff_is_first() -> None:
    found = DayEngine(a_day(*[0] * 5, *[1] * 5)).run(1)
    assert found.done[:5] == [600.0 * number for number in range(1, 6)]
    assert (found.done[5], found.misses) == (3600.0, 4)


def test_attempts_are_due_the_delay_apart_however_long_they_take() -> None:
    """Each fails: after 4 minutes the next is due 6 minutes later, after 14 minutes at once."""
    always = a_day(0, takes="4m", failures=1.0)
    assert DayEngine(always).run(1).attempts == 6
    assert DayEngine(replace(always, duration=reading.spread("14m"))).run(1).attempts == 5
    cut = replace(always, failures=0.0, duration=reading.spread("50m"), timeout=240.0)
    assert (DayEngine(cut).run(1).attempts, planned(cut).unavoidable) == (6, 1)


def test_an_attempt_that_is_over_its_cutoff_keeps_its_seat_until_its_node_has_noticed() -> None:
    first = replace(
        a_day(takes="59m30s"), subjects=[SubjectWindow(0.0, 1800.0, "ann"), SubjectWindow(0.0, 5400.0, "bob")]
    )
    assert DayEngine(first).run(1).done == [None, 1801.0 + 3570.0]
    stubborn = replace(first, notice=float("inf"))
    assert DayEngine(stubborn).run(1).done == [None, None]


def test_the_same_seed_gives_the_same_day_and_another_one_another() -> None:
    day = a_day(*[0] * 200, seats=5, takes="~60s", failures=0.1)
    first, again, other = planned(day), planned(replace(day)), planned(replace(day, seed=2))
    assert (first.run.done, first.needed) == (again.run.done, again.needed)
    assert first.run.done != other.run.done


def test_no_day_is_no_trouble() -> None:
    assert (planned(a_day()).misses, planned(a_day()).needed) == (0, 1)


@pytest.mark.parametrize("seed", range(5))
def test_fewer_seats_than_needed_are_too_few(seed: int) -> None:
    dice = Random(seed)
    day = a_day(*[dice.randrange(120) for _ in range(300)], takes="30s..4m", failures=0.05, seed=seed)
    found = planned(day)
    engine = DayEngine(day)
    assert engine.run(found.needed).misses == found.unavoidable
    assert engine.run(found.needed - 1).misses > found.unavoidable


# --- beside the engine ----------------------------------------------------------------------------------------------


def on_the_engine(day: DayScenario) -> dict[int, int]:
    """The same day on a real node, planner and store in virtual time: the misses by the minute of the cutoff."""
    app = Oncue()

    @app.task(schedule=daily(window="60m", retry="10m"), max_concurrency=day.seats, timeout=day.timeout)
    async def digest(user: str, day: date) -> None: ...

    def act(claim: Claim) -> Act:
        rng = Random(f"{day.seed}/{json.loads(claim.args)['user']}/{claim.attempt}")
        seconds = max(day.duration.draw(rng), 0.001)
        return Act("ok" if rng.random() >= day.failures else "fail", seconds)

    world = World(
        day.seed, pace=app.settings.pace, concurrency=day.seats, script=act, elide=True,
        start=START - timedelta(minutes=2), crew=Crew(("windows",), ("digest",)),
    )  # fmt: skip
    try:
        connection = Connection(world.store, world.clock)
        finish(Declaring(app.internals).synchronise(connection))
        (window,) = finish(world.store.windows.all())
        now = world.clock.now()
        rows = [subject_of(window.id, one, now) for one in day.subjects]
        assert all(finish(world.store.windows.put(rows, now)))
        world.boot("alpha")
        world.run(120 + max(one.cutoff for one in day.subjects) + 120)
        found = finish(world.store.windows.day(window.id, START.date()))
        assert sum(one.subjects for one in found if one.event in ("success", "cutoff_reached")) == len(rows)
        return {one.bucket: one.subjects for one in found if one.event == "cutoff_reached"}
    finally:
        world.close()
        app.close()


def subject_of(window: int, one: SubjectWindow, now: datetime) -> Subject:
    opens, cutoff = (START + timedelta(seconds=at) for at in (one.opens, one.cutoff))
    return Subject(
        schedule_id=window, name=one.name, due=windows.bucket_of(cutoff), tz=None, weekdays=EVERY_DAY, days_off=(),
        args="{}", version=0, since=now, day=START.date(), opens_at=opens, cutoff_at=cutoff, next_at=opens, job_id=None,
        last_date=None, status=None, reason=None, last_run_at=None, created_at=now, updated_at=now, removed_at=None,
    )  # fmt: skip


def modelled(day: DayScenario) -> dict[int, int]:
    return {windows.bucket_of(one.cutoff): one.misses for one in planned(day).buckets if one.misses}


def minutes(seed: int, users: int, span: int) -> Sequence[int]:
    dice = Random(seed)
    return [dice.randrange(span // 5) * 5 for _ in range(users)]


@pytest.mark.contract("WIN-3", "WIN-6", "WIN-8", "WIN-19")
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("takes", "failures", "timeout", "seats"),
    [("15s", 0.0, None, 1), ("~20s", 0.0, 60.0, 2), ("~20s", 0.1, 60.0, 2), ("30s..90s", 0.05, 80.0, 4)],
)
def test_the_engine_has_the_misses_of_the_plan(
    seed: int, takes: str, failures: float, timeout: float | None, seats: int
) -> None:
    day = a_day(*minutes(seed, 600, 60), seats=seats, takes=takes, failures=failures, timeout=timeout, seed=seed)
    expected, found = modelled(day), on_the_engine(day)
    assert expected, "a day on which all are served tells nothing"
    # The plan frees the seat of an attempt that runs at its cutoff a second later; a node notices within a second. So
    # after a cutoff each seat begins its next job up to a second earlier, and at most one job more succeeds in it.
    assert all(abs(found.get(minute, 0) - expected.get(minute, 0)) <= seats for minute in {*found, *expected})
    assert abs(sum(found.values()) - sum(expected.values())) <= len(expected)
