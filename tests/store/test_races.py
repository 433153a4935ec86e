"""Real concurrency: several stores on one database, in one loop and in several threads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random
from threading import Barrier
from typing import TypeVar
from uuid import uuid4

import asyncpg
import pytest

from oncue.model import Claim, Decided, GroupSettings, JobFilter, Limits, Released, Revised, Schedule, Step
from oncue.policy import lifecycle
from oncue.store import PostgresStore, Store, connect
from oncue.store.contract import LEADER
from tests.conftest import MakeStore
from tests.store.scene import (
    CRASHED,
    NOW,
    a_batch,
    a_revision,
    a_schedule,
    a_step,
    after,
    age_all,
    all_slots,
    at,
    before,
    change,
    enter,
    find,
    fire,
    lead,
    plan,
    put,
    query,
    see,
    settle,
    states,
    take,
    the_slot,
)

T = TypeVar("T")


def flat(parts: Iterable[Iterable[T]]) -> list[T]:
    return [item for part in parts for item in part]


async def claim_all(store: Store, name: str, limit: int = 7) -> list[int]:
    """Claim until nobody has anything left to claim."""
    node = await enter(store, name)
    mine: list[int] = []
    while True:
        claims = await take(store, node, limit, queues=["default", "mail"])
        mine += [claim.id for claim in claims]
        if not claims and not any(count.kind == "queued" for count in await store.counters.count(1)):
            return mine


def in_threads(url: str, workers: int, work: Callable[[Store, int], Awaitable[T]]) -> list[T]:
    """Do work on one store per thread, all at once."""
    start = Barrier(workers)

    async def opened(number: int) -> T:
        store = connect(url)
        await store.open()
        try:
            start.wait(60)
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
    await store.nodes.leave(node, NOW)
    stranded = await store.jobs.orphaned(NOW, 100)
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
    assert sum(queue.succeeded for queue in await store.queues.all()) == expected.count("succeeded")


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


async def test_a_batch_that_was_undone_by_a_deadlock_is_written_again(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    node = await enter(postgres_store)
    first, last = await put(postgres_store, 2)
    claims = await take(postgres_store, node, 2)
    stranger, onlooker = await asyncpg.connect(postgres_url), await asyncpg.connect(postgres_url)
    try:
        # The stranger notices a deadlock late: it is the batch that is undone.
        await stranger.execute("set deadlock_timeout = '60s'; begin")
        await stranger.execute("select from oncue_jobs where id = $1 for update", last)
        settling = asyncio.create_task(settle(postgres_store, claims))
        waiting = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        )
        while not await onlooker.fetchval(waiting):  # noqa: ASYNC110 (a lock tells nobody)
            await asyncio.sleep(0.01)
        await stranger.execute("select from oncue_jobs where id = $1 for update", first)
        await stranger.execute("commit")
        assert await settling == [True, True]
    finally:
        await stranger.close()
        await onlooker.close()


async def test_of_a_claim_and_a_cancel_exactly_one_wins(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    node = await enter(store)
    for _ in range(20):
        (job_id,) = await put(store)
        cancel = lifecycle.cancel(await see(store, job_id), NOW)
        assert cancel is not None
        claims, took = await asyncio.gather(take(store, node), other.jobs.apply([cancel], NOW))
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
            settle(store, [claim]), other.jobs.request_cancel(job_id, claim.claim_no, after(seconds=1))
        )
        job = await see(store, job_id)
        assert (took, job.state) == ([True], "succeeded")
        assert (job.cancel_requested_at is not None) == asked


@pytest.mark.contract("QUE-3")
async def test_concurrent_enqueues_of_one_key_make_exactly_one_job(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(3)]]
    receipts = await asyncio.gather(*(one.jobs.enqueue([a_batch(keys=["a"])]) for one in stores for _ in range(8)))
    assert Counter(receipt.created for (receipt,) in receipts) == {True: 1, False: 31}
    assert len({receipt.id for (receipt,) in receipts}) == 1
    assert len(await store.jobs.find(JobFilter(key="a"))) == 1


@pytest.mark.contract("QUE-3")
def test_concurrent_enqueues_of_overlapping_keys_from_threads(database_url: str) -> None:
    async def work(store: Store, number: int) -> list[tuple[int, bool]]:
        keys = [str(key) for key in range(40)]
        rotated = keys[number * 10 :] + keys[: number * 10]
        receipts = await store.jobs.enqueue([a_batch(keys=[key]) for key in rotated]) if number % 2 else []
        if not receipts:
            for key in rotated:
                receipts += await store.jobs.enqueue([a_batch(keys=[key])])
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
    forth, back = await asyncio.gather(
        store.jobs.enqueue([a_batch(keys=keys)]), other.jobs.enqueue([a_batch(keys=keys[::-1])])
    )
    assert [receipt.id for receipt in forth] == [receipt.id for receipt in back[::-1]]
    assert sum(receipt.created for receipt in forth + back) == 3000


@pytest.mark.contract("QUE-3")
async def test_a_key_that_is_freed_and_taken_at_once_never_has_two_jobs(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    node = await enter(store)
    for _ in range(20):
        await put(store, keys=["a"])
        claims = await take(store, node)
        _, receipts = await asyncio.gather(settle(store, claims), other.jobs.enqueue([a_batch(keys=["a"])]))
        waiting = await store.jobs.find(JobFilter(key="a", states=("queued",)))
        assert len(waiting) == (1 if receipts[0].created else 0)
        await settle(store, await take(store, node))


async def test_concurrent_folding_counts_everything_once(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(3)]]
    node = await enter(store)
    await put(store, 100)
    claims = await take(store, node)

    async def fold(one: Store) -> int:
        return sum([await one.counters.fold(9) for _ in range(15)])

    folded = await asyncio.gather(*(settle(store, [claim]) for claim in claims), *(fold(one) for one in stores))
    left = await store.counters.fold(1000)
    assert sum(count for count in folded if isinstance(count, int)) + left == 100
    assert (await store.queues.all())[0].succeeded == 100


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
        while await one.jobs.promote(after(seconds=1), 9) is not None:
            pass

    await asyncio.gather(*(promote(one) for one in stores))
    assert set(await states(store, ids)) == {"queued"}


async def test_concurrent_burials_declare_a_node_lost_once(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(3)]]
    await enter(store, expires_at=after(seconds=15))
    buried = await asyncio.gather(*(one.nodes.expire(after(seconds=15)) for one in stores))
    assert sum(map(len, buried)) == 1


async def test_pruning_races_with_a_revival_and_loses_nothing(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    node = await enter(store)
    await put(store, 30)
    await settle(store, await take(store, node), at=before(days=8))
    finished = await store.jobs.find(JobFilter())
    revivals = [revival for job in finished if (revival := lifecycle.revive(job, NOW)) is not None]
    took, pruned = await asyncio.gather(other.jobs.apply(revivals[:15], NOW), store.jobs.prune(before(days=7), 100))
    left = await store.jobs.find(JobFilter())
    assert len(left) == took.count(True)
    assert {job.state for job in left} <= {"queued"}
    assert pruned + took.count(True) == 30


async def test_a_change_and_its_double_race(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    node = await enter(store)
    await put(store, 50)
    claims = await take(store, node)
    first, second = await asyncio.gather(
        store.jobs.apply([change(claim) for claim in claims], NOW),
        other.jobs.apply([change(claim) for claim in claims], NOW),
    )
    assert [a != b for a, b in zip(first, second, strict=True)] == [True] * 50
    assert (await store.queues.all())[0].succeeded == 50


# --- slots --------------------------------------------------------------------------------------------------------


async def runs(store: Store) -> list[tuple[int, int]]:
    """Every job of a slot: its schedule and how many minutes past noon its slot was."""
    jobs = await store.jobs.find(JobFilter(limit=100_000))
    return sorted(
        (job.schedule_id, round((job.scheduled_for - NOW).total_seconds() / 60))
        for job in jobs
        if job.schedule_id is not None and job.scheduled_for is not None
    )


async def plan_many(store: Store, count: int) -> list[Schedule]:
    wanted = [a_schedule(f"job{number:03}") for number in range(count)]
    assert all(await store.schedules.revise([Revised(one, 0, a_revision(one)) for one in wanted], NOW))
    return await store.schedules.page(limit=count)


async def a_pass(store: Store, epoch: int | None, node: object, minute: int, backwards: bool, varied: bool) -> int:
    """What a leader does: look what is due, and decide it. How many of its decisions stood."""
    due = await store.slots.due(at(minute), 1000)
    ids = await store.jobs.reserve(len(due))
    steps = [
        Step(one.id, one.version, at(minute), at(minute + 1), [Decided(at(minute), "fired", None, job_id)])
        for one, job_id in zip(due, ids, strict=True)
    ]
    if varied:
        steps = [
            one._replace(decided=[Decided(at(minute) - (at(1) - NOW) / 2, "missed", "x"), *one.decided])
            for one in steps
        ]
    took = await store.slots.decide(
        steps[::-1] if backwards else steps,
        at(minute),
        by="tests",
        node=node,
        epoch=epoch,  # type: ignore[arg-type]
    )
    return sum(took)


@pytest.mark.contract("SLOT-3", "SLOT-16")
async def test_two_leaders_at_once_fire_every_slot_once(store: Store, make_store: MakeStore) -> None:
    """Both believe that they lead: the epoch that they share is the true one."""
    stores = [store, await make_store()]
    schedules = await plan_many(store, 60)
    node = await enter(store)
    epoch = (await lead(store, node)).epoch
    for minute in range(1, 7):
        won = await asyncio.gather(
            *(
                a_pass(one, epoch, node, minute, number == 1, varied=minute % 3 == 0)
                for number, one in enumerate(stores)
                for _ in range(2)
            )
        )
        assert sum(won) == 60
    assert await runs(store) == [(one.id, minute) for one in schedules for minute in range(1, 7)]
    for one in schedules[:5]:
        slots = [slot for slot in await all_slots(store, one) if slot.verdict == "fired"]
        assert [slot.scheduled_for for slot in slots] == [at(minute) for minute in range(1, 7)]
        assert await states(store, [slot.job_id for slot in slots if slot.job_id]) == ["queued"] * 6


@pytest.mark.contract("SLOT-3")
def test_leaders_in_threads_fire_every_slot_once(database_url: str) -> None:
    async def work(store: Store, number: int) -> int:
        if number == 0:
            await plan_many(store, 40)
        while len(await store.schedules.page(limit=40)) < 40:
            pass
        return sum([await a_pass(store, None, None, minute, number % 2 == 1, number == 2) for minute in range(1, 6)])

    async def check(store: Store, number: int) -> list[tuple[int, int]]:
        return await runs(store)

    won = in_threads(database_url, 3, work)
    (found,) = in_threads(database_url, 1, check)
    assert sum(won) == len(found)
    assert len(found) == len(set(found))
    assert {minute for _, minute in found} == set(range(1, 6))
    assert len(found) == 40 * 5


@pytest.mark.contract("SLOT-16")
async def test_a_deposed_leader_and_its_successor_at_once_fire_every_slot_once(
    store: Store, make_store: MakeStore
) -> None:
    other = await make_store()
    schedules = await plan_many(store, 30)
    old, new = await enter(store, "old"), await enter(store, "new")
    epoch = (await lead(store, old)).epoch

    async def succeed() -> int:
        successor = await lead(other, new, now=after(seconds=15))
        return await a_pass(other, successor.epoch, new, 1, True, varied=False)

    won = await asyncio.gather(a_pass(store, epoch, old, 1, False, varied=False), succeed())
    assert sum(won) == 30
    assert await runs(store) == [(one.id, 1) for one in schedules]
    assert await a_pass(store, epoch, old, 2, False, varied=False) == 0


@pytest.mark.contract("SLOT-3", "SLOT-5", "SLOT-11")
async def test_of_a_decision_and_a_trigger_by_hand_one_wins(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    schedule = await plan(store)
    for minute in range(1, 16):
        schedule = await find(store)
        fired, manual = await store.jobs.reserve(2)
        regular = a_step(schedule, Decided(at(minute), "fired", None, fired))
        by_hand = regular._replace(decided=[Decided(at(minute), "manual", "trigger", manual)])
        both = [
            store.slots.decide([regular], at(minute), by="leader"),
            other.slots.decide([by_hand], at(minute), by="hand"),
        ]
        one, two = await asyncio.gather(*(both if minute % 2 else both[::-1]))
        assert sorted(one + two) == [False, True]
        winner, loser = (fired, manual) if (one if minute % 2 else two) == [True] else (manual, fired)
        assert (await the_slot(store, schedule, at(minute))).job_id == winner
        assert (await see(store, winner)).scheduled_for == at(minute)
        assert await store.jobs.get(loser) is None


@pytest.mark.contract("SLOT-3")
async def test_of_a_decision_and_an_edit_one_wins(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    await plan(store)
    for minute in range(1, 16):
        schedule = await find(store)
        (job_id,) = await store.jobs.reserve(1)
        step = a_step(schedule, Decided(at(minute), "fired", None, job_id))
        edited = replace(
            schedule, task=f"task{minute}", version=schedule.version + 1, revision=schedule.revision + 1,
            cursor=at(minute), next_run_at=at(minute + 1),
        )  # fmt: skip
        edit = Revised(edited, schedule.version, a_revision(edited), [Decided(at(minute), "missed", "edited")])
        (decided,), (revised,) = await asyncio.gather(
            store.slots.decide([step], at(minute), by="tests"), other.schedules.revise([edit], at(minute))
        )
        assert decided != revised
        slot = await the_slot(store, schedule, at(minute))
        assert (slot.verdict, slot.job_id) == (("fired", job_id) if decided else ("missed", None))
        assert (await store.jobs.get(job_id) is not None) == decided
        assert len(await store.schedules.revisions(schedule.id)) == (await find(store)).revision


@pytest.mark.contract("SLOT-3", "SLOT-11")
async def test_twenty_triggers_of_one_slot_make_one_job(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(3)]]
    schedule = await plan(store)

    async def trigger(one: Store) -> bool:
        """As the application does it: read, claim, and if somebody was faster look again."""
        (job_id,) = await one.jobs.reserve(1)
        while not await one.slots.between(schedule.id, at(5), at(5)):
            current = await find(one)
            decided = [Decided(at(5), "manual", "trigger", job_id)]
            step = Step(current.id, current.version, current.cursor, current.next_run_at, decided)
            await one.slots.decide([step], NOW, by="tests")
        return (await the_slot(one, schedule, at(5))).job_id == job_id

    mine = await asyncio.gather(*(trigger(stores[number % 4]) for number in range(20)))
    assert mine.count(True) == 1
    assert await runs(store) == [(schedule.id, 5)]


@pytest.mark.contract("SLOT-3")
async def test_even_with_no_regard_for_versions_a_slot_has_one_job(store: Store, make_store: MakeStore) -> None:
    """The ledger's primary key is the last word, also when the guard is useless."""
    stores = [store, *[await make_store() for _ in range(3)]]
    schedule = await plan(store)

    async def insist(one: Store, number: int) -> None:
        (job_id,) = await one.jobs.reserve(1)
        done = False
        while not done:
            current = await find(one)
            slot = Decided(at(5), "fired", None, job_id)
            step = a_step(current, slot) if number % 2 else a_step(current, slot, Decided(at(6), "missed", "x"))
            (done,) = await one.slots.decide([step], at(6), by="tests")

    await asyncio.gather(*(insist(stores[number % 4], number) for number in range(12)))
    assert await runs(store) == [(schedule.id, 5)]
    assert (await find(store)).version == 13


