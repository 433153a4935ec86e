"""Cluster jobs whose leader, or whose nodes, are killed, stopped and restarted at each of their steps."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from signal import SIGCONT, SIGTERM

import pytest

from tests.process import standstill
from tests.process.cluster import TOLERANCE, Cluster
from tests.process.conftest import clustered
from tests.process.maintenance import (
    MORTAL_LEASE,
    PROGRAM,
    acted,
    create,
    crew,
    part_of,
    recorded,
    status,
    statuses,
    until_acts,
    until_parts_run,
    verdict,
    whole,
)
from tests.process.standstill import Point
from tests.process.wire import Weather, Wire, wired

STEPS = tuple(Point(verb, side) for verb in ("spread", "release") for side in ("before", "after"))
"""Where the leader's coordinator writes: the parts, and that the leader is to act."""
LATE = (Point("spread", "before"), Point("release", "before"), Point("apply", "before"))


def label(point: Point) -> str:
    return "-".join((point.side, point.verb))


@pytest.mark.contract("CLUS-6", "CLUS-9", "CLUS-12", "CLUS-15")
def test_a_leader_that_is_killed_while_the_parts_run_leaves_the_job_to_the_next_one(cluster: Cluster) -> None:
    leader, *others = crew(cluster)
    _, lease = cluster.led()
    job = create(cluster, part="part")
    until_parts_run(cluster, job, leader, *others)
    cluster.kill(leader)
    successor, later = cluster.led(lease.epoch)
    cluster.until(lambda: status(cluster, job, leader) == "lost", "its own part is shown as lost")
    cluster.open("part")
    found = verdict(cluster, job)
    assert (found.job.state, found.quorum, found.epoch) == ("succeeded", True, lease.epoch)
    assert found.decided_epoch is not None
    assert found.decided_epoch >= later.epoch
    assert found.job.result["by"] == successor.node_name
    assert found.job.result["completed"] == sorted(worker.node_name for worker in others)
    assert statuses(cluster, job) == {leader.node_name: "skipped"} | {one.node_name: "completed" for one in others}
    assert acted(cluster, job) == {successor.name: 1}


@pytest.mark.contract("CLUS-9", "CLUS-12")
def test_a_leader_that_is_killed_in_the_middle_of_its_action_is_followed_by_one_that_acts_again(
    cluster: Cluster,
) -> None:
    leader, *_ = crew(cluster)
    _, lease = cluster.led()
    job = create(cluster, act="act")
    until_acts(cluster, job, leader)
    uid = whole(cluster, job).job.uid
    cluster.kill(leader)
    successor, _ = cluster.led(lease.epoch)
    until_acts(cluster, job, successor)
    cluster.open("act")
    found = verdict(cluster, job)
    assert (found.job.state, found.job.crashes, found.quorum) == ("succeeded", 1, True)
    assert (found.job.result["by"], found.job.result["uid"]) == (successor.node_name, str(uid)), "with the same key"
    assert acted(cluster, job) == {leader.name: 1, successor.name: 1}
    assert len(recorded(cluster, job)) == 1


@pytest.mark.contract("CLUS-9", "CLUS-12")
@pytest.mark.parametrize("point", STEPS, ids=label)
def test_a_leader_that_is_killed_between_two_of_its_writes_leaves_the_job_to_the_next_one(
    cluster: Cluster, point: Point
) -> None:
    """`after release` is between the quorum and the action."""
    leader, *_ = crew(cluster, TEST_STANDSTILL="1")
    _, lease = cluster.led()
    standstill.arm(cluster.folder, leader.name, point)
    job = create(cluster)
    cluster.until(leader.process.is_stopped, f"the leader stands still {label(point)}")
    assert (whole(cluster, job).spread_at is not None) == (point != STEPS[0])
    assert (whole(cluster, job).decided_at is not None) == (point == STEPS[-1])
    cluster.kill(leader)
    successor, later = cluster.led(lease.epoch)
    found = verdict(cluster, job)
    assert (found.job.state, found.quorum) == ("succeeded", True)
    assert found.job.crashes <= (point == STEPS[-1]), "its claim may have been on its way"
    assert found.job.result["by"] == successor.node_name
    assert (found.epoch == lease.epoch) == (point != STEPS[0])
    assert (found.decided_epoch == lease.epoch) == (point == STEPS[-1])
    assert found.decided_epoch in (lease.epoch, later.epoch)
    assert acted(cluster, job) == {successor.name: 1}


