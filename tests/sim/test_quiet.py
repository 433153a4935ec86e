"""Quiet time costs nothing, and changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest

from oncue.engine.node import Pace
from oncue.policy.options import Options
from oncue.sim.script import Act
from oncue.sim.world import World

HOUR = 3600.0
PACE = Pace()
LONG = Options(timeout=600.0, max_runtime=900.0)


def quiet_world(**options: object) -> World:
    world = World(1, pace=PACE, elide=True, own_clocks=True, **options)  # type: ignore[arg-type]
    for name in ("one", "two", "three"):
        world.boot(name)
    world.run(20.0)
    return world


def calls(world: World) -> int:
    return sum(member.wire.calls for member in world.members.values())


def holder(world: World, job_id: int) -> str:
    """Whoever runs a job."""
    node = world.job(job_id).node_id
    return next(name for name, member in world.members.items() if member.worker.node.id == node)


def seconds(world: World, job_id: int) -> float:
    """How long it took until a job was finished."""
    job = world.job(job_id)
    assert job.finished_at is not None
    return (job.finished_at - job.created_at).total_seconds()


def test_a_quiet_week_costs_no_more_than_a_quiet_hour() -> None:
    world = quiet_world()
    leader, before = [member.label for member in world.members.values() if member.leads], calls(world)
    world.run(HOUR)
    an_hour = calls(world) - before
    world.run(7 * 24 * HOUR)
    a_week = calls(world) - before - an_hour
    assert an_hour < 100
    assert a_week <= an_hour + 100
    assert [member.label for member in world.members.values() if member.leads] == leader
    assert all(member.worker.membership.is_alive() for member in world.members.values())
    world.close()


@pytest.mark.parametrize("elide", [True, False])
def test_what_happens_is_the_same_with_the_polls_and_without(elide: bool) -> None:
    """An hour of schedules, jobs that are due later, long ones, retries, and a node that dies in the middle of one."""
    world = World(5, pace=PACE, elide=elide, concurrency=2)
    for name in ("one", "two"):
        world.boot(name)
    world.run(20.0)
    world.schedule("often", "*/5 * * * *", Act(seconds=40.0), options=LONG)
    first = world.enqueue(Act("retry", 1.0, after=600.0), Act())
    second = world.enqueue(Act(), delay=1800.0)
    third = world.enqueue(Act(seconds=300.0), options=LONG)
    world.after(130.0, lambda: world.crash(holder(world, third)))
    world.run(HOUR + 60.0)
    slots = [(slot.scheduled_for.minute, slot.verdict) for slot in world.slots("often")]
    assert slots == [*((minute, "fired") for minute in range(5, 60, 5)), (0, "fired")]
    assert {job.state for job in world.jobs()} == {"succeeded"}
    assert 600 < seconds(world, first) < 603
    assert 1800 < seconds(world, second) < 1802
    # The heir begins when the lease of the dead one is over, and somebody has looked.
    assert world.job(third).crashes == 1
    assert 130 + 10 + 300 < seconds(world, third) < 130 + 25 + 300
    world.close()


@pytest.mark.parametrize("service", ["claimer", "rescue", "leadership", "scheduler", "expiry"])
def test_a_service_that_does_not_come_back_is_not_helped(service: str) -> None:
    """Skipping ends where a poll would have found something. For one that would not have polled, nothing is skipped."""
    world = quiet_world()
    world.schedule("hourly", "30 * * * *")
    world.run(60.0)
    for member in world.members.values():
        slot = member.named[service]
        tick = slot.service.tick

        async def sleepy(now: datetime, tick: Callable[[datetime], Awaitable[datetime]] = tick) -> datetime:
            await tick(now)
            return now + timedelta(hours=3)

        slot.service.tick = sleepy  # type: ignore[method-assign]
        world.driver.plan(slot, world.clock.now())
    world.run(1.0)
    before = world.timeline.skipped
    world.run(120.0)
    assert world.timeline.skipped == before
    world.close()


def test_a_node_that_dies_in_a_quiet_hour_is_missed_when_its_lease_ends() -> None:
    world = quiet_world()
    world.run(HOUR)
    world.crash("one")
    world.run(40.0)
    (end,) = [event for event in world.history.events if event.kind == "lease.end"]
    (crash,) = [event for event in world.history.events if event.kind == "crash"]
    assert 10e6 < end.at - crash.at < 25e6
    assert sum(member.leads for member in world.members.values()) == 1
    world.close()


def test_a_quiet_hour_ends_where_something_has_waited_past_its_time() -> None:
    world = quiet_world()
    job = world.enqueue(Act(), delay=2 * HOUR, deadline=HOUR / 2)
    before = calls(world)
    world.run(HOUR)
    assert (world.job(job).state, world.job(job).reason) == ("skipped", "deadline")
    assert HOUR / 2 <= seconds(world, job) < HOUR / 2 + 1.1
    assert calls(world) - before < 200
    world.close()