@pytest.mark.contract("SLOT-5")
async def test_of_a_release_and_a_decision_only_one_makes_a_run(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    schedule = await plan(store)
    node = await enter(store)
    await fire(store, schedule, *(at(minute) for minute in range(100, 115)), now=at(200), parked=True)
    for minute in range(1, 16):
        current = await find(store)
        (job_id,) = await store.jobs.reserve(1)
        step = a_step(current, Decided(at(minute), "fired", None, job_id))
        (decided,), released = await asyncio.gather(
            other.slots.decide([step], at(200), by="tests"), store.slots.release_parked(at(200), 10)
        )
        assert int(decided) + released == 1
        assert len(await store.slots.unfinished(schedule.id, 10)) == 1
        await store.jobs.promote(at(200), 10)
        assert await settle(store, await take(store, node, now=at(200)), at=at(200)) == [True]


async def test_concurrent_releases_leave_no_more_than_there_is_room_for(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(3)]]
    schedules = [await plan(store, f"job{number}", max_instances=number + 1) for number in range(4)]
    for schedule in schedules:
        await fire(store, schedule, *(at(minute) for minute in range(10)), now=at(100), parked=True)
    released = await asyncio.gather(*(one.slots.release_parked(at(100), 100) for one in stores))
    assert [len(await store.slots.unfinished(schedule.id, 100)) for schedule in schedules] == [1, 2, 3, 4]
    assert sum(released) >= 10


