"""What has waited past its time is ended by the leader, in time, whether or not anybody claims it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from oncue.engine import expiry
from oncue.policy.options import Options
from oncue.policy.retry import Ladder
from oncue.sim.script import Act
from oncue.sim.world import World, finish
from tests.engine.rig import audit_holds, execute, since, verdicts

LONG = Options(timeout=None, max_runtime=None)
SECOND = timedelta(seconds=1)


def jammed(seconds: float = 3600.0, **terms: Any) -> World:
    """A cluster whose seats are all taken."""
    world = World(1, concurrency=1, **terms)
    for name in ("one", "two"):
        world.boot(name)
        world.run(1.0)
        world.enqueue(Act(seconds=seconds), options=LONG)
        world.run(1.0)
    return world


def ended(world: World, job_id: int) -> tuple[str, str | None, float]:
    """Its state, the reason, and after how many seconds that was."""
    job = world.job(job_id)
    assert job.finished_at is not None
    return job.state, job.reason, (job.finished_at - job.created_at).total_seconds()


def test_a_job_whose_deadline_passes_while_no_seat_is_free_ends_then() -> None:
    world = jammed()
    queued, long_before = world.enqueue(Act(), deadline=30.0), world.enqueue(Act(), deadline=7200.0)
    unknown = world.enqueue(Act(), deadline=30.0, task="a task that nobody has")
    scheduled = world.enqueue(Act(), delay=7200.0, deadline=30.0)
    world.run(29.0)
    assert {world.job(job).state for job in (queued, unknown, scheduled)} == {"queued", "scheduled"}
    world.run(3.0)
    for job in (queued, unknown, scheduled):
        state, reason, seconds = ended(world, job)
        assert (state, reason) == ("skipped", "deadline")
        assert 30.0 <= seconds <= 31.0
        assert (world.job(job).claim_no, world.job(job).attempt) == (0, 0)
    assert world.job(long_before).state == "queued"
    world.close()


@pytest.mark.contract("SLOT-10", "SLOT-5")
@pytest.mark.parametrize("grace", [4.0, 9.99, 15.0])
def test_a_slot_whose_job_cannot_start_gives_way_to_the_next(grace: float) -> None:
    """Also if the grace ends right before the slot that it would be in the way of, so that nobody has looked yet."""
    world = jammed(seconds=60.0)
    made = world.schedule("often", "@every 10s", grace=grace)
    world.run(56.0)
    jobs = [world.job(slot.job_id) for slot in world.slots("often") if slot.job_id is not None]
    over = [job for job in jobs if job.start_by is not None and job.start_by + SECOND < world.clock.now()]
    assert len(over) >= 2
    for job in over:
        assert (job.state, job.reason) == ("skipped", "misfire")
        assert job.finished_at is not None
        assert job.start_by is not None
        assert timedelta(0) < job.finished_at - job.start_by <= SECOND
    expected = ["fired", "skipped"] if grace > 10.0 else ["fired"]
    assert verdicts(world, "often") == (expected * 5)[:5]
    world.run(60.0)
    assert world.jobs()[-1].state == "succeeded"
    assert world.slots("often")[0].scheduled_for == since(made, 10)[0]
    assert audit_holds(world, "often")
    world.close()


@pytest.mark.contract("SLOT-10")
def test_the_grace_of_a_run_that_began_is_over_in_no_sense() -> None:
    world = World(1)
    world.boot("one")
    world.run(1.0)
    options = Options(retry=Ladder("30s"))
    world.schedule("rare", "@every 1000s", Act("fail"), Act(), grace=5.0, options=options, max_retries=3)
    world.run(1020.0)
    (job,) = world.jobs()
    assert (job.state, job.attempt) == ("retrying", 1)
    world.run(20.0)
    assert world.job(job.id).state == "succeeded"
    world.close()


@pytest.mark.contract("SLOT-10")
def test_backfilled_slots_wait_for_their_turn_for_as_long_as_it_takes() -> None:
    """A deadline counts from when they are let go. An operator's schedule has none: one is written behind its back."""
    world = World(1)
    world.boot("one")
    world.run(1.0)
    world.schedule("often", "* * * * *", Act(seconds=30.0), grace=5.0, options=LONG)
    execute(world, "update oncue_schedules set deadline = 40000000")
    now = world.clock.now()
    filled = finish(world.operator.schedules.backfill("often", now - timedelta(seconds=300), now))
    finish(world.operator.schedules.toggle("often", False))
    world.hint()
    world.run(200.0)
    jobs = [job for job in world.jobs() if job.deadline_at is not None]
    assert len(jobs) == len(filled.jobs) == 5
    assert {job.state for job in jobs} == {"succeeded"}
    world.close()


def test_many_are_ended_in_steps_that_follow_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "LIMIT", 10)
    world = jammed()
    finish(world.operator.store.jobs.enqueue([world.batch([[Act()] for _ in range(35)], deadline=10.0)]))
    world.run(12.0)
    late = [job for job in world.jobs() if job.deadline_at is not None]
    assert {job.state for job in late} == {"skipped"}
    assert len({job.finished_at for job in late}) == 1
    world.close()


def test_a_claim_that_comes_in_between_is_no_harm() -> None:
    world = jammed(seconds=30.0)
    job = world.enqueue(Act(), deadline=27.9)
    leader = next(member for member in world.members.values() if member.leads)
    (found,) = finish(world.store.jobs.expired(world.clock.now() + timedelta(hours=1), 10))
    finish(leader.store.jobs.claim(leader.worker.node.id, ["default"], list(leader.worker.node.tasks), 1,
                              world.clock.now()))  # fmt: skip
    assert world.job(job).state == "running"
    assert found.id == job
    change = expiry.expire(found, world.clock.now() + timedelta(hours=1))
    assert change is not None
    assert finish(world.store.jobs.apply([change], world.clock.now())) == [False]
    world.close()


def test_it_is_told_once_by_the_leader(caplog: pytest.LogCaptureFixture) -> None:
    world = jammed()
    heard: list[tuple[str, int, str | None, str]] = []
    for name, member in world.members.items():

        def hear(_: str, __: Mapping[str, float], told: Mapping[str, Any], name: str = name) -> None:
            heard.append((name, told["job"].id, told["change"].reason, told["queue"]))

        member.telemetry.subscribe(hear, "expire")
    with caplog.at_level(logging.INFO, "oncue.expiry"):
        job = world.enqueue(Act(), deadline=5.0)
        world.run(10.0)
    (leader,) = [name for name, member in world.members.items() if member.leads]
    assert heard == [(leader, job, "deadline", "default")]
    assert [record.message for record in caplog.records] == [
        f"job {job} skipped task=scripted queue=default attempt=0 reason=deadline: it has waited past its time"
    ]
    world.close()


def test_while_nothing_is_over_a_look_is_one_call() -> None:
    world = jammed()
    world.enqueue(Act(), deadline=7200.0)
    (leader,) = [member for member in world.members.values() if member.leads]
    leader.freeze_all_but("expiry", "leadership", "membership")
    before = leader.wire.calls
    leader.frozen |= {"leadership", "membership"}
    world.run(2.5)
    assert leader.wire.calls - before in (2, 3)
    world.close()
