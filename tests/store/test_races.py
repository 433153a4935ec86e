"""Real concurrency: several stores on one database, in one loop and in several threads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import pytest

from oncue.model import JobFilter
from oncue.policy import lifecycle
from oncue.store import Store, connect
from tests.conftest import MakeStore
from tests.store.scene import (
    CRASHED,
    NOW,
    a_batch,
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

T = TypeVar("T")


def flat(parts: Iterable[Iterable[T]]) -> list[T]:
    return [item for part in parts for item in part]


async def claim_all(store: Store, name: str, limit: int = 7) -> list[int]:
    """Claim until nobody has anything left to claim."""
    node = await enter(store, name)
    mine: list[int] = []
    while True:
        claims = await take(store, node, limit, queues=["default", "mail"], suspect=True)
        mine += [claim.id for claim in claims]
        if not claims and not await store.depth():
            return mine


def in_threads(url: str, workers: int, work: Callable[[Store, int], Awaitable[T]]) -> list[T]:
    """Do work on one store per thread, all at once."""
    start = Barrier(workers)

    async def opened(number: int) -> T:
        store = connect(url)
        await store.open()
        try:
            start.wait(20)
            return await work(store, number)
        finally:
            await store.close()

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda number: asyncio.run(opened(number)), range(workers)))


async def test_claimers_never_share_a_job_and_together_take_all(store: Store, make_store: MakeStore) -> None:
    ids = await put(store, 300) + await put(store, 300, queue="mail", priority=5)
    claimers = [await make_store() for _ in range(4)]
    shares = await asyncio.gather(*(claim_all(one, f"node-{n}") for n, one in enumerate(claimers)))
    assert sorted(flat(shares)) == sorted(ids)


def test_claimers_in_threads_never_share_a_job(database_url: str) -> None:
    ids: list[int] = []

    async def work(store: Store, number: int) -> list[int]:
        if number == 0:
            ids.extend(await put(store, 400))
        return await claim_all(store, f"node-{number}", limit=11)

    shares = in_threads(database_url, 4, work)
    claimed = flat(shares)
    assert len(claimed) == len(set(claimed))
    assert set(claimed) <= set(ids)


@pytest.mark.contract("QUE-9")
async def test_of_a_result_a_rescue_and_another_rescue_exactly_one_wins(store: Store, make_store: MakeStore) -> None:
    others = [await make_store() for _ in range(2)]
    node = await enter(store)
    ids = await put(store, 60)
    claims = await take(store, node)
    await store.leave(node, NOW)
    stranded = await store.stranded(NOW, 100)
    assert [claim.id for claim in stranded] == ids
    rounds = await asyncio.gather(
        *(settle(store, [claim]) for claim in claims),
        *(settle(others[0], [claim], CRASHED) for claim in reversed(stranded)),
        *(settle(others[1], [claim], CRASHED) for claim in stranded),
    )
    results, first, second = rounds[:60], rounds[60:120][::-1], rounds[120:]
    assert [sum(votes) for votes in zip(*(flat(part) for part in (results, first, second)), strict=True)] == [1] * 60
    expected = ["succeeded" if took == [True] else "queued" for took in results]
    assert await states(store, ids) == expected
    assert sum(queue.succeeded for queue in await store.queues()) == expected.count("succeeded")


async def test_batches_that_overlap_in_opposite_order_do_not_block_each_other(
    store: Store, make_store: MakeStore
) -> None:
    other = await make_store()
    node = await enter(store)
    for _ in range(5):
        await put(store, 200)
        claims = await take(store, node, 200)
        one, two = await asyncio.gather(settle(store, claims), settle(other, claims[::-1], CRASHED))
        assert [a != b for a, b in zip(one, two[::-1], strict=True)] == [True] * 200
        await take(store, node, 500)


async def test_of_a_claim_and_a_cancel_exactly_one_wins(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    node = await enter(store)
    for _ in range(20):
        (job_id,) = await put(store)
        cancel = lifecycle.cancel(await see(store, job_id), NOW)
        assert cancel is not None
        claims, took = await asyncio.gather(take(store, node), other.apply([cancel], NOW))
        job = await see(store, job_id)
        assert (len(claims), took, job.state) in [(1, [False], "running"), (0, [True], "cancelled")]
        await settle(store, claims)


async def test_a_request_to_cancel_races_with_the_end_of_its_attempt(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    node = await enter(store)
    for _ in range(20):
        (job_id,) = await put(store)
        (claim,) = await take(store, node)
        took, asked = await asyncio.gather(
            settle(store, [claim]), other.request_cancel(job_id, claim.claim_no, after(seconds=1))
        )
        job = await see(store, job_id)
        assert (took, job.state) == ([True], "succeeded")
        assert (job.cancel_requested_at is not None) == asked


@pytest.mark.contract("QUE-3")
async def test_concurrent_enqueues_of_one_key_make_exactly_one_job(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(3)]]
    receipts = await asyncio.gather(*(one.enqueue([a_batch(keys=["a"])]) for one in stores for _ in range(8)))
    assert Counter(receipt.created for (receipt,) in receipts) == {True: 1, False: 31}
    assert len({receipt.id for (receipt,) in receipts}) == 1
    assert len(await store.jobs(JobFilter(key="a"))) == 1


@pytest.mark.contract("QUE-3")
def test_concurrent_enqueues_of_overlapping_keys_from_threads(database_url: str) -> None:
    async def work(store: Store, number: int) -> list[tuple[int, bool]]:
        keys = [str(key) for key in range(40)]
        rotated = keys[number * 10 :] + keys[: number * 10]
        receipts = await store.enqueue([a_batch(keys=[key]) for key in rotated]) if number % 2 else []
        if not receipts:
            for key in rotated:
                receipts += await store.enqueue([a_batch(keys=[key])])
        return [(receipt.id, receipt.created) for receipt in receipts]

    answers = flat(in_threads(database_url, 3, work))
    assert len({job_id for job_id, _ in answers}) == 40
    assert sum(created for _, created in answers) == 40


@pytest.mark.contract("QUE-3")
async def test_large_enqueues_of_the_same_keys_in_opposite_order_both_succeed(
    store: Store, make_store: MakeStore
) -> None:
    other = await make_store()
    keys = [str(number) for number in range(3000)]
    forth, back = await asyncio.gather(store.enqueue([a_batch(keys=keys)]), other.enqueue([a_batch(keys=keys[::-1])]))
    assert [receipt.id for receipt in forth] == [receipt.id for receipt in back[::-1]]
    assert sum(receipt.created for receipt in forth + back) == 3000


@pytest.mark.contract("QUE-3")
async def test_a_key_that_is_freed_and_taken_at_once_never_has_two_jobs(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    node = await enter(store)
    for _ in range(20):
        await put(store, keys=["a"])
        claims = await take(store, node)
        _, receipts = await asyncio.gather(settle(store, claims), other.enqueue([a_batch(keys=["a"])]))
        waiting = await store.jobs(JobFilter(key="a", states=("queued",)))
        assert len(waiting) == (1 if receipts[0].created else 0)
        await settle(store, await take(store, node))


async def test_concurrent_folding_counts_everything_once(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(3)]]
    node = await enter(store)
    await put(store, 100)
    claims = await take(store, node)

    async def fold(one: Store) -> int:
        return sum([await one.fold_counters(9) for _ in range(15)])

    folded = await asyncio.gather(*(settle(store, [claim]) for claim in claims), *(fold(one) for one in stores))
    left = await store.fold_counters(1000)
    assert sum(count for count in folded if isinstance(count, int)) + left == 100
    assert (await store.queues())[0].succeeded == 100


@pytest.mark.contract("QUE-2")
async def test_concurrent_aging_raises_everything_once(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(2)]]
    ids = await put(store, 50, created_at=before(hours=2))

    async def age(one: Store) -> None:
        await age_all(one, 1, before(hours=1), NOW, limit=8)

    await asyncio.gather(*(age(one) for one in stores))
    await age(store)
    assert {(await see(store, job_id)).priority for job_id in ids} == {10}


async def test_concurrent_promotion_queues_everything_once(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(2)]]
    ids = await put(store, 100, state="scheduled", visible_at=after(seconds=1))

    async def promote(one: Store) -> None:
        while await one.promote(after(seconds=1), 9) is not None:
            pass

    await asyncio.gather(*(promote(one) for one in stores))
    assert set(await states(store, ids)) == {"queued"}


async def test_concurrent_burials_declare_a_node_lost_once(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(3)]]
    await enter(store, expires_at=after(seconds=15))
    buried = await asyncio.gather(*(one.bury(after(seconds=15)) for one in stores))
    assert sum(map(len, buried)) == 1


async def test_pruning_races_with_a_revival_and_loses_nothing(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    node = await enter(store)
    await put(store, 30)
    await settle(store, await take(store, node), at=before(days=8))
    finished = await store.jobs(JobFilter())
    revivals = [revival for job in finished if (revival := lifecycle.revive(job, NOW)) is not None]
    took, pruned = await asyncio.gather(other.apply(revivals[:15], NOW), store.prune(before(days=7), 100))
    left = await store.jobs(JobFilter())
    assert len(left) == took.count(True)
    assert {job.state for job in left} <= {"queued"}
    assert pruned + took.count(True) == 30


async def test_a_change_and_its_double_race(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    node = await enter(store)
    await put(store, 50)
    claims = await take(store, node)
    first, second = await asyncio.gather(
        store.apply([change(claim) for claim in claims], NOW), other.apply([change(claim) for claim in claims], NOW)
    )
    assert [a != b for a, b in zip(first, second, strict=True)] == [True] * 50
    assert (await store.queues())[0].succeeded == 50
