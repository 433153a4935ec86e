"""Schedules whose jobs have a key: at most one unfinished job has it, whoever makes the job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncue.model import Decided, Schedule, Step
from oncue.store.contract import Store
from tests.store.scene import a_batch, all_slots, at, enter, find, plan, put, see, settle, states, take

KEY = "community:7"


def fires(schedule: Schedule, job_id: int, verdict: Any = "fired") -> Step:
    decided = [Decided(at(1), verdict, None, job_id)]
    return Step(schedule.id, schedule.version, at(1), at(2), decided, schedule.key)


@pytest.mark.contract("QUE-3")
async def test_the_job_of_a_slot_has_the_key_of_its_schedule(store: Store) -> None:
    schedule = await plan(store, key=KEY)
    (job_id,) = await store.jobs.reserve(1)
    assert await store.slots.decide([fires(schedule, job_id)], at(1), by="tests") == [True]
    assert (await see(store, job_id)).key == KEY
    (receipt,) = await store.jobs.enqueue([a_batch(keys=[KEY])])
    assert (receipt.id, receipt.created) == (job_id, False)


@pytest.mark.contract("QUE-3")
@pytest.mark.parametrize("verdict", ["fired", "manual"])
async def test_while_the_key_is_held_a_step_that_makes_a_job_is_refused_whole(store: Store, verdict: str) -> None:
    node = await enter(store)
    (holder,) = await put(store, keys=[KEY])
    await put(store, task="another", keys=[KEY])
    schedule, free = await plan(store, key=KEY), await plan(store, "free", key="community:8")
    (due, _) = await store.slots.due(at(1), 10)
    assert (due.key, due.holder) == (KEY, holder)
    ids = await store.jobs.reserve(2)
    steps = [fires(schedule, ids[0], verdict), fires(free, ids[1], verdict)]
    assert await store.slots.decide(steps, at(1), by="tests") == [False, True]
    assert await all_slots(store, schedule) == []
    assert await store.jobs.get(ids[0]) is None
    stands = await find(store)
    assert (stands.version, stands.cursor, stands.last_run_at) == (schedule.version, schedule.cursor, None)
    await settle(store, await take(store, node))
    assert await states(store, [holder]) == ["succeeded"]
    assert await store.slots.decide([fires(schedule, ids[0], verdict)], at(1), by="tests") == [True]


@pytest.mark.contract("QUE-3", "SLOT-5")
async def test_a_skipped_slot_needs_no_free_key(store: Store) -> None:
    (holder,) = await put(store, keys=[KEY])
    schedule = await plan(store, key=KEY)
    told = Decided(at(1), "skipped", "key_held", blocked_by=holder)
    step = Step(schedule.id, schedule.version, at(1), at(2), [told], schedule.key)
    assert await store.slots.decide([step], at(1), by="tests") == [True]
    (slot,) = await all_slots(store, schedule)
    assert (slot.verdict, slot.reason, slot.blocked_by, slot.job_id) == ("skipped", "key_held", holder, None)
    assert (await find(store)).last_run_at is None


@pytest.mark.contract("QUE-3")
async def test_callers_and_schedules_at_the_same_moment_make_one_job(store: Store) -> None:
    for number in range(10):
        key = f"community:{number}"
        schedule = await plan(store, f"report-{number}", key=key)
        (job_id,) = await store.jobs.reserve(1)
        batch = a_batch(keys=[key])
        took, (receipt,) = await asyncio.gather(
            store.slots.decide([fires(schedule, job_id)], at(1), by="tests"), store.jobs.enqueue([batch])
        )
        assert took == [not receipt.created]
        assert receipt.id == (batch.ids[0] if receipt.created else job_id)
        assert len(await all_slots(store, schedule)) == sum(took)