@pytest.mark.contract("CLUS-9", "CLUS-12", "CLUS-15")
@pytest.mark.parametrize("point", LATE, ids=label)
def test_what_a_leader_writes_that_stood_still_past_its_lease_is_rejected(cluster: Cluster, point: Point) -> None:
    """The last one is the outcome of its action."""
    leader, *_ = crew(cluster, TEST_STANDSTILL="1")
    _, lease = cluster.led()
    is_outcome = point.verb == "apply"
    if not is_outcome:
        standstill.arm(cluster.folder, leader.name, point)
    job = create(cluster, act=f"act-{leader.node_name}" if is_outcome else "")
    if is_outcome:
        until_acts(cluster, job, leader)
        parts = [part.job_id for part in whole(cluster, job).parts if part.job_id is not None]
        cluster.until_done(parts)
        standstill.arm(cluster.folder, leader.name, point)
        cluster.open(f"act-{leader.node_name}")
    cluster.until(leader.process.is_stopped, f"the leader stands still {label(point)}")
    successor, later = cluster.led(lease.epoch)
    cluster.until_done([job])
    leader.send(SIGCONT)
    cluster.until(
        lambda: standstill.stood(cluster.folder, leader.name)[-1].answer is not None, "what it wanted is answered"
    )
    stood = standstill.stood(cluster.folder, leader.name)[-1]
    assert stood.answer in ([False], False, "None"), "its late write is rejected"
    cluster.until_beats(leader, 2)
    found = verdict(cluster, job)
    assert (found.job.state, found.quorum) == ("succeeded", True)
    assert found.job.result["by"] == successor.node_name
    assert found.decided_epoch == (lease.epoch if is_outcome else later.epoch)
    assert len(recorded(cluster, job)) == 1
    assert acted(cluster, job) == ({leader.name: 1, successor.name: 1} if is_outcome else {successor.name: 1})
    cluster.stop(leader, successor)


@pytest.mark.contract("CLUS-6", "CLUS-9", "CLUS-15")
def test_a_node_that_is_killed_with_its_part_undone_is_shown_as_lost_and_the_quorum_goes_on(cluster: Cluster) -> None:
    leader, victim, other = crew(cluster, mortal=1)
    job = create(cluster, part="part")
    until_parts_run(cluster, job, leader, victim, other)
    cluster.kill(victim)
    cluster.until(lambda: status(cluster, job, victim) == "lost", "its part is shown as lost")
    assert not whole(cluster, job).job.finished
    cluster.open("part")
    found = verdict(cluster, job)
    assert (found.job.state, found.quorum) == ("succeeded", True)
    assert statuses(cluster, job) == {
        leader.node_name: "completed", victim.node_name: "skipped", other.node_name: "completed"
    }  # fmt: skip
    assert found.job.result["completed"] == sorted([leader.node_name, other.node_name])


@pytest.mark.contract("CLUS-11")
def test_a_node_that_is_restarted_in_the_middle_of_its_part_has_failed_it(cluster: Cluster) -> None:
    """Its lease is long: the next process of its name does not wait for the end of it."""
    leader, victim, other = crew(cluster, mortal=None)
    job = create(cluster, part="part")
    until_parts_run(cluster, job, leader, victim, other)
    cluster.kill(victim)
    cluster.started(program=PROGRAM, called=victim.node_name)
    cluster.until(lambda: status(cluster, job, victim) == "failed", "its part has failed")
    part = part_of(cluster, job, victim)
    assert part is not None
    assert (part.state, part.reason) == ("failed", "worker_startup_recovery")
    assert not whole(cluster, job).job.finished
    cluster.open("part")
    found = verdict(cluster, job)
    assert (found.job.state, found.quorum) == ("succeeded", True)
    assert status(cluster, job, victim) == "failed"
    assert part.job_id is not None
    assert len([mark for mark in cluster.marks if mark.job == part.job_id]) == 1, "it is not repeated"


@pytest.mark.contract("CLUS-12", "CLUS-9")
def test_a_leader_that_is_stopped_hands_over_at_once_and_its_own_part_still_counts(cluster: Cluster) -> None:
    leader, *others = crew(cluster, mortal=None)
    _, lease = cluster.led()
    job = create(cluster, part="part")
    until_parts_run(cluster, job, leader, *others)
    leader.send(SIGTERM)
    successor, later = cluster.led(lease.epoch)
    assert later.epoch == lease.epoch + 1, "it has given its lease up: nothing had to be taken from it"
    cluster.open(f"part-{leader.node_name}")
    assert leader.ends() == 0, leader.said
    assert status(cluster, job, leader) == "completed"
    cluster.open("part")
    found = verdict(cluster, job)
    assert (found.job.state, found.quorum, found.decided_epoch) == ("succeeded", True, later.epoch)
    assert found.job.result["by"] == successor.node_name


