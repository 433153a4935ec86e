"""What has waited past its time is found, exactly, and ended by a write that a claim may win against."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from oncue.model import Decided, JobFilter, Released, Skipped
from oncue.policy import lifecycle
from oncue.store import PostgresStore, Store
from tests.store.scene import BROKEN, NOW, a_step, after, at, before, enter, find, fire, plan, put, see, settle, take
from tests.store.test_plans import MOSTLY_FINISHED, explained, nodes

SOON = timedelta(microseconds=1)


async def expired(store: Store, now: datetime = NOW, limit: int = 100, **more: Any) -> list[int]:
    return [job.id for job in await store.jobs.expired(now, limit, **more)]


async def end(store: Store, now: datetime = NOW) -> list[bool]:
    """What the leader does."""
    changes = [lifecycle.expire(job, now) for job in await store.jobs.expired(now, 100)]
    assert None not in changes
    return await store.jobs.apply([change for change in changes if change is not None], now)


async def test_what_waits_past_its_deadline_is_found_in_every_state_of_waiting(store: Store) -> None:
    node = await enter(store)
    (retrying,) = await put(store, deadline_at=after(minutes=1))
    await settle(store, await take(store, node), BROKEN)
    (running,) = await put(store, deadline_at=after(minutes=1))
    await take(store, node)
    (queued,) = await put(store, deadline_at=after(minutes=1))
    (scheduled,) = await put(store, deadline_at=after(minutes=1), state="scheduled", visible_at=after(days=1))
    (longer,) = await put(store, deadline_at=after(minutes=2))
    await put(store)
    assert await expired(store, after(minutes=1) - SOON) == []
    assert await expired(store, after(minutes=1)) == sorted([retrying, queued, scheduled])
    assert await expired(store, after(minutes=1), among=[queued, running, longer]) == [queued]
    assert await expired(store, after(minutes=1), among=[]) == []

    assert await end(store, after(minutes=1)) == [True] * 3
    assert await expired(store, after(minutes=1)) == []
    job = await see(store, retrying)
    assert (job.state, job.reason, job.attempt, job.error) == ("skipped", "deadline", 1, "it broke")
    assert (job.finished_at, job.started_at, job.deadline_at) == (after(minutes=1), None, after(minutes=1))
    (queue,) = await store.queues.all()
    assert (queue.skipped, queue.running, queue.queued) == (3, 1, 2)


@pytest.mark.contract("SLOT-10")
async def test_grace_is_about_the_first_attempt(store: Store) -> None:
    node, schedule = await enter(store), await plan(store, grace=60.0, max_instances=9)
    waiting, begun, given_back = await fire(store, schedule, at(1), at(2), at(3))
    claims = {claim.id: claim for claim in await take(store, node)}
    await settle(store, [claims[begun]], BROKEN)
    await settle(store, [claims[waiting], claims[given_back]], Released(), started=False)
    assert await expired(store, at(2)) == []
    assert await expired(store, at(2) + SOON) == [waiting]
    assert await expired(store, at(9)) == [waiting, given_back]
    assert await expired(store, at(9), among=[begun, given_back]) == [given_back]
    await end(store, at(9))
    assert [(await see(store, job)).reason for job in (waiting, begun, given_back)] == ["misfire", None, "misfire"]
    assert await store.slots.unfinished(schedule.id, 9) == [begun]


async def test_what_is_parked_waits_for_its_turn_and_its_deadline_too(store: Store) -> None:
    schedule = await plan(store, deadline=60.0)
    ids = await store.jobs.reserve(2)
    decided = [Decided(at(-number), "manual", None, job) for number, job in enumerate(ids, 1)]
    step = a_step(await find(store), *decided, cursor=NOW)
    assert await store.slots.decide([step], NOW, by="ada", parked=True) == [True]
    assert await expired(store, after(days=1)) == await expired(store, after(days=1), among=ids) == []
    assert await store.slots.release_parked(after(days=1), 10) == 1
    assert await expired(store, after(days=1, seconds=59)) == []
    assert len(await expired(store, after(days=1, seconds=60))) == 1
    assert len(await store.slots.unfinished(schedule.id, 9)) == 1


async def test_a_look_is_bounded_and_takes_the_earliest_of_each_kind(store: Store) -> None:
    schedule = await plan(store, grace=1.0, max_instances=50)
    late = await put(store, 6, deadline_at=before(hours=1))
    later = await put(store, 6, deadline_at=before(minutes=1))
    slots = await fire(store, schedule, *(at(number) for number in range(-12, -6)), now=NOW)
    assert await expired(store) == sorted([*late, *later, *slots])
    assert len(await expired(store, limit=5)) == 5
    assert set(await expired(store, limit=6)) <= {*late, *slots}
    assert len(await expired(store, limit=5, among=late)) == 5


async def test_a_claim_that_comes_first_wins(store: Store) -> None:
    node = await enter(store)
    await put(store, deadline_at=before(minutes=1))
    (job,) = await store.jobs.expired(NOW, 10)
    change = lifecycle.expire(job, NOW)
    assert change is not None
    (claim,) = await take(store, node)
    assert await store.jobs.apply([change], NOW) == [False]
    assert await settle(store, [claim], Skipped("deadline"), started=False) == [True]
    assert await store.jobs.apply([change], NOW) == [False]
    assert [job.state for job in await store.jobs.find(JobFilter())] == ["skipped"]


async def test_a_job_that_is_started_over_has_its_time_again(store: Store) -> None:
    (job_id,) = await put(store, created_at=before(hours=1), deadline_at=before(minutes=30))
    await end(store)
    change = lifecycle.revive(await see(store, job_id), NOW)
    assert change is not None
    await store.jobs.apply([change], NOW)
    assert await expired(store, after(minutes=30) - SOON) == []
    assert await expired(store, after(minutes=30)) == [job_id]


async def test_a_look_reads_no_more_than_it_finds(postgres_store: PostgresStore, postgres_url: str) -> None:
    """Beside many finished jobs that had a deadline, and as many that wait and have time yet."""
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(MOSTLY_FINISHED)
        await put(postgres_store, 3000, deadline_at=after(days=1))
        for about in ("fresh", "analysed"):
            for found in (0, 3):
                if found:
                    await put(postgres_store, found, deadline_at=before(days=1))
                plan = await explained(connection, "expired", [NOW, 1000], "analyze,")
                read = [part["Actual Rows"] + part.get("Rows Removed by Filter", 0) for part in nodes(plan)]
                assert max(read) <= 6, about
            await connection.execute("analyze")
    finally:
        await connection.close()