@pytest.mark.contract("SLOT-3")
async def test_two_who_create_the_same_schedule_make_one(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(3)]]
    for number in range(5):
        wanted = [a_schedule(f"job{number}", created_by=f"author {place}") for place in range(4)]
        took = await asyncio.gather(
            *(
                one.schedules.revise([Revised(schedule, 0, a_revision(schedule, schedule.created_by))], NOW)
                for one, schedule in zip(stores, wanted, strict=True)
            )
        )
        assert sorted(flat(took)) == [False, False, False, True]
        made = await find(store, f"job{number}")
        assert made.created_by == wanted[took.index([True])].created_by
        assert [revision.changed_by for revision in await store.schedules.revisions(made.id)] == [made.created_by]
    assert len(await store.schedules.page()) == 5


@pytest.mark.contract("SLOT-3", "SLOT-6")
async def test_pruning_from_two_sides_loses_no_outcome(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    schedule = await plan(store, max_instances=1000)
    node = await enter(store, "worker-1")
    await fire(store, schedule, *(at(minute) for minute in range(60)), now=NOW)
    await settle(store, await take(store, node), at=at(1))
    pruned = await asyncio.gather(*(one.jobs.prune(at(2), 40) for one in (store, other)))
    assert sum(pruned) + await store.jobs.prune(at(2), 40) == 60
    slots = await all_slots(store, schedule)
    assert {(slot.state, slot.worker, slot.finished_at) for slot in slots} == {("succeeded", "worker-1", at(1))}
    gone = await asyncio.gather(*(one.slots.prune(at(99), 40) for one in (store, other)))
    assert sum(gone) + await store.slots.prune(at(99), 40) == 60
    assert await query(store, "select count(*) from oncue_slots") == [(0,)]


async def test_pruning_slots_beside_decisions_deadlocks_nobody(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    schedules = await plan_many(store, 30)
    skipped = [a_step(one, Decided(at(1), "skipped", "x")) for one in schedules]
    assert all(await store.slots.decide(skipped, at(1), by="tests"))
    for minute in range(2, 10):
        decisions = [a_step(one, Decided(at(minute), "skipped", "x")) for one in await store.schedules.page(limit=30)]
        took, _ = await asyncio.gather(
            store.slots.decide(decisions, at(minute), by="tests"), other.slots.prune(at(minute - 0.5), 20)
        )
        stale = [step for step, won in zip(decisions, took, strict=True) if not won]
        assert await again(store, stale) == [True] * len(stale)
    slots: Sequence[tuple[int]] = await query(store, "select count(*) from oncue_slots")  # type: ignore[assignment]
    assert slots[0][0] <= 30 * 9


async def again(store: Store, steps: Sequence[Step]) -> list[bool]:
    """Decide the same with what stands now."""
    current = {one.id: one for one in await store.schedules.page(limit=100)}
    fresh = [step._replace(version=current[step.schedule_id].version) for step in steps]
    return await store.slots.decide(fresh, at(99), by="tests")


@pytest.mark.contract("SLOT-2", "SLOT-16")
async def test_of_many_who_want_a_lease_exactly_one_holds_it_under_each_epoch(
    store: Store, make_store: MakeStore
) -> None:
    stores = [store, *[await make_store() for _ in range(5)]]
    holders = [uuid4() for _ in stores]
    seen: list[int] = []
    for term in range(6):
        now = after(seconds=15 * term)
        told = await asyncio.gather(
            *(
                one.leases.acquire(LEADER, holder, f"node-{number}", now, after(seconds=15 * term + 15), respect=None)
                for number, (one, holder) in enumerate(zip(stores, holders, strict=True))
            )
        )
        standing = await store.leases.get(LEADER)
        assert standing is not None
        assert [lease for lease in told if lease != standing] == [], "everybody is told who holds it"
        assert standing.acquired_at == now
        seen.append(standing.epoch)
    assert seen == list(range(1, 7))


@pytest.mark.contract("SLOT-16")
async def test_of_a_renewal_and_a_take_over_exactly_one_wins(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    old, new = uuid4(), uuid4()
    for term in range(10):
        lease = await lead(store, old, now=after(minutes=term))
        behind, ahead, end = (after(minutes=term, seconds=seconds) for seconds in (14, 15, 30))
        renewed, taken = await asyncio.gather(
            store.leases.renew(LEADER, old, lease.epoch, behind, end, respect=None),
            other.leases.acquire(LEADER, new, "new", ahead, end, respect=None),
        )
        assert taken is not None
        assert renewed == (taken.holder == old)
        assert taken.epoch == lease.epoch + (not renewed)


async def test_no_group_gets_over_its_limit_or_is_left_behind_under_contention(make_store: MakeStore) -> None:
    """Several nodes claim, end, release and enqueue jobs of the same groups at once, while their settings change."""
    stores, groups = [await make_store() for _ in range(4)], [f"g{number}" for number in range(8)]
    assert await stores[0].queues.set_limits("mail", Limits(), Limits(per_group=2), NOW)
    most, done, left = 0, Counter[str](), [4 * 15 * len(groups)]

    async def work(number: int, store: Store) -> None:
        nonlocal most
        dice, node, mine = Random(number), await enter(store, f"node-{number}"), list[Claim]()
        for group in groups:
            await put(store, 15, queue="mail", group=group)
        while left[0] > 0 or mine:
            await store.groups.wake(["mail"], dice.choice((1, 10, 1000)), NOW)
            mine += await store.groups.claim(node, ["mail"], ["send"], dice.choice((1, 5, 50)), NOW)
            most = max([most, *(group.running for group in await store.groups.all("mail", 100))])
            dice.shuffle(mine)
            ending, mine = mine[: len(mine) // 2 + 1], mine[len(mine) // 2 + 1 :]
            again = len(ending) // 4 if left[0] > 100 else 0
            await settle(store, ending[:again], Released())
            await settle(store, ending[again:])
            left[0] -= len(ending[again:])
            done.update(claim.group or "" for claim in ending[again:])
            if dice.random() < 0.1:
                name, limit = dice.choice(groups), dice.choice((None, 2))
                known = await store.groups.settings("mail", name)
                await store.groups.set("mail", name, known, GroupSettings(limit=limit), NOW)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(number, store) for number, store in enumerate(stores)))
    assert most == 2
    assert done == dict.fromkeys(groups, 60)
