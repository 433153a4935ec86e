"""One outcome that the database refuses does not keep the others from being written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from oncue.errors import StoreRefused, StoreUnavailable
from oncue.model import Change
from oncue.policy.options import Options
from oncue.sim.script import Act
from oncue.sim.world import World
from oncue.store.sqlite.jobs import SqliteJobs


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
    world = World(1)
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
    member.wire.lose_reply("apply")
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
