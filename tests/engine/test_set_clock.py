"""Somebody sets the database's clock back: nobody waits until it is where it was."""

from __future__ import annotations

import dataclasses

import pytest

from oncue.sim.operator import OPTIONS
from oncue.sim.script import Act
from oncue.sim.world import World

HOUR = 3600.0
SOON = 5.0
LONG = Act(seconds=600.0)
UNLIMITED = dataclasses.replace(OPTIONS, timeout=None, max_runtime=None)


def an_hour_earlier(**terms: int) -> World:
    """A cluster that has been at work, and then heard that it is an hour earlier. Nobody wakes anybody in it."""
    world = World(1, own_clocks=True, hints=0.0, **terms)
    world.limit(1)
    for name in ("one", "two"):
        world.boot(name)
    world.enqueue(Act())
    world.run(30.0)
    world.set_clock(-HOUR)
    world.run(30.0)
    return world


@pytest.mark.contract("QUE-4")
def test_what_is_due_is_queued() -> None:
    world = an_hour_earlier()
    job = world.enqueue(Act(), delay=2.0)
    world.run(2.0 + SOON)
    assert world.job(job).state == "succeeded"


def test_a_limit_that_is_raised_holds() -> None:
    world = an_hour_earlier(concurrency=2)
    jobs = [world.enqueue(LONG, options=UNLIMITED) for _ in range(4)]
    world.run(SOON)
    assert [world.job(job).state for job in jobs].count("running") == 1
    world.limit(4)
    world.run(SOON)
    assert [world.job(job).state for job in jobs].count("running") == 4


@pytest.mark.contract("QUE-9")
def test_who_dies_then_is_found_to_be_dead() -> None:
    """A node that is new judges nobody for a lease: by the clock that there is."""
    world = an_hour_earlier(concurrency=1)
    for name in ("one", "two"):
        world.crash(name)
        world.revive(name)
    world.run(1.0)
    world.set_clock(-HOUR)
    world.run(30.0)
    job = world.enqueue(Act(seconds=60.0), Act(), options=UNLIMITED)
    world.run(SOON)
    holder = next(name for name, member in world.members.items() if str(member.id) == str(world.job(job).node_id))
    world.crash(holder)
    world.run(4 * world.pace.lease)
    assert world.job(job).crashes == 1
