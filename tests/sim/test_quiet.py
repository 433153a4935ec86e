"""Quiet time costs nothing, and changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest

from oncue.engine.node import Pace
from oncue.engine.service import Signal
from oncue.policy.options import Options
from oncue.sim.driver import finish
from oncue.sim.member import TimedService
from oncue.sim.script import Act
from oncue.sim.world import World
from oncue.store.contract import Store

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


def asleep(world: World, service: str) -> None:
    """From its next step on this service comes back after three hours only, on every node, whatever wakes it."""
    for member in world.members.values():
        timed = member.named[service]
        tick = timed.service.tick

        async def sleepy(now: datetime, tick: Callable[[datetime], Awaitable[datetime]] = tick) -> datetime:
            await tick(now)
            return now + timedelta(hours=3)

        timed.service.tick = sleepy  # type: ignore[method-assign]
        world.driver.plan(timed, world.clock.now())
    world.run(1.0)
    for member in world.members.values():
        member.named[service].service.signal.listen(None)


def has_claimed(world: World) -> bool:
    job = world.enqueue(Act(), delay=HOUR / 2)
    asleep(world, "claimer")
    world.run(HOUR)
    return world.job(job).state == "succeeded"


def has_rescued(world: World) -> bool:
    asleep(world, "rescue")
    world.crash(next(member.name for member in world.members.values() if not member.leads))
    world.run(HOUR)
    return any(event.kind == "lease.end" for event in world.history.events)


def has_elected(world: World) -> bool:
    asleep(world, "leadership")
    world.crash(next(member.name for member in world.members.values() if member.leads))
    world.run(HOUR)
    return any(member.leads for member in world.members.values())


def has_fired(world: World) -> bool:
    world.schedule("hourly", "30 * * * *")
    world.run(60.0)
    asleep(world, "scheduler")
    world.run(HOUR)
    return bool(world.slots("hourly"))


def has_expired(world: World) -> bool:
    job = world.enqueue(Act(), delay=2 * HOUR, deadline=HOUR / 2)
    asleep(world, "expiry")
    world.run(HOUR)
    return world.job(job).state == "skipped"


@pytest.mark.parametrize("work_is_done", [has_claimed, has_rescued, has_elected, has_fired, has_expired])
def test_a_service_that_does_not_come_back_is_not_helped(work_is_done: Callable[[World], bool]) -> None:
    """Skipping ends where a poll would have found something. One that would not have polled is not called there."""
    world = quiet_world()
    assert not work_is_done(world)
    world.close()


class Unknown:
    """A service that the simulator has never heard of. Its next work is due at an instant that only it knows."""

    name = "unknown"

    def __init__(self, due: datetime) -> None:
        self.signal = Signal()
        self.done: list[datetime] = []
        self.calls = 0
        self.due = due

    async def tick(self, now: datetime) -> datetime:
        self.calls += 1
        if now >= self.due:
            self.done.append(now)
            self.due += timedelta(days=1)
        return now + timedelta(seconds=5)


class Foretelling(Unknown):
    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        return self.due


@pytest.mark.parametrize("kind", [Unknown, Foretelling])
def test_a_service_that_nobody_knows_is_called_when_it_has_something_to_do(kind: type[Unknown]) -> None:
    world = quiet_world()
    due = world.server.now() + timedelta(minutes=40)
    service, member = kind(due), world.members["two"]
    timed = TimedService(member, service)
    member.asked.append(timed)
    world.driver.plan(timed, world.clock.now())
    world.run(HOUR)
    (done,) = service.done
    assert timedelta(0) <= done - due < timedelta(seconds=5.5)
    assert (service.calls > 700) == (kind is Unknown), "one that cannot say is called whenever it is due"
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


def test_a_group_that_is_paused_or_has_used_up_its_rate_is_looked_at_when_it_has_its_turn() -> None:
    world = quiet_world()
    finish(world.operator.queues.pause("default", group="paused", for_=HOUR))
    finish(world.operator.queues.limit("default", group="rated", rate_per_group="1/h"))
    world.disturbed()
    paused = world.enqueue(Act(), group="paused")
    rated = [world.enqueue(Act(), group="rated") for _ in range(2)]
    world.run(20.0)
    before = calls(world)
    world.run(HOUR - 60.0)
    assert calls(world) - before < 100
    assert [world.job(job_id).finished for job_id in (paused, *rated)] == [False, True, False]
    world.run(70.0)
    assert HOUR <= seconds(world, paused) < HOUR + 2.0
    assert HOUR <= seconds(world, rated[1]) < HOUR + 2.0
    world.close()
