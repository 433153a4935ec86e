"""Clocks: those of the hosts do not matter, and the database's may be set."""

from __future__ import annotations

from datetime import timedelta

import pytest

from oncue.clock import VirtualClock
from oncue.sim.clocks import HostClock, ServerClock
from oncue.sim.world import World


def test_a_process_learns_the_databases_time_and_keeps_up_with_it() -> None:
    true = VirtualClock()
    server = ServerClock(true)
    clock = HostClock(true, skew=86_400.0, drift=100.0).in_a_process()
    assert abs(clock.now() - server.now()) > timedelta(hours=23)
    clock.learn(server.now(), clock.sent())
    true.advance(timedelta(seconds=5))
    assert abs(clock.now() - server.now()) < timedelta(milliseconds=1)


def test_a_slow_answer_leaves_the_time_between_two_bounds() -> None:
    true = VirtualClock()
    server = ServerClock(true)
    clock = HostClock(true, skew=-7.0).in_a_process()
    sent, told = clock.sent(), server.now() + timedelta(seconds=1)
    true.advance(timedelta(seconds=2))
    clock.learn(told, sent)
    assert clock.now() == told
    assert clock.latest() == told + timedelta(seconds=2)


@pytest.mark.contract("SLOT-3", "SLOT-16")
@pytest.mark.parametrize("step", [90.0, -90.0])
def test_nodes_follow_a_clock_that_is_set(step: float) -> None:
    """No slot is decided twice, and after a while everybody goes by the new time."""
    world = World(3, own_clocks=True, elide=True)
    for name in ("one", "two"):
        world.boot(name)
    world.run(10.0)
    world.schedule("often", "* * * * *")
    world.run(300.0)
    world.set_clock(step)
    world.run(300.0)
    for member in world.members.values():
        assert abs(member.clock.now() - world.server.now()) < timedelta(milliseconds=5)
    decided = [slot.scheduled_for for slot in world.slots("often")]
    assert len(decided) == len(set(decided))
    assert world.server.now() - max(decided) < timedelta(seconds=61)
    world.close()
