"""An operator's retry of a job that a schedule made."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Literal

import pytest

from oncue import Conflict, InvalidJob, Job, Oncue
from oncue.model import Decided, Step
from tests.app.watching import Watcher
from tests.store.scene import enter, settle, take


async def a_failed_run(app: Oncue, delivery: Literal["at_most_once", "at_least_once"]) -> Job:
    """The run of a slot that has failed for good."""

    @app.task(delivery=delivery, max_retries=0)
    async def report() -> None:
        raise ValueError("no paper")

    await app.schedules.create("nightly", "0 0 1 1 *", report)
    watcher = Watcher(app)
    async with app.worker():
        slot = await app.schedules.run_now("nightly")
        assert slot.job_id is not None
        await watcher.ended([slot.job_id])
    job = await app.jobs.get(slot.job_id)
    assert job.state == "failed"
    return job


@pytest.mark.contract("SLOT-3")
async def test_the_run_of_an_at_most_once_slot_stays_as_it_is(app: Oncue) -> None:
    failed = await a_failed_run(app, "at_most_once")
    again = await app.jobs.retry(failed.id)
    assert await app.jobs.get(failed.id) == failed
    assert (again.retry_of, again.state, again.attempt) == (failed.id, "queued", 0)
    assert (again.task, again.args, again.options) == (failed.task, failed.args, failed.options)
    assert (again.schedule_id, again.scheduled_for) == (failed.schedule_id, failed.scheduled_for)
    assert again.start_by is None, "whoever asks for it now does not mind that it is late"


async def test_the_ledger_still_tells_of_the_first_run(app: Oncue) -> None:
    failed = await a_failed_run(app, "at_most_once")
    await app.jobs.retry(failed.id)
    found = await app.schedules.audit("nightly")
    assert found.holds
    assert [fate.row.job_id for fate in found.fates if fate.row] == [failed.id]


async def test_any_other_run_starts_over_in_place(app: Oncue) -> None:
    failed = await a_failed_run(app, "at_least_once")
    again = await app.jobs.retry(failed.id)
    assert (again.id, again.state, again.retry_count) == (failed.id, "queued", 0)


@pytest.mark.contract("SLOT-5")
@pytest.mark.parametrize("delivery", ["at_most_once", "at_least_once"])
async def test_a_retry_does_not_overlap_with_another_run(
    app: Oncue, delivery: Literal["at_most_once", "at_least_once"]
) -> None:
    failed = await a_failed_run(app, delivery)
    other = await app.schedules.run_now("nightly")
    with pytest.raises(Conflict, match=f"job {other.job_id} of the same schedule is not finished") as refused:
        await app.jobs.retry(failed.id)
    assert refused.value.job_id == other.job_id
    assert await app.jobs.get(failed.id) == failed


async def test_a_failure_of_a_retry_is_retried_like_the_first(app: Oncue) -> None:
    failed = await a_failed_run(app, "at_most_once")
    watcher = Watcher(app)
    async with app.worker():
        again = await app.jobs.retry(failed.id)
        await watcher.ended([again.id])
    third = await app.jobs.retry(again.id)
    assert third.retry_of == again.id


@pytest.mark.contract("SLOT-5")
@pytest.mark.parametrize("delivery", ["at_most_once", "at_least_once"])
async def test_two_operators_at_once_start_one_run(
    app: Oncue, delivery: Literal["at_most_once", "at_least_once"]
) -> None:
    failed = await a_failed_run(app, delivery)
    found = await asyncio.gather(*(app.jobs.retry(failed.id) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(one, Job) for one in found) == 1
    assert sum(isinstance(one, Conflict) for one in found) == 4
    assert len(await app.jobs.list(["queued"])) == 1


async def test_as_many_runs_as_the_schedule_allows(app: Oncue) -> None:
    failed = await a_failed_run(app, "at_most_once")
    await app.schedules.change("nightly", max_instances=2)
    await app.schedules.run_now("nightly")
    again = await app.jobs.retry(failed.id)
    with pytest.raises(Conflict):
        await app.jobs.retry(failed.id)
    assert again.retry_of == failed.id


async def succeed(app: Oncue, job_id: int) -> None:
    """The next run of it goes well, somewhere else."""
    connection = await app.internals.connected()
    store, now = connection.store, connection.now()
    node = await enter(store, started_at=now, expires_at=now + timedelta(minutes=1))
    claims = await take(store, node, tasks=["report"], now=now)
    assert [claim.id for claim in claims] == [job_id]
    assert await settle(store, claims, at=now) == [True]


@pytest.mark.contract("SLOT-3")
async def test_what_was_repeated_with_success_is_not_repeated_again(app: Oncue) -> None:
    failed = await a_failed_run(app, "at_most_once")
    first = await app.jobs.retry(failed.id)
    await app.jobs.cancel(first.id)
    second = await app.jobs.retry(first.id)
    await succeed(app, second.id)
    for job_id in (failed.id, first.id):
        with pytest.raises(
            Conflict, match=f"^job {job_id} was retried as job {second.id}, which succeeded$"
        ) as refused:
            await app.jobs.retry(job_id)
        assert refused.value.job_id == second.id
    assert len(await app.jobs.list()) == 3


@pytest.mark.contract("SLOT-3")
async def test_what_another_retry_has_done_is_not_repeated_by_way_of_one_that_was_cancelled(app: Oncue) -> None:
    failed = await a_failed_run(app, "at_most_once")
    cancelled = await app.jobs.retry(failed.id)
    await app.jobs.cancel(cancelled.id)
    done = await app.jobs.retry(failed.id)
    await succeed(app, done.id)
    with pytest.raises(Conflict, match=f"^job {cancelled.id} was retried as job {done.id}, which succeeded$"):
        await app.jobs.retry(cancelled.id)
    assert len(await app.jobs.list()) == 3


async def test_that_it_succeeded_matters_more_than_what_runs_just_now(app: Oncue) -> None:
    failed = await a_failed_run(app, "at_most_once")
    again = await app.jobs.retry(failed.id)
    await succeed(app, again.id)
    await app.schedules.run_now("nightly")
    with pytest.raises(Conflict, match="which succeeded"):
        await app.jobs.retry(failed.id)


async def test_a_retry_says_who_asked_for_it(app: Oncue) -> None:
    failed = await a_failed_run(app, "at_most_once")
    again = await app.jobs.retry(failed.id, by="bob")
    await app.jobs.cancel(again.id)
    assert (again.enqueued_by, (await app.jobs.retry(failed.id)).enqueued_by) == ("bob", "system")
    with pytest.raises(InvalidJob, match="by: expected a printable name"):
        await app.jobs.retry(failed.id, by="")


@pytest.mark.contract("SLOT-10")
async def test_a_slot_that_was_too_late_runs_when_somebody_asks_for_it(app: Oncue) -> None:
    ran = []

    @app.task
    async def report(slot: datetime) -> None:
        ran.append(slot)

    schedule = await app.schedules.create("nightly", "0 0 1 1 *", report, grace="1s")
    connection = await app.internals.connected()
    (job_id,) = await connection.store.jobs.reserve(1)
    late = connection.now() - timedelta(minutes=1)
    step = Step(schedule.id, schedule.version, late, None, [Decided(late, "fired", None, job_id)])
    assert await connection.store.slots.decide([step], connection.now(), by="test") == [True]
    watcher = Watcher(app)
    async with app.worker():
        await watcher.ended([job_id])
        job = await app.jobs.get(job_id)
        assert (job.state, job.reason) == ("skipped", "misfire")
        watcher = Watcher(app)
        await app.jobs.retry(job_id)
        await watcher.ended([job_id])
    assert (await app.jobs.get(job_id)).state == "succeeded"
    assert ran == [late]
