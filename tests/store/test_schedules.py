"""Schedules as they are kept: written only by whoever knows what stands, and read back exactly."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import Any

import pytest

from oncue.errors import StoreRefused
from oncue.model import Decided, Revised, Schedule
from oncue.store import Store
from tests.store.scene import NOW, a_revision, a_schedule, after, all_slots, at, before, find, fire, plan

HAIR = timedelta(microseconds=1)


def changed(current: Schedule, revised: bool = True, **fields: Any) -> Revised:
    """The next version of a schedule."""
    number = current.revision + revised
    schedule = dataclasses.replace(current, version=current.version + 1, revision=number, **fields)
    return Revised(schedule, current.version, a_revision(schedule) if revised else None)


async def test_a_schedule_is_read_as_it_was_written(store: Store) -> None:
    wanted = a_schedule(
        "täglich · 日報 'quoted' \"twice\" %s :name $1",
        description="x" * 900 + "ß\n\t\\",
        args=json.dumps({"für": ["日本", 1.5, None], "nul": "\x00"}),
        queue="pöst",
        priority=100,
        expression="0 3 * * *",
        tz="Europe/Berlin",
        missed="each",
        grace=300.000001,
        max_instances=1000,
        max_retries=0,
        max_runtime=0.25,
        deadline=86_400.5,
        declared_by="shop",
        reason="because",
        started_at=NOW + HAIR,
        cursor=before(days=1) - HAIR,
        next_run_at=after(seconds=1) + HAIR,
        last_run_at=NOW + 999_999 * HAIR,
        horizon=before(days=400) + HAIR,
        created_by="a person",
        created_at=NOW + 2 * HAIR,
        updated_at=NOW + 3 * HAIR,
    )
    assert await store.schedules.revise([Revised(wanted, 0, a_revision(wanted))], NOW) == [True]
    found = await find(store, wanted.name)
    assert found == dataclasses.replace(wanted, id=found.id)
    assert found.id > 0


async def test_what_may_be_absent_is_read_as_absent(store: Store) -> None:
    nothing = {"max_runtime": None, "deadline": None, "next_run_at": None, "enabled": False, "description": ""}
    found = await plan(store, **nothing)
    assert found == dataclasses.replace(a_schedule(**nothing), id=found.id)
    assert await store.schedules.get("another") is None


@pytest.mark.parametrize("grace", [0.0, 0.000001, 300.0, 86_400.0 * 366 + 0.1])
async def test_a_grace_is_kept_exactly(store: Store, grace: float) -> None:
    found = await plan(store, grace=grace)
    assert found.grace == grace
    assert [due.grace for due in await store.slots.due(at(1), 10)] == [timedelta(seconds=grace)]
    assert [revision.grace for revision in await store.schedules.revisions(found.id)] == [grace]


async def test_a_name_is_created_once(store: Store) -> None:
    first = await plan(store)
    wanted = a_schedule(task="other")
    assert await store.schedules.revise([Revised(wanted, 0, a_revision(wanted))], NOW) == [False]
    assert await store.schedules.page() == [first]
    assert len(await store.schedules.revisions(first.id)) == 1


@pytest.mark.contract("SLOT-3")
@pytest.mark.parametrize("known", [1, 2, 4, 99])
async def test_a_change_by_somebody_who_has_not_seen_the_last_one_changes_nothing(store: Store, known: int) -> None:
    current = await plan(store)
    for _ in range(2):
        assert await store.schedules.revise([changed(current, False)], NOW) == [True]
        current = await find(store)
    assert current.version == 3
    stale = changed(dataclasses.replace(current, version=known), task="other")
    stale = stale._replace(decided=[Decided(at(1), "missed", "edited")])
    assert await store.schedules.revise([stale], NOW) == [False]
    assert await find(store) == current
    assert len(await store.schedules.revisions(current.id)) == 1
    assert await all_slots(store, current) == []


async def test_a_change_writes_the_schedule_its_revision_and_the_slots_that_it_gives_up_on(store: Store) -> None:
    first = await plan(store)
    change = changed(first, task="other", started_at=at(9), cursor=at(9), next_run_at=at(10))
    lost = [Decided(at(1), "missed", "edited", until=at(5), slots=5), Decided(at(7), "missed", "edited")]
    assert await store.schedules.revise([change._replace(decided=lost)], at(9)) == [True]
    second = await find(store)
    assert second == change.schedule
    assert [(row.revision, row.task, row.started_at) for row in await store.schedules.revisions(first.id)] == [
        (1, "send", NOW),
        (2, "other", at(9)),
    ]
    slots = await all_slots(store, first)
    assert [(s.scheduled_for, s.until, s.slots, s.verdict, s.reason) for s in slots] == [
        (at(1), at(5), 5, "missed", "edited"),
        (at(7), None, 1, "missed", "edited"),
    ]
    assert {(s.revision, s.decided_at, s.job_id, s.decided_by, s.epoch) for s in slots} == {
        (1, at(9), None, None, None)
    }


async def test_a_slot_that_stands_is_left_alone_by_a_change_that_gives_up_on_it(store: Store) -> None:
    schedule = await plan(store)
    (job_id,) = await fire(store, schedule, at(1))
    change = changed(await find(store))._replace(decided=[Decided(at(n), "missed", "edited") for n in (1, 2)])
    assert await store.schedules.revise([change], at(9)) == [True]
    assert [(s.verdict, s.job_id) for s in await all_slots(store, schedule)] == [("fired", job_id), ("missed", None)]


async def test_a_change_of_what_is_no_term_makes_no_revision(store: Store) -> None:
    schedule = await plan(store)
    assert await store.schedules.revise([changed(schedule, False, description="new words")], NOW) == [True]
    found = await find(store)
    assert (found.description, found.version, found.revision) == ("new words", 2, 1)
    assert [revision.revision for revision in await store.schedules.revisions(schedule.id)] == [1]


async def test_each_of_several_changes_is_judged_by_itself(store: Store) -> None:
    one, two = await plan(store, "one"), await plan(store, "two")
    assert await store.schedules.revise([changed(one, False)], NOW) == [True]
    new = a_schedule("three")
    changes = [changed(one, task="x"), changed(two, task="y"), Revised(new, 0, a_revision(new)), changed(two, task="z")]
    assert await store.schedules.revise(changes, NOW) == [False, True, True, False]
    tasks = {schedule.name: schedule.task for schedule in await store.schedules.page()}
    assert tasks == {"one": "send", "two": "y", "three": "send"}


async def test_a_change_that_the_database_refuses_leaves_nothing_behind_and_ends_its_batch(store: Store) -> None:
    one = await plan(store, "one")
    wrong = changed(one, max_instances=0)._replace(decided=[Decided(at(1), "missed", "edited")])
    with pytest.raises(StoreRefused):
        await store.schedules.revise([wrong, changed(one, task="x")], NOW)
    assert await store.schedules.page() == [one]
    assert len(await store.schedules.revisions(one.id)) == 1
    assert await all_slots(store, one) == []


@pytest.mark.contract("SLOT-3")
async def test_a_tombstone_keeps_the_name_and_its_revival_keeps_the_id_and_the_slots(store: Store) -> None:
    first = await plan(store)
    (job_id,) = await fire(store, first, at(1))
    first = await find(store)
    gone = changed(first, enabled=False, reason="deleted", deleted_at=at(2), next_run_at=None)
    assert await store.schedules.revise([gone], at(2)) == [True]
    assert await store.schedules.page() == []
    assert await store.schedules.declared() == []
    assert await store.slots.due(at(99), 10) == []
    assert await find(store) == gone.schedule

    new = a_schedule()
    assert await store.schedules.revise([Revised(new, 0, a_revision(new))], at(3)) == [False]

    back = changed(await find(store), enabled=True, reason=None, deleted_at=None, cursor=at(4), next_run_at=at(5))
    assert await store.schedules.revise([back], at(4)) == [True]
    assert await store.schedules.page() == [back.schedule]
    assert back.schedule.id == first.id
    assert [slot.job_id for slot in await all_slots(store, first)] == [job_id]
    assert [revision.revision for revision in await store.schedules.revisions(first.id)] == [1, 2, 3]


async def test_schedules_are_listed_by_name_page_by_page(store: Store) -> None:
    names = [f"job{number:02}" for number in (7, 3, 9, 1, 5, 2, 8, 4, 6, 0)]
    for name in names:
        await plan(store, name)
    await store.schedules.revise([changed(await find(store, "job04"), deleted_at=NOW)], NOW)
    listed: list[str] = []
    while page := await store.schedules.page(listed[-1] if listed else "", 4):
        assert len(page) <= 4
        listed += [schedule.name for schedule in page]
    assert listed == [name for name in sorted(names) if name != "job04"]


async def test_schedules_are_listed_by_their_next_slot_page_by_page(store: Store) -> None:
    """Two are due together; one has no slot to come."""
    for name, minutes in (("late", 9), ("b", 5), ("a", 5), ("never", None)):
        await plan(store, name, next_run_at=None if minutes is None else at(minutes))
    assert [one.name for one in await store.schedules.coming(9)] == ["b", "a", "late"]
    first, *_ = await store.schedules.coming(1)
    assert first.next_run_at is not None
    rest = await store.schedules.coming(9, (first.next_run_at, first.id))
    assert [one.name for one in rest] == ["a", "late"]


async def test_what_code_declared_is_found(store: Store) -> None:
    await plan(store, "by hand")
    await plan(store, "b", declared_by="shop")
    await plan(store, "a", declared_by="shop", enabled=False, next_run_at=None)
    await plan(store, "d", declared_by="shop", deleted_at=NOW, next_run_at=None)
    assert [schedule.name for schedule in await store.schedules.declared()] == ["a", "b"]


async def test_revisions_are_read_as_they_were_written_oldest_first(store: Store) -> None:
    schedule = await plan(store, args=json.dumps({"für": 1}), grace=0.5, reason="ä")
    for number in range(2, 13):
        schedule = await find(store)
        change = changed(schedule, priority=number, enabled=number % 2 == 0, started_at=at(number))
        assert await store.schedules.revise([change], at(number)) == [True]
    found = await store.schedules.revisions(schedule.id)
    assert [revision.revision for revision in found] == list(range(1, 13))
    assert found[-1] == a_revision(await find(store))
    assert found[0].enabled is True
    assert await store.schedules.revisions(schedule.id + 1) == []
    numbers = [one.revision for one in found]
    last = await store.schedules.revisions(schedule.id, limit=1)
    assert [one.revision for one in last] == numbers[-1:]
    earlier = await store.schedules.revisions(schedule.id, before=numbers[-1], limit=100)
    assert [one.revision for one in earlier] == numbers[:-1]
