"""A small scenario in which a process dies between any two of its store calls."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from oncue.policy.options import Options
from oncue.policy.retry import Ladder
from oncue.sim.checker import check
from oncue.sim.deliveries import CREW, delivery
from oncue.sim.driver import finish
from oncue.sim.network import Endpoint, Network
from oncue.sim.script import Act
from oncue.sim.wire import When
from oncue.sim.world import World
from oncue.verbs.webhooks import carried_of

SHARES = 2
OF_DELIVERIES = ("groups.", "webhooks.", "jobs.apply", "queues.default_limits")
"""How the calls begin that have to do with deliveries; the others are those of every cluster."""
ONCE = Options("at_most_once", 6.0, 20.0)
STEPS = Options(retry=Ladder("1s", "2s"), max_runtime=20.0)


def a_cluster() -> World:
    world = World(1, concurrency=2)
    world.boot("victim")
    world.boot("witness")
    world.submit(world.batch([[Act()], [Act("fail"), Act()], [Act("snooze"), Act()]], options=STEPS))
    world.submit(world.batch([[Act()], [Act(seconds=2.0)]], options=ONCE, max_retries=0))
    return world


def a_cluster_on_terms() -> World:
    """Ends that depend on an instant and on the leader, details, jobs that follow, of which some share a key, and jobs
    for the leader and for one node."""
    world = World(1, concurrency=2)
    world.boot("victim")
    world.boot("witness")
    led = Act("snooze", 0.3, led=True, details=True, follows=1)
    in_time = Act(seconds=0.5, before=2.0, details=True, follows=2, follows_late=1)
    late = Act(seconds=1.5, before=1.0, follows=1, follows_late=2, follows_key="late")
    world.submit(world.batch([[led, Act(led=True, follows=1)], [in_time], [late]], options=STEPS))
    world.submit(world.batch([[Act(seconds=2.0, led=True, details=True)]], options=ONCE, max_retries=0))
    world.submit(world.batch([[Act("snooze", 0.3), Act(seconds=0.4)]], options=STEPS, address="role:leader"))
    world.submit(world.batch([[Act(seconds=0.4)]], options=STEPS, address="node:victim", deadline=10.0))
    return world


def a_cluster_with_groups() -> World:
    """Groups that run one job at a time, in a queue with a rate. One has its own rate, and is paused first."""
    world = World(1, concurrency=2)
    finish(world.operator.queues.limit("default", per_group=1, rate="15/s"))
    finish(world.operator.queues.limit("default", group="b", rate_per_group="4/s"))
    finish(world.operator.queues.pause("default", group="b", for_=0.3))
    world.boot("victim")
    world.boot("witness")
    for group in "ab":
        world.submit(world.batch([[Act()], [Act("snooze", after=0.2), Act(follows=1)]], options=STEPS, group=group))
    return world


def a_cluster_that_delivers() -> World:
    """Deliveries to an endpoint that is busy at first, and to one that is down, so that its breaker opens."""
    network = Network(Random(1), threshold=2)
    world = World(1, concurrency=2, crew=CREW, network=network, elide=True)
    for name, manner in (("busy", "busy"), ("down", "down")):
        until = world.clock.now() + timedelta(seconds=4)
        network.endpoints[f"{name}.example"] = Endpoint(manner, until, 2.0)  # type: ignore[arg-type]
        finish(world.operator.hooks.create(name, url=f"https://{name}.example/", retry=["1s", "2s", "1s"]))
    world.history.add("world", "breaker", threshold=2)
    world.boot("victim")
    world.boot("witness")
    for name in ("busy", "down", "down"):
        told = carried_of(finish(world.operator.hooks.get(name)))
        world.submit(delivery(world, name, told, {"webhook": name, "payload": {"order": 7}}))
    return world


def calls_for_deliveries() -> list[int]:
    """The numbers of the victim's calls that have to do with deliveries."""
    world, found = a_cluster_that_delivers(), list[int]()
    wire = world.members["victim"].wire
    passed_on = wire.pass_on

    async def noted(verb: str, *call: Any) -> Any:
        if verb.startswith(OF_DELIVERIES):
            found.append(wire.calls + 1)
        return await passed_on(verb, *call)

    wire.pass_on = noted  # type: ignore[method-assign]
    assert world.run_until(world.drained, 600, look=5.0)
    world.close()
    return found


@pytest.mark.contract("HOOK-2", "HOOK-3", "HOOK-9", "HOOK-10")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_call_sends_the_same_delivery_again(when: When) -> None:
    """Each delivery has one id, ends once, and is delivered if its endpoint answers in time: the checker looks at that.

    The calls are those of deliveries too: the look-up of a webhook, its breaker, and the record of an attempt.
    """
    calls = calls_for_deliveries()
    assert len(calls) > 20
    for call in calls[::2]:
        world = a_cluster_that_delivers()
        world.members["victim"].wire.crash_at(call, when)
        world.run(6.0)
        world.revive("victim")
        world.history.add("world", "faults.over")
        assert world.run_until(world.drained, 600, look=5.0)
        world.run(1.0)
        violations = check(world.history.events, world.final(), drained_within=600.0)
        assert not violations, f"{when} call {call}: " + "\n".join(map(str, violations))
        assert {job.state for job in world.jobs()} == {"succeeded"}, f"{when} call {call}"
        delivered = {event.fields["id"] for event in world.history.events if event.fields.get("status") == 200}
        assert delivered == {job.id for job in world.jobs()}
        world.close()


def calls_of_the_victim(a_cluster: Callable[[], World]) -> int:
    world = a_cluster()
    assert world.run_until(world.drained, 60)
    world.run(1.0)
    return world.members["victim"].wire.calls


@pytest.mark.contract("QUE-9")
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("a_cluster", [a_cluster, a_cluster_on_terms, a_cluster_with_groups])
def test_a_crash_at_any_call_breaks_nothing(share: int, when: When, a_cluster: Callable[[], World]) -> None:
    calls = calls_of_the_victim(a_cluster)
    assert calls > 30
    # Before and after every other call: between them lies each point that a process can have come to.
    for call in range(1 + 2 * share, calls + 1, 2 * SHARES):
        world = a_cluster()
        world.members["victim"].wire.crash_at(call, when)
        world.run(6.0)
        crashed = not world.members["victim"].alive
        world.revive("victim")
        world.history.add("world", "faults.over")
        world.run_until(world.drained, 60)
        world.run(1.0)
        violations = check(world.history.events, world.final(), drained_within=30.0)
        assert not violations, f"{when} call {call}: " + "\n".join(map(str, violations))
        assert crashed or call > calls - 15
        world.close()
