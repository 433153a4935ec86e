from __future__ import annotations

import pytest

from oncue.model import Snoozed
from oncue.store import Store
from tests.store.scene import BROKEN, NOW, after, change, enter, put, see, settle, states, take


async def test_nothing_is_due_in_an_empty_store(store: Store) -> None:
    assert await store.jobs.promote(NOW, 100) is None


@pytest.mark.contract("QUE-5")
async def test_what_is_due_is_queued_and_the_next_instant_is_told(store: Store) -> None:
    (due,) = await put(store, state="scheduled", visible_at=after(minutes=1))
    (later,) = await put(store, state="scheduled", visible_at=after(minutes=2))
    assert await store.jobs.promote(NOW, 100) == after(minutes=1)
    assert await store.jobs.promote(after(minutes=1), 100) == after(minutes=2)
    assert await states(store, [due, later]) == ["queued", "scheduled"]


async def test_no_more_than_the_limit_and_the_most_overdue_first(store: Store) -> None:
    ids = [(await put(store, state="scheduled", visible_at=after(minutes=minute)))[0] for minute in (3, 1, 2)]
    assert await store.jobs.promote(after(hours=1), 2) == after(minutes=3)
    assert await states(store, ids) == ["scheduled", "queued", "queued"]


async def test_a_snoozed_job_comes_back_by_itself(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    await settle(store, await take(store, node), Snoozed(60))
    assert await store.jobs.promote(NOW, 100) == after(minutes=1)
    await store.jobs.promote(after(minutes=1), 100)
    job = await see(store, job_id)
    assert (job.state, job.retry_count, job.updated_at) == ("queued", 0, after(minutes=1))


async def test_running_and_finished_jobs_are_not_promoted(store: Store) -> None:
    node = await enter(store)
    running, done = await put(store, 2)
    claims = await take(store, node)
    await store.jobs.apply([change(claims[1])], NOW)
    assert await store.jobs.promote(after(days=1), 100) is None
    assert await states(store, [running, done]) == ["running", "succeeded"]


async def test_promotion_changes_neither_fence_nor_budget(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    await settle(store, await take(store, node), BROKEN)
    held = await see(store, job_id)
    await store.jobs.promote(after(days=1), 100)
    job = await see(store, job_id)
    assert (job.claim_no, job.retry_count, job.attempt) == (held.claim_no, held.retry_count, held.attempt) == (1, 1, 1)
    assert (job.visible_at, job.order_at) == (held.visible_at, NOW)
