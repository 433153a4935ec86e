"""What the database says of running jobs: who holds them, since when, and which are in trouble."""

from __future__ import annotations

from uuid import uuid4

import pytest

from oncue.model import HeldClaim, JobFilter, Started, Succeeded
from oncue.store import Store
from tests.store.scene import NOW, after, enter, put, see, settle, states, take


async def test_a_node_holds_what_it_claimed_and_nothing_else(store: Store) -> None:
    alpha, beta = await enter(store, "alpha"), await enter(store, "beta")
    await put(store, 4)
    mine = await take(store, alpha, 2)
    await take(store, beta, 2)
    assert sorted(await store.jobs.held(alpha)) == sorted(HeldClaim(claim.id, 1, False) for claim in mine)
    assert await store.jobs.held(uuid4()) == []


async def test_a_settled_job_is_held_no_more(store: Store) -> None:
    node = await enter(store)
    await put(store)
    await settle(store, await take(store, node))
    assert await store.jobs.held(node) == []


async def test_a_holding_tells_of_a_request_to_cancel(store: Store) -> None:
    node = await enter(store)
    await put(store)
    (claim,) = await take(store, node)
    assert await store.jobs.request_cancel(claim.id, claim.claim_no, NOW)
    assert await store.jobs.held(node) == [HeldClaim(claim.id, claim.claim_no, True)]


async def test_running_jobs_are_found_by_id_whoever_holds_them(store: Store) -> None:
    node = await enter(store)
    done, running, queued = await put(store, 3)
    claims = await take(store, node, 2)
    await settle(store, claims[:1])
    assert await store.jobs.running([queued, running, done, 99_999]) == claims[1:]
    assert await store.jobs.running([]) == []


async def test_a_start_shows_on_the_row_of_its_claim(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    await store.jobs.mark_started([Started(job_id, claim.claim_no, after(seconds=2))])
    job = await see(store, job_id)
    assert (job.state, job.started_at, job.claim_no) == ("running", after(seconds=2), 1)


async def test_a_start_of_an_older_claim_or_a_finished_job_shows_nowhere(store: Store) -> None:
    node = await enter(store)
    running, done = await put(store, 2)
    claims = await take(store, node)
    await settle(store, claims[1:])
    finished = await see(store, done)
    await store.jobs.mark_started([Started(running, 0, after(seconds=2)), Started(done, 1, after(seconds=2))])
    assert (await see(store, running)).started_at is None
    assert await see(store, done) == finished


async def test_no_starts_to_mark_is_no_error(store: Store) -> None:
    await store.jobs.mark_started([])


@pytest.mark.contract("QUE-9")
async def test_jobs_of_dead_and_departed_nodes_are_stranded(store: Store) -> None:
    alive, dying, gone = [await enter(store, name) for name in ("alive", "dying", "gone")]
    dying = await enter(store, "dying", expires_at=after(seconds=15))
    await put(store, 3)
    (kept,) = await take(store, alive, 1)
    (lost,) = await take(store, dying, 1)
    (left,) = await take(store, gone, 1)
    assert await store.jobs.orphaned(NOW, 10) == []
    await store.nodes.leave(gone, NOW)
    assert await store.jobs.orphaned(NOW, 10) == [left]
    assert await store.jobs.orphaned(after(seconds=15), 10) == [lost, left]
    assert await store.jobs.orphaned(after(seconds=15), 1) == [lost]
    assert await states(store, [kept.id, lost.id, left.id]) == ["running"] * 3


@pytest.mark.contract("QUE-9")
async def test_a_stranded_claim_tells_what_is_known_of_it(store: Store) -> None:
    node = await enter(store)
    await put(store)
    (claim,) = await take(store, node)
    await store.jobs.mark_started([Started(claim.id, claim.claim_no, after(seconds=1))])
    await store.jobs.request_cancel(claim.id, claim.claim_no, NOW)
    await store.nodes.leave(node, NOW)
    (stranded,) = await store.jobs.orphaned(NOW, 10)
    assert stranded == claim._replace(started_at=after(seconds=1), cancel_requested=True)


async def test_jobs_of_a_buried_node_stay_stranded_though_its_lease_was_long(store: Store) -> None:
    node = await enter(store, expires_at=after(seconds=15))
    await put(store)
    claims = await take(store, node)
    await store.nodes.expire(after(seconds=20))
    assert await store.jobs.orphaned(NOW, 10) == claims


@pytest.mark.contract("QUE-9")
async def test_jobs_over_their_maximum_runtime_are_overdue(store: Store) -> None:
    node = await enter(store)
    for minutes in (30, 10, 20):
        await put(store, max_runtime=minutes * 60.0)
    await put(store, max_runtime=None)
    long, short, middle, _ = await take(store, node)
    assert await store.jobs.overdue(after(minutes=10), 10) == []
    assert await store.jobs.overdue(after(minutes=10, seconds=1), 10) == [short]
    assert await store.jobs.overdue(after(days=99), 10) == [short, middle, long]
    assert await store.jobs.overdue(after(days=99), 2) == [short, middle]


async def test_a_settled_job_is_neither_stranded_nor_overdue(store: Store) -> None:
    node = await enter(store)
    await put(store)
    await settle(store, await take(store, node))
    await store.nodes.leave(node, NOW)
    assert await store.jobs.orphaned(after(days=9), 10) == []
    assert await store.jobs.overdue(after(days=9), 10) == []


async def test_a_result_with_thousands_of_digits_does_not_hide_its_job(store: Store) -> None:
    """Python writes such a number and refuses to read it."""
    (job_id,) = await put(store)
    await settle(store, await take(store, await enter(store)), Succeeded("[1, " + "9" * 5000 + "]"))
    (first, last) = (await see(store, job_id)).result
    assert (first, str(last)) == (1, "9" * 5000)
    assert [job.id for job in await store.jobs.find(JobFilter())] == [job_id]
