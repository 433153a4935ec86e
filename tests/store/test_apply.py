from __future__ import annotations

import json

import pytest

from oncue.errors import Conflict
from oncue.model import STATES, TERMINAL, Outcome, Released, Skipped, Snoozed, State, Succeeded
from oncue.policy import lifecycle
from oncue.store import Store
from tests.store.scene import (
    BROKEN,
    CRASHED,
    NOW,
    a_batch,
    after,
    change,
    enter,
    put,
    see,
    settle,
    states,
    take,
)


async def test_a_change_takes_where_its_guard_holds(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    claims = await take(store, node)
    assert await settle(store, claims, Succeeded(json.dumps({"sum": 42})), at=after(seconds=3)) == [True]
    job = await see(store, job_id)
    assert (job.state, job.result, job.error, job.reason) == ("succeeded", {"sum": 42}, None, None)
    assert (job.started_at, job.finished_at, job.updated_at) == (NOW, after(seconds=3), after(seconds=3))
    assert (job.attempt, job.retry_count, job.run_until) == (1, 0, None)
    assert job.duration == 3.0


async def test_nothing_to_apply_is_no_error(store: Store) -> None:
    assert await store.jobs.apply([], NOW) == []


async def test_the_same_change_takes_only_once(store: Store) -> None:
    node = await enter(store)
    await put(store)
    claims = await take(store, node)
    assert await settle(store, claims) == [True]
    assert await settle(store, claims) == [False]
    assert (await store.queues.all())[0].succeeded == 1


@pytest.mark.contract("QUE-9")
async def test_an_older_claim_changes_nothing(store: Store) -> None:
    zombie, heir = await enter(store, "zombie"), await enter(store, "heir")
    (job_id,) = await put(store)
    old = await take(store, zombie)
    await settle(store, old, Released())
    new = await take(store, heir)
    before = await see(store, job_id)
    assert await settle(store, old) == [False]
    assert await see(store, job_id) == before
    assert await settle(store, new) == [True]


@pytest.mark.parametrize("claimed", STATES)
async def test_a_change_from_another_state_changes_nothing(store: Store, claimed: State) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    wrong = change(claim)._replace(from_state=claimed)
    took = await store.jobs.apply([wrong], NOW)
    assert took == [claimed == "running"]
    assert await states(store, [job_id]) == ["succeeded" if claimed == "running" else "running"]


async def test_an_unknown_job_is_told_apart(store: Store) -> None:
    node = await enter(store)
    await put(store)
    (claim,) = await take(store, node)
    mine = change(claim)
    assert await store.jobs.apply([mine._replace(id=claim.id + 1000), mine], NOW) == [False, True]


async def test_the_answer_is_in_order_and_a_late_change_does_not_spoil_the_rest(store: Store) -> None:
    node = await enter(store)
    ids = await put(store, 5)
    claims = await take(store, node)
    await settle(store, [claims[1], claims[3]])
    assert await settle(store, claims, BROKEN) == [True, False, True, False, True]
    assert await states(store, ids) == ["retrying", "succeeded", "retrying", "succeeded", "retrying"]


@pytest.mark.parametrize("stale_first", [True, False])
async def test_of_two_claims_of_one_job_in_one_batch_only_the_newest_takes(store: Store, stale_first: bool) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    stale = await take(store, node)
    await settle(store, stale, Released())
    fresh = await take(store, node)
    order = [*stale, *fresh] if stale_first else [*fresh, *stale]
    took = await store.jobs.apply([change(claim, BROKEN) for claim in order], NOW)
    assert took == ([False, True] if stale_first else [True, False])
    assert len(await store.jobs.attempts(job_id)) == 2


async def test_of_two_changes_of_one_claim_in_one_batch_exactly_one_takes(store: Store) -> None:
    node = await enter(store)
    twice, once = await put(store, 2)
    first, second = await take(store, node)
    took = await store.jobs.apply([change(first, BROKEN), change(second), change(first, Released())], NOW)
    assert took[1] is True
    assert [took[0], took[2]].count(True) == 1
    assert await states(store, [twice, once]) == ["retrying" if took[0] else "queued", "succeeded"]
    (attempt,) = await store.jobs.attempts(twice)
    assert attempt.outcome == ("failed" if took[0] else "released")


async def test_two_endings_of_one_claim_in_one_batch_count_once(store: Store) -> None:
    node = await enter(store)
    await put(store)
    (claim,) = await take(store, node)
    took = await store.jobs.apply([change(claim), change(claim, Skipped("late"))], NOW)
    (queue,) = await store.queues.all()
    assert took.count(True) == 1
    assert (queue.succeeded, queue.skipped) == (int(took[0]), int(took[1]))


@pytest.mark.contract("QUE-8")
@pytest.mark.parametrize("ending", sorted(TERMINAL))
async def test_an_end_is_final_and_has_a_time(store: Store, ending: State) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    assert await store.jobs.apply([change(claim, at=after(seconds=1))._replace(state=ending)], after(seconds=2)) == [
        True
    ]
    job = await see(store, job_id)
    assert (job.state, job.finished, job.finished_at, job.updated_at) == (
        ending,
        True,
        after(seconds=1),
        after(seconds=2),
    )
    assert await store.jobs.attempts(job_id) == []
    assert await take(store, node) == []
    assert await store.jobs.promote(after(days=9), 10) is None


@pytest.mark.parametrize("outcome", [BROKEN, CRASHED, Released(), Snoozed(60)])
async def test_a_job_that_goes_on_has_no_end_and_keeps_its_attempt(store: Store, outcome: Outcome) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    written = change(claim, outcome, at=after(seconds=9))
    assert await store.jobs.apply([written], after(seconds=9)) == [True]
    job = await see(store, job_id)
    assert (job.state, job.finished_at, job.result, job.run_until) == (written.state, None, None, None)
    assert (job.visible_at, job.retry_count, job.attempt, job.crashes) == written[6:10]
    (attempt,) = await store.jobs.attempts(job_id)
    assert (attempt.job_id, attempt.attempt, attempt.claim_no, attempt.node_id) == (job_id, 1, 1, node)
    assert (attempt.started_at, attempt.finished_at) == (NOW, after(seconds=9))
    assert (attempt.outcome, attempt.error) == (written.outcome, written.error)


async def test_a_claim_that_never_started_leaves_no_attempt(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    await settle(store, await take(store, node), Released(), started=False)
    assert await store.jobs.attempts(job_id) == []
    job = await see(store, job_id)
    assert (job.state, job.attempt, job.claim_no) == ("queued", 0, 1)


async def test_attempts_add_up_over_a_job_s_life(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    outcomes: tuple[Outcome, ...] = (BROKEN, CRASHED, Released(), BROKEN)
    for day, outcome in enumerate(outcomes, 1):
        await store.jobs.promote(after(days=day), 10)
        await settle(store, await take(store, node, now=after(days=day)), outcome, at=after(days=day))
    await store.jobs.promote(after(days=9), 10)
    await settle(store, await take(store, node, now=after(days=9)), at=after(days=9))
    history = await store.jobs.attempts(job_id)
    assert [(row.attempt, row.claim_no, row.outcome) for row in history] == [
        (1, 1, "failed"),
        (2, 2, "node_lost"),
        (3, 3, "released"),
        (4, 4, "failed"),
    ]
    job = await see(store, job_id)
    assert (job.state, job.attempt, job.claim_no, job.retry_count, job.crashes) == ("succeeded", 5, 5, 2, 0)


async def test_a_waiting_job_is_cancelled_by_the_same_write(store: Store) -> None:
    (job_id,) = await put(store)
    cancel = lifecycle.cancel(await see(store, job_id), after(seconds=5))
    assert cancel is not None
    assert await store.jobs.apply([cancel], after(seconds=5)) == [True]
    job = await see(store, job_id)
    assert (job.state, job.reason, job.finished_at, job.attempt) == ("cancelled", "cancelled", after(seconds=5), 0)
    (queue,) = await store.queues.all()
    assert queue.cancelled == 1


@pytest.mark.contract("QUE-14")
async def test_a_revived_job_starts_over_and_keeps_its_history(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store, max_retries=0)
    await settle(store, await take(store, node), BROKEN, at=after(seconds=1))
    revival = lifecycle.revive(await see(store, job_id), after(hours=1))
    assert revival is not None
    assert await store.jobs.apply([revival], after(hours=1)) == [True]
    job = await see(store, job_id)
    assert (job.state, job.retry_count, job.crashes, job.finished_at) == ("queued", 0, 0, None)
    assert (job.visible_at, job.claim_no) == (after(hours=1), 1)
    (again,) = await take(store, node, now=after(hours=1))
    assert (again.claim_no, again.attempt) == (2, 1)
    assert [(row.attempt, row.outcome, row.finished_at) for row in await store.jobs.attempts(job_id)] == [
        (1, "failed", after(seconds=1))
    ]


async def test_a_job_can_be_revived_cancelled_and_revived_again(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store, max_retries=0)
    await settle(store, await take(store, node), BROKEN)
    for by_hand in (lifecycle.revive, lifecycle.cancel, lifecycle.revive):
        written = by_hand(await see(store, job_id), NOW)
        assert written is not None
        assert await store.jobs.apply([written], NOW) == [True]
    assert [row.attempt for row in await store.jobs.attempts(job_id)] == [1]


@pytest.mark.contract("QUE-3", "QUE-14")
async def test_a_job_cannot_be_revived_while_another_has_its_key(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store, keys=["a"])
    await settle(store, await take(store, node))
    revival = lifecycle.revive(await see(store, job_id), NOW)
    assert revival is not None
    (standing,) = await put(store, keys=["a"])
    with pytest.raises(Conflict):
        await store.jobs.apply([revival], NOW)
    assert await states(store, [job_id, standing]) == ["succeeded", "queued"]


async def test_a_conflict_writes_nothing_of_its_batch(store: Store) -> None:
    node = await enter(store)
    (done,) = await put(store, keys=["a"])
    await settle(store, await take(store, node))
    revival = lifecycle.revive(await see(store, done), NOW)
    assert revival is not None
    _, other = await store.jobs.enqueue([a_batch(keys=["a", "b"])])
    claims = await take(store, node)
    with pytest.raises(Conflict):
        await store.jobs.apply([change(claims[1]), revival], NOW)
    assert await states(store, [other.id]) == ["running"]
    assert (await store.queues.all())[0].succeeded == 1


async def test_a_request_to_cancel_outlives_a_release_and_not_a_revival(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    assert await store.jobs.request_cancel(job_id, claim.claim_no, NOW)
    await settle(store, [claim], Released())
    (again,) = await take(store, node)
    assert again.cancel_requested is True
    await settle(store, [again])
    revival = lifecycle.revive(await see(store, job_id), NOW)
    assert revival is not None
    await store.jobs.apply([revival], NOW)
    (fresh,) = await take(store, node)
    assert fresh.cancel_requested is False


@pytest.mark.parametrize("outcome", [BROKEN, Snoozed(60.0)], ids=["retrying", "scheduled"])
async def test_what_is_to_be_cancelled_does_not_wait_for_its_next_attempt(store: Store, outcome: Outcome) -> None:
    """Whoever ran it had not heard of the request yet."""
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    assert await store.jobs.request_cancel(job_id, claim.claim_no, NOW)
    await settle(store, [claim], outcome)
    assert (await see(store, job_id)).visible_at <= NOW


async def test_a_thousand_changes_in_one_batch(store: Store) -> None:
    node = await enter(store)
    await put(store, 1000)
    claims = await take(store, node, 1000)
    assert await settle(store, claims) == [True] * 1000
    (queue,) = await store.queues.all()
    assert (queue.queued, queue.running, queue.succeeded) == (0, 0, 1000)
