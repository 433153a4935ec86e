"""What callers and operators do to jobs and queues that exist."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest

from oncue import Conflict, InvalidJob, JobNotFound, Oncue, Task
from oncue.model import Failed
from oncue.policy import lifecycle
from tests.app.watching import Watcher
from tests.store.scene import a_node


@pytest.fixture
def work(app: Oncue) -> Task[[int], int]:
    @app.task(max_retries=0)
    async def work(n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return n

    return work


async def finished(app: Oncue, work: Task[[int], int], *numbers: int) -> list[int]:
    """Jobs that a worker has done."""
    watcher = Watcher(app)
    async with app.worker():
        receipts = await work.aenqueue_many(numbers)
        await watcher.ended(receipt.id for receipt in receipts)
    return [receipt.id for receipt in receipts]


async def test_a_job_is_read_by_id_and_by_uid(app: Oncue, work: Task[[int], int]) -> None:
    receipt = await work.aenqueue(1)
    assert await app.jobs.get(receipt.id) == await app.jobs.get(receipt.uid)


async def test_the_result_and_its_times_are_on_the_job(app: Oncue, work: Task[[int], int]) -> None:
    (job_id,) = await finished(app, work, 7)
    job = await app.jobs.get(job_id)
    assert (job.state, job.result, job.error, job.attempt) == ("succeeded", 7, None, 1)
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.created_at - timedelta(seconds=1) <= job.started_at <= job.finished_at
    assert job.duration is not None
    assert job.duration >= 0


@pytest.mark.parametrize("ref", [99, 0, -1, 2**63, 10**30, uuid4()], ids=range(6))
async def test_a_job_that_does_not_exist_is_not_found(app: Oncue, ref: int) -> None:
    for verb in (app.jobs.get, app.jobs.cancel, app.jobs.retry):
        with pytest.raises(JobNotFound, match=f"there is no job {ref}"):
            await verb(ref)
    if isinstance(ref, int):
        for reprioritize in (app.jobs.prioritize, app.jobs.boost):
            with pytest.raises(JobNotFound):
                await reprioritize(ref, 5)


async def test_jobs_are_listed_newest_first_page_by_page(app: Oncue, work: Task[[int], int]) -> None:
    ids = [receipt.id for receipt in await work.aenqueue_many(range(5))]
    first = await app.jobs.list(limit=2)
    second = await app.jobs.list(limit=2, before=first[-1].id)
    assert [job.id for job in first + second] == ids[:0:-1]


@pytest.mark.contract("QUE-11")
async def test_a_listing_may_leave_out_the_first_ones(app: Oncue, work: Task[[int], int]) -> None:
    ids = [receipt.id for receipt in await work.aenqueue_many(range(5))]
    assert [job.id for job in await app.jobs.list(limit=2, offset=1)] == [ids[3], ids[2]]
    assert [job.id for job in await app.jobs.list(["queued"], limit=2, offset=4)] == [ids[0]]
    assert await app.jobs.list(offset=100_000) == []
    for offset in (-1, 100_001, 1.5, True, "1"):
        with pytest.raises(ValueError, match="offset: expected a whole number from 0 to 100,000"):
            await app.jobs.list(offset=offset)  # type: ignore[arg-type]


async def test_a_listing_is_narrowed_down(app: Oncue, work: Task[[int], int]) -> None:
    plain = await work.aenqueue(1)
    keyed = await work.using(key="k").aenqueue(2)
    slow = await work.using(queue="slow", delay="1h").aenqueue(3)
    assert [job.id for job in await app.jobs.list(key="k")] == [keyed.id]
    assert [job.id for job in await app.jobs.list(queue="slow")] == [slow.id]
    assert [job.id for job in await app.jobs.list(["queued"])] == [slow.id, keyed.id, plain.id]
    assert [job.id for job in await app.jobs.list(["scheduled"])] == [slow.id]
    assert [job.id for job in await app.jobs.list(task="other")] == []


@pytest.mark.parametrize("limit", [0, -1, 10**30])
async def test_a_listing_without_bounds_is_refused(app: Oncue, limit: int) -> None:
    with pytest.raises(ValueError, match="limit: expected a whole number from 1 to 100,000"):
        await app.jobs.list(limit=limit)


@pytest.mark.parametrize("delay", [0, "1h"])
async def test_a_waiting_job_is_cancelled_at_once_and_for_good(
    app: Oncue, work: Task[[int], int], delay: str | int
) -> None:
    receipt = await work.using(delay=delay).aenqueue(1)
    job = await app.jobs.cancel(receipt.id)
    assert (job.state, job.reason, job.attempt) == ("cancelled", "cancelled", 0)
    with pytest.raises(Conflict, match=f"job {receipt.id} is cancelled already") as conflict:
        await app.jobs.cancel(receipt.id)
    assert conflict.value.job_id == receipt.id


@pytest.mark.contract("QUE-14")
async def test_a_failed_job_starts_over_with_its_whole_budget(app: Oncue, work: Task[[int], int]) -> None:
    (job_id,) = await finished(app, work, -1)
    assert (await app.jobs.get(job_id)).state == "failed"
    job = await app.jobs.retry(job_id)
    assert (job.state, job.retry_count, job.attempt) == ("queued", 0, 1)
    with pytest.raises(Conflict, match=f"job {job_id} is queued: only finished jobs are retried"):
        await app.jobs.retry(job_id)


async def test_a_retry_is_refused_while_another_job_holds_the_key(app: Oncue, work: Task[[int], int]) -> None:
    old = await work.using(key="k").aenqueue(1)
    await app.jobs.cancel(old.id)
    new = await work.using(key="k").aenqueue(2)
    with pytest.raises(Conflict, match=f"its key 'k' is held by job {new.id}") as conflict:
        await app.jobs.retry(old.id)
    assert conflict.value.job_id == new.id


@pytest.mark.contract("QUE-1", "QUE-13")
async def test_priorities_are_set_and_boosted_within_their_bounds(app: Oncue, work: Task[[int], int]) -> None:
    receipt = await work.aenqueue(1)
    assert (await app.jobs.get(receipt.id)).priority == 0
    assert await app.jobs.prioritize(receipt.id, 60) == 60
    assert await app.jobs.boost(receipt.id) == 70
    assert await app.jobs.boost(receipt.id, 10**9) == 100
    assert await app.jobs.boost(receipt.id, -(10**9)) == 0
    assert (await app.jobs.get(receipt.id)).priority == 0


@pytest.mark.parametrize("priority", [101, -1, "high", 1.5, True])
async def test_a_priority_out_of_bounds_is_refused(app: Oncue, work: Task[[int], int], priority: int) -> None:
    receipt = await work.aenqueue(1)
    with pytest.raises(InvalidJob, match="priority"):
        await app.jobs.prioritize(receipt.id, priority)


@pytest.mark.parametrize("amount", ["much", 1.5, True])
async def test_a_boost_is_a_whole_number(app: Oncue, work: Task[[int], int], amount: int) -> None:
    receipt = await work.aenqueue(1)
    with pytest.raises(InvalidJob, match="boost: expected a whole number"):
        await app.jobs.boost(receipt.id, amount)


async def test_the_priority_of_a_finished_job_matters_no_more(app: Oncue, work: Task[[int], int]) -> None:
    receipt = await work.aenqueue(1)
    await app.jobs.cancel(receipt.id)
    for reprioritize in (app.jobs.prioritize, app.jobs.boost):
        with pytest.raises(Conflict, match=f"job {receipt.id} is cancelled: its priority matters no more"):
            await reprioritize(receipt.id, 10)


async def test_queues_show_what_is_in_them_and_whether_they_are_paused(app: Oncue, work: Task[[int], int]) -> None:
    await finished(app, work, 1, 2, -1)
    await work.using(queue="mail").aenqueue_many([1, 2])
    await work.using(queue="mail", delay="1h").aenqueue(3)
    await app.queues.pause("mail")
    await app.queues.pause("mail")
    default, mail = await app.queues.list()
    assert (default.name, default.succeeded, default.failed, default.paused_at) == ("default", 2, 1, None)
    assert (mail.name, mail.queued, mail.later) == ("mail", 2, 1)
    assert mail.paused_at is not None
    await app.queues.resume("mail")
    assert (await app.queues.list())[1].paused_at is None
    with pytest.raises(InvalidJob, match="queue: expected a printable name"):
        await app.queues.pause("")


async def test_pruning_deletes_what_finished_long_ago_and_nothing_else(app: Oncue, work: Task[[int], int]) -> None:
    old = await finished(app, work, 1, 2, -3)
    waiting = await work.aenqueue(4)
    heard: list[int] = []
    assert await app.jobs.prune("1h") == 0
    assert await app.jobs.prune(0, heard.append) == 3
    assert heard == [3]
    for job_id in old:
        with pytest.raises(JobNotFound):
            await app.jobs.get(job_id)
    assert (await app.jobs.get(waiting.id)).state == "queued"


async def test_a_cancel_that_comes_too_late_for_the_attempt_still_ends_the_job(
    app: Oncue, work: Task[[int], int]
) -> None:
    """Its handler failed before it could be told, so the job would wait for its retry, perhaps a day."""
    receipt = await work.using(max_retries=3).aenqueue(1)
    connection = await app.internals.connected()
    store, now = connection.store, connection.now()
    node = a_node(started_at=now, expires_at=now + timedelta(hours=1))
    await store.nodes.register(node)
    (claim,) = await store.jobs.claim(node.id, ["default"], ["work"], 1, now)
    await app.jobs.cancel(receipt.id)
    await store.jobs.apply([lifecycle.settle(lifecycle.Ended(claim, Failed("it broke"), now, now), Random(1))], now)
    job = await app.jobs.get(receipt.id)
    assert (job.state, job.visible_at) == ("retrying", now)
