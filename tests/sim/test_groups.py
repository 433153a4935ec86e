"""Jobs in groups of queues under random faults; and what claims of groups and rates must not cost."""

from __future__ import annotations

from collections import Counter

import pytest

from oncue.sim.driver import finish
from oncue.sim.groups import simulate_groups
from oncue.sim.script import Act
from oncue.sim.world import World

CHUNK = 10


@pytest.mark.parametrize("first", range(0, 20, CHUNK))
def test_every_promise_is_kept_in_groups(first: int) -> None:
    reached: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        world, violations = simulate_groups(seed)
        assert not violations, f"seed {seed}: " + "\n".join(map(str, violations))
        events = world.history.events
        reached.update(event.kind for event in events)
        reached["grouped"] += sum(event.fields["group"] is not None for event in events if event.kind == "job")
        reached["given back"] += sum(event.fields["turns"] < 0 for event in events if event.kind == "turns")
        reached["follows"] += sum("follows" in event.fields for event in events if event.kind == "job")
        world.close()
    assert min(reached[kind] for kind in ("group", "limits", "turns", "given back", "follows")) > 5
    assert reached["grouped"] > 300


def calls_in_a_rest(world: World) -> int:
    """How many calls the node makes in ten seconds, after it has seen what is there."""
    member = world.boot("one")
    world.run(2.0)
    before = member.wire.calls
    world.run(10.0)
    calls = member.wire.calls - before
    world.close()
    return calls


FEW = 300
"""Polls, beats and everything else: twenty ticks of the claimer with some calls each are most of it."""


def test_a_job_of_a_paused_group_costs_no_more_than_polls() -> None:
    """The rate of its queue would let it start at once."""
    world = World(1)
    finish(world.operator.queues.limit("default", rate="100/s"))
    finish(world.operator.queues.pause("default", group="a"))
    world.enqueue(Act(), group="a")
    assert calls_in_a_rest(world) < FEW


def test_a_rate_that_is_lifted_costs_nothing_any_more() -> None:
    world = World(1)
    finish(world.operator.queues.limit("default", rate="2/s"))
    for _ in range(6):
        world.enqueue(Act())
    world.after(1.2, lambda: finish(world.operator.queues.limit("default", rate=None)))
    assert calls_in_a_rest(world) < FEW


def test_a_queue_without_a_free_seat_costs_no_more_than_polls() -> None:
    """It has a rate, and the node has seats for others."""
    world = World(1)
    finish(world.operator.queues.limit("default", rate="100/s", per_node=1))
    for _ in range(2):
        world.enqueue(Act(seconds=30.0), max_retries=0)
    assert calls_in_a_rest(world) < FEW


def test_groups_of_a_queue_with_a_rate_are_forgotten() -> None:
    world = World(1)
    finish(world.operator.queues.limit("default", rate="10/s", rate_per_group="2/s"))
    for group in ("a", "b"):
        world.enqueue(Act(), group=group)
    world.boot("one")
    world.run(5.0)
    assert world.drained()
    assert finish(world.store.all_groups()) == {}
    world.close()


def test_jobs_that_wait_for_their_group_leave_the_rate_to_others() -> None:
    """A look for jobs without a group takes no turns for what waits in a paused one."""
    world = World(1, latency=0.3)
    finish(world.operator.queues.limit("default", rate="2/s"))
    finish(world.operator.queues.pause("default", group="a"))
    world.enqueue(Act(), group="a")
    world.boot("one")
    world.run(10.0)
    assert not [event for event in world.history.events if event.kind == "turns"]
    world.close()
