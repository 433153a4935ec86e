"""The leader dies between any two of its store calls while there is a cluster job: one verdict, one recorded action."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from oncue.model import Claim
from oncue.sim.checker import check
from oncue.sim.cluster import CREW, Terms, cluster_job, create_at_once, declare
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.wire import When
from oncue.sim.world import World
from oncue.tasks.cluster import PART

SHARES = 2
SETTLED = 2.0
"""Seconds after which each node has a name and one leads."""


def acts(claim: Claim) -> Act:
    """Every part and the leader action take a moment. The parts of the others are tried again."""
    if not claim.task.endswith(PART):
        return Act(seconds=0.1)
    return Act("retry" if claim.address != "node:victim" and not claim.attempt else "ok", 0.05, after=0.1)


def a_cluster(*, at_once: bool, nodes: Sequence[str] = ("victim", "second", "third")) -> World:
    """The victim leads, and a cluster job is created: by the leader itself, or as a wish."""
    world = World(1, crew=CREW, script=acts, elide=True)
    declare(world, Terms(quorum_timeout=2.0, max_retries=1))
    for name in nodes:
        world.boot(name)
        world.run(SETTLED / len(nodes))
    create = partial(create_at_once, world) if at_once else world.submit
    create(cluster_job(world))
    return world


def calls_of_the_leader(*, at_once: bool) -> int:
    """How many calls the victim makes until everything has ended, and a few more."""
    world = a_cluster(at_once=at_once)
    wire = world.members["victim"].wire
    before = wire.calls
    assert world.members["victim"].leads
    assert world.run_until(world.drained, 30, look=0.1)
    calls = wire.calls - before + 3
    assert [job.state for job in world.jobs() if not job.task.endswith(PART)] == ["succeeded"]
    world.close()
    return calls


@pytest.mark.contract("CLUS-9", "CLUS-12")
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_leader_that_dies_at_any_call_leaves_one_verdict_and_one_action(
    at_once: bool, when: When, share: int
) -> None:
    calls = calls_of_the_leader(at_once=at_once)
    assert calls > 20
    for call in range(1 + share, calls + 1, SHARES):
        world = a_cluster(at_once=at_once)
        world.members["victim"].wire.crash_at(call, when)
        world.run(1.5)
        assert not world.members["victim"].alive
        world.after(1.0, lambda: world.revive("victim"))  # noqa: B023
        world.history.add("world", "faults.over")
        assert world.run_until(world.drained, 60)
        world.run(1.0)
        where = f"{when} call {call}"
        violations = check(world.history.events, world.final(), drained_within=30.0)
        assert not violations, f"{where}: " + "\n".join(map(str, violations))
        is_one_and_recorded_once(world, where)
        world.close()


def is_one_and_recorded_once(world: World, where: str) -> None:
    whole = [job for job in world.jobs() if not job.task.endswith(PART)]
    if not whole:
        return  # the leader died before the job was written
    (job,) = whole
    (cluster,) = finish(world.store.cluster.get([job.id], world.server.now()))
    assert job.state == "succeeded", where
    assert cluster.quorum is not None, where
    changes = [
        event.fields for event in world.history.events if event.kind == "change" and event.fields["id"] == job.id
    ]
    assert [told["state"] for told in changes if told["accepted"] and told["outcome"] == "succeeded"] == [
        "succeeded"
    ], where
