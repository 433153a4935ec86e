"""A node's books against the database's: strays, attempts that were taken away, cancel requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

from oncue.clock import VirtualClock
from oncue.engine.reconciler import Reconciler
from oncue.model import Claim, HeldClaim, Started, Succeeded
from oncue.policy.lifecycle import Ended, lost, settle
from oncue.policy.options import Options
from oncue.sim.driver import finish
from oncue.sim.operator import TASK
from oncue.sim.script import Act
from oncue.sim.wire import Delay
from oncue.sim.world import PACE, World
from oncue.store.contract import Store
from oncue.store.sqlite.jobs import SqliteJobs
from oncue.telemetry import Telemetry
from tests.answering import Answering
from tests.engine.rig import take_over

SLOW = Act(seconds=30.0)
UNLIMITED = Options()
SECOND = timedelta(seconds=1)


def test_a_claim_whose_reply_was_lost_is_given_back_uncharged() -> None:
    world = World(1)
    member = world.boot("alone")
    world.run(0.1)
    member.wire.lose_reply("jobs.claim")
    job = world.enqueue(Act(), options=UNLIMITED)
    world.run(0.1)
    assert world.job(job).state == "running"
    assert member.executor.busy == 0
    world.run(3 * PACE.reconcile + PACE.poll)
    row = world.job(job)
    assert (row.state, row.attempt, row.retry_count, row.crashes, row.claim_no) == ("succeeded", 1, 0, 0, 2)


def test_an_outcome_whose_reply_was_lost_is_written_once() -> None:
    world = World(1)
    member = world.boot("alone")
    world.run(0.1)
    member.wire.lose_reply("jobs.apply")
    job = world.enqueue(Act())
    world.run(5.0)
    assert world.job(job).state == "succeeded"
    assert world.final().totals == {"succeeded": 1, "failed": 0, "cancelled": 0, "skipped": 0}
    assert member.worker.in_flight.claims == {}
    assert member.worker.in_flight.ended == []


def test_a_stray_that_was_seen_to_start_is_not_started_again_if_it_may_run_only_once() -> None:
    world = World(1)
    member = world.boot("alone")
    world.run(0.1)
    member.wire.lose_reply("jobs.claim")
    job = world.enqueue(Act(), options=Options("at_most_once"))
    world.run(0.1)
    finish(world.store.jobs.mark_started([Started(job, 1, world.clock.now())]))
    world.run(3 * PACE.reconcile + PACE.poll)
    row = world.job(job)
    assert (row.state, row.reason, row.claim_no) == ("skipped", "interrupted", 1)


def test_a_claim_that_is_still_on_its_way_is_not_a_stray(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database has it and the node does not know yet: nobody may give that back."""
    real = SqliteJobs.claim

    async def claim(self: SqliteJobs, *args: Any, **options: Any) -> list[Claim]:
        claims = await real(self, *args, **options)
        if claims:
            await Delay(4 * PACE.reconcile)
        return claims

    monkeypatch.setattr(SqliteJobs, "claim", claim)  # before anybody has asked: a wire looks a verb up only once
    world = World(1)
    world.boot("slow")
    world.run(0.1)
    job = world.enqueue(Act())
    assert world.run_until(world.drained, 10)
    assert world.job(job).claim_no == 1


@pytest.mark.contract("QUE-9")
def test_a_claim_that_was_asked_for_while_the_books_were_on_their_way_is_not_a_stray() -> None:
    """The node looked before it asked, and is shown what it asked for: that does not prove that the reply is lost."""
    world = World(1)
    worker = world.boot("slow").worker
    world.run(0.1)
    job, clock = world.enqueue(Act()), VirtualClock(world.clock.now())

    async def held(node: UUID) -> list[HeldClaim]:
        """The first answer takes two seconds; after one of them the node asks for a claim."""
        if not worker.claimer.asking and world.job(job).state == "queued":
            clock.advance(SECOND)
            worker.claimer.asked, worker.claimer.asking = worker.claimer.asked + 1, True
            assert await world.store.jobs.claim(node, ["default"], [TASK], 1, clock.now())
            clock.advance(SECOND)
        return await world.store.jobs.held(node)

    slow = Answering(world.store, jobs=Answering(world.store.jobs, held=held))
    books = Reconciler(
        cast(Store, slow), worker.node.id, worker.executor, worker.in_flight, worker.claimer, clock, Random(1),
        Telemetry(), interval=1.0, patience=60.0,
    )  # fmt: skip

    def look() -> str:
        finish(books.tick(clock.now()))
        clock.advance(SECOND / 10)
        return world.job(job).state

    assert [look() for _ in range(3)] == ["running"] * 3
    worker.claimer.asked += 1  # the reply is lost, and the next call is under way
    assert look() == "queued"


