"""One outcome that the database refuses does not keep the others from being written."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncue.engine.settler import Settler
from oncue.errors import StoreRefused, StoreUnavailable
from oncue.model import Change
from oncue.policy.options import Options
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.world import PACE, World
from oncue.store.contract import LEADER
from oncue.store.sqlite.jobs import SqliteJobs

LARGE_BATCHES = dataclasses.replace(PACE, settle_batch=1000)


def refuse(monkeypatch: pytest.MonkeyPatch, error: type[StoreRefused], state: str, times: int = 10**9) -> list[int]:
    """Have the database refuse changes to this state. The sizes of the batches that it was sent."""
    real, sizes = SqliteJobs.apply, []

    async def apply(self: SqliteJobs, changes: Sequence[Change], now: datetime, **options: Any) -> list[bool]:
        sizes.append(len(changes))
        if len(sizes) <= times and any(change.state == state for change in changes):
            raise error("refused")
        return await real(self, changes, now, **options)

    monkeypatch.setattr(SqliteJobs, "apply", apply)
    return sizes


def test_a_refused_outcome_fails_its_own_job_only(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, StoreRefused, "skipped")
    world = World(1)
    member = world.boot("alone")
    world.run(0.1)
    good = [world.enqueue(Act(seconds=1.0)) for _ in range(2)]
    bad = world.enqueue(Act("skip", seconds=1.0), max_retries=0)
    world.run(5.0)
    assert [world.job(job).state for job in good] == ["succeeded", "succeeded"]
    row = world.job(bad)
    assert row.state == "failed"
    assert "its outcome was refused" in (row.error or "")
    assert member.worker.in_flight.claims == {}


def test_an_unreachable_database_is_not_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = refuse(monkeypatch, StoreUnavailable, "skipped", times=3)
    world = World(1, pace=LARGE_BATCHES)
    world.boot("alone")
    world.run(0.1)
    jobs = [world.enqueue(Act("skip", seconds=1.0)) for _ in range(3)]
    world.run(5.0)
    assert [world.job(job).state for job in jobs] == ["skipped"] * 3
    assert sizes == [3, 3, 3, 3], "the whole batch is sent again"


def test_an_outcome_whose_reply_was_lost_is_told_as_written() -> None:
    world = World(1)
    member = world.boot("alone")
    world.run(0.1)
    told: list[str] = []
    telemetry = member.worker.settler._telemetry
    telemetry.subscribe(lambda event, *_: told.append(event), "job.stop", "settle.rejected")
    job = world.enqueue(Act(seconds=1.0))
    world.run(0.5)
    member.wire.lose_reply("jobs.apply")
    world.run(5.0)
    assert world.job(job).state == "succeeded"
    assert told == ["job.stop"]


def test_an_outcome_that_cannot_be_written_at_all_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SqliteJobs.apply

    async def apply(self: SqliteJobs, changes: Sequence[Change], now: datetime, **options: Any) -> list[bool]:
        if any(change.id == bad for change in changes):
            raise StoreRefused("whatever it says")
        return await real(self, changes, now, **options)

    world = World(1)
    world.boot("alone")
    world.run(0.1)
    bad, *good = [world.enqueue(Act(seconds=1.0)) for _ in range(3)]
    world.run(0.5)
    monkeypatch.setattr(SqliteJobs, "apply", apply)
    world.run(3.0)
    assert [world.job(job).state for job in good] == ["succeeded", "succeeded"]
    assert world.job(bad).state == "running", "its maximum runtime will end it"


def test_a_job_whose_outcome_cannot_be_written_is_not_run_again_before_its_maximum_runtime_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was once taken for a stray, and given back: also one that may run only once, and again and again."""
    real = SqliteJobs.apply

    async def apply(self: SqliteJobs, changes: Sequence[Change], now: datetime, **options: Any) -> list[bool]:
        if any(change.state in ("succeeded", "failed") for change in changes):
            raise StoreRefused("whatever it says")
        return await real(self, changes, now, **options)

    monkeypatch.setattr(SqliteJobs, "apply", apply)
    world = World(1)
    world.boot("alone")
    world.run(0.1)
    job = world.enqueue(Act(), max_retries=0, options=Options("at_most_once", None, 8.0))
    world.run(7.0)
    assert [event.fields["id"] for event in world.history.events if event.kind == "start"] == [job]
    assert world.job(job).state == "running"
    world.run(8.0)
    assert (world.job(job).state, world.job(job).reason) == ("skipped", "skipped_timeout")


# --- changes with more than one ending ------------------------------------------------------------------------------


