from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import asyncpg
import pytest

from oncue.errors import IdTaken, StoreError
from oncue.model import JobFilter
from oncue.policy import lifecycle
from oncue.store import PostgresStore, Store
from oncue.store.postgres.inserting import insert
from tests.conftest import MakeStore
from tests.store.scene import BROKEN, NOW, OPTIONS, a_batch, after, enter, put, see, settle, take


async def test_receipts_come_in_the_order_of_the_batch(store: Store) -> None:
    batch = a_batch(5)
    receipts = await store.jobs.enqueue([batch])
    assert [receipt.id for receipt in receipts] == batch.ids
    assert all(receipt.created for receipt in receipts)
    assert [(await see(store, receipt.id)).args["number"] for receipt in receipts] == [0, 1, 2, 3, 4]


async def test_every_field_is_kept(store: Store) -> None:
    batch = a_batch(
        task="résumé 漢字 '\"",
        queue="mail",
        priority=7,
        state="scheduled",
        max_retries=5,
        max_runtime=90.5,
        created_at=NOW + timedelta(microseconds=1),
        visible_at=after(minutes=5),
        deadline_at=after(hours=1),
        keys=["invoice:42"],
        retry_of=17,
    )
    batch.args[0] = json.dumps({"text": "zero \x00 quote ' emoji 🎉", "nested": [1, 2.5, None, {"deep": True}]})
    (receipt,) = await store.jobs.enqueue([batch])
    job = await see(store, receipt.id)
    assert (job.task, job.queue, job.priority, job.state) == ("résumé 漢字 '\"", "mail", 7, "scheduled")
    assert job.args == json.loads(batch.args[0])
    assert (job.key, job.enqueued_by, job.options, job.retry_of) == ("invoice:42", "tests", OPTIONS, 17)
    assert job.created_at == job.updated_at == job.order_at == NOW + timedelta(microseconds=1)
    assert (job.visible_at, job.deadline_at) == (after(minutes=5), after(hours=1))
    assert (job.max_retries, job.max_runtime) == (5, 90.5)
    assert (job.retry_count, job.attempt, job.crashes, job.claim_no) == (0, 0, 0, 0)
    assert (job.node_id, job.claimed_at, job.run_until, job.started_at, job.finished_at) == (None,) * 5
    assert (job.reason, job.result, job.error, job.cancel_requested_at) == (None,) * 4


async def test_a_receipt_names_the_job_as_its_row_does(store: Store) -> None:
    (receipt,) = await store.jobs.enqueue([a_batch()])
    assert receipt.uid == (await see(store, receipt.id)).uid


async def test_no_ids_are_reserved_if_none_are_wanted(store: Store) -> None:
    assert await store.jobs.reserve(0) == []


