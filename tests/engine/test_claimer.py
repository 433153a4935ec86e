"""When a node claims, and when it had better not."""

from __future__ import annotations

import dataclasses
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncue.engine.claimer import WINDOWS, Throughput
from oncue.model import Claim
from oncue.sim.driver import finish
from oncue.sim.member import Crew
from oncue.sim.operator import OPTIONS, TASK
from oncue.sim.script import Act
from oncue.sim.wire import Delay
from oncue.sim.world import PACE, World
from oncue.store.sqlite.jobs import SqliteJobs


def test_a_node_without_a_lease_claims_nothing() -> None:
    world = World(1)
    member = world.boot("alone")
    world.run(0.1)
    member.worker.membership.expires_at = None
    job = world.enqueue(Act())
    world.run(PACE.beat / 2)
    assert world.job(job).claim_no == 0
    world.run(PACE.beat * 2)
    assert world.job(job).state == "succeeded", "it joins anew and goes on"


def test_a_claim_that_arrives_after_the_lease_has_ended_is_given_back_unstarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(1)
    real = SqliteJobs.claim

    async def claim(self: SqliteJobs, *args: Any, **options: Any) -> list[Claim]:
        claims = await real(self, *args, **options)
        if claims and claims[0].claim_no == 1:
            member.worker.membership.expires_at = None  # while the reply is on its way
        return claims

    monkeypatch.setattr(SqliteJobs, "claim", claim)  # before anybody has asked: a wire looks a verb up only once
    member = world.boot("alone")
    world.run(0.1)
    job = world.enqueue(Act())
    world.run(0.05)
    assert not [event for event in world.history.events if event.kind == "start"]
    assert world.job(job).state == "queued", "nobody has to find it"
    assert world.run_until(world.drained, 30)
    assert (world.job(job).state, world.job(job).claim_no, world.job(job).crashes) == ("succeeded", 2, 0)


@pytest.mark.contract("QUE-9")
@pytest.mark.parametrize("later", [0.0, 0.02], ids=["before_it_is_told", "after_it_was_told"])
def test_a_claim_under_an_old_lease_is_not_begun_under_a_new_one(monkeypatch: pytest.MonkeyPatch, later: float) -> None:
    """The heartbeat has a thread of its own: it may have learned that the node was lost, and joined anew, meanwhile.

    The loop may have heard of it, and have stopped all that it knew of, before the reply comes.
    """
    world = World(1)
    real = SqliteJobs.claim

    async def claim(self: SqliteJobs, *args: Any, **options: Any) -> list[Claim]:
        claims = await real(self, *args, **options)
        if claims and claims[0].claim_no == 1:
            membership, now = member.worker.membership, world.clock.now()
            await world.store.nodes.declare_lost(member.worker.node.id, now)
            await membership.tick(now)
            assert membership.is_alive()
            if later:
                await Delay(later)
        return claims

    monkeypatch.setattr(SqliteJobs, "claim", claim)  # before anybody has asked: a wire looks a verb up only once
    member = world.boot("alone")
    world.run(0.1)
    job = world.enqueue(Act())
    world.run(0.05)
    assert not [event for event in world.history.events if event.kind == "start" and event.fields["claim_no"] == 1]
    assert world.run_until(world.drained, 30)
    assert (world.job(job).state, world.job(job).attempt) == ("succeeded", 1)


def test_a_node_that_has_not_heard_yet_that_it_was_lost_does_not_claim_and_give_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its heartbeat has joined anew. Its loop is busy, and stops what it holds later: until then nothing begins."""
    world = World(1, latency=0.002)
    monkeypatch.setattr(world, "_delay", lambda: timedelta(seconds=5.0))
    member = world.boot("alone")
    world.run(0.1)
    finish(world.store.nodes.declare_lost(member.worker.node.id, world.clock.now()))
    assert world.run_until(lambda: member.worker.membership.is_alive() and not member.worker.may_start(), 30, look=0.1)
    for _ in range(20):
        world.enqueue(Act())
    world.run(3.0)
    assert sum(job.claim_no for job in world.jobs()) == 0
    assert world.run_until(world.drained, 30)
    assert {(job.state, job.claim_no) for job in world.jobs()} == {("succeeded", 1)}


def test_a_due_job_that_nobody_can_promote_is_no_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that another transaction holds stays where it is: the claimer waits for its next look."""
    world = World(1)
    world.boot("alone")
    world.run(0.1)
    looks = 0

    async def promote(self: SqliteJobs, now: Any, limit: int) -> None:
        nonlocal looks
        looks += 1

    world.enqueue(Act(), delay=0.1)
    monkeypatch.setattr(SqliteJobs, "promote", promote)
    world.run(5.0)
    assert looks <= 5.0 / PACE.poll + 10


HEAVY = Crew(tasks=(TASK, "heavy"), in_processes=frozenset({"heavy"}), processes=2)
LONG = Act(seconds=60.0)
UNLIMITED = dataclasses.replace(OPTIONS, timeout=None, max_runtime=None)


def test_a_node_holds_no_job_of_a_process_that_cannot_begin() -> None:
    """Such jobs take a seat as any other does, so both kinds together are no more than there are seats."""
    world = World(1, concurrency=4, crew=HEAVY)
    member = world.boot("alone")
    for _ in range(6):
        world.enqueue(LONG, options=UNLIMITED)
        world.enqueue(LONG, options=UNLIMITED, task="heavy")
    world.run(2.0)
    tasks = Counter(job.task for job in world.jobs() if job.state == "running")
    assert tasks == {TASK: 2, "heavy": 2}
    assert (member.executor.running, member.executor.waiting) == (4, 0)


@pytest.mark.contract("QUE-2")
def test_the_most_urgent_job_comes_first_whatever_it_runs_in() -> None:
    world = World(1, concurrency=1, crew=HEAVY)
    kinds = ["heavy", TASK, "heavy", TASK]
    jobs = [world.enqueue(Act(), task=task, priority=number) for number, task in enumerate(kinds)]
    world.boot("alone")
    assert world.run_until(world.drained, 30)
    started = [event.fields["id"] for event in world.history.events if event.kind == "start"]
    assert started == jobs[::-1]


def test_what_short_jobs_need_is_held_ready_between_two_bursts_of_them() -> None:
    """A batch ends in a few milliseconds, and the next is on its way: a window without ends is no sign of long jobs."""
    throughput, start, window = Throughput(2000), datetime(2026, 1, 1, tzinfo=UTC), timedelta(milliseconds=24)
    targets = [throughput.target(ended, start + number * window) for number, ended in enumerate([0, 1000, 1000, 2000])]
    assert targets[0] == 0
    assert min(targets[1:]) > 1000
    quiet = [throughput.target(2000, start + (4 + number) * window) for number in range(WINDOWS)]
    assert quiet[-1] == 0, "nothing has ended for a while: what runs now is long"
