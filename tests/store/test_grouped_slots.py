"""Schedules with a group: whatever makes or releases a job of a slot also wakes its group."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from oncue.model import Claim, Decided, Note, Schedule, Step
from oncue.store import Store
from tests.store.scene import BROKEN, a_step, at, enter, find, fire, plan, put, query, see, settle, take

QUEUE, GROUP = "mail", "tenant"


async def plan_grouped(store: Store, name: str = "report", **fields: Any) -> Schedule:
    return await plan(store, name, **{"queue": QUEUE, "group": GROUP, "max_instances": 9, **fields})


async def taken(store: Store, node: UUID, now: datetime) -> list[Claim]:
    await store.groups.wake([QUEUE], 1000, now)
    return await store.groups.claim(node, [QUEUE], ["send"], 100, now)


async def told(store: Store) -> list[tuple[Any, ...]]:
    return sorted(await query(store, "select queue, name from oncue_group_wakeups where has_job"))


def plain(schedule: Schedule, ids: Sequence[int]) -> Step:
    return a_step(schedule, Decided(at(1), "fired", None, ids[0]))


def varied(schedule: Schedule, ids: Sequence[int]) -> Step:
    return a_step(schedule, Decided(at(1), "fired", None, ids[0]), Decided(at(2), "manual", "trigger", ids[1]))


@pytest.mark.parametrize("step", [plain, varied])
@pytest.mark.parametrize("options", [{}, {"past_locks": True}, {"notes": [Note("ada", "run", "x", None, None)]}])
async def test_a_slots_job_is_claimed_in_the_turn_of_its_group(
    store: Store, step: Any, options: dict[str, Any]
) -> None:
    node, schedule = await enter(store), await plan_grouped(store)
    decision = step(schedule, await store.jobs.reserve(2))
    ids = [decided.job_id for decided in decision.decided]
    assert await store.slots.decide([decision], at(3), by="tests", **options) == [True]
    assert [(await see(store, job_id)).group for job_id in ids] == [GROUP] * len(ids)
    assert await take(store, node, queues=[QUEUE], now=at(3)) == [], "it belongs to a group"
    assert [(claim.id, claim.group) for claim in await taken(store, node, at(3))] == [(job, GROUP) for job in ids]


async def test_one_decision_of_many_schedules_wakes_each_group_once(store: Store) -> None:
    groups = ["a", "b", "a", None, "b", "c"]
    schedules = [await plan_grouped(store, f"s{n}", group=group) for n, group in enumerate(groups)]
    ids = await store.jobs.reserve(len(groups))
    steps = [plain(schedule, [job_id]) for schedule, job_id in zip(schedules, ids, strict=True)]
    assert await store.slots.decide(steps, at(1), by="tests") == [True] * len(groups)
    assert await told(store) == [(QUEUE, "a"), (QUEUE, "b"), (QUEUE, "c")]
    assert [(await see(store, job_id)).group for job_id in ids] == groups


async def test_what_is_refused_and_what_makes_no_job_wakes_no_group(store: Store) -> None:
    schedule = await plan_grouped(store)
    stale = plain(schedule, await store.jobs.reserve(1))._replace(version=7)
    assert await store.slots.decide([stale], at(1), by="tests") == [False]
    skipped = a_step(schedule, Decided(at(1), "skipped", "max_instances"))
    assert await store.slots.decide([skipped], at(1), by="tests") == [True]
    assert await told(store) == []


async def test_parked_jobs_wake_their_group_when_they_are_released(store: Store) -> None:
    node, schedule = await enter(store), await plan_grouped(store, max_instances=2)
    plain_one = await plan(store, "plain")
    ids = await fire(store, schedule, at(1), at(2), at(3), now=at(9), parked=True)
    await fire(store, plain_one, at(1), now=at(9), parked=True)
    assert await told(store) == []
    assert await taken(store, node, at(9)) == []
    assert await store.slots.release_parked(at(10), 100) == 3
    assert await told(store) == [(QUEUE, GROUP)]
    first = await taken(store, node, at(10))
    assert [claim.id for claim in first] == ids[:2]
    await settle(store, first, at=at(11))
    assert await store.slots.release_parked(at(11), 100) == 1
    assert [claim.id for claim in await taken(store, node, at(11))] == ids[2:]


async def test_a_slot_that_runs_again_stays_in_its_group(store: Store) -> None:
    node, schedule = await enter(store), await plan_grouped(store, max_retries=0)
    (job_id,) = await fire(store, schedule, at(1))
    await settle(store, await taken(store, node, at(1)), BROKEN, at=at(2))
    (again,) = await store.jobs.reserve(1)
    job, schedule = await see(store, job_id), await find(store)
    assert await store.slots.rerun(schedule, job, again, at(3), by="tests")
    assert [(claim.id, claim.group) for claim in await taken(store, node, at(3))] == [(again, GROUP)]


async def test_without_groups_nothing_is_told(store: Store) -> None:
    schedule = await plan(store, max_instances=9)
    await fire(store, schedule, at(1))
    await fire(store, schedule, at(2), at(3))
    await fire(store, schedule, at(4), parked=True)
    await store.slots.release_parked(at(5), 10)
    await put(store)
    assert await query(store, "select * from oncue_group_wakeups") == []