async def test_reserved_ids_ascend_and_are_never_handed_out_twice(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    blocks = await asyncio.gather(*(each.jobs.reserve(100) for each in (store, other) * 5))
    assert all(block == sorted(block) for block in blocks)
    assert len({job_id for block in blocks for job_id in block}) == 1000


async def test_several_batches_are_answered_in_one_list(store: Store) -> None:
    mail, web = a_batch(2, queue="mail"), a_batch(3, queue="web")
    receipts = await store.jobs.enqueue([mail, web])
    assert [receipt.id for receipt in receipts] == mail.ids + web.ids


async def test_nothing_to_enqueue_is_no_error(store: Store) -> None:
    assert await store.jobs.enqueue([]) == []
    assert await store.jobs.enqueue([a_batch(0)]) == []


@pytest.mark.contract("QUE-3")
@pytest.mark.parametrize("state", ["scheduled", "queued", "running", "retrying"])
async def test_a_key_has_at_most_one_unfinished_job(store: Store, state: str) -> None:
    node = await enter(store)
    due = after(hours=1) if state == "scheduled" else NOW
    first = a_batch(keys=["a"], state="scheduled" if state == "scheduled" else "queued", visible_at=due)
    (standing,) = await store.jobs.enqueue([first])
    if state in ("running", "retrying"):
        claims = await take(store, node)
        if state == "retrying":
            await settle(store, claims, BROKEN)
    assert (await see(store, standing.id)).state == state

    (receipt,) = await store.jobs.enqueue([a_batch(keys=["a"])])

    assert receipt == (standing.id, standing.created_at, False)
    assert len(await store.jobs.find(JobFilter(key="a"))) == 1


@pytest.mark.contract("QUE-3")
async def test_who_finds_a_key_taken_is_told_of_the_job_that_has_it(store: Store) -> None:
    """Not of a later one that had it and has ended: the earlier one was started over since."""
    node = await enter(store)
    (first,) = await put(store, keys=["a"])
    await settle(store, await take(store, node))
    await put(store, keys=["a"])
    await settle(store, await take(store, node))
    again = lifecycle.revive(await see(store, first), NOW)
    assert again is not None
    assert await store.jobs.apply([again], NOW) == [True]

    (receipt,) = await store.jobs.enqueue([a_batch(keys=["a"])])

    assert (receipt.id, receipt.created) == (first, False)


@pytest.mark.contract("QUE-3")
async def test_a_key_is_free_again_once_its_job_finished(store: Store) -> None:
    node = await enter(store)
    (first,) = await put(store, keys=["a"])
    await settle(store, await take(store, node))
    (receipt,) = await store.jobs.enqueue([a_batch(keys=["a"])])
    assert receipt.created
    assert receipt.id != first


@pytest.mark.contract("QUE-3")
async def test_a_key_belongs_to_its_task(store: Store) -> None:
    await put(store, keys=["a"], task="send")
    (receipt,) = await store.jobs.enqueue([a_batch(keys=["a"], task="fetch")])
    assert receipt.created


@pytest.mark.contract("QUE-3")
async def test_a_duplicate_inside_one_batch_is_answered_with_the_first(store: Store) -> None:
    receipts = await store.jobs.enqueue([a_batch(keys=["a", "b", "a", "a"])])
    first, other, again, once_more = receipts
    assert [receipt.created for receipt in receipts] == [True, True, False, False]
    assert again[:2] == once_more[:2] == first[:2]
    assert other.id != first.id


@pytest.mark.contract("QUE-3")
async def test_a_duplicate_across_batches_of_one_call_is_answered_with_the_first(store: Store) -> None:
    first, again = await store.jobs.enqueue([a_batch(keys=["a"]), a_batch(keys=["a"])])
    assert (first.created, again.created) == (True, False)
    assert again[:2] == first[:2]


async def test_sending_again_in_doubt_doubles_nothing(store: Store) -> None:
    batch = a_batch(3)
    sent = await store.jobs.enqueue([batch])
    assert await store.jobs.enqueue([batch], in_doubt=True) == sent
    assert len(await store.jobs.find(JobFilter())) == 3


async def test_sending_again_in_doubt_writes_to_the_rows(postgres_store: PostgresStore, postgres_url: str) -> None:
    """A commit that writes nothing waits for no standby, and so confirms nothing."""
    batch = a_batch(3)
    await postgres_store.jobs.enqueue([batch])
    connection = await asyncpg.connect(postgres_url)
    before = await connection.fetch("select id, xmin::text from oncue_jobs order by id")
    await postgres_store.jobs.enqueue([batch], in_doubt=True)
    after_it = await connection.fetch("select id, xmin::text from oncue_jobs order by id")
    await connection.close()
    assert all(old["xmin"] != new["xmin"] for old, new in zip(before, after_it, strict=True))


@pytest.mark.parametrize("in_doubt", [False, True])
async def test_somebody_elses_job_under_the_same_id_is_not_taken_for_ours(store: Store, in_doubt: bool) -> None:
    """After a fail-over a sequence may hand out ids again that a process still has in hand."""
    theirs, ours = a_batch(task="mail"), a_batch(task="pay")
    ours.ids[:] = theirs.ids
    await store.jobs.enqueue([theirs])
    with pytest.raises(IdTaken):
        await store.jobs.enqueue([ours], in_doubt=in_doubt)
    assert [job.task for job in await store.jobs.find(JobFilter())] == ["mail"]


async def test_a_call_that_was_still_committing_when_it_was_asked_about_is_found(postgres_store: PostgresStore) -> None:
    batch = a_batch(keys=["a"])
    connection = await postgres_store.database.connections.connect()
    transaction = connection.transaction()
    await transaction.start()
    await insert(postgres_store.database.sql, connection, [batch])
    again = asyncio.create_task(postgres_store.jobs.enqueue([batch], in_doubt=True))
    done, _ = await asyncio.wait([again], timeout=0.2)
    assert not done, "it waits for the first to come to its end"
    await transaction.commit()
    await connection.close()
    assert [(receipt.id, receipt.created) for receipt in await again] == [(batch.ids[0], True)]


async def test_sending_again_in_doubt_writes_what_is_missing(store: Store) -> None:
    batch = a_batch(3)
    half = a_batch(1)
    half.ids[:] = batch.ids[1:2]
    (there,) = await store.jobs.enqueue([half])
    receipts = await store.jobs.enqueue([batch], in_doubt=True)
    assert [receipt.id for receipt in receipts] == batch.ids
    assert receipts[1].id == there.id
    assert all(receipt.created for receipt in receipts)
    assert len(await store.jobs.find(JobFilter())) == 3


async def test_sending_again_in_doubt_respects_keys(store: Store) -> None:
    (standing,) = await put(store, keys=["a"])
    batch = a_batch(keys=["a", "b"])
    first = await store.jobs.enqueue([batch])
    assert await store.jobs.enqueue([batch], in_doubt=True) == first
    assert [receipt.created for receipt in first] == [False, True]
    assert first[0].id == standing


@pytest.mark.contract("QUE-3")
@pytest.mark.parametrize("keys", [["a"], ["a", "b"], ["b", "b", "a"]])
async def test_a_call_that_arrives_after_it_was_answered_as_a_duplicate_writes_nothing(
    store: Store, keys: list[str]
) -> None:
    """It was given up, and asked again: that answer stands, also when the job that stood in its way has ended."""
    node = await enter(store)
    (standing,) = await put(store, keys=["a"])
    late = a_batch(keys=keys)
    answer = await store.jobs.enqueue([late], in_doubt=True)
    assert [receipt.created for receipt in answer] == [key == "b" and "b" not in keys[:n] for n, key in enumerate(keys)]
    await settle(store, await take(store, node, limit=1))
    assert (await see(store, standing)).state == "succeeded"
    before = await store.jobs.find(JobFilter())

    with pytest.raises(IdTaken):
        await store.jobs.enqueue([late])

    assert await store.jobs.enqueue([late], in_doubt=True) == answer, "whoever asks once more is told the same"
    assert [(job.id, job.state) for job in await store.jobs.find(JobFilter())] == [
        (job.id, job.state) for job in before
    ]
    for job_id, receipt in zip(late.ids, answer, strict=True):
        job = await see(store, job_id)
        if not receipt.created:
            assert (job.state, job.reason, job.finished_at, job.claim_no) == ("skipped", "duplicate", NOW, 0)
            assert job.result == {"duplicate_of": receipt.id, "created_at": receipt.created_at.isoformat()}
    totals = {queue.name: queue.skipped for queue in await store.queues.all()}
    assert totals == {"default": sum(not receipt.created for receipt in answer)}


async def test_a_finished_job_in_doubt_is_not_made_again(store: Store) -> None:
    node = await enter(store)
    batch = a_batch(keys=["a"])
    (sent,) = await store.jobs.enqueue([batch])
    await settle(store, await take(store, node))
    assert await store.jobs.enqueue([batch], in_doubt=True) == [sent]
    assert (await see(store, sent.id)).state == "succeeded"


async def test_all_batches_are_written_or_none(store: Store) -> None:
    good, bad = a_batch(10), a_batch(10)
    bad.args[7] = None  # type: ignore[call-overload]
    with pytest.raises(StoreError):
        await store.jobs.enqueue([good, bad])
    assert await store.jobs.find(JobFilter()) == []


async def test_an_id_that_is_there_already_is_refused_outside_of_doubt(store: Store) -> None:
    batch = a_batch()
    await store.jobs.enqueue([batch])
    with pytest.raises(StoreError):
        await store.jobs.enqueue([batch])
    assert len(await store.jobs.find(JobFilter())) == 1


async def test_tens_of_thousands_of_jobs_in_one_call(store: Store) -> None:
    """A hundred thousand are written by an application, in tests/app/test_enqueue.py."""
    batch = a_batch(30_000)
    receipts = await store.jobs.enqueue([batch])
    assert len(receipts) == 30_000
    assert [receipts[n].id for n in (0, 10_000, 29_999)] == [batch.ids[n] for n in (0, 10_000, 29_999)]
    assert len({receipt.id for receipt in receipts}) == 30_000
    assert (await store.counters.count(100_000))[0].jobs == 30_000


async def test_a_large_batch_keeps_its_keys_apart(store: Store) -> None:
    keys = [str(number % 15_000) for number in range(20_000)]
    receipts = await store.jobs.enqueue([a_batch(keys=keys)])
    assert [receipt.created for receipt in receipts] == [True] * 15_000 + [False] * 5_000
    assert [receipt.id for receipt in receipts[15_000:]] == [receipt.id for receipt in receipts[:5_000]]


async def test_an_unknown_job_is_none(store: Store) -> None:
    assert await store.jobs.get(1) is None
