"""Leases under virtual time: who is alive, who is rescued, and who must stop."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from oncue.engine.rescue import Rescue
from oncue.errors import StoreUnavailable
from oncue.policy.options import Options
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.world import PACE, World
from oncue.store.sqlite.nodes import SqliteNodes
from oncue.telemetry import Telemetry

LONG = Act(seconds=5.0)


class Judge:
    """A member that may judge others as often as it is told, and then always."""

    def __init__(self, *answers: bool) -> None:
        self._answers = list(answers)

    def steady(self, now: datetime) -> bool:
        return self._answers.pop(0) if self._answers else True

    def steady_from(self, now: datetime) -> datetime:
        return now


def outcomes(world: World, kind: str = "outcome") -> list[tuple[str, str]]:
    return [(event.node, event.fields["outcome"]) for event in world.history.events if event.kind == kind]


def starts(world: World, job_id: int) -> list[str]:
    return [event.node for event in world.history.events if event.kind == "start" and event.fields["id"] == job_id]


@pytest.mark.contract("QUE-9")
def test_a_dead_nodes_job_runs_elsewhere_within_a_lease_and_a_pass() -> None:
    world = World(1)
    world.boot("victim")
    world.run(0.1)
    job = world.enqueue(LONG)
    world.run(0.1)
    world.boot("heir")
    world.run(0.1)
    world.crash("victim")
    world.run(PACE.lease + PACE.lease / 3 + PACE.poll)
    assert starts(world, job) == ["victim.1", "heir.1"]
    row = world.job(job)
    assert (row.crashes, row.retry_count) == (1, 0)
    world.run(6.0)
    assert world.job(job).state == "succeeded"
    assert [attempt.outcome for attempt in world.attempts(job)] == ["node_lost"]


def test_a_living_nodes_job_stays() -> None:
    world = World(1)
    world.boot("owner")
    world.run(0.1)
    job = world.enqueue(Act(seconds=5.5))
    world.run(0.1)
    world.boot("other")
    world.run(60.0)
    assert starts(world, job) == ["owner.1"]
    assert world.job(job).state == "succeeded"


def test_a_node_that_cannot_renew_its_lease_stops_its_jobs_before_it_ends() -> None:
    world = World(1)
    member = world.boot("alone")
    world.run(0.1)
    job = world.enqueue(LONG)
    world.run(0.5)
    member.wire.down = True
    world.run(PACE.lease - 0.5)
    assert outcomes(world) == [("alone.1", "Released")]
    assert member.executor.busy == 0
    member.wire.down = False
    world.run(10.0)
    row = world.job(job)
    assert (row.state, row.crashes, row.retry_count) == ("succeeded", 0, 0)
    assert starts(world, job) == ["alone.1", "alone.1"]


def test_beats_that_fail_are_told_once_for_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    """A beat is tried again four times as often as it is due: that would be a line a second."""
    world = World(1)
    member = world.boot("alone")
    world.run(0.1)
    with caplog.at_level("WARNING", "oncue"):
        member.wire.down = True
        world.run(20 * PACE.beat)
        member.wire.down = False
        world.run(4 * PACE.beat)
    began, ended = (record.getMessage() for record in caplog.records if record.name == "oncue.database")
    assert began.endswith("(everything is tried again until it answers)")
    assert ended.startswith("the database answers again, after ")
    lost, back = (record.getMessage() for record in caplog.records if record.name == "oncue.node")
    assert lost.endswith("all its jobs are stopped and given back")
    assert back == "this node has a lease again, and takes jobs again"


def test_a_rescue_of_many_jobs_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1, concurrency=5)
    world.boot("victim")
    world.run(0.1)
    jobs = [world.enqueue(Act(seconds=60.0)) for _ in range(4)]
    jobs.append(world.enqueue(Act(seconds=60.0), options=Options("at_most_once")))
    world.run(1.0)
    world.crash("victim")
    world.boot("survivor")
    with caplog.at_level("WARNING", "oncue.rescue"):
        world.run(2 * PACE.lease)
    told = [record.getMessage() for record in caplog.records if "job" in record.getMessage()]
    assert told == [f"rescue: 5 jobs ({', '.join(map(str, jobs))}): 4 now queued, 1 now skipped"]


def test_a_node_that_was_declared_lost_stops_its_jobs_and_joins_anew() -> None:
    world = World(1)
    member = world.boot("zombie")
    world.run(0.1)
    job = world.enqueue(LONG)
    world.run(0.1)
    world.boot("heir")
    world.pause("zombie")
    world.run(8.0)
    assert starts(world, job) == ["zombie.1", "heir.1"]
    world.resume("zombie")
    world.run(2.0)
    assert member.executor.busy == 0
    late = [event for event in world.history.events if event.kind == "change" and not event.fields["accepted"]]
    assert [(event.node, event.fields["id"]) for event in late] == [("zombie.1", job)]
    world.run(10.0)
    assert world.job(job).state == "succeeded"
    world.crash("heir")
    again = world.enqueue(Act())
    world.run(2.0)
    assert starts(world, again) == ["zombie.1"], "it takes jobs again"


def test_a_node_that_was_declared_lost_stops_before_anybody_else_has_its_jobs() -> None:
    """Its books still agree with the database's: only the beat tells."""
    world = World(1)
    member = world.boot("alone")
    world.run(0.1)
    job = world.enqueue(LONG)
    world.run(0.1)
    finish(world.store.nodes.declare_lost(member.worker.node.id, world.clock.now()))
    world.run(PACE.beat)
    assert outcomes(world) == [("alone.1", "Released")]
    world.run(10.0)
    assert starts(world, job) == ["alone.1", "alone.1"]
    assert world.job(job).state == "succeeded"


