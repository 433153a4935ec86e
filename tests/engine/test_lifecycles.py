"""Whole lives of jobs on one node under virtual time: retries, delays, priorities, suspects, upkeep."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from itertools import pairwise

import pytest

from oncue.policy.options import Options
from oncue.policy.retry import Ladder
from oncue.sim.checker import check
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.world import PACE, World

DEFAULTS = Options(max_runtime=3600.0)
CALM = dataclasses.replace(PACE, lease=60.0, beat=20.0)


def alone(concurrency: int = 4, **options: object) -> World:
    world = World(1, concurrency=concurrency, **options)  # type: ignore[arg-type]
    world.boot("alone")
    world.run(0.1)
    return world


def starts(world: World, job_id: int | None = None) -> list[float]:
    """When attempts began, in seconds."""
    return [
        event.at / 1e6
        for event in world.history.events
        if event.kind == "start" and job_id in (None, event.fields["id"])
    ]


def started_ids(world: World) -> list[int]:
    return [event.fields["id"] for event in world.history.events if event.kind == "start"]


@pytest.mark.contract("QUE-4", "QUE-5", "QUE-8")
@pytest.mark.parametrize("seed", range(5))
def test_a_failing_job_is_retried_three_times_with_growing_jittered_delays(seed: int) -> None:
    world = World(seed, pace=CALM)
    world.boot("alone")
    world.run(0.1)
    job = world.enqueue(Act("fail", seconds=0.0), options=DEFAULTS)
    world.run(1.0)
    assert world.job(job).state == "retrying"
    world.run(1000.0)
    gaps = [later - earlier for earlier, later in pairwise(starts(world, job))]
    assert len(gaps) == 3
    for gap, middle in zip(gaps, (60, 120, 240), strict=True):
        assert 0.8 * middle <= gap <= 1.2 * middle + PACE.poll
    row = world.job(job)
    assert (row.state, row.retry_count, row.attempt) == ("failed", 3, 4)
    assert [attempt.outcome for attempt in world.attempts(job)] == ["failed"] * 3
    assert len({round(gap, 3) for gap in gaps}) == 3


@pytest.mark.contract("QUE-8")
def test_a_job_that_succeeds_at_last_is_succeeded() -> None:
    world = alone()
    job = world.enqueue(Act("fail"), Act("fail"), Act(), options=Options(retry=Ladder("1s", "3s")))
    world.run(10.0)
    row = world.job(job)
    assert (row.state, row.retry_count, row.attempt) == ("succeeded", 2, 3)
    first, second, third = starts(world, job)
    assert 1.0 <= second - first <= 1.0 + 0.2 + PACE.poll
    assert 3.0 <= third - second <= 3.0 + 0.2 + PACE.poll


def test_a_retry_of_the_handlers_choosing_and_a_snooze() -> None:
    world = alone()
    job = world.enqueue(Act("retry", after=2.0), Act("snooze", after=4.0), Act(), options=DEFAULTS)
    world.run(2.0)
    assert world.job(job).state == "retrying"
    world.run(1.5)
    assert world.job(job).state == "scheduled"
    world.run(5.0)
    row = world.job(job)
    assert (row.state, row.retry_count, row.attempt) == ("succeeded", 1, 3), "a snooze costs no retry"


def test_a_retry_waits_for_the_longer_of_what_it_asked_for_and_its_policys_step() -> None:
    world = alone()
    acts = (Act("retry", after=1.0, at_least=True), Act("retry", after=4.0, at_least=True), Act())
    job = world.enqueue(*acts, options=Options(retry=Ladder("2s", "3s")))
    world.run(10.0)
    first, second, third = starts(world, job)
    assert 2.0 <= second - first <= 2.0 + 0.2 + PACE.poll
    assert 4.0 <= third - second <= 4.0 + 0.2 + PACE.poll
    assert check(world.history.events, world.final()) == []


def test_skip_cancel_and_give_up_are_final() -> None:
    world = alone()
    jobs = [world.enqueue(Act(deed), options=DEFAULTS) for deed in ("skip", "cancel", "give_up")]  # type: ignore[arg-type]
    world.run(5.0)
    assert [world.job(job).state for job in jobs] == ["skipped", "cancelled", "failed"]
    assert len(starts(world)) == 3


@pytest.mark.contract("QUE-5")
def test_a_job_does_not_start_before_its_time() -> None:
    world = alone()
    job = world.enqueue(Act(), delay=7.25)
    world.run(7.2)
    assert world.job(job).state == "scheduled"
    assert starts(world) == []
    world.run(0.2)
    (began,) = starts(world)
    assert 0 <= began - world.job(job).visible_at.timestamp() < 0.01, "it starts when it is due, not at the next poll"


@pytest.mark.contract("QUE-1")
def test_priority_decides_and_then_age() -> None:
    world = World(1, concurrency=1)
    jobs = {}
    for name, priority in (("old", 0), ("urgent", 100), ("young", 0), ("middling", 50)):
        jobs[name] = world.enqueue(Act(), priority=priority)
        world.run(0.1)
    world.boot("alone")
    world.run(3.0)
    assert started_ids(world) == [jobs[name] for name in ("urgent", "middling", "old", "young")]


@pytest.mark.contract("QUE-2")
def test_waiting_jobs_gain_ten_every_five_minutes_after_an_hour() -> None:
    world = World(1, pace=dataclasses.replace(CALM, poll=60.0), concurrency=0)
    for name in ("one", "two", "three"):
        world.boot(name)
    world.run(10.0)
    low, high = world.enqueue(Act(), priority=0), world.enqueue(Act(), priority=95)
    world.run(3599.0)
    assert world.job(low).priority == 0
    world.run(301.0)
    assert world.job(low).priority == 10, "once, however many nodes look"
    assert world.job(high).priority == 100
    world.run(300.0)
    assert world.job(low).priority == 20
    world.run(3600.0)
    assert world.job(low).priority == 100
    assert world.job(high).priority == 100


@pytest.mark.contract("QUE-2")
def test_an_old_job_is_not_starved_by_a_stream_of_urgent_ones() -> None:
    world = World(1, pace=CALM, concurrency=1)
    humble = world.enqueue(Act(), priority=0, options=DEFAULTS)
    world.boot("alone")

    def another() -> None:
        world.enqueue(Act(seconds=59.0), priority=55, options=DEFAULTS)
        world.after(45.0, another)

    for _ in range(3):
        world.enqueue(Act(seconds=59.0), priority=55, options=DEFAULTS)
    another()
    world.run(3600.0)
    assert world.job(humble).state == "queued"
    assert world.run_until(lambda: world.job(humble).finished, 3600.0)


@pytest.mark.contract("QUE-9")
@pytest.mark.parametrize(
    ("delivery", "state", "reason"),
    [("at_least_once", "retrying", None), ("at_most_once", "skipped", "skipped_timeout")],
)
def test_a_node_cuts_off_what_is_over_its_maximum_runtime(delivery: str, state: str, reason: str | None) -> None:
    world = alone()
    job = world.enqueue(Act("hang"), options=Options(delivery, None, 15.0))  # type: ignore[arg-type]
    world.run(14.5)
    assert world.job(job).state == "running"
    world.run(1.0)
    assert (world.job(job).state, world.job(job).reason) == (state, reason)


@pytest.mark.contract("QUE-9")
def test_others_fence_what_a_stuck_node_does_not_cut_off() -> None:
    """Its heartbeat goes on, so its lease is good, but its loop is stuck: only the others can help."""
    world = World(1)
    stuck = world.boot("stuck")
    world.run(0.1)
    job = world.enqueue(Act("hang", stubborn=True), options=Options(max_runtime=5.0, retry=Ladder("60s")))
    world.run(0.1)
    stuck.freeze_all_but("membership")
    world.boot("helper")
    world.run(5.0 + PACE.lease - 0.5)
    assert world.job(job).state == "running"
    world.run(0.5 + PACE.lease / 3 + 0.1)
    row = world.job(job)
    assert (row.state, row.retry_count, row.crashes) == ("retrying", 1, 0)
    assert row.error == "over its maximum runtime"


@pytest.mark.contract("QUE-9")
def test_a_claim_that_was_held_up_for_long_is_given_back_as_never_begun() -> None:
    """When it arrives it is over its maximum runtime already; whoever sees it first is not to count an attempt."""
    world = World(1)
    slow = world.boot("slow")
    world.boot("helper").freeze_all_but("membership", "rescue")
    world.run(2 * PACE.lease)
    slow.frozen = frozenset({"claimer"})
    job = world.enqueue(Act(), options=Options(max_runtime=5.0), max_retries=0)
    sent = world.clock.now() - timedelta(seconds=60)
    claim = world.store.jobs.claim(slow.worker.node.id, ["default"], ["scripted"], 1, sent)
    assert [taken.id for taken in finish(claim)] == [job]
    world.run(3 * PACE.lease)
    row = world.job(job)
    assert (row.state, row.attempt, row.retry_count) == ("queued", 0, 0)


def test_an_unknown_task_waits_for_a_node_that_knows_it() -> None:
    world = alone()
    job = world.enqueue(Act(), task="from the future")
    world.run(60.0)
    row = world.job(job)
    assert (row.state, row.claim_no) == ("queued", 0)


def test_the_guilty_one_ends_as_poison_and_the_bystanders_pass() -> None:
    world = World(1, concurrency=8)
    world.boot("alone")
    world.run(0.1)
    bystanders = [world.enqueue(Act(seconds=1.0)) for _ in range(4)]
    guilty = world.enqueue(Act("crash", seconds=0.5))
    world.run(120.0)
    row = world.job(guilty)
    assert (row.state, row.reason, row.crashes) == ("failed", "poison", 5)
    assert "died under it 5 times" in (row.error or "")
    assert [world.job(job).state for job in bystanders] == ["succeeded"] * 4
    assert max(world.job(job).crashes for job in bystanders) <= 3
    assert world.final().totals == {"succeeded": 4, "failed": 1, "cancelled": 0, "skipped": 0}


def test_an_at_most_once_job_is_never_repeated_after_a_crash() -> None:
    world = alone()
    job = world.enqueue(Act("crash"), options=Options("at_most_once", None, 60.0), max_retries=0)
    world.run(30.0)
    row = world.job(job)
    assert (row.state, row.reason) == ("skipped", "skipped_timeout")
    assert len(starts(world, job)) == 1


def test_long_jobs_are_not_claimed_ahead_of_their_seats() -> None:
    world = alone(concurrency=2)
    for _ in range(20):
        world.enqueue(Act(seconds=30.0), options=DEFAULTS)
    world.run(120.0)
    member = world.members["alone"]
    assert member.executor.busy == 2
    assert member.executor.most_running == 2


def test_short_jobs_are_claimed_ahead_of_their_seats_in_few_claims() -> None:
    world = alone(concurrency=2)
    finish(world.store.jobs.enqueue([world.batch([[Act(seconds=0.001)]] * 2000, options=DEFAULTS)]))
    assert world.run_until(world.drained, 60.0)
    assert world.members["alone"].executor.most_running == 2
    claims = {event.at for event in world.history.events if event.kind == "claim"}
    assert len(claims) < 100


def test_a_job_starts_at_once_when_the_hint_arrives_and_at_the_next_poll_without_it() -> None:
    hinted, deaf = alone(), alone(hints=0.0)
    for world, longest in ((hinted, 0.0), (deaf, PACE.poll)):
        asked = world.clock.now()
        world.enqueue(Act())
        world.run(1.0)
        (began,) = starts(world)
        assert began - asked.timestamp() <= longest


def test_finished_jobs_are_pruned_after_their_retention() -> None:
    world = World(1, pace=dataclasses.replace(PACE, retention=600.0))
    world.boot("alone")
    world.run(0.1)
    done, waiting = world.enqueue(Act()), world.enqueue(Act(), delay=3000.0)
    world.run(590.0)
    assert world.job(done).state == "succeeded"
    world.run(80.0)
    assert [job.id for job in world.jobs()] == [waiting]


def test_outcomes_are_kept_while_the_database_is_away() -> None:
    world = World(1, pace=CALM)
    member = world.boot("alone")
    world.run(0.1)
    jobs = [world.enqueue(Act(seconds=2.0)) for _ in range(3)]
    world.run(1.0)
    member.wire.down = True
    world.run(15.0)
    assert {world.job(job).state for job in jobs} == {"running"}
    assert len(member.worker.in_flight.unwritten) == 3
    member.wire.down = False
    world.run(2.5)
    assert {world.job(job).state for job in jobs} == {"succeeded"}
    assert {world.job(job).attempt for job in jobs} == {1}
    finished = world.job(jobs[0]).finished_at
    assert finished is not None
    assert finished <= world.clock.now() - timedelta(seconds=14), "it ended when it ended"
