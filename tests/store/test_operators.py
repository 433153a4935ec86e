from __future__ import annotations

import pytest

from oncue.errors import StoreError, StoreUnavailable
from oncue.model import JobFilter, Queue
from oncue.store import Store
from tests.store.scene import (
    BROKEN,
    NOW,
    a_suspect,
    after,
    change,
    enter,
    put,
    see,
    settle,
    take,
)


@pytest.mark.contract("QUE-13")
async def test_a_priority_is_changed_by_whoever_knows_it(store: Store) -> None:
    (job_id,) = await put(store, priority=5)
    assert not await store.jobs.prioritize(job_id, 4, 50, after(seconds=1))
    assert (await see(store, job_id)).priority == 5
    assert await store.jobs.prioritize(job_id, 5, 50, after(seconds=1))
    job = await see(store, job_id)
    assert (job.priority, job.updated_at) == (50, after(seconds=1))


@pytest.mark.contract("QUE-13", "QUE-1")
async def test_a_raised_job_comes_first(store: Store) -> None:
    node = await enter(store)
    first, second = await put(store, 2)
    assert await store.jobs.prioritize(second, 0, 1, NOW)
    assert [claim.id for claim in await take(store, node)] == [second, first]


async def test_a_finished_or_unknown_job_has_no_priority_to_set(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    await settle(store, await take(store, node))
    assert not await store.jobs.prioritize(job_id, 0, 50, NOW)
    assert not await store.jobs.prioritize(job_id + 1, 0, 50, NOW)
    assert (await see(store, job_id)).priority == 0


async def test_a_senseless_value_is_refused_and_not_taken_for_an_outage(store: Store) -> None:
    with pytest.raises((StoreError, OverflowError)) as caught:
        await store.jobs.prioritize(10**30, 0, 50, NOW)
    assert not isinstance(caught.value, StoreUnavailable)


async def test_a_running_job_is_asked_to_stop_by_its_claim(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    assert not await store.jobs.request_cancel(job_id, claim.claim_no - 1, NOW)
    assert (await see(store, job_id)).cancel_requested_at is None
    assert await store.jobs.request_cancel(job_id, claim.claim_no, after(seconds=1))
    job = await see(store, job_id)
    assert (job.state, job.cancel_requested_at) == ("running", after(seconds=1))
    assert not await store.jobs.request_cancel(job_id, claim.claim_no, after(seconds=9)), "once is enough"
    assert (await see(store, job_id)).cancel_requested_at == after(seconds=1)


async def test_only_a_running_job_can_be_asked_to_stop(store: Store) -> None:
    node = await enter(store)
    queued, done = await put(store, 2)
    assert not await store.jobs.request_cancel(queued, 0, NOW)
    claims = await take(store, node)
    await store.jobs.apply([change(claims[1])], NOW)
    assert not await store.jobs.request_cancel(done, 1, NOW)


async def test_pausing_keeps_the_first_instant_and_resuming_ends_it(store: Store) -> None:
    assert await store.queues.pause("mail", NOW)
    assert not await store.queues.pause("mail", after(hours=1))
    assert [queue.paused_at for queue in await store.queues.all()] == [NOW]
    assert await store.queues.resume("mail", after(hours=2))
    assert not await store.queues.resume("mail", after(hours=3))
    assert [queue.paused_at for queue in await store.queues.all()] == [None]
    assert not await store.queues.resume("never-seen", NOW)
    assert await store.queues.pause("mail", after(hours=4)), "a queue that is known, and open, is paused again"


async def test_queues_show_what_waits_runs_and_finished(store: Store) -> None:
    node = await enter(store)
    await put(store, 6, queue="mail")
    await put(store, 2, queue="mail", state="scheduled", visible_at=after(days=1))
    await put(store, 1, queue="web")
    await store.queues.pause("idle", NOW)
    claims = await take(store, node, 4, queues=["mail"])
    await store.jobs.apply([change(claims[0]), change(claims[1], BROKEN)], NOW)
    assert await store.queues.all() == [
        Queue("idle", NOW, 0, 0, 0, 0, 0, 0, 0),
        Queue("mail", None, queued=2, running=2, later=3, succeeded=1, failed=0, cancelled=0, skipped=0),
        Queue("web", None, 1, 0, 0, 0, 0, 0, 0),
    ]


async def test_queues_count_suspects_among_the_queued(store: Store) -> None:
    node = await enter(store)
    await a_suspect(store, node)
    await put(store)
    (queue,) = await store.queues.all()
    assert queue.queued == 2


@pytest.mark.contract("QUE-11")
async def test_jobs_are_listed_newest_first_and_by_page(store: Store) -> None:
    ids = await put(store, 5)
    newest = await store.jobs.find(JobFilter(limit=2))
    assert [job.id for job in newest] == [ids[4], ids[3]]
    rest = await store.jobs.find(JobFilter(before=newest[-1].id))
    assert [job.id for job in rest] == [ids[2], ids[1], ids[0]]


@pytest.mark.contract("QUE-11")
async def test_a_listing_is_filtered_by_everything_at_once(store: Store) -> None:
    node = await enter(store)
    (wanted,) = await put(store, queue="mail", task="send", keys=["a"])
    await put(store, queue="mail", task="send", keys=["b"])
    await put(store, queue="web", task="send")
    await put(store, queue="mail", task="fetch", keys=["a"])
    (running,) = await take(store, node, queues=["web"])

    async def ids(**fields: object) -> list[int]:
        return [job.id for job in await store.jobs.find(JobFilter(**fields))]  # type: ignore[arg-type]

    assert await ids(queue="mail", task="send", key="a", states=("queued",)) == [wanted]
    assert await ids(states=("running",)) == [running.id]
    assert len(await ids(states=("queued", "running"))) == 4
    assert len(await ids(key="a")) == 2
    assert await ids(queue="nowhere") == []
    (older, newer) = await put(store, 2, queue="mail", task="send", group="seven")
    (elsewhere,) = await put(store, queue="web", task="send", keys=["c"], group="seven")
    assert await ids(group="seven") == [elsewhere, newer, older]
    assert await ids(group="seven", short=True, limit=1, offset=1) == await ids(
        group="seven", before=newer + 1, limit=1
    )
    assert await ids(group="seven", queue="mail", states=("queued",), task="send", before=newer) == [older]
    assert await ids(group="seven", key="c") == [elsewhere]
    assert await ids(group="seven", states=("running",)) == await ids(group="eight") == []


async def test_a_job_read_twice_is_the_same(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store, keys=["a"])
    await settle(store, await take(store, node), BROKEN)
    job = await see(store, job_id)
    assert await store.jobs.get(job.id) == job
    assert await store.jobs.find(JobFilter(key="a")) == [job]