@pytest.mark.contract("CLUS-12", "CLUS-9")
def test_a_leader_that_is_stopped_in_the_middle_of_its_action_leaves_it_to_the_next_one(
    cluster: Cluster,
) -> None:
    """What its action comes to while it drains does not count: it has given up the lead."""
    leader, *_ = crew(cluster, mortal=None)
    _, lease = cluster.led()
    job = create(cluster, act="act")
    until_acts(cluster, job, leader)
    leader.send(SIGTERM)
    successor, later = cluster.led(lease.epoch)
    cluster.open("act")
    assert leader.ends() == 0, leader.said
    found = verdict(cluster, job)
    assert (found.job.state, found.job.crashes) == ("succeeded", 0)
    assert found.job.result["by"] == successor.node_name
    assert later.epoch > lease.epoch
    assert len(recorded(cluster, job)) == 1


@pytest.mark.contract("CLUS-14", "CLUS-7", "CLUS-11")
def test_a_single_node_is_its_own_leader_and_its_own_quorum(cluster: Cluster) -> None:
    (only,) = crew(cluster, 1, mortal=None)
    found = verdict(cluster, create(cluster))
    assert (found.job.state, found.quorum, len(found.parts)) == ("succeeded", True, 1)
    assert found.job.result["by"] == only.node_name
    job = create(cluster, part="part")
    until_parts_run(cluster, job, only)
    cluster.kill(only)
    again = cluster.started(program=PROGRAM, called=only.node_name)
    cluster.until_done([job])
    assert (whole(cluster, job).job.state, whole(cluster, job).job.reason) == ("failed", "parts_failed")
    assert statuses(cluster, job) == {only.node_name: "failed"}
    found = verdict(cluster, create(cluster))
    assert (found.job.state, found.job.result["by"]) == ("succeeded", again.node_name)


# --- bad lines to PostgreSQL ------------------------------------------------------------------------------------------


@pytest.fixture
def wire(postgres_url: str) -> Iterator[Wire]:
    with wired(postgres_url, Random(1)) as wire:
        yield wire


@pytest.fixture
def wired_cluster(wire: Wire, postgres_url: str, tmp_path: Path) -> Iterator[Cluster]:
    with clustered(postgres_url, tmp_path) as cluster:
        cluster.line = wire.url
        yield cluster


@pytest.mark.contract("CLUS-9", "CLUS-12", "CLUS-15")
@pytest.mark.parametrize("ends_while_cut_off", [True, False])
def test_a_leader_that_is_cut_off_in_the_middle_of_its_action_is_fenced_within_its_lease(
    wired_cluster: Cluster, wire: Wire, ends_while_cut_off: bool
) -> None:
    """Its action ends while it reaches nothing, or when it is a member again."""
    cluster = wired_cluster
    leader, *_ = crew(cluster)
    _, lease = cluster.led()
    own = f"act-{leader.node_name}"
    job = create(cluster, act=own)
    until_acts(cluster, job, leader)
    wire.cut_off = {leader.name}
    successor, later = cluster.led(lease.epoch)
    assert later.acquired_at - lease.renewed_at >= timedelta(seconds=MORTAL_LEASE), "not before its end"
    if ends_while_cut_off:
        cluster.open(own)
    else:
        until_acts(cluster, job, successor)
    wire.cut_off = set()
    cluster.until_beats(leader, 2)
    cluster.open(own)
    found = verdict(cluster, job)
    assert (found.job.state, found.quorum, found.job.result["by"]) == ("succeeded", True, successor.node_name)
    assert len(recorded(cluster, job)) == 1
    assert set(acted(cluster, job)) == {leader.name, successor.name}
    assert "Traceback" not in cluster.logs
    cluster.stop(leader, successor)


@pytest.mark.contract("CLUS-5")
def test_a_part_whose_wake_up_is_lost_waits_for_one_poll(wired_cluster: Cluster, wire: Wire) -> None:
    """A busy machine may be late for some of them."""
    cluster = wired_cluster
    crew(cluster, mortal=None)
    wire.weather = Weather(mute=True)
    waits = []
    for _ in range(5):
        found = verdict(cluster, create(cluster))
        assert found.spread_at is not None
        starts = [part.started_at for part in found.parts if part.started_at is not None]
        assert starts  # the quorum may end the job before the last part begins
        waits.append((max(starts) - found.spread_at).total_seconds())
    assert wire.happened["mute"] > 0
    assert min(waits) <= 0.5 + TOLERANCE