def test_a_stray_that_another_node_has_by_now_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SqliteJobs.running

    async def running(self: SqliteJobs, ids: Sequence[int]) -> list[Claim]:
        for claim in await real(self, ids):
            if claim.claim_no == 1:
                await take_over(world, claim, other.worker.node.id)
        return await real(self, ids)

    monkeypatch.setattr(SqliteJobs, "running", running)  # before anybody has asked: a wire looks a verb up only once
    world = World(1)
    member, other = world.boot("alone"), world.boot("other")
    other.executor.concurrency = 0
    world.run(0.1)
    member.wire.lose_reply("jobs.claim")
    job = world.enqueue(SLOW, options=UNLIMITED)
    assert world.run_until(lambda: world.job(job).claim_no == 2, 5.0, look=0.05)
    row = world.job(job)
    assert (row.state, row.claim_no, row.node_id) == ("running", 2, other.worker.node.id)


def test_an_attempt_that_was_taken_away_is_stopped_and_put_down() -> None:
    world = World(1, concurrency=1)
    member = world.boot("alone")
    world.run(0.1)
    first, second = world.enqueue(SLOW, options=UNLIMITED), world.enqueue(SLOW, options=UNLIMITED)
    world.run(0.1)
    take_away(world, first)
    world.run(PACE.reconcile)
    assert member.executor.claims() == [(second, 1)]
    assert {claim.id for claim in member.worker.in_flight.claims.values()} == {second}
    outcome = [event for event in world.history.events if event.kind == "outcome"]
    assert [event.fields["outcome"] for event in outcome] == ["Released"]


def test_a_suspect_that_was_taken_away_makes_room_for_the_next() -> None:
    """It was once forgotten, and the node never took another suspect."""
    world = World(1)
    jobs = suspects(world, 2, deaths=3)
    member = world.boot("alone")
    world.run(0.1)
    (running,) = member.executor.claims()
    take_away(world, running[0])
    world.run(PACE.reconcile + PACE.poll)
    other = next(job for job in jobs if job != running[0])
    assert [job for job, _ in member.executor.claims()] == [other]
    assert member.worker.in_flight.closed


def suspects(world: World, count: int, deaths: int = 1) -> list[int]:
    jobs = [world.enqueue(SLOW, options=UNLIMITED) for _ in range(count)]
    for _ in range(deaths):
        world.boot("culprit")
        assert world.run_until(lambda: all(world.job(job).state == "running" for job in jobs), 60)
        world.run(0.1)
        world.crash("culprit")
        world.boot("rescuer")
        world.members["rescuer"].executor.concurrency = 0
        world.run(2 * PACE.lease)
        world.crash("rescuer")
    assert [world.job(job).crashes for job in jobs] == [deaths] * count
    world.run(0.0)
    finish(world.store.nodes.leave(world.members["rescuer"].worker.node.id, world.clock.now()))
    return [job for job in jobs if world.job(job).state == "queued"]


def test_a_node_that_claims_its_own_job_again_runs_it_once() -> None:
    """The attempt that was taken away is stopped, though the job is ours; and the new one is not given back for it."""
    world = World(1)
    member = world.boot("alone")
    world.run(0.1)
    job = world.enqueue(SLOW, options=UNLIMITED)
    world.run(0.1)
    (claim,) = finish(world.store.jobs.running([job]))
    now, in_flight = world.clock.now(), member.worker.in_flight
    assert finish(world.store.jobs.apply([settle(lost(claim, now), world.dice)], now)) == [True]
    again = finish(world.store.jobs.claim(member.worker.node.id, ["default"], [TASK], 1, now))
    in_flight.add(again)
    member.executor.submit(again)
    assert member.executor.claims() == [(job, 1), (job, 2)]
    world.run(4 * PACE.reconcile)
    assert member.executor.claims() == [(job, 2)]
    assert set(in_flight.claims) == {(job, 2)}
    assert (world.job(job).state, world.job(job).claim_no) == ("running", 2)


def take_away(world: World, job_id: int) -> None:
    """What an operator does who finishes a running job by hand."""
    (claim,) = finish(world.store.jobs.running([job_id]))
    change = settle(Ended(claim, Succeeded(), world.clock.now(), world.clock.now()), world.dice)
    assert finish(world.operator.store.jobs.apply([change], world.clock.now())) == [True]


def test_a_claim_that_was_taken_away_while_it_waited_never_starts() -> None:
    world = World(1, concurrency=1)
    world.boot("alone")
    world.run(0.1)
    first, second = world.enqueue(Act(seconds=0.9)), world.enqueue(Act())
    claims = both_claimed(world)
    assert [claim[0] for claim in claims] == [first, second]
    take_away(world, second)
    world.run(3.0)
    begun = [event.fields["id"] for event in world.history.events if event.kind == "start"]
    assert begun == [first]


