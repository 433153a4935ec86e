from __future__ import annotations

import json
from uuid import uuid4

import pytest

from oncue.model import Limits, Released, Started
from oncue.store import Store
from tests.store.scene import (
    BROKEN,
    CRASHED,
    NOW,
    a_batch,
    a_suspect,
    after,
    before,
    change,
    enter,
    put,
    see,
    settle,
    states,
    take,
)


@pytest.mark.contract("QUE-1")
async def test_the_highest_priority_comes_first_then_the_oldest(store: Store) -> None:
    node = await enter(store)
    (young,) = await put(store, priority=5, created_at=before(minutes=1))
    (old,) = await put(store, priority=5, created_at=before(minutes=2))
    (low,) = await put(store, created_at=before(hours=1))
    (high,) = await put(store, priority=100)
    assert [claim.id for claim in await take(store, node)] == [high, old, young, low]


@pytest.mark.contract("QUE-1")
async def test_equals_come_in_the_order_of_their_making(store: Store) -> None:
    node = await enter(store)
    ids = await put(store, 300)
    first = [claim.id for claim in await take(store, node, 200)]
    second = [claim.id for claim in await take(store, node, 200)]
    assert first + second == ids


@pytest.mark.contract("QUE-1")
async def test_several_queues_are_merged_into_one_order(store: Store) -> None:
    node = await enter(store)
    (mail_low,) = await put(store, queue="mail", priority=1)
    (web_high,) = await put(store, queue="web", priority=9)
    (mail_high,) = await put(store, queue="mail", priority=10)
    (web_low,) = await put(store, queue="web", priority=2)
    taken = await take(store, node, 3, queues=["mail", "web"])
    assert [claim.id for claim in taken] == [mail_high, web_high, web_low]
    assert [claim.id for claim in await take(store, node, 3, queues=["mail", "web"])] == [mail_low]


async def test_a_claim_shows_what_the_node_needs(store: Store) -> None:
    node = await enter(store)
    batch = a_batch(
        queue="mail",
        priority=3,
        max_retries=2,
        max_runtime=60.0,
        deadline_at=after(hours=2),
        created_at=before(hours=1),
    )
    (receipt,) = await store.jobs.enqueue([batch])
    (claim,) = await take(store, node, queues=["mail"])
    assert (claim.id, claim.uid, claim.task, claim.queue, claim.priority) == (
        receipt.id,
        receipt.uid,
        "send",
        "mail",
        3,
    )
    assert json.loads(claim.args) == {"number": 0}
    assert claim.options == batch.options
    assert (claim.created_at, claim.visible_at) == (before(hours=1), before(hours=1))
    assert (claim.deadline_at, claim.claimed_at, claim.started_at) == (after(hours=2), NOW, None)
    assert (claim.claim_no, claim.attempt, claim.retry_count, claim.max_retries, claim.crashes) == (1, 0, 0, 2, 0)
    assert claim.cancel_requested is False


async def test_a_claim_marks_the_row(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store, max_runtime=60.0)
    await take(store, node)
    job = await see(store, job_id)
    assert (job.state, job.node_id, job.claim_no) == ("running", node, 1)
    assert (job.claimed_at, job.run_until, job.updated_at) == (NOW, after(minutes=1), NOW)


async def test_a_job_without_maximum_runtime_may_run_for_ever(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store, max_runtime=None)
    await take(store, node)
    assert (await see(store, job_id)).run_until is None


async def test_every_claim_raises_the_fence_and_a_release_does_not_lower_it(store: Store) -> None:
    node = await enter(store)
    await put(store)
    fences = []
    for _ in range(3):
        claims = await take(store, node)
        fences.append(claims[0].claim_no)
        await settle(store, claims, Released(), started=False)
    assert fences == [1, 2, 3]


