from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from oncue.errors import StoreError
from oncue.model import JobFilter
from oncue.store import Store
from tests.conftest import MakeStore
from tests.store.scene import BROKEN, NOW, OPTIONS, a_batch, after, enter, put, see, settle, take


async def test_receipts_come_in_the_order_of_the_batch(store: Store) -> None:
    batch = a_batch(5)
    receipts = await store.enqueue([batch])
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
    (receipt,) = await store.enqueue([batch])
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
    (receipt,) = await store.enqueue([a_batch()])
    assert receipt.uid == (await see(store, receipt.id)).uid


async def test_reserved_ids_ascend_and_are_never_handed_out_twice(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    blocks = await asyncio.gather(*(each.reserve(100) for each in (store, other) * 5))
    assert all(block == sorted(block) for block in blocks)
    assert len({job_id for block in blocks for job_id in block}) == 1000


async def test_several_batches_are_answered_in_one_list(store: Store) -> None:
    mail, web = a_batch(2, queue="mail"), a_batch(3, queue="web")
    receipts = await store.enqueue([mail, web])
    assert [receipt.id for receipt in receipts] == mail.ids + web.ids


async def test_nothing_to_enqueue_is_no_error(store: Store) -> None:
    assert await store.enqueue([]) == []
    assert await store.enqueue([a_batch(0)]) == []


@pytest.mark.contract("QUE-3")
@pytest.mark.parametrize("state", ["scheduled", "queued", "running", "retrying"])
async def test_a_key_has_at_most_one_unfinished_job(store: Store, state: str) -> None:
    node = await enter(store)
    due = after(hours=1) if state == "scheduled" else NOW
    first = a_batch(keys=["a"], state="scheduled" if state == "scheduled" else "queued", visible_at=due)
    (standing,) = await store.enqueue([first])
    if state in ("running", "retrying"):
        claims = await take(store, node)
        if state == "retrying":
            await settle(store, claims, BROKEN)
    assert (await see(store, standing.id)).state == state

    (receipt,) = await store.enqueue([a_batch(keys=["a"])])

    assert receipt == (standing.id, standing.created_at, False)
    assert len(await store.jobs(JobFilter(key="a"))) == 1


@pytest.mark.contract("QUE-3")
async def test_a_key_is_free_again_once_its_job_finished(store: Store) -> None:
    node = await enter(store)
    (first,) = await put(store, keys=["a"])
    await settle(store, await take(store, node))
    (receipt,) = await store.enqueue([a_batch(keys=["a"])])
    assert receipt.created
    assert receipt.id != first


@pytest.mark.contract("QUE-3")
async def test_a_key_belongs_to_its_task(store: Store) -> None:
    await put(store, keys=["a"], task="send")
    (receipt,) = await store.enqueue([a_batch(keys=["a"], task="fetch")])
    assert receipt.created


@pytest.mark.contract("QUE-3")
async def test_a_duplicate_inside_one_batch_is_answered_with_the_first(store: Store) -> None:
    receipts = await store.enqueue([a_batch(keys=["a", "b", "a", "a"])])
    first, other, again, once_more = receipts
    assert [receipt.created for receipt in receipts] == [True, True, False, False]
    assert again[:2] == once_more[:2] == first[:2]
    assert other.id != first.id


@pytest.mark.contract("QUE-3")
async def test_a_duplicate_across_batches_of_one_call_is_answered_with_the_first(store: Store) -> None:
    first, again = await store.enqueue([a_batch(keys=["a"]), a_batch(keys=["a"])])
    assert (first.created, again.created) == (True, False)
    assert again[:2] == first[:2]


async def test_sending_again_in_doubt_doubles_nothing_and_touches_the_row(store: Store) -> None:
    batch = a_batch(3)
    sent = await store.enqueue([batch])
    again = a_batch(3, created_at=after(seconds=5))
    again.ids[:] = batch.ids
    resent = await store.enqueue([again], in_doubt=True)
    assert [receipt.id for receipt in resent] == [receipt.id for receipt in sent]
    assert len(await store.jobs(JobFilter())) == 3
    job = await see(store, sent[0].id)
    assert (job.created_at, job.updated_at) == (NOW, after(seconds=5))


async def test_sending_again_in_doubt_writes_what_is_missing(store: Store) -> None:
    batch = a_batch(3)
    half = a_batch(1)
    half.ids[:] = batch.ids[1:2]
    (there,) = await store.enqueue([half])
    receipts = await store.enqueue([batch], in_doubt=True)
    assert [receipt.id for receipt in receipts] == batch.ids
    assert receipts[1].id == there.id
    assert all(receipt.created for receipt in receipts)
    assert len(await store.jobs(JobFilter())) == 3


async def test_sending_again_in_doubt_respects_keys(store: Store) -> None:
    (standing,) = await put(store, keys=["a"])
    batch = a_batch(keys=["a", "b"])
    first = await store.enqueue([batch])
    assert await store.enqueue([batch], in_doubt=True) == first
    assert [receipt.created for receipt in first] == [False, True]
    assert first[0].id == standing


async def test_a_finished_job_in_doubt_is_not_made_again(store: Store) -> None:
    node = await enter(store)
    batch = a_batch(keys=["a"])
    (sent,) = await store.enqueue([batch])
    await settle(store, await take(store, node))
    assert await store.enqueue([batch], in_doubt=True) == [sent]
    assert (await see(store, sent.id)).state == "succeeded"


async def test_all_batches_are_written_or_none(store: Store) -> None:
    good, bad = a_batch(10), a_batch(10)
    bad.args[7] = None  # type: ignore[call-overload]
    with pytest.raises(StoreError):
        await store.enqueue([good, bad])
    assert await store.jobs(JobFilter()) == []


async def test_an_id_that_is_there_already_is_refused_outside_of_doubt(store: Store) -> None:
    batch = a_batch()
    await store.enqueue([batch])
    with pytest.raises(StoreError):
        await store.enqueue([batch])
    assert len(await store.jobs(JobFilter())) == 1


async def test_a_hundred_thousand_jobs_in_one_call(store: Store) -> None:
    batch = a_batch(100_000)
    receipts = await store.enqueue([batch])
    assert len(receipts) == 100_000
    assert [receipts[n].id for n in (0, 10_000, 99_999)] == [batch.ids[n] for n in (0, 10_000, 99_999)]
    assert len({receipt.id for receipt in receipts}) == 100_000
    assert (await store.depth())[0].jobs == 100_000


async def test_a_large_batch_keeps_its_keys_apart(store: Store) -> None:
    keys = [str(number % 15_000) for number in range(20_000)]
    receipts = await store.enqueue([a_batch(keys=keys)])
    assert [receipt.created for receipt in receipts] == [True] * 15_000 + [False] * 5_000
    assert [receipt.id for receipt in receipts[15_000:]] == [receipt.id for receipt in receipts[:5_000]]


async def test_an_unknown_job_is_none(store: Store) -> None:
    assert await store.job(1) is None