def both_claimed(world: World) -> list[tuple[int, int]]:
    """Have the node claim more than it has seats, as it does ahead of short jobs."""
    member = world.members["alone"]
    now, node = world.clock.now(), member.worker.node
    claims = finish(member.wire.as_store().jobs.claim(node.id, ["default"], ["scripted"], 5, now))
    member.worker.in_flight.add(claims)
    member.executor.submit(claims)
    return member.executor.claims()


def test_what_waits_here_is_not_begun_once_the_heart_knows_that_the_node_was_lost() -> None:
    """The heartbeat has joined anew by then; the loop hears of it a while later, and a seat is free before that."""
    world = World(1, concurrency=1)
    member = world.boot("alone")
    world.run(0.1)
    first, second = world.enqueue(Act(seconds=PACE.beat - 0.05)), world.enqueue(Act())
    assert both_claimed(world) == [(first, 1), (second, 1)]
    finish(world.store.nodes.declare_lost(member.worker.node.id, world.clock.now()))
    member.frozen = frozenset({"claimer"})
    world.latency = 2.0  # of what the heartbeat tells the loop
    world.run(PACE.beat + world.latency)
    assert [event.fields["id"] for event in world.history.events if event.kind == "start"] == [first]
    row = world.job(second)
    assert (row.state, row.attempt, row.crashes) == ("queued", 0, 0)


@pytest.mark.parametrize("stuck", ["membership", None], ids=["before_the_heart_knows", "before_a_seat_is_free"])
def test_what_was_claimed_under_a_lease_that_is_over_is_not_begun(stuck: str | None) -> None:
    """The heartbeat may be stuck itself; and the one job that has a seat may be one that nobody can stop."""
    world = World(1, concurrency=1)
    member = world.boot("alone")
    world.run(0.1)
    length = PACE.lease + 0.5 if stuck else PACE.beat + 0.2
    first, second = world.enqueue(Act(seconds=length, stubborn=True)), world.enqueue(Act())
    assert both_claimed(world) == [(first, 1), (second, 1)]
    member.frozen = frozenset({"claimer", "reconciler", stuck or ""})
    if not stuck:
        finish(world.store.nodes.declare_lost(member.worker.node.id, world.clock.now()))
    world.run(length + 0.1)
    assert member.worker.membership.is_alive() is not bool(stuck)
    assert [event.fields["id"] for event in world.history.events if event.kind == "start"] == [first]
    row = world.job(second)
    assert (row.state, row.attempt, row.crashes) == ("queued", 0, 0)


def test_a_claim_that_waits_for_long_is_given_back_before_its_runtime_is_over() -> None:
    """Its maximum runtime counts from the claim: a job that never started must not be cut off for it."""
    world = World(1, concurrency=1)
    world.boot("alone")
    world.run(0.1)
    first, second = world.enqueue(SLOW, options=UNLIMITED), world.enqueue(Act(), options=Options(max_runtime=2.0))
    both_claimed(world)
    world.run(PACE.reconcile)
    assert world.job(second).state == "running", "a seat may be free in a moment"
    world.run(PACE.lease / 2)
    row = world.job(second)
    assert (row.state, row.attempt, row.retry_count) == ("queued", 0, 0)
    world.run(40.0)
    assert {world.job(job).state for job in (first, second)} == {"succeeded"}


def test_an_operator_stops_a_running_job() -> None:
    world = World(1)
    world.boot("alone")
    world.run(0.1)
    job = world.enqueue(SLOW, options=UNLIMITED)
    world.run(2.0)
    finish(world.operator.jobs.cancel(job))
    world.run(PACE.reconcile)
    assert (world.job(job).state, world.job(job).reason) == ("cancelled", "cancelled")


def test_a_job_that_ignores_the_operator_counts_as_what_it_did() -> None:
    world = World(1)
    world.boot("alone")
    world.run(0.1)
    job = world.enqueue(Act(seconds=4.0, stubborn=True), options=UNLIMITED)
    world.run(1.0)
    finish(world.operator.jobs.cancel(job))
    world.run(5.0)
    assert world.job(job).state == "succeeded"


def test_long_attempts_show_when_they_began() -> None:
    world = World(1)
    world.boot("alone")
    world.run(0.1)
    job = world.enqueue(SLOW, options=UNLIMITED)
    world.run(0.5)
    assert world.job(job).started_at is None
    began = world.clock.now() - timedelta(seconds=0.5)
    world.run(3 * PACE.reconcile)
    assert world.job(job).started_at == began
