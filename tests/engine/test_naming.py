"""Under which name a node goes: its own if no living node has it, else, after one lease, the same with a number."""

from __future__ import annotations

import logging

import pytest

from oncue.errors import ConfigError
from oncue.policy.names import checked_node_name, numbered
from oncue.policy.options import Options
from oncue.settings import load
from oncue.sim.checker import check
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.world import PACE, World


def names(world: World) -> dict[str, str | None]:
    """By process the name that is leased to it."""
    by_id = {node.id: node.name for node in finish(world.store.nodes.alive()) if node.named}
    return {name: by_id.get(member.worker.node.id) for name, member in world.members.items() if member.alive}


def kept(world: World) -> bool:
    violations = check(world.history.events, world.final())
    assert not violations, "\n".join(map(str, violations))
    return True


def test_a_name_that_nobody_has_is_taken_at_once() -> None:
    world = World(1)
    member = world.boot("worker")
    world.run(0.01)
    assert names(world) == {"worker": "worker"}
    assert (member.worker.naming.held, member.worker.naming.shown) == ("worker", "worker")


def test_one_that_left_in_good_order_frees_its_name_at_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    world.boot("worker")
    world.run(1.0)
    world.stop("worker", within=0.0)
    world.run(0.5)
    with caplog.at_level(logging.INFO, "oncue.naming"):
        world.boot("worker")
        world.run(0.01)
    assert names(world) == {"worker": "worker"}
    assert not caplog.records


def test_a_predecessor_that_is_proved_dead_loses_its_name_at_once() -> None:
    world = World(1, one_host=True)
    world.boot("worker")
    world.run(1.0)
    world.crash("worker")
    world.boot("worker")
    world.run(0.01)
    assert names(world) == {"worker": "worker"}
    assert kept(world)


def test_a_predecessor_whose_lease_is_over_loses_its_name_at_once() -> None:
    world = World(1)
    world.boot("worker")
    world.run(1.0)
    world.crash("worker")
    world.run(PACE.lease)
    world.boot("worker")
    world.run(0.01)
    assert names(world) == {"worker": "worker"}
    assert kept(world)


def test_without_proof_the_newcomer_works_without_a_name_until_that_lease_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(1)
    world.boot("worker")
    world.run(1.5)
    world.crash("worker")
    (dead,) = finish(world.store.nodes.alive())
    with caplog.at_level(logging.INFO, "oncue.naming"):
        member = world.boot("worker")
        job = world.enqueue(Act())
        world.run((dead.expires_at - world.clock.now()).total_seconds() - 0.01)
        assert names(world) == {"worker": None}
        assert world.job(job).state == "succeeded", "it need not wait for that"
        assert (member.worker.naming.held, member.worker.naming.shown) == (None, "worker")
        world.run(0.05)
    assert names(world) == {"worker": "worker"}
    asked, lost, taken = (record.getMessage() for record in caplog.records)
    assert asked.startswith(f"another node has the name worker: {dead.id} on host host, process 1, with a lease until ")
    assert asked.endswith(
        "this node works without a name for now, and goes on as worker~2 if that node is alive in 3 s"
    )
    assert lost.startswith(f"node worker ({dead.id}) is lost")
    assert taken == "this node goes by the name worker: the node that had it is gone"
    assert kept(world)


def test_beside_a_living_namesake_it_goes_on_under_a_number(caplog: pytest.LogCaptureFixture) -> None:
    """Two containers of a pod, or two workers that were given one name."""
    world = World(1)
    world.boot("first", known_as="worker")
    world.run(0.5)
    world.boot("second", known_as="worker")
    with caplog.at_level(logging.WARNING, "oncue.naming"):
        world.run(PACE.lease - 0.1)
        assert names(world) == {"first": "worker", "second": None}
        world.run(0.2)
    assert names(world) == {"first": "worker", "second": "worker~2"}
    assert caplog.records[-1].getMessage() == (
        "this node goes by the name worker~2, since another living node has the name worker; if that is not intended, "
        "give every worker a --name of its own"
    )
    world.boot("third", known_as="worker")
    world.run(PACE.lease + 0.1)
    assert names(world) == {"first": "worker", "second": "worker~2", "third": "worker~3"}
    assert world.members["second"].worker.leadership._shown() == "worker~2"
    assert kept(world)