async def test_a_new_claim_wipes_what_the_last_attempt_left_on_the_row(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    await settle(store, await take(store, node), CRASHED)
    assert (await see(store, job_id)).error == "node_lost"
    await take(store, node)
    job = await see(store, job_id)
    assert (job.error, job.reason, job.result, job.started_at, job.finished_at) == (None,) * 5


async def test_no_more_than_the_limit(store: Store) -> None:
    node = await enter(store)
    await put(store, 5)
    assert [len(await take(store, node, 2)) for _ in range(4)] == [2, 2, 1, 0]


async def test_only_the_queues_that_were_asked_for(store: Store) -> None:
    node = await enter(store)
    await put(store, queue="mail")
    assert await take(store, node, queues=["default", "web"]) == []
    assert await take(store, node, queues=[]) == []


async def test_an_unknown_task_is_left_alone_and_blocks_nothing(store: Store) -> None:
    node = await enter(store)
    (unknown,) = await put(store, task="unheard-of", priority=100)
    (known,) = await put(store)
    assert [claim.id for claim in await take(store, node)] == [known]
    assert (await see(store, unknown)).state == "queued"
    assert await take(store, node, tasks=[]) == []


async def test_nothing_comes_from_a_paused_queue(store: Store) -> None:
    node = await enter(store)
    await put(store, queue="mail")
    (web,) = await put(store, queue="web")
    await store.queues.pause("mail", NOW)
    assert [claim.id for claim in await take(store, node, queues=["mail", "web"])] == [web]
    await store.queues.resume("mail", NOW)
    assert len(await take(store, node, queues=["mail", "web"])) == 1


async def test_no_suspect_comes_from_a_paused_queue(store: Store) -> None:
    node = await enter(store)
    await a_suspect(store, node)
    await a_suspect(store, node, deaths=3, queue="web")
    await store.queues.pause("default", NOW)
    await store.queues.pause("web", NOW)
    assert await take(store, node, few=8, alone=NOW, queues=["default", "web"]) == []


async def test_a_node_that_never_registered_gets_nothing(store: Store) -> None:
    await put(store)
    assert await take(store, uuid4()) == []


async def test_a_node_whose_lease_is_over_gets_nothing(store: Store) -> None:
    node = await enter(store, expires_at=after(seconds=15))
    await put(store, 2)
    assert len(await take(store, node, 1, now=after(seconds=14.999999))) == 1
    assert await take(store, node, now=after(seconds=15)) == []


async def test_a_node_that_was_declared_lost_gets_nothing_until_it_registers_again(store: Store) -> None:
    lost = await enter(store, expires_at=after(seconds=15))
    (job_id,) = await put(store)
    await store.nodes.expire(after(seconds=20))
    assert await take(store, lost, now=NOW) == []
    assert (await see(store, job_id)).state == "queued"


async def test_a_node_that_left_gets_nothing(store: Store) -> None:
    node = await enter(store)
    await put(store)
    await store.nodes.leave(node, NOW)
    assert await take(store, node) == []


async def test_after_one_death_a_job_comes_among_all_others(store: Store) -> None:
    node = await enter(store)
    job_id = await a_suspect(store, node, deaths=1)
    (other,) = await put(store)
    assert [(claim.id, claim.crashes) for claim in await take(store, node)] == [(job_id, 1), (other, 0)]


async def test_after_two_deaths_jobs_come_only_where_they_are_allowed(store: Store) -> None:
    node = await enter(store)
    job_id = await a_suspect(store, node)
    assert await take(store, node) == await take(store, node, alone=NOW) == []
    (claim,) = await take(store, node, few=1)
    assert (claim.id, claim.crashes, claim.claim_no) == (job_id, 2, 3)


async def test_a_few_come_at_a_time_and_the_best_first(store: Store) -> None:
    node = await enter(store)
    low = await a_suspect(store, node, priority=1)
    high = await a_suspect(store, node, priority=2, queue="mail")
    middle = await a_suspect(store, node, priority=1, queue="web")
    taken = [await take(store, node, few=2, queues=["default", "mail", "web"]) for _ in range(3)]
    assert [[claim.id for claim in claims] for claims in taken] == [[high, low], [middle], []]


async def test_those_of_a_cohort_count_among_the_others_and_come_in_their_order(store: Store) -> None:
    node = await enter(store)
    suspect = await a_suspect(store, node, priority=5)
    (high,) = await put(store, priority=9)
    low = await put(store, 3, priority=1)
    assert [claim.id for claim in await take(store, node, 3, few=2)] == [high, suspect, low[0]]
    assert [claim.id for claim in await take(store, node, 3, few=2)] == low[1:]


async def test_those_of_a_cohort_come_first_so_that_they_need_not_age(store: Store) -> None:
    node = await enter(store)
    suspect = await a_suspect(store, node)
    await put(store, 2, priority=9)
    assert [claim.id for claim in await take(store, node, 1, few=8)] == [suspect]


async def test_a_cohort_keeps_within_the_room_of_a_limited_queue(store: Store) -> None:
    node = await enter(store)
    suspects = [await a_suspect(store, node, queue=queue) for queue in ("narrow", "mail")]
    await put(store, 3, queue="narrow")
    await store.queues.set_limits("narrow", Limits(None, None), Limits(2, None), NOW)
    claims = await store.jobs.claim(node, ["narrow", "mail"], ["send"], 9, NOW, few=8, rooms={"narrow": 2})
    assert {claim.id for claim in claims} > set(suspects)
    assert sorted(claim.queue for claim in claims) == ["mail", "narrow", "narrow"]


async def test_one_that_runs_alone_comes_without_others(store: Store) -> None:
    node = await enter(store)
    alone = [await a_suspect(store, node, deaths=3, queue=queue) for queue in ("mail", "web")]
    await a_suspect(store, node)
    (fresh,) = await put(store, priority=100)
    queues = ["default", "mail", "web"]
    assert [claim.id for claim in await take(store, node, alone=NOW, few=8, queues=queues)] == alone[:1]
    assert [claim.id for claim in await take(store, node, alone=NOW, few=8, queues=queues)] == alone[1:]
    assert fresh in [claim.id for claim in await take(store, node, alone=NOW, few=8, queues=queues)]


async def test_of_those_that_run_alone_the_one_with_the_fewest_deaths_comes_first(store: Store) -> None:
    """Else kills by hand meet the oldest one each time, and it is poison after the second."""
    node = await enter(store)
    older = await a_suspect(store, node, deaths=4, queue="mail", priority=100)
    younger = await a_suspect(store, node, deaths=3, queue="web")
    (claim,) = await take(store, node, alone=NOW, queues=["mail", "web"])
    assert claim.id == younger
    (claim,) = await take(store, node, alone=NOW, queues=["mail", "web"])
    assert claim.id == older


async def test_one_that_runs_alone_comes_once_it_has_waited(store: Store) -> None:
    node = await enter(store)
    job_id = await a_suspect(store, node, deaths=3)
    assert await take(store, node, few=8) == await take(store, node, few=8, alone=before(seconds=1)) == []
    (claim,) = await take(store, node, alone=NOW)
    assert (claim.id, claim.crashes) == (job_id, 3)


async def test_the_time_of_one_that_runs_alone_counts_from_when_it_begins(store: Store) -> None:
    node = await enter(store)
    job_id = await a_suspect(store, node, deaths=3, max_runtime=60.0)
    (claim,) = await take(store, node, alone=NOW)
    assert (await see(store, job_id)).run_until is None
    begun = after(hours=1)
    assert await store.jobs.begin([Started(job_id, claim.claim_no, begun)]) == [True]
    job = await see(store, job_id)
    assert (job.started_at, job.run_until) == (begun, after(hours=1, minutes=1))


async def test_only_what_a_claim_still_holds_begins(store: Store) -> None:
    node = await enter(store)
    await put(store, 3)
    first, second, third = await take(store, node)
    await settle(store, [first], Released(), started=False)
    (again,) = await take(store, node)
    started = [Started(claim.id, claim.claim_no, NOW) for claim in (third, first, again, second)]
    assert await store.jobs.begin(started[:2]) == [True, False]
    assert await store.jobs.begin(started[2:]) == [True, True]
    claims = await store.jobs.running([first.id, second.id, third.id])
    assert [(claim.claim_no, claim.started_at) for claim in claims] == [(2, NOW), (1, NOW), (1, NOW)]


async def test_a_suspect_of_an_unknown_task_or_another_queue_is_left_alone(store: Store) -> None:
    node = await enter(store)
    await a_suspect(store, node)
    await a_suspect(store, node, deaths=3, queue="web")
    assert await take(store, node, tasks=["fetch"], few=8, alone=NOW, queues=["default", "web"]) == []
    assert await take(store, node, queues=["mail"], few=8, alone=NOW) == []


@pytest.mark.contract("QUE-5")
async def test_a_scheduled_job_is_claimed_once_it_is_due_and_not_before(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store, state="scheduled", visible_at=after(minutes=10))
    for early in (NOW, after(minutes=9, seconds=59.999999)):
        await store.jobs.promote(early, 100)
        assert await take(store, node, now=early) == []
    await store.jobs.promote(after(minutes=10), 100)
    assert [claim.id for claim in await take(store, node, now=after(minutes=10))] == [job_id]


@pytest.mark.contract("QUE-5", "QUE-8")
async def test_a_failed_job_is_invisible_until_its_retry_time(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    failure = change(claim, BROKEN)
    assert await store.jobs.apply([failure], NOW) == [True]
    assert await states(store, [job_id]) == ["retrying"]
    assert await store.jobs.promote(NOW, 100) == failure.visible_at
    assert await take(store, node) == []
    assert await store.jobs.promote(failure.visible_at, 100) is None
    (again,) = await take(store, node, now=failure.visible_at)
    assert (again.id, again.claim_no, again.retry_count, again.attempt) == (job_id, 2, 1, 1)
