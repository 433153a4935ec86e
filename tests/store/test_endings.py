"""Changes with more than a fence: an instant, an epoch, details, and jobs that follow. On both stores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from oncue.model import (
    Batch,
    Cancelled,
    Change,
    Claim,
    JobFilter,
    LeaderEpoch,
    Note,
    Outcome,
    Released,
    Skipped,
    Snoozed,
    Succeeded,
    Terms,
    TimedOut,
    ToldDetails,
)
from oncue.policy import lifecycle
from oncue.policy.options import Options
from oncue.store import Store
from oncue.store.contract import LEADER
from tests.store.scene import (
    BROKEN,
    DONE,
    NOW,
    a_batch,
    after,
    enter,
    put,
    see,
    states,
    take,
)

CUTOFF = after(seconds=10)


def ended(claim: Claim, outcome: Outcome = DONE, *, details: str | None = None, **terms: Any) -> Change:
    """The change that an outcome leads to on these terms."""
    told = lifecycle.Ended(claim, outcome, claim.claimed_at, NOW, None, details, Terms(**terms) if terms else None)
    return lifecycle.settle(told, Random(1))


async def elected(store: Store, node: UUID, now: datetime = NOW) -> LeaderEpoch:
    lease = await store.leases.acquire(LEADER, node, "a node", now, after(days=1), respect=None)
    assert lease is not None
    assert lease.holder == node
    return LeaderEpoch(node, lease.epoch)


async def deposed(store: Store, leader: LeaderEpoch) -> None:
    """Another node leads from here on."""
    await store.leases.release(LEADER, leader.holder, leader.epoch, NOW)
    await elected(store, await enter(store, "heir"), after(seconds=1))


async def exist(store: Store, batch: Batch) -> list[bool]:
    return [await store.jobs.get(job_id) is not None for job_id in batch.ids]


# --- before an instant ----------------------------------------------------------------------------------------------


async def test_a_change_that_holds_before_an_instant_writes_its_first_ending_before_it(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    change = ended(claim, before=CUTOFF)
    assert await store.jobs.apply([change], NOW, latest=CUTOFF.replace(second=9)) == [True]
    job = await see(store, job_id)
    assert (job.state, job.reason, job.attempt) == ("succeeded", None, 1)


@pytest.mark.parametrize("latest", [CUTOFF, after(hours=1)])
async def test_from_the_instant_on_it_writes_the_other_one(store: Store, latest: datetime) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    change = ended(claim, Succeeded('{"sum":1}'), details='{"status":200}', before=CUTOFF, late=Skipped("late"))
    assert await store.jobs.apply([change], NOW, latest=latest) == ["late"]
    job = await see(store, job_id)
    assert (job.state, job.reason, job.attempt, job.result) == ("skipped", "late", 1, None)
    assert job.details == {"status": 200}
    assert change.as_written("late").state == "skipped"
    assert (await store.queues.all())[0].skipped == 1
    assert await store.jobs.apply([change], NOW, latest=latest) == [False]


async def test_without_an_upper_bound_the_time_of_the_call_counts(store: Store) -> None:
    node = await enter(store)
    await put(store, 2)
    first, second = await take(store, node)
    assert await store.jobs.apply([ended(first, before=CUTOFF)], NOW) == [True]
    assert await store.jobs.apply([ended(second, before=CUTOFF)], CUTOFF) == ["late"]


async def test_only_a_success_can_come_too_late(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    assert await store.jobs.apply([ended(claim, BROKEN, before=CUTOFF)], NOW, latest=after(days=1)) == [True]
    assert (await see(store, job_id)).state == "retrying"


async def test_a_stale_change_writes_neither_ending(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (old,) = await take(store, node)
    await store.jobs.apply([ended(old, Released())], NOW)
    (new,) = await take(store, node)
    for latest in (NOW, after(days=1)):
        assert await store.jobs.apply([ended(old, before=CUTOFF)], NOW, latest=latest) == [False]
    assert (await see(store, job_id)).claim_no == new.claim_no
    assert await states(store, [job_id]) == ["running"]


# --- while an epoch leads -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [DONE, BROKEN, Snoozed(5), Skipped("nothing to do")])
async def test_a_change_under_the_epoch_that_leads_is_written(store: Store, outcome: Outcome) -> None:
    node = await enter(store)
    leader = await elected(store, node)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    change = ended(claim, outcome, leader=leader)
    assert await store.jobs.apply([change], NOW) == [True]
    assert (await see(store, job_id)).state == change.state


@pytest.mark.parametrize("outcome", [DONE, BROKEN, Snoozed(5), Skipped("nothing to do")])
async def test_under_an_epoch_that_leads_no_more_the_job_is_released_uncharged(store: Store, outcome: Outcome) -> None:
    node = await enter(store)
    leader = await elected(store, node)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    await deposed(store, leader)
    change = ended(claim, outcome, details='{"step":3}', leader=leader)
    assert await store.jobs.apply([change], NOW) == ["released"]
    job = await see(store, job_id)
    assert (job.state, job.reason, job.claim_no) == ("queued", None, claim.claim_no)
    assert (job.retry_count, job.crashes, job.error) == (0, 0, None)
    (attempt,) = await store.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.details) == ("deposed", {"step": 3})
    (again,) = await take(store, node)
    assert (again.claim_no, again.retry_count) == (claim.claim_no + 1, 0)
    assert await store.jobs.apply([change], NOW) == [False]


async def test_the_epoch_of_another_node_does_not_lead(store: Store) -> None:
    node = await enter(store)
    leader = await elected(store, node)
    await put(store, 3)
    first, second, third = await take(store, node)
    changes = [
        ended(first, leader=LeaderEpoch(uuid4(), leader.epoch)),
        ended(second, leader=LeaderEpoch(node, leader.epoch + 1)),
        ended(third, leader=leader),
    ]
    assert await store.jobs.apply(changes, NOW) == ["released", "released", True]


async def test_without_any_leader_nothing_is_written_under_one(store: Store) -> None:
    node = await enter(store)
    await put(store)
    (claim,) = await take(store, node)
    assert await store.jobs.apply([ended(claim, leader=LeaderEpoch(node, 1))], NOW) == ["released"]


async def test_an_attempt_of_an_at_most_once_job_is_not_repeated_by_the_next_leader(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store, options=Options("at_most_once").stored())
    (claim,) = await take(store, node)
    assert await store.jobs.apply([ended(claim, leader=LeaderEpoch(node, 1))], NOW) == ["released"]
    job = await see(store, job_id)
    assert (job.state, job.reason) == ("skipped", "interrupted")


async def test_a_change_that_is_late_under_an_old_epoch_is_released(store: Store) -> None:
    node = await enter(store)
    leader = await elected(store, node)
    await put(store, 2)
    late, deposed_and_late = await take(store, node)
    assert await store.jobs.apply([ended(late, before=CUTOFF, leader=leader)], CUTOFF) == ["late"]
    await deposed(store, leader)
    assert await store.jobs.apply([ended(deposed_and_late, before=CUTOFF, leader=leader)], CUTOFF) == ["released"]


async def test_each_change_of_a_batch_has_an_ending_of_its_own(store: Store) -> None:
    node = await enter(store)
    leader = await elected(store, node)
    ids = await put(store, 6)
    claims = await take(store, node)
    changes = [
        ended(claims[5], leader=LeaderEpoch(node, 99)),
        ended(claims[0]),
        ended(claims[3], before=CUTOFF),
        ended(claims[2], BROKEN)._replace(claim_no=7),
        ended(claims[4], leader=leader),
        ended(claims[1], BROKEN, details="{}"),
    ]
    notes = [Note("ada", "test", str(number), None, None) for number in range(6)]
    assert await store.jobs.apply(changes, CUTOFF, notes) == ["released", True, "late", False, True, True]
    assert await states(store, ids) == ["succeeded", "retrying", "running", "skipped", "succeeded", "queued"]
    assert sorted(entry.subject for entry in await store.audit_log.page()) == ["0", "1", "2", "4", "5"]


# --- jobs that follow -----------------------------------------------------------------------------------------------


async def test_jobs_that_follow_are_written_with_the_change(store: Store) -> None:
    node = await enter(store)
    await put(store)
    (claim,) = await take(store, node)
    soon = a_batch(2, queue="mail", priority=7, max_runtime=90.5)._replace(group="tenant:7", address="node:alpha")
    later = a_batch(1, state="scheduled", visible_at=after(hours=1), deadline_at=after(hours=2), max_runtime=None)
    assert await store.jobs.apply([ended(claim, follow_ups=(soon, later))], NOW) == [True]
    job = await see(store, soon.ids[1])
    assert (job.task, job.queue, job.priority, job.state, job.args) == ("send", "mail", 7, "queued", {"number": 1})
    assert (job.max_runtime, job.group, job.address, job.order_at) == (90.5, "tenant:7", "node:alpha", NOW)
    assert (job.created_at, job.enqueued_by, job.options, job.max_retries) == (NOW, "tests", soon.options, 3)
    job = await see(store, later.ids[0])
    assert (job.state, job.visible_at, job.deadline_at) == ("scheduled", after(hours=1), after(hours=2))
    assert job.max_runtime is None


async def test_a_change_that_does_not_take_brings_no_jobs(store: Store) -> None:
    node = await enter(store)
    await put(store, 2)
    first, second = await take(store, node)
    batches = [a_batch(2), a_batch(1)]
    changes = [ended(first, follow_ups=(batches[0],)), ended(second, follow_ups=(batches[1],))]
    assert await store.jobs.apply([changes[0]._replace(claim_no=9), changes[1]], NOW) == [False, True]
    assert [await exist(store, batch) for batch in batches] == [[False, False], [True]]


async def test_a_change_that_is_sent_again_brings_its_jobs_once(store: Store) -> None:
    node = await enter(store)
    await put(store)
    (claim,) = await take(store, node)
    batch = a_batch(3)
    change = ended(claim, follow_ups=(batch,))
    assert await store.jobs.apply([change], NOW) == [True]
    assert await store.jobs.apply([change], NOW) == [False]
    assert len(await store.jobs.find(JobFilter())) == 4


async def test_only_the_jobs_of_the_ending_that_was_written_follow(store: Store) -> None:
    node = await enter(store)
    leader = await elected(store, node)
    await put(store, 3)
    claims = await take(store, node)
    in_time, late = [a_batch(1) for _ in claims], [a_batch(1) for _ in claims]

    def change(number: int, **terms: Any) -> Change:
        return ended(
            claims[number], before=CUTOFF, follow_ups=(in_time[number],), late_follow_ups=(late[number],), **terms
        )

    assert await store.jobs.apply([change(0)], NOW) == [True]
    changes = [change(1), change(2, leader=leader._replace(epoch=99))]
    assert await store.jobs.apply(changes, CUTOFF) == ["late", "released"]
    assert [await exist(store, batch) for batch in in_time] == [[True], [False], [False]]
    assert [await exist(store, batch) for batch in late] == [[False], [True], [False]]


async def test_a_job_that_follows_and_whose_key_is_taken_is_left_out(store: Store) -> None:
    node = await enter(store)
    await put(store)
    (claim,) = await take(store, node)
    (standing,) = await put(store, keys=["a"])
    batch = a_batch(keys=["a", "b"])
    assert await store.jobs.apply([ended(claim, follow_ups=(batch,))], NOW) == [True]
    assert await exist(store, batch) == [False, True]
    assert (await see(store, standing)).key == "a"


async def test_a_job_may_be_followed_by_another_one_with_its_key(store: Store) -> None:
    """It has ended when the next one is written."""
    node = await enter(store)
    await put(store, keys=["chain"])
    (claim,) = await take(store, node)
    batch = a_batch(keys=["chain"])
    assert await store.jobs.apply([ended(claim, follow_ups=(batch,))], NOW) == [True]
    assert await exist(store, batch) == [True]


async def test_a_retry_brings_no_jobs(store: Store) -> None:
    node = await enter(store)
    await put(store)
    (claim,) = await take(store, node)
    batch = a_batch(1)
    assert await store.jobs.apply([ended(claim, BROKEN, follow_ups=(batch,))], NOW) == [True]
    assert await exist(store, batch) == [False]


# --- details --------------------------------------------------------------------------------------------------------

ENDS = [DONE, BROKEN, TimedOut("too long"), Snoozed(1), Cancelled(), Skipped("nothing"), Released("shutdown")]


async def kept(store: Store, job_id: int) -> Any:
    """The details of the latest attempt, wherever they are."""
    job, attempts = await see(store, job_id), await store.jobs.attempts(job_id)
    assert all(attempt.details == job.details for attempt in attempts)
    return job.details


@pytest.mark.parametrize("outcome", ENDS, ids=lambda outcome: type(outcome).__name__)
async def test_details_are_kept_whatever_ends_an_attempt(store: Store, outcome: Outcome) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    told = {"status": 503, "body": "… \u0000 \U0001f600"}
    assert await store.jobs.apply([ended(claim, outcome, details=json.dumps(told))], NOW) == [True]
    assert await kept(store, job_id) == told


async def test_of_many_successes_each_keeps_its_own_details(store: Store) -> None:
    """They are written at once: one tells nothing at its end, and one has lost its job."""
    node = await enter(store)
    ids = await put(store, 4)
    claims = await take(store, node, 4)
    await store.jobs.report_details([ToldDetails(ids[1], claims[1].claim_no, '{"page":1}')])
    told = ['{"status":200}', None, '{"status":202}', '{"status":204}']
    changes = [ended(claim, details=details) for claim, details in zip(claims, told, strict=True)]
    changes[2] = changes[2]._replace(claim_no=claims[2].claim_no + 1)
    assert await store.jobs.apply(list(reversed(changes)), NOW) == [True, False, True, True]
    assert [await kept(store, job_id) for job_id in ids] == [{"status": 200}, {"page": 1}, None, {"status": 204}]


async def test_what_was_told_before_its_node_was_lost_is_kept(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    assert await store.jobs.report_details([ToldDetails(job_id, claim.claim_no, '{"page":1}')]) == []
    assert await store.jobs.report_details([ToldDetails(job_id, claim.claim_no, '{"page":2}')]) == []
    assert (await see(store, job_id)).details == {"page": 2}
    (running,) = await store.jobs.running([job_id])
    await store.jobs.apply([lifecycle.settle(lifecycle.lost(running, NOW), Random(1))], NOW)
    assert await kept(store, job_id) == {"page": 2}
    await take(store, node)
    assert (await see(store, job_id)).details is None
    (attempt,) = await store.jobs.attempts(job_id)
    assert attempt.details == {"page": 2}


async def test_what_an_attempt_tells_at_its_end_counts(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    await store.jobs.report_details([ToldDetails(job_id, claim.claim_no, '{"page":1}')])
    await store.jobs.apply([ended(claim, details='{"page":9}')], NOW)
    assert await kept(store, job_id) == {"page": 9}


async def test_an_attempt_that_lost_its_job_tells_nothing_more(store: Store) -> None:
    node = await enter(store)
    ids = await put(store, 2)
    first, second = await take(store, node)
    await store.jobs.apply([ended(first)], NOW)
    told = [ToldDetails(claim.id, claim.claim_no - number, "{}") for number, claim in enumerate((first, second))]
    await store.jobs.report_details(told)
    assert [(await see(store, job_id)).details for job_id in ids] == [None, None]


async def test_a_job_that_is_started_over_keeps_the_details_of_its_last_attempt_as_history(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    await store.jobs.apply([ended(claim, Skipped("no"), details='{"status":410}')], NOW)
    again = lifecycle.revive(await see(store, job_id), NOW)
    assert again is not None
    assert await store.jobs.apply([again], NOW) == [True]
    await take(store, node)
    (attempt,) = await store.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.details) == ("skipped", {"status": 410})
    assert (await see(store, job_id)).details is None


async def test_a_short_listing_leaves_out_large_details(store: Store) -> None:
    node = await enter(store)
    small, large = await put(store, 2)
    for claim, text in zip(await take(store, node), ("x", "x" * 3000), strict=True):
        await store.jobs.apply([ended(claim, details=json.dumps({"body": text}))], NOW)
    jobs = {job.id: job for job in await store.jobs.find(JobFilter(short=True))}
    assert (jobs[small].details, jobs[small].shortened) == ({"body": "x"}, None)
    assert jobs[large].details is None
    assert list(jobs[large].shortened or ()) == ["details"]


async def test_plain_successes_beside_others_are_plain(store: Store) -> None:
    """A batch is written as one, whatever is in it."""
    node = await enter(store)
    ids = await put(store, 3)
    claims: Sequence[Claim] = await take(store, node)
    changes = [ended(claims[0]), ended(claims[1], details='{"a":1}'), ended(claims[2])]
    assert await store.jobs.apply(changes, NOW) == [True, True, True]
    assert set(await states(store, ids)) == {"succeeded"}
    assert [(await see(store, job_id)).details for job_id in ids] == [None, {"a": 1}, None]