def test_it_recovers_nothing_of_its_namesake() -> None:
    world = World(1, one_host=True)
    world.boot("first", known_as="worker")
    world.run(0.5)
    job = world.enqueue(Act(seconds=60.0), options=Options("at_least_once", None, 600.0))
    world.run(0.1)
    world.boot("second", known_as="worker")
    world.run(4 * PACE.lease)
    assert (world.job(job).state, world.job(job).claim_no) == ("running", 1)


def test_many_of_one_name_have_a_name_each() -> None:
    world = World(1, latency=0.02)
    for number in range(6):
        world.boot(f"{number}", known_as="worker")
    world.run(PACE.lease + 1.0)
    assert sorted(names(world).values(), key=str) == ["worker", *(f"worker~{number}" for number in range(2, 7))]
    assert kept(world)


def test_after_an_outage_each_has_the_name_that_it_had() -> None:
    world = World(1)
    for name in ("first", "second"):
        world.boot(name, known_as="worker")
        world.run(0.1)
    world.run(PACE.lease + 1.0)
    before = names(world)
    for member in world.members.values():
        member.wire.down = True
    world.run(5 * PACE.lease)
    world.members["second"].wire.down = False
    world.run(0.5)
    world.members["first"].wire.down = False
    world.run(2 * PACE.lease)
    assert names(world) == before == {"first": "worker", "second": "worker~2"}
    assert kept(world)


def test_one_that_was_given_up_and_whose_name_was_taken_goes_on_under_a_number() -> None:
    world = World(1)
    world.boot("worker")
    world.run(1.0)
    world.pause("worker")
    world.run(PACE.lease)
    world.boot("heir", known_as="worker")
    world.run(1.0)
    assert names(world)["heir"] == "worker"
    world.resume("worker")
    world.run(PACE.lease + 2 * PACE.beat)
    assert names(world) == {"worker": "worker~2", "heir": "worker"}
    assert kept(world)


def test_one_that_stands_by_asks_for_no_name_until_it_is_the_exclusive_worker() -> None:
    world = World(1)
    world.boot("active", exclusive=True, known_as="worker")
    world.run(0.5)
    world.boot("standby", exclusive=True, known_as="worker")
    world.run(3 * PACE.lease)
    assert names(world) == {"active": "worker", "standby": None}
    world.crash("active")
    world.run(PACE.lease + PACE.beat + 0.5)
    assert names(world) == {"standby": "worker"}
    assert kept(world)


@pytest.mark.parametrize("verb", ["nodes.take_name", "nodes.expire"])
def test_a_lost_reply_does_not_cost_the_name(verb: str) -> None:
    world = World(1)
    world.boot("worker")
    world.run(1.0)
    world.crash("worker")
    world.run(0.5)
    member = world.boot("worker")
    world.run(0.5)
    member.wire.lose_reply(verb)
    world.run(2 * PACE.lease)
    assert names(world) == {"worker": "worker"}
    assert member.worker.naming.held == "worker"
    assert kept(world)


def test_a_name_with_a_number_is_no_longer_than_a_name_may_be() -> None:
    assert numbered("worker", 1) == "worker"
    assert numbered("worker", 12) == "worker~12"
    assert len(numbered("x" * 128, 1000)) <= 128


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("worker~2", "expected a name without ~: oncue marks the second worker of a name with it"),
        ("x" * 129, "expected a printable name of 1 to 128 characters"),
        (" worker", "expected a printable name of 1 to 128 characters"),
        ("a\nb", "expected a printable name of 1 to 128 characters"),
    ],
)
def test_a_bad_name_is_refused_when_the_settings_are_read(name: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        checked_node_name(name)
    with pytest.raises(ConfigError, match=f"^ONCUE_NODE_NAME: {complaint}"):
        load(environment={"ONCUE_NODE_NAME": name})
