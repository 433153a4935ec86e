"""Aging, pruning and counting."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.model import TERMINAL, Count, JobFilter, Released, Skipped
from oncue.policy import lifecycle
from oncue.store import Store
from tests.store.scene import (
    BROKEN,
    NOW,
    a_suspect,
    after,
    age_all,
    before,
    change,
    enter,
    put,
    see,
    settle,
    states,
    take,
)

HOUR_AGO = before(hours=1)


async def age(store: Store, round_no: int = 1) -> int:
    return await age_all(store, round_no, HOUR_AGO, NOW)


async def priority(store: Store, job_id: int) -> int:
    return (await see(store, job_id)).priority


@pytest.mark.contract("QUE-2")
async def test_what_waited_for_over_an_hour_gains_ten(store: Store) -> None:
    (old,) = await put(store, created_at=before(hours=2), priority=5)
    (young,) = await put(store, created_at=before(minutes=59), priority=5)
    assert await age(store) == 1
    assert (await priority(store, old), await priority(store, young)) == (15, 5)
    assert (await see(store, old)).updated_at == NOW


@pytest.mark.contract("QUE-2")
async def test_the_wait_is_counted_from_when_the_job_became_visible(store: Store) -> None:
    fields: dict[str, Any] = {"created_at": before(days=1), "state": "scheduled"}
    (long_due,) = await put(store, visible_at=before(hours=2), **fields)
    (just_due,) = await put(store, visible_at=before(minutes=5), **fields)
    (not_due,) = await put(store, visible_at=after(minutes=5), **fields)
    await store.jobs.promote(NOW, 10)
    assert await age(store) == 1
    assert [await priority(store, job_id) for job_id in (long_due, just_due, not_due)] == [10, 0, 0]


@pytest.mark.contract("QUE-2")
async def test_a_job_gains_once_per_round(store: Store) -> None:
    (job_id,) = await put(store, created_at=before(hours=2))
    assert [await age(store, 1), await age(store, 1), await age(store, 2)] == [1, 0, 1]
    assert await priority(store, job_id) == 20


@pytest.mark.contract("QUE-2")
async def test_the_gain_ends_at_a_hundred(store: Store) -> None:
    ids = [(await put(store, created_at=before(hours=2), priority=value))[0] for value in (85, 90, 95, 100)]
    await age(store)
    assert [await priority(store, job_id) for job_id in ids] == [95, 100, 100, 100]
    await age(store, 2)
    assert [await priority(store, job_id) for job_id in ids] == [100] * 4
    assert await age(store, 3) == 0


@pytest.mark.contract("QUE-2")
async def test_a_step_is_bounded_and_the_next_one_goes_on(store: Store) -> None:
    ids = await put(store, 25, created_at=before(hours=2))
    (lane,) = await store.jobs.levels()
    assert [await store.jobs.age(lane, 1, HOUR_AGO, 10, 10, NOW) for _ in range(4)] == [10, 10, 5, 0]
    assert [await priority(store, job_id) for job_id in ids] == [10] * 25


@pytest.mark.contract("QUE-2")
async def test_every_lane_is_found(store: Store) -> None:
    ids = []
    for queue in ("a", "b", "ü", "z"):
        for value in (0, 10, 20, 99):
            ids += await put(store, created_at=before(hours=2), queue=queue, priority=value)
    assert await age(store) == 16
    assert [await priority(store, job_id) for job_id in ids] == [10, 20, 30, 100] * 4


@pytest.mark.contract("QUE-2")
async def test_only_queued_jobs_age(store: Store) -> None:
    node = await enter(store)
    ids = await put(store, 3, created_at=before(hours=2))
    claims = await take(store, node)
    await store.jobs.apply([change(claims[1]), change(claims[2], BROKEN)], NOW)
    assert await age(store) == 0
    assert await states(store, ids) == ["running", "succeeded", "retrying"]


@pytest.mark.contract("QUE-1", "QUE-2")
async def test_an_old_job_overtakes_a_young_one(store: Store) -> None:
    node = await enter(store)
    (old,) = await put(store, created_at=before(hours=2))
    (young,) = await put(store, priority=5)
    await age(store)
    assert [claim.id for claim in await take(store, node)] == [old, young]


async def test_finished_jobs_are_pruned_with_their_attempts(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    await settle(store, await take(store, node), Released())
    await settle(store, await take(store, node), at=before(days=8))
    assert len(await store.jobs.attempts(job_id)) == 1
    assert await store.jobs.prune(before(days=7), 100) == 1
    assert await store.jobs.get(job_id) is None
    assert await store.jobs.attempts(job_id) == []


async def test_only_what_finished_before_is_pruned(store: Store) -> None:
    node = await enter(store)
    old, exact, new = await put(store, 3)
    claims = await take(store, node)
    for claim, days in zip(claims, (8, 7, 6), strict=True):
        await store.jobs.apply([change(claim, at=before(days=days))], NOW)
    assert await store.jobs.prune(before(days=7), 100) == 1
    assert await store.jobs.get(old) is None
    assert await states(store, [exact, new]) == ["succeeded", "succeeded"]


async def test_every_kind_of_end_is_pruned_and_the_step_is_bounded(store: Store) -> None:
    node = await enter(store)
    await put(store, 40)
    claims = await take(store, node)
    endings = sorted(TERMINAL) * 10
    await store.jobs.apply(
        [change(claim, at=before(days=8))._replace(state=end) for claim, end in zip(claims, endings, strict=True)], NOW
    )
    assert [await store.jobs.prune(NOW, 15) for _ in range(4)] == [15, 15, 10, 0]
    assert await store.jobs.find(JobFilter()) == []


async def test_old_attempts_of_a_job_that_goes_on_and_on_are_pruned(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store, created_at=before(days=20))
    for days in (9, 8, 6):
        await settle(store, await take(store, node, now=before(days=days)), Released(), at=before(days=days))
    assert await store.jobs.prune(before(days=7), 100) == 0
    assert [row.claim_no for row in await store.jobs.attempts(job_id)] == [3]
    assert await states(store, [job_id]) == ["queued"]


async def test_an_unfinished_job_is_never_pruned(store: Store) -> None:
    node = await enter(store)
    ids = await put(store, 3, created_at=before(days=99)) + await put(
        store, state="scheduled", visible_at=after(days=1)
    )
    claims = await take(store, node, 2, now=before(days=50))
    await settle(store, claims[:1], BROKEN, at=before(days=50))
    assert await store.jobs.prune(after(days=99), 100) == 0
    assert await states(store, ids) == ["retrying", "running", "queued", "scheduled"]


async def test_lost_nodes_are_forgotten_once_nothing_of_theirs_runs(store: Store) -> None:
    node = await enter(store, expires_at=before(days=8))
    await put(store)
    claims = await take(store, node, now=before(days=9))
    await store.nodes.expire(before(days=8))
    await store.jobs.prune(before(days=7), 100)
    assert await store.jobs.orphaned(NOW, 10) == claims
    await settle(store, claims, at=NOW)
    await store.jobs.prune(before(days=7), 100)
    assert not await store.nodes.beat(node, NOW, after(days=1))


async def test_what_is_queued_is_counted_by_queue_and_priority(store: Store) -> None:
    await put(store, 3, queue="mail", priority=5)
    await put(store, 2, queue="mail")
    await put(store, 1, queue="web")
    await put(store, 4, state="scheduled", visible_at=after(days=1))
    assert sorted(await store.counters.count(100)) == [
        Count("default", "later", 4), Count("mail", "queued", 2, 0), Count("mail", "queued", 3, 5),
        Count("web", "queued", 1, 0),
    ]  # fmt: skip


async def test_what_is_queued_is_counted_by_isolation(store: Store) -> None:
    node = await enter(store)
    for deaths, queue in ((1, "a"), (2, "b"), (2, "c"), (3, "d")):
        await a_suspect(store, node, deaths=deaths, queue=queue)
    counts = {(count.queue, count.isolation): count.jobs for count in await store.counters.count(100)}
    assert counts == {("a", 0): 1, ("b", 1): 1, ("c", 1): 1, ("d", 2): 1}


async def test_the_next_lease_end_is_that_of_a_node_that_was_not_declared_lost(store: Store) -> None:
    assert await store.nodes.next_lease_end() is None
    await enter(store, "one", expires_at=after(seconds=10))
    await enter(store, "two", expires_at=after(seconds=20))
    assert await store.nodes.next_lease_end() == after(seconds=10)
    await store.nodes.expire(after(seconds=15))
    assert await store.nodes.next_lease_end() == after(seconds=20)


async def test_totals_are_the_same_before_and_after_folding(store: Store) -> None:
    node = await enter(store)
    await put(store, 6)
    claims = await take(store, node)
    for claim in claims[:4]:
        await settle(store, [claim])
    await settle(store, claims[4:], Skipped("late"))
    unfolded = await store.queues.all()
    assert [await store.counters.fold(2) for _ in range(4)] == [2, 2, 1, 0]
    assert await store.queues.all() == unfolded
    (queue,) = unfolded
    assert (queue.succeeded, queue.skipped) == (4, 2)


async def test_folding_adds_to_what_was_folded_before(store: Store) -> None:
    node = await enter(store)
    for total in (3, 4):
        await put(store, total)
        await settle(store, await take(store, node))
        assert await store.counters.fold(100) == 1
    assert (await store.queues.all())[0].succeeded == 7


async def test_a_job_that_starts_over_is_not_counted_where_it_had_ended(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store, max_retries=0)
    await settle(store, await take(store, node), BROKEN)
    assert (await store.queues.all())[0].failed == 1
    again = lifecycle.revive(await see(store, job_id), NOW)
    assert again is not None
    await store.jobs.apply([again], NOW)
    await store.counters.fold(100)
    assert (await store.queues.all())[0].failed == 0
    await settle(store, await take(store, node))
    (queue,) = await store.queues.all()
    assert (queue.failed, queue.succeeded) == (0, 1)


async def test_totals_outlive_the_jobs(store: Store) -> None:
    node = await enter(store)
    await put(store, 3)
    await settle(store, await take(store, node), at=before(days=8))
    assert await store.jobs.prune(NOW, 100) == 3
    assert (await store.queues.all())[0].succeeded == 3