def settled_with_a_lost_reply(*acts: Act, depose: bool = False, seed: int = 1) -> tuple[World, int, list[str]]:
    """A job whose settle is written and not answered. The world, the job, and what was told of its end."""
    world = World(seed)
    member = world.boot("alone")
    assert world.run_until(lambda: member.leads, 10)
    told: list[str] = []
    member.telemetry.subscribe(lambda event, _, fields: told.append(f"{event} {fields['change'].state}"),
                               "job.stop", "release", "settle.rejected")  # fmt: skip
    job = world.enqueue(*acts)
    world.run(0.5)
    if depose:
        lease = member.worker.leadership.held
        assert lease is not None
        finish(world.store.leases.release(LEADER, lease.holder, lease.epoch, world.clock.now()))
        other = world._node("other", exclusive=False)
        until = world.clock.now() + timedelta(seconds=0.8)
        finish(world.store.leases.acquire(LEADER, other.id, "other", world.clock.now(), until, respect=None))
    member.wire.lose_reply("jobs.apply")
    world.run(5.0)
    return world, job, told


def followers(world: World, job: int) -> int:
    return sum(event.kind == "job" and event.fields.get("follows") == job for event in world.history.events)


def test_a_lost_reply_is_resolved_for_the_first_ending() -> None:
    world, job, told = settled_with_a_lost_reply(Act(seconds=1.0, before=30.0, follows=2, follows_late=1))
    assert (world.job(job).state, told[0]) == ("succeeded", "job.stop succeeded")
    assert followers(world, job) == 2
    assert len(world.jobs()) == 3


def test_a_lost_reply_is_resolved_for_the_late_ending() -> None:
    world, job, told = settled_with_a_lost_reply(Act(seconds=1.0, before=0.6, follows=2, follows_late=1))
    assert (world.job(job).state, world.job(job).reason) == ("skipped", "late")
    assert told[0] == "job.stop skipped"
    assert followers(world, job) == 1
    assert len(world.jobs()) == 2


def test_a_reply_that_is_lost_in_time_is_resolved_after_the_instant() -> None:
    """The first call was in time and was written; when it is sent again, it is late."""
    world, job, told = settled_with_a_lost_reply(Act(seconds=1.0, before=1.05, follows=2, follows_late=1))
    assert (world.job(job).state, told[0]) == ("succeeded", "job.stop succeeded")
    assert followers(world, job) == 2
    assert len(world.jobs()) == 3


def test_a_lost_reply_is_resolved_for_a_release() -> None:
    world, job, told = settled_with_a_lost_reply(Act("fail", seconds=0.7, led=True, follows=1), Act(), depose=True)
    assert told[0] == "job.stop queued"
    assert world.attempts(job)[0].outcome == "deposed"
    assert (world.job(job).retry_count, world.job(job).state) == (0, "succeeded")


def test_ids_of_jobs_that_follow_are_reserved_once() -> None:
    world = World(1)
    member = world.boot("alone")
    world.run(0.1)
    job = world.enqueue(Act(seconds=1.0, follows=2))
    world.run(0.5)
    member.wire.down = True
    world.run(2.0)
    member.wire.down = False
    world.run(3.0)
    changes = [event for event in world.history.events if event.kind == "change" and event.fields["id"] == job]
    assert [len(change.fields["brings"]) for change in changes] == [2]
    assert {other.id for other in world.jobs()} == {job, *changes[0].fields["brings"]}


def test_without_a_database_ids_wait_as_outcomes_do() -> None:
    """A settle that is tried many times brings the jobs that it was given at first."""
    world = World(3)
    member = world.boot("alone")
    world.run(0.1)
    job = world.enqueue(Act(seconds=0.4, follows=1))
    world.run(0.3)
    for _ in range(3):
        member.wire.lose_reply("jobs.reserve")
    world.run(3.0)
    assert world.job(job).state == "succeeded"
    assert followers(world, job) == 1


def test_what_one_batch_does_not_hold_is_written_by_the_second_settler_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More jobs end at once than a batch holds: both settlers have a write on its way."""
    real, writing, at_once = Settler._settle, set[str](), 0

    async def settle(self: Settler, *batch: Any, **options: Any) -> Any:
        nonlocal at_once
        writing.add(self.name)
        at_once = max(at_once, len(writing))
        try:
            return await real(self, *batch, **options)
        finally:
            writing.discard(self.name)

    monkeypatch.setattr(Settler, "_settle", settle)
    world = World(1, concurrency=8, latency=0.05, pace=dataclasses.replace(PACE, settle_batch=2))
    member = world.boot("alone")
    world.run(0.1)
    jobs = [world.enqueue(Act(seconds=1.0)) for _ in range(8)]
    world.run(5.0)
    assert [world.job(job).state for job in jobs] == ["succeeded"] * 8
    assert at_once == 2
    assert (member.worker.in_flight.unwritten, member.worker.in_flight.claims) == ([], {})
