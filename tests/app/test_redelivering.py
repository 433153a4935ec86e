"""An operator's retry of a delivery: what has ended stays as it is, and another one repeats it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from oncue import Conflict, Job, Oncue
from oncue.model import DELIVER
from tests.app.watching import Watcher
from tests.server.test_webhooks import Scripted
from tests.store.scene import enter


@pytest.fixture
def hooked(app: Oncue, runner: asyncio.Runner) -> Oncue:
    runner.run(app.webhooks.create("orders", url="https://shop.example/", retry=["1s"]))
    return app


async def ended(app: Oncue, answer: int = 404, **options: Any) -> Job:
    """A delivery that has come to its end."""
    receipt = await app.webhooks.deliver("orders", {"order": 7}, **options)
    return await worked(app, receipt.id, answer)


async def worked(app: Oncue, job_id: int, answer: int = 200) -> Job:
    app.override({"queues": "webhooks"})
    watcher = Watcher(app)
    with app.internals.delivering_through(Scripted([answer])):
        async with app.worker():
            (job,) = await watcher.ended([job_id])
    return await app.jobs.get(job.id)


WAYS: list[Callable[[Oncue, int], Any]] = [
    lambda app, job_id: app.jobs.retry(job_id, by="ada"),
    lambda app, job_id: app.jobs.set_status(job_id, "queued", by="ada"),
    lambda app, job_id: app.webhooks.retry(job_id, by="ada"),
    lambda app, job_id: app.jobs.retry_many([job_id], by="ada"),
    lambda app, job_id: app.jobs.set_status_many([job_id], "queued", by="ada"),
]


@pytest.mark.contract("HOOK-10")
@pytest.mark.parametrize("answer", [200, 404])
@pytest.mark.parametrize("again", WAYS, ids=["retry", "status", "webhooks", "many", "status of many"])
async def test_no_way_leads_back_from_the_end(hooked: Oncue, answer: int, again: Any) -> None:
    first = await ended(hooked, answer, key="seven", priority=9)
    await again(hooked, first.id)
    assert await hooked.jobs.get(first.id) == first
    (second, _) = await hooked.webhooks.executions("orders")
    assert (second.retry_of, second.state, second.attempt, second.enqueued_by) == (first.id, "queued", 0, "ada")
    for name in ("task", "args", "options", "max_retries", "max_runtime", "group", "queue", "priority", "key"):
        assert getattr(second, name) == getattr(first, name), name
    (line,) = await hooked.audit_log.list(subject=f"job:{first.id}")
    assert (line.actor, line.after) == ("ada", {"retried_as": second.id})
    assert (await worked(hooked, second.id)).state == "succeeded", "its group is looked at"
    assert await hooked.jobs.get(first.id) == first


@pytest.mark.contract("HOOK-10")
async def test_a_delivery_can_be_repeated_as_often_as_one_likes(hooked: Oncue) -> None:
    first = await ended(hooked, 200)
    again = [await hooked.jobs.retry(first.id) for _ in range(2)]
    again += await asyncio.gather(*(hooked.jobs.retry(first.id) for _ in range(3)))
    assert {job.retry_of for job in again} == {first.id}
    assert len({job.id for job in again}) == 5
    assert await hooked.jobs.get(first.id) == first


async def test_what_has_not_ended_is_not_repeated(hooked: Oncue) -> None:
    waiting = await hooked.webhooks.deliver("orders", delay="1h")
    for again in (hooked.jobs.retry, hooked.webhooks.retry):
        with pytest.raises(Conflict, match="only finished jobs are retried"):
            await again(waiting.id)
    assert (await hooked.jobs.set_status(waiting.id, "queued")).id == waiting.id


async def test_one_that_runs_is_queued_again_as_the_same(hooked: Oncue) -> None:
    """It has not ended: its attempt is fenced, and it keeps its id."""
    connected = await hooked.internals.connected()
    receipt, now = await hooked.webhooks.deliver("orders"), connected.now()
    node = await enter(connected.store, started_at=now, expires_at=now.replace(year=now.year + 1))
    await connected.store.groups.wake(["webhooks"], 10, now)
    (claim,) = await connected.store.groups.claim(node, ["webhooks"], [DELIVER], 1, now, rooms={"webhooks": 1})
    assert claim.id == receipt.id
    job = await hooked.jobs.set_status(receipt.id, "queued")
    assert (job.id, job.state) == (receipt.id, "queued")


async def test_of_a_schedule_it_does_not_overlap_with_more_than_it_allows(hooked: Oncue) -> None:
    await hooked.schedules.create("stock", "0 0 1 1 *", webhook="orders", max_instances=1)
    slot = await hooked.schedules.run_now("stock")
    assert slot.job_id is not None
    first = await worked(hooked, slot.job_id)
    again = await hooked.jobs.retry(first.id)
    assert (again.schedule_id, again.scheduled_for, again.retry_of) == (
        first.schedule_id, first.scheduled_for, first.id,
    )  # fmt: skip
    with pytest.raises(Conflict, match="of the same schedule is not finished"):
        await hooked.jobs.retry(first.id)
    await worked(hooked, again.id)
    assert (await hooked.jobs.retry(first.id)).retry_of == first.id, "although a retry of it was delivered"
    assert (await hooked.schedules.audit("stock")).holds


async def test_other_jobs_start_over_in_place(app: Oncue) -> None:
    @app.task
    async def add() -> None: ...

    receipt = await add.aenqueue()
    await app.jobs.set_status(receipt.id, "failed")
    assert (await app.jobs.retry(receipt.id)).id == receipt.id
