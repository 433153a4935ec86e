"""A leader that dies between any two of its store calls, and one whose every reply may be lost."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.policy.options import Options
from oncue.sim.checker import check
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.wire import When
from oncue.sim.world import World

SHARES = 4
LEADING = {
    "leases.get", "leases.acquire", "leases.renew", "leases.release", "slots.due", "jobs.running", "jobs.apply",
    "jobs.reserve", "slots.decide", "slots.next_run", "slots.release_parked", "nodes.namesakes", "nodes.declare_lost",
    "jobs.held",
}  # fmt: skip
SELDOM = {"leases.release", "jobs.held", "nodes.namesakes", "nodes.declare_lost"}
ONCE = Options("at_most_once", None, 1.5)


def a_cluster() -> World:
    """The victim leads. One schedule has a run in its way that is over its time, one has slots to catch up with."""
    world = World(3, concurrency=2, one_host=True)
    world.boot("victim")
    world.run(0.2)
    world.boot("witness")
    world.run(0.8)
    world.schedule("often", "@every 1s", missed="each", max_instances=5)
    world.schedule("stale", "@every 2s", Act("hang", stubborn=True), options=ONCE, max_retries=0)
    finish(world.operator.schedules.run_now("often"))
    finish(world.operator.schedules.create("filled", "* * * * *", world.operator.task(), {"acts": [{}]}))
    finish(world.operator.schedules.backfill("filled", world.clock.now().replace(hour=0, second=0), world.clock.now()))
    return world


def calls_of_a_leader() -> list[int]:
    """Which of the victim's calls have to do with leading, in the first seconds."""
    world, found = a_cluster(), []
    wire = world.members["victim"].wire
    before, real = wire.calls, wire.pass_on

    async def noted(verb: str, *rest: Any) -> Any:
        if verb in LEADING:
            found.append(wire.calls + 1 - before)
        return await real(verb, *rest)

    wire.pass_on = noted  # type: ignore[method-assign]
    world.run(3.2)
    assert world.members["victim"].leads
    world.close()
    return found


def settled(world: World) -> None:
    """In the end somebody leads and nothing waits; then no more comes, and everything ends."""
    world.history.add("world", "faults.over")
    world.run(3 * world.pace.lease)
    world.calm()
    for schedule in finish(world.store.schedules.page()):
        finish(world.operator.schedules.toggle(schedule.name, False))
    world.run_until(world.drained, 60)
    world.run(1.0)


@pytest.mark.contract("SLOT-16")
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_leaders_crash_at_any_call_breaks_nothing(share: int, when: When) -> None:
    calls = calls_of_a_leader()
    assert len(calls) > 30
    for call in calls[share::SHARES]:
        world = a_cluster()
        world.members["victim"].wire.crash_at(call, when)
        world.run(6.0)
        assert not world.members["victim"].alive
        world.revive("victim")
        settled(world)
        violations = check(world.history.events, world.final(), drained_within=60.0)
        assert not violations, f"{when} call {call}: " + "\n".join(map(str, violations))
        world.close()


@pytest.mark.contract("SLOT-16")
@pytest.mark.parametrize("verb", sorted(LEADING - SELDOM))
def test_a_lost_reply_to_any_verb_breaks_nothing(verb: str) -> None:
    world = a_cluster()
    for _ in range(3):
        world.members["victim"].wire.lose_reply(verb)
        world.run(1.4)
    world.members["victim"].wire.heal()
    settled(world)
    violations = check(world.history.events, world.final(), drained_within=60.0)
    assert not violations, "\n".join(map(str, violations))
    world.close()