def test_a_beat_that_arrives_late_does_not_make_the_lease_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    real, beats = SqliteNodes.beat, list[tuple[Any, ...]]()

    async def beat(self: SqliteNodes, *told: Any) -> bool:
        beats.append(told)
        return await real(self, *told)

    monkeypatch.setattr(SqliteNodes, "beat", beat)
    world = World(1)
    world.boot("alone")
    world.run(3.5 * PACE.beat)
    before = finish(world.store.nodes.alive())
    assert not finish(real(world.store.nodes, *beats[0])), "its caller gave it up, and has beaten since"
    assert finish(world.store.nodes.alive()) == before


def steady(world: World, name: str) -> bool:
    return world.members[name].worker.membership.steady(world.clock.now())


def test_after_an_outage_the_others_get_a_leases_time_to_come_back() -> None:
    world = World(1)
    one, two = world.boot("one"), world.boot("two")
    world.run(1.0)
    assert not steady(world, "one"), "it is new, and knows nothing of the others"
    world.run(PACE.lease)
    assert steady(world, "one")
    one.wire.down = two.wire.down = True
    world.run(1.2)
    assert not steady(world, "one"), "it is out of touch itself"
    world.run(10.0)
    one.wire.down = False
    world.run(PACE.lease - 0.5)
    assert not steady(world, "one")
    assert not [event for event in world.history.events if event.kind == "lease.end"]
    two.wire.down = False
    world.run(PACE.lease)
    assert steady(world, "one")
    assert not [event for event in world.history.events if event.kind == "lease.end"]


def test_a_whole_cluster_that_was_suspended_loses_nobody() -> None:
    """A laptop's lid, a paused virtual machine: every lease is over at once, and nobody has crashed."""
    world = World(1)
    for name in ("one", "two", "three"):
        world.boot(name)
    world.run(0.1)
    job = world.enqueue(LONG)
    world.run(0.5)
    for name in world.members:
        world.pause(name)
    world.run(3600.0)
    for name in world.members:
        world.resume(name)
    world.run(20.0)
    row = world.job(job)
    assert (row.state, row.crashes) == ("succeeded", 0)
    assert not [event for event in world.history.events if event.kind == "lease.end"]


def test_a_rescuer_that_stood_still_in_the_middle_looks_again_before_it_judges() -> None:
    """What it read is old by then, and it may itself be the node that was declared lost."""
    world = World(1)
    world.boot("gone")
    world.run(0.1)
    job = world.enqueue(LONG)
    world.run(0.1)
    world.crash("gone")
    world.run(10.0)
    judge = Judge(True, False)
    rescue = Rescue(world.store, world.dice, Telemetry(), judge, interval=1.0, grace=PACE.lease)
    finish(rescue.tick(world.clock.now()))
    assert world.job(job).state == "running"
    finish(rescue.tick(world.clock.now()))
    assert world.job(job).state == "queued"


def test_a_rescue_that_cannot_be_written_is_no_rescue() -> None:
    """Whoever calls it hears of that, and tries again sooner than it would look."""
    world = World(1)
    member = world.boot("gone")
    world.run(0.1)
    world.enqueue(LONG)
    world.run(0.1)
    world.crash("gone")
    world.run(PACE.lease)
    member.wire.lose_reply("jobs.apply")
    rescue = Rescue(member.wire.as_store(), world.dice, Telemetry(), Judge(), interval=1.0, grace=PACE.lease)
    with pytest.raises(StoreUnavailable):
        finish(rescue.tick(world.clock.now()))


def test_the_last_node_standing_rescues_after_an_outage() -> None:
    world = World(1)
    world.boot("gone")
    world.run(0.1)
    job = world.enqueue(LONG)
    survivor = world.boot("survivor")
    world.run(0.1)
    world.crash("gone")
    survivor.wire.down = True
    world.run(10.0)
    survivor.wire.down = False
    world.run(2 * PACE.lease + PACE.lease / 3 + PACE.beat + LONG.seconds)
    assert world.job(job).state == "succeeded"
