"""Slots are decided once: ledger, jobs, cursor and version move together or not at all."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from oncue.errors import Conflict
from oncue.model import (
    PARKED,
    Cancelled,
    Change,
    Decided,
    Failed,
    Job,
    JobFilter,
    Outcome,
    Revised,
    Schedule,
    Skipped,
    Slot,
    Step,
    Succeeded,
)
from oncue.policy import lifecycle
from oncue.policy.options import Options
from oncue.store import Store
from tests.store.scene import (
    BROKEN,
    NOW,
    OPTIONS,
    a_revision,
    a_schedule,
    a_step,
    after,
    all_slots,
    as_stored,
    at,
    before,
    enter,
    find,
    fire,
    lead,
    plan,
    put,
    query,
    see,
    settle,
    smuggle,
    states,
    take,
    the_slot,
)

HAIR = timedelta(microseconds=1)


async def jobs(store: Store) -> list[int]:
    """Every job there is, oldest first."""
    return [job.id for job in reversed(await store.jobs.find(JobFilter(limit=10_000)))]


async def untouched(store: Store, schedule: Schedule) -> bool:
    """Whether nothing has come of an attempt to decide."""
    return (await find(store, schedule.name), await all_slots(store, schedule), await jobs(store)) == (schedule, [], [])


def plain(schedule: Schedule, job_id: int) -> Step:
    """What nearly every step is: one slot fires."""
    return a_step(schedule, Decided(at(1), "fired", None, job_id))


def varied(schedule: Schedule, job_id: int) -> Step:
    """A step that is not plain."""
    return a_step(schedule, Decided(at(1), "fired", None, job_id), Decided(at(2), "skipped", "max_instances"))


KINDS = pytest.mark.parametrize("step", [plain, varied])


# --- deciding -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-3", "SLOT-4")
@KINDS
async def test_a_decision_makes_slot_and_job_and_moves_the_schedule(store: Store, step: Any) -> None:
    schedule = await plan(store)
    (job_id,) = await store.jobs.reserve(1)
    decision = step(schedule, job_id)
    assert await store.slots.decide([decision], at(2.5), by="tests") == [True]
    assert await find(store) == dataclasses.replace(
        schedule, version=2, cursor=decision.cursor, next_run_at=decision.next_run_at, last_run_at=at(2.5)
    )
    assert (await all_slots(store, schedule))[0] == Slot(
        schedule_id=schedule.id, scheduled_for=at(1), until=None, slots=1, verdict="fired", reason=None, job_id=job_id,
        blocked_by=None, revision=1, decided_at=at(2.5), decided_by=None, epoch=None, state="queued", state_reason=None,
        started_at=None, finished_at=None, worker=None, error=None,
    )  # fmt: skip
    assert await jobs(store) == [job_id]


@pytest.mark.contract("SLOT-3", "SLOT-4", "SLOT-10")
@KINDS
async def test_a_job_carries_what_its_schedule_says(store: Store, step: Any) -> None:
    options = dataclasses.replace(Options(), timeout=7.0).stored()
    schedule = await plan(
        store, task="brief", args=json.dumps({"für": "ß"}), queue="pöst", priority=42, options=options, max_retries=7,
        max_runtime=12.5, deadline=3600.000001, grace=90.000001,
    )  # fmt: skip
    (job_id,) = await store.jobs.reserve(1)
    now = at(1) + 5 * HAIR
    assert await store.slots.decide([step(schedule, job_id)], now, by="the author") == [True]
    job = await see(store, job_id)
    assert (job.task, job.args, job.queue, job.priority, job.options) == ("brief", {"für": "ß"}, "pöst", 42, options)
    assert (job.max_retries, job.max_runtime, job.deadline_at) == (7, 12.5, now + timedelta(seconds=3600.000001))
    assert (job.schedule_id, job.scheduled_for) == (schedule.id, at(1))
    assert job.start_by == at(1) + timedelta(seconds=90.000001)
    assert (job.state, job.enqueued_by, job.key, job.retry_of) == ("queued", "the author", None, None)
    assert {job.created_at, job.updated_at, job.order_at, job.visible_at} == {now}
    (claim,) = await take(store, await enter(store), queues=["pöst"], tasks=["brief"], now=now)
    assert (claim.scheduled_for, claim.start_by, claim.options) == (job.scheduled_for, job.start_by, options)


@pytest.mark.contract("SLOT-10")
async def test_only_what_fired_has_to_start_within_its_grace(store: Store) -> None:
    schedule = await plan(store)
    one, two = await store.jobs.reserve(2)
    step = a_step(schedule, Decided(at(1), "manual", "trigger", one), Decided(at(2), "fired", None, two))
    assert await store.slots.decide([step], at(2), by="tests") == [True]
    assert (await see(store, one)).start_by is None
    assert (await see(store, two)).start_by == at(2) + timedelta(seconds=300)


async def test_absent_limits_stay_absent(store: Store) -> None:
    schedule = await plan(store, max_runtime=None, deadline=None)
    one, two = [*await fire(store, schedule, at(1)), *await fire(store, schedule, at(2), at(3))][:2]
    for job_id in (one, two):
        job = await see(store, job_id)
        assert (job.max_runtime, job.deadline_at, job.run_until) == (None, None, None)


@pytest.mark.contract("SLOT-3", "SLOT-5")
@KINDS
@pytest.mark.parametrize("known", [0, 1, 3])
async def test_a_stale_version_makes_neither_slot_nor_job(store: Store, step: Any, known: int) -> None:
    schedule = await plan(store, version=2)
    (job_id,) = await store.jobs.reserve(1)
    stale = step(schedule, job_id)._replace(version=known)
    assert await store.slots.decide([stale], at(1), by="tests") == [False]
    assert await untouched(store, schedule)


@KINDS
async def test_a_schedule_that_does_not_exist_has_no_slots(store: Store, step: Any) -> None:
    schedule = await plan(store)
    (job_id,) = await store.jobs.reserve(1)
    strange = step(schedule, job_id)._replace(schedule_id=schedule.id + 1)
    assert await store.slots.decide([strange], at(1), by="tests") == [False]
    assert await untouched(store, schedule)
    assert await query(store, "select * from oncue_slots") == []


@pytest.mark.contract("SLOT-3")
@KINDS
async def test_each_schedule_of_a_batch_is_judged_by_itself(store: Store, step: Any) -> None:
    schedules = [await plan(store, f"job{n}") for n in range(5)]
    ids = await store.jobs.reserve(5)
    stale = {1, 3}
    steps = [
        step(schedule, job_id)._replace(version=99 if n in stale else 1)
        for n, (schedule, job_id) in enumerate(zip(schedules, ids, strict=True))
    ]
    # The order of the answers is that of the steps, whatever the order of their ids.
    assert await store.slots.decide(steps[::-1], at(1), by="tests") == [True, False, True, False, True]
    assert await jobs(store) == [job_id for n, job_id in enumerate(ids) if n not in stale]
    for n, schedule in enumerate(schedules):
        assert len(await all_slots(store, schedule)) == (0 if n in stale else len(steps[0].decided))
        assert (await find(store, schedule.name)).version == (1 if n in stale else 2)


@pytest.mark.contract("SLOT-3")
@KINDS
async def test_each_job_of_a_batch_belongs_to_its_own_schedule(store: Store, step: Any) -> None:
    schedules = [await plan(store, f"job{n}", args=f'{{"n":{n}}}', priority=n) for n in range(9)]
    ids = await store.jobs.reserve(9)
    pairs = list(zip(schedules, ids, strict=True))
    assert all(await store.slots.decide([step(*pair) for pair in pairs[4:] + pairs[:4]], at(1), by="tests"))
    for n, (schedule, job_id) in enumerate(pairs):
        job = await see(store, job_id)
        assert (job.schedule_id, job.args, job.priority) == (schedule.id, {"n": n}, n)
        assert (await the_slot(store, schedule, at(1))).job_id == job_id


@pytest.mark.contract("SLOT-3")
@KINDS
async def test_a_slot_that_is_there_already_makes_no_job_and_the_rest_goes_through(store: Store, step: Any) -> None:
    schedules = [await plan(store, f"job{n}") for n in range(3)]
    await smuggle(store, schedules[1], at(1))
    ids = await store.jobs.reserve(3)
    steps = [step(schedule, job_id) for schedule, job_id in zip(schedules, ids, strict=True)]
    assert await store.slots.decide(steps, at(1), by="tests") == [True] * 3
    assert await jobs(store) == [ids[0], ids[2]]
    standing = await the_slot(store, schedules[1], at(1))
    assert (standing.verdict, standing.reason, standing.job_id) == ("skipped", "smuggled", None)
    assert (await find(store, "job1")).cursor == steps[1].cursor, "it is past that slot"
    assert await store.slots.due(at(1.5), 10) == []


@pytest.mark.contract("SLOT-3")
@KINDS
async def test_the_same_slot_is_never_decided_again(store: Store, step: Any) -> None:
    schedule = await plan(store)
    first, second = await store.jobs.reserve(2)
    assert await store.slots.decide([step(schedule, first)], at(1), by="tests") == [True]
    again = step(await find(store), second)
    assert await store.slots.decide([again], at(3), by="tests") == [True]
    assert await jobs(store) == [first]
    assert (await the_slot(store, schedule, at(1))).job_id == first


@pytest.mark.contract("SLOT-16")
@KINDS
async def test_a_deposed_leader_writes_nothing_at_all(store: Store, step: Any) -> None:
    schedules = [await plan(store, f"job{n}") for n in range(2)]
    old, new = await enter(store, "old"), await enter(store, "new")
    epoch = (await lead(store, old)).epoch
    (job_id,) = await store.jobs.reserve(1)
    steps = [step(schedules[0], job_id), a_step(schedules[1], cursor=at(1))]

    later = (await lead(store, new, now=after(seconds=15))).epoch
    assert later > epoch
    for node, claimed in [(old, epoch), (old, later), (new, epoch), (new, later + 1), (uuid4(), later), (None, later)]:
        assert await store.slots.decide(steps, at(1), by="tests", node=node, epoch=claimed) == [False, False]
    assert [await untouched(store, schedule) for schedule in schedules] == [True, True]

    assert await store.slots.decide(steps, at(1), by="tests", node=new, epoch=later) == [True, True]
    slot = await the_slot(store, schedules[0], at(1))
    assert (slot.job_id, slot.decided_by, slot.epoch) == (job_id, new, later)


@KINDS
async def test_without_any_leader_an_epoch_is_worth_nothing(store: Store, step: Any) -> None:
    schedule = await plan(store)
    (job_id,) = await store.jobs.reserve(1)
    assert await store.slots.decide([step(schedule, job_id)], at(1), by="tests", node=uuid4(), epoch=1) == [False]
    assert await untouched(store, schedule)


async def test_a_run_of_slots_is_one_row(store: Store) -> None:
    schedule = await plan(store)
    (job_id,) = await store.jobs.reserve(1)
    decided = [
        Decided(at(1), "missed", "misfire", until=at(60), slots=60),
        Decided(at(61), "coalesced", "into the next", until=at(64), slots=4),
        Decided(at(65), "fired", None, job_id),
        Decided(at(66), "skipped", "max_instances", blocked_by=job_id),
    ]
    assert await store.slots.decide([a_step(schedule, *decided)], at(66), by="tests") == [True]
    rows = await all_slots(store, schedule)
    assert [
        Decided(s.scheduled_for, s.verdict, s.reason, s.job_id, s.blocked_by, s.until, s.slots) for s in rows
    ] == decided
    assert await jobs(store) == [job_id]


async def test_a_schedule_may_end_and_a_step_may_decide_nothing(store: Store) -> None:
    schedule = await plan(store)
    put_off = Step(schedule.id, 1, schedule.cursor, at(7), ())
    assert await store.slots.decide([put_off], at(1), by="tests") == [True]
    assert await find(store) == dataclasses.replace(schedule, version=2, next_run_at=at(7))
    (job_id,) = await store.jobs.reserve(1)
    last = Step(schedule.id, 2, at(7), None, [Decided(at(7), "fired", None, job_id)])
    assert await store.slots.decide([last], at(7), by="tests") == [True]
    assert (await find(store)).next_run_at is None
    assert await store.slots.next_run() is None


async def test_what_did_not_run_is_no_last_run(store: Store) -> None:
    schedule = await plan(store, last_run_at=before(days=1))
    assert await store.slots.decide([a_step(schedule, Decided(at(1), "missed", "misfire"))], at(9), by="tests") == [
        True
    ]
    assert (await find(store)).last_run_at == before(days=1)


async def test_a_fired_slot_with_something_to_say_keeps_it(store: Store) -> None:
    schedule = await plan(store)
    (job_id,) = await store.jobs.reserve(1)
    told = Decided(at(1), "fired", "late", job_id, blocked_by=7)
    assert await store.slots.decide([a_step(schedule, told)], at(1), by="tests") == [True]
    slot = await the_slot(store, schedule, at(1))
    assert (slot.reason, slot.blocked_by, slot.job_id) == ("late", 7, job_id)


async def test_deciding_nothing_is_nothing(store: Store) -> None:
    assert await store.slots.decide([], NOW, by="tests") == []


@pytest.mark.contract("SLOT-3")
async def test_an_id_that_is_taken_undoes_the_whole_decision(store: Store) -> None:
    schedules = [await plan(store, f"job{n}") for n in range(2)]
    (taken,) = await put(store)
    (free,) = await store.jobs.reserve(1)
    for step in (plain, varied):
        with pytest.raises(Exception, match=r"refused"):
            await store.slots.decide([step(schedules[0], free), step(schedules[1], taken)], at(1), by="tests")
    assert await jobs(store) == [taken]
    for schedule in schedules:
        assert await find(store, schedule.name) == schedule
        assert await all_slots(store, schedule) == []


@pytest.mark.contract("SLOT-10")
async def test_durations_are_seconds_whatever_the_clocks_do(store: Store) -> None:
    if store.dialect == "postgres":  # whose days have 23 hours where its own time zone says so
        await query(store, "do $$ begin execute format('alter database %I set timezone = %L', current_database(), "
                           "'Europe/Berlin'); end $$")  # fmt: skip
        await store.close()
        store.database.connections._closed = False  # type: ignore[attr-defined]
    try:
        eve = datetime.fromisoformat("2030-03-30T12:00:00+00:00")
        schedule = await plan(store, grace=86_400.0, deadline=86_400.0, max_runtime=86_400.0, cursor=eve)
        for slot, count in ((eve, 1), (eve + timedelta(minutes=1), 2)):
            (job_id, *_) = await fire(store, schedule, *(slot + n * HAIR for n in range(count)), now=eve)
            job = await see(store, job_id)
            assert (job.start_by, job.deadline_at) == (slot + timedelta(days=1), eve + timedelta(days=1))
        await take(store, await enter(store), now=eve)
        assert (await see(store, job_id)).run_until == eve + timedelta(days=1)
    finally:
        if store.dialect == "postgres":
            await query(store, "do $$ begin execute format('alter database %I reset timezone', current_database()); "
                               "end $$")  # fmt: skip


# --- what is due --------------------------------------------------------------------------------------------------


async def test_due_schedules_come_longest_waiting_first(store: Store) -> None:
    for name, minutes in (("b", 3), ("a", 1), ("d", 2), ("c", 2), ("later", 9)):
        await plan(store, name, next_run_at=at(minutes))
    await plan(store, "never", next_run_at=None)
    assert [due.name for due in await store.slots.due(at(3), 10)] == ["a", "d", "c", "b"]
    assert [due.name for due in await store.slots.due(at(3), 2)] == ["a", "d"]
    assert [due.name for due in await store.slots.due(at(2) - HAIR, 10)] == ["a"]
    assert await store.slots.due(NOW, 10) == []
    assert await store.slots.next_run() == at(1)


async def test_due_schedules_are_read_page_by_page_also_if_they_are_due_at_the_same_time(store: Store) -> None:
    for number in range(11):
        await plan(store, f"job{number:02}", next_run_at=at(1 + number // 4))
    seen: list[str] = []
    place = None
    while page := await store.slots.due(at(9), 3, place):
        seen += [due.name for due in page]
        place = (page[-1].next_run_at, page[-1].id)
    assert seen == [f"job{number:02}" for number in range(11)]


async def test_the_next_run_of_nothing_is_none(store: Store) -> None:
    assert await store.slots.next_run() is None
    await plan(store, enabled=False, next_run_at=None)
    assert await store.slots.next_run() is None


async def test_what_is_due_says_all_that_a_decision_needs(store: Store) -> None:
    schedule = await plan(
        store, tz="Asia/Tokyo", dst="all", missed="none", grace=1.5, max_instances=3, version=4, cursor=NOW + HAIR
    )
    (due,) = await store.slots.due(at(1), 10)
    assert due[:-4] == (
        *(schedule.id, "report", 4, NOW, NOW + HAIR, at(1), "* * * * *", "Asia/Tokyo", "all", "none"),
        *(timedelta(seconds=1.5), 3),
    )
    assert (list(due.unfinished), list(due.taken), due.key, due.holder) == ([], [], None, None)


@pytest.mark.contract("SLOT-5")
async def test_unfinished_are_the_jobs_of_the_schedule_that_are_not_finished(store: Store) -> None:
    schedule, other = await plan(store, max_instances=6), await plan(store, "other", max_instances=6)
    node = await enter(store)
    ids = await fire(store, schedule, *(at(n) for n in range(1, 7)))
    theirs = await fire(store, other, at(6))
    await put(store, created_at=at(9))
    claims = await take(store, node, 3)
    assert [claim.id for claim in claims] == ids[:3]
    await settle(store, claims[:1])
    await settle(store, claims[1:2], BROKEN)
    assert await states(store, ids) == ["succeeded", "retrying", "running", "queued", "queued", "queued"]
    assert sorted(await store.slots.unfinished(schedule.id, 100)) == ids[1:]
    assert [sorted(due.unfinished) for due in await store.slots.due(at(99), 10) if due.id == schedule.id] == [ids[1:]]
    assert await store.slots.unfinished(other.id, 100) == theirs
    assert await store.slots.unfinished(other.id + 1, 100) == []


@pytest.mark.contract("SLOT-5")
async def test_the_count_of_unfinished_jobs_ends_where_it_is_asked_to(store: Store) -> None:
    schedule = await plan(store, max_instances=2)
    ids = await fire(store, schedule, *(at(n) for n in range(1, 6)))
    assert await store.slots.unfinished(schedule.id, 3) == ids[:3]
    (due,) = await store.slots.due(at(99), 10)
    assert list(due.unfinished) == ids[:2]


@pytest.mark.contract("SLOT-5")
@pytest.mark.parametrize("outcome", [Succeeded(), Failed("x", final=True), Skipped("late"), Cancelled()])
async def test_a_finished_job_is_in_nobodys_way(store: Store, outcome: Outcome) -> None:
    schedule = await plan(store)
    await fire(store, schedule, at(1))
    await settle(store, await take(store, await enter(store)), outcome)
    assert await store.slots.unfinished(schedule.id, 9) == []
    assert [list(due.unfinished) for due in await store.slots.due(at(2), 9)] == [[]]


@pytest.mark.contract("SLOT-11")
async def test_slots_taken_by_hand_beyond_the_cursor_are_told(store: Store) -> None:
    schedule = await plan(store)
    ids = await store.jobs.reserve(4)
    moments = (before(minutes=5), at(2), at(4), at(9))
    decided = [Decided(slot, "manual", "trigger", job_id) for slot, job_id in zip(moments, ids, strict=True)]
    step = Step(schedule.id, 1, schedule.cursor, schedule.next_run_at, decided)
    assert await store.slots.decide([step], NOW, by="tests") == [True]
    (due,) = await store.slots.due(at(5), 9)
    assert (sorted(due.taken), due.cursor) == ([at(2), at(4)], NOW)


# --- parked jobs --------------------------------------------------------------------------------------------------


async def parked(store: Store, schedule: Schedule, *slots: datetime) -> list[int]:
    return await fire(store, schedule, *slots, now=at(100), parked=True)


async def finish(store: Store, now: datetime) -> list[int]:
    """Run all that can be claimed; in the order of their claims."""
    node = await enter(store, expires_at=after(days=999))
    await store.jobs.promote(now, 1000)
    claims = await take(store, node, now=now)
    await settle(store, claims, at=now)
    return [claim.id for claim in claims]


@pytest.mark.contract("SLOT-5")
async def test_parked_jobs_wait_and_are_in_nobodys_way(store: Store) -> None:
    schedule = await plan(store, deadline=60.0)
    ids = await parked(store, schedule, at(1), at(2))
    for job_id in ids:
        job = await see(store, job_id)
        assert (job.state, job.visible_at, job.order_at) == ("scheduled", PARKED, at(100))
    assert await store.slots.unfinished(schedule.id, 9) == []
    assert [list(due.unfinished) for due in await store.slots.due(at(200), 9)] == [[]]
    assert await finish(store, after(days=900)) == []
    assert await states(store, ids) == ["scheduled", "scheduled"]
    assert [slot.job_id for slot in await all_slots(store, schedule)] == ids


@pytest.mark.contract("SLOT-5")
async def test_parked_jobs_are_released_oldest_first_as_there_is_room(store: Store) -> None:
    schedule = await plan(store, max_instances=2)
    third, first, fifth, second, fourth = await parked(store, schedule, *(at(n) for n in (3, 1, 5, 2, 4)))
    ran = []
    for expected in (2, 2, 1, 0):
        assert await store.slots.release_parked(at(100), 100) == expected
        assert await store.slots.release_parked(at(100), 100) == 0, "there is no room until they are done"
        ran.append(sorted(await finish(store, at(100))))
    assert ran == [sorted([first, second]), sorted([third, fourth]), [fifth], []]


@pytest.mark.contract("SLOT-5")
async def test_what_is_released_is_due_at_once_and_counts(store: Store) -> None:
    schedule = await plan(store)
    first, _ = await parked(store, schedule, at(1), at(2))
    assert await store.slots.release_parked(at(101), 100) == 1
    job = await see(store, first)
    assert (job.state, job.visible_at, job.updated_at) == ("queued", at(101), at(101))
    assert await store.slots.unfinished(schedule.id, 9) == [first]
    assert await store.jobs.promote(at(101), 10) == PARKED
    assert [claim.id for claim in await take(store, await enter(store), now=at(101))] == [first]
    assert await store.slots.release_parked(at(101), 100) == 0, "it runs"


async def test_the_deadline_of_a_parked_job_counts_from_its_release(store: Store) -> None:
    schedule = await plan(store, deadline=60.0)
    (job_id,) = await parked(store, schedule, at(1))
    made = await see(store, job_id)
    assert made.deadline_at is not None
    assert made.deadline_at - made.created_at == timedelta(seconds=60)
    assert await store.slots.release_parked(at(5000), 100) == 1
    assert (await see(store, job_id)).deadline_at == at(5000) + timedelta(seconds=60)


@pytest.mark.contract("SLOT-5")
async def test_regular_slots_and_waiting_retries_leave_no_room_for_parked_ones(store: Store) -> None:
    schedule = await plan(store)
    (regular,) = await fire(store, schedule, at(1))
    await parked(store, schedule, at(2))
    assert await store.slots.release_parked(at(100), 9) == 0
    node = await enter(store)
    claims = await take(store, node)
    assert [claim.id for claim in claims] == [regular]
    assert await store.slots.release_parked(at(100), 9) == 0
    await settle(store, claims, BROKEN)
    assert await states(store, [regular]) == ["retrying"]
    assert await store.slots.release_parked(at(100), 9) == 0
    await store.jobs.promote(at(99), 10)
    await settle(store, await take(store, node, now=at(99)))
    assert await store.slots.release_parked(at(100), 9) == 1


@pytest.mark.contract("SLOT-5")
async def test_a_blocked_backfill_holds_up_no_other_schedule(store: Store) -> None:
    blocked, free = await plan(store, "blocked"), await plan(store, "free", max_instances=3)
    await fire(store, blocked, at(1))
    await parked(store, blocked, *(at(n) for n in range(2, 40)))
    ids = await parked(store, free, at(3), at(2), at(1))
    assert await store.slots.release_parked(at(100), 2) == 2, "two at a time, past what has to wait"
    assert {(await see(store, job_id)).visible_at for job_id in (ids[1], ids[2])} == {at(100)}
    assert await store.slots.release_parked(at(100), 2) == 1
    assert await store.slots.release_parked(at(100), 2) == 0


@pytest.mark.contract("SLOT-5")
async def test_a_decision_from_before_a_release_is_stale(store: Store) -> None:
    schedule = await plan(store)
    await parked(store, schedule, at(2))
    seen = await find(store)
    assert await store.slots.release_parked(at(100), 9) == 1
    (job_id,) = await store.jobs.reserve(1)
    step = a_step(seen, Decided(at(3), "fired", None, job_id))
    assert await store.slots.decide([step], at(100), by="tests") == [False], "it would make a second run at once"
    assert await store.jobs.get(job_id) is None
    current = await find(store)
    assert await store.slots.release_parked(at(100), 9) == 0
    assert (await find(store)).version == current.version, "nothing was released"


async def test_a_cancelled_parked_job_is_not_released(store: Store) -> None:
    schedule = await plan(store)
    first, second = await parked(store, schedule, at(1), at(2))
    cancel = lifecycle.cancel(await see(store, first), at(100))
    assert cancel is not None
    assert await store.jobs.apply([cancel], at(100)) == [True]
    assert await store.slots.release_parked(at(100), 9) == 1
    assert (await see(store, second)).visible_at == at(100)
    assert await states(store, [first]) == ["cancelled"]


async def test_an_ordinary_job_that_is_due_at_the_end_of_time_is_not_parked(store: Store) -> None:
    ids = await put(store, 3, state="scheduled", visible_at=PARKED)
    assert await store.slots.release_parked(at(100), 9) == 0
    assert {(await see(store, job_id)).visible_at for job_id in ids} == {PARKED}


# --- reading the ledger -------------------------------------------------------------------------------------------


@pytest.fixture
def ledger(store: Store, runner: Any) -> Schedule:
    """Single slots, two runs of slots, and a slot by hand in the middle of one."""

    async def made() -> Schedule:
        schedule = await plan(store)
        decided = [
            Decided(at(1), "missed", "misfire", until=at(10), slots=10),
            Decided(at(5.5), "manual", "run_now"),
            *(Decided(at(n), "skipped", "max_instances") for n in (11, 12, 13)),
            Decided(at(20), "coalesced", "into 40", until=at(30), slots=11),
            Decided(at(31), "skipped", "max_instances"),
        ]
        assert await store.slots.decide([a_step(schedule, *decided)], at(40), by="tests") == [True]
        await plan(store, "other")
        return schedule

    schedule: Schedule = runner.run(made())
    return schedule


@pytest.mark.contract("SLOT-16")
@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (-99, 99, [1, 5.5, 11, 12, 13, 20, 31]),
        (-99, 0.9, []),
        (-99, 1, [1]),
        (4, 4, [1]),
        (5.5, 5.5, [1, 5.5]),
        (6, 11, [1, 11]),
        (10, 10, [1]),
        (10.5, 12, [11, 12]),
        (12, 12, [12]),
        (14, 19, []),
        (14, 20, [20]),
        (25, 26, [20]),
        (30, 31, [20, 31]),
        (31, 99, [31]),
        (32, 99, []),
    ],
)
async def test_slots_are_all_rows_that_touch_a_span(
    store: Store, ledger: Schedule, start: float, end: float, expected: list[float]
) -> None:
    found = await store.slots.between(ledger.id, at(start), at(end))
    assert [slot.scheduled_for for slot in found] == [at(minutes) for minutes in expected]


async def test_slots_are_cut_at_the_limit_oldest_first(store: Store, ledger: Schedule) -> None:
    assert [slot.scheduled_for for slot in await store.slots.between(ledger.id, at(6), at(99), 3)] == [
        at(1),
        at(11),
        at(12),
    ]
    assert await store.slots.between(ledger.id + 99, at(-99), at(99)) == []


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(1, [31]), (3, [13, 20, 31]), (6, [5.5, 11, 12, 13, 20, 31]), (99, [1, 5.5, 11, 12, 13, 20, 31])],
)
async def test_the_latest_slots_are_the_last_rows_oldest_first(
    store: Store, ledger: Schedule, limit: int, expected: list[float]
) -> None:
    found = await store.slots.latest(ledger.id, limit)
    assert [slot.scheduled_for for slot in found] == [at(minutes) for minutes in expected]
    assert found == (await store.slots.between(ledger.id, at(-99), at(99)))[-limit:], (
        "the same rows as in any other listing"
    )
    assert await store.slots.latest(ledger.id + 1, limit) == []


async def test_the_latest_slots_before_an_instant(store: Store, ledger: Schedule) -> None:
    found = await store.slots.latest(ledger.id, 2, before=at(13))
    assert [slot.scheduled_for for slot in found] == [at(11), at(12)]
    assert await store.slots.latest(ledger.id, 2, before=at(1)) == []


async def test_the_latest_slots_of_several_schedules(store: Store, ledger: Schedule) -> None:
    other, idle = await plan(store, "second"), await plan(store, "idle")
    for minutes in (1, 2, 3):
        await fire(store, other, at(minutes))
    found = await store.slots.latest_of([ledger.id, other.id, idle.id], 2)
    assert [one for one in found if one.schedule_id == ledger.id] == await store.slots.latest(ledger.id, 2)
    assert [one for one in found if one.schedule_id == other.id] == await store.slots.latest(other.id, 2)
    assert len(found) == 4
    assert await store.slots.latest_of([], 2) == []


@pytest.mark.contract("SLOT-6", "SLOT-7")
async def test_a_slot_tells_of_its_run_while_the_job_is_there(store: Store) -> None:
    schedule = await plan(store, max_retries=0)
    node = await enter(store, "worker-1")
    await fire(store, schedule, at(1))
    (claim,) = await take(store, node, now=at(1))
    slot = await the_slot(store, schedule, at(1))
    assert (slot.state, slot.worker, slot.finished_at) == ("running", "worker-1", None)
    await settle(store, [claim], BROKEN, at=at(2))
    slot = await the_slot(store, schedule, at(1))
    assert (slot.state, slot.started_at, slot.finished_at, slot.error) == ("failed", at(1), at(2), "it broke")


@pytest.mark.contract("SLOT-16")
async def test_a_slot_with_two_jobs_is_found(store: Store) -> None:
    schedule, other = await plan(store), await plan(store, "other")
    await fire(store, schedule, at(1))
    await fire(store, schedule, at(2))
    await fire(store, other, at(1))
    assert await store.slots.doubled(schedule.id, at(0), at(9)) == []
    columns = "task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at, visible_at, "
    columns += "max_retries, schedule_id, scheduled_for"
    (free,) = await store.jobs.reserve(1)
    moment = as_stored(store, at(2))
    await query(store, f"insert into oncue_jobs (id, {columns}) select {free}, {columns} from oncue_jobs "
                       f"where schedule_id = {schedule.id} and scheduled_for = {moment}")  # fmt: skip
    assert await store.slots.doubled(schedule.id, at(0), at(9)) == [at(2)]
    assert await store.slots.doubled(schedule.id, at(2), at(2)) == [at(2)]
    assert await store.slots.doubled(schedule.id, at(0), at(1)) == []
    assert await store.slots.doubled(other.id, at(0), at(9)) == []


# --- pruning ------------------------------------------------------------------------------------------------------


async def run_and_settle(
    store: Store, schedule: Schedule, slot: datetime, outcome: Outcome, name: str = "worker-1"
) -> int:
    """Fire a slot and let a worker of this name bring it to an end, half a minute later; the id of the job."""
    (job_id,) = await fire(store, schedule, slot)
    node = await enter(store, name, expires_at=after(days=999))
    claims = await take(store, node, now=slot)
    assert [claim.id for claim in claims] == [job_id]
    await settle(store, claims, outcome, at=slot + timedelta(seconds=30))
    await store.nodes.leave(node, slot + timedelta(seconds=31))
    return job_id


@pytest.mark.contract("SLOT-6", "SLOT-7")
@pytest.mark.parametrize(
    ("outcome", "state", "reason", "error"),
    [
        (Succeeded('"kept nowhere"'), "succeeded", None, None),
        (Failed("kaputt: ß", final=True), "failed", None, "kaputt: ß"),
        (Skipped("skipped_timeout"), "skipped", "skipped_timeout", None),
        (Cancelled("by hand"), "cancelled", "by hand", None),
    ],
)
async def test_the_ledger_keeps_what_became_of_a_job_that_is_pruned(
    store: Store, outcome: Outcome, state: str, reason: str | None, error: str | None
) -> None:
    schedule = await plan(store, max_retries=0)
    job_id = await run_and_settle(store, schedule, at(1), outcome)
    live = await the_slot(store, schedule, at(1))
    assert (live.state, live.error, live.worker, live.finished_at) == (state, error, "worker-1", at(1.5))
    assert live.state_reason == reason or reason is None
    assert await store.jobs.prune(at(1.5), 10) == 0
    assert await store.jobs.prune(at(2), 10) == 1
    assert await store.jobs.get(job_id) is None
    assert await the_slot(store, schedule, at(1)) == live


@pytest.mark.contract("SLOT-6")
async def test_pruning_one_job_leaves_the_other_slots_alone(store: Store) -> None:
    schedule, other = await plan(store, max_instances=9), await plan(store, "other")
    await run_and_settle(store, schedule, at(1), Succeeded())
    await fire(store, schedule, at(2))
    await fire(store, other, at(1))
    await put(store)
    rows = [await all_slots(store, one) for one in (schedule, other)]
    assert await store.jobs.prune(at(9), 10) == 1
    assert [await all_slots(store, one) for one in (schedule, other)] == rows
    stored = await query(store, "select outcome from oncue_slots order by schedule_id, scheduled_for")
    assert stored == [("succeeded",), (None,), (None,)]


@pytest.mark.contract("SLOT-6")
@pytest.mark.parametrize("ending", ["lives", "left", "buried", "lost"])
async def test_the_ledger_keeps_the_name_of_the_worker_however_it_ended(store: Store, ending: str) -> None:
    schedule = await plan(store)
    await fire(store, schedule, at(1))
    node = await enter(store, "worker-ß", expires_at=at(2))
    claims = await take(store, node, now=at(1))
    if ending == "left":
        await store.nodes.leave(node, at(2))
    elif ending == "buried":
        assert [buried.id for buried in await store.nodes.expire(at(2))] == [node]
    elif ending == "lost":
        assert await store.nodes.declare_lost(node, at(2))
    await settle(store, claims, Skipped("node_lost"), at=at(3))
    assert await store.jobs.prune(at(4), 10) == 1
    assert (await the_slot(store, schedule, at(1))).worker == "worker-ß"


@pytest.mark.contract("SLOT-6")
async def test_a_worker_is_not_forgotten_before_all_its_old_jobs_are_gone(store: Store) -> None:
    schedule = await plan(store, max_instances=9)
    await fire(store, schedule, *(at(n) for n in range(5)))
    node = await enter(store, "worker-1")
    await settle(store, await take(store, node, now=at(4)), at=at(5))
    await store.nodes.leave(node, at(6))
    assert [await store.jobs.prune(after(days=30), 2) for _ in range(4)] == [2, 2, 1, 0]
    assert {slot.worker for slot in await all_slots(store, schedule)} == {"worker-1"}


@pytest.mark.contract("SLOT-6")
async def test_a_job_that_was_settled_after_its_worker_was_gone_still_finds_its_name(store: Store) -> None:
    schedule = await plan(store)
    await fire(store, schedule, at(1))
    node = await enter(store, "worker-1", expires_at=at(2))
    claims = await take(store, node, now=at(1))
    await store.nodes.expire(at(2))
    await settle(store, claims, Skipped("node_lost"), at=at(20))
    assert await store.jobs.prune(at(10), 10) == 0, "between the end of the worker and that of its job"
    assert await store.jobs.prune(at(30), 10) == 1
    assert (await the_slot(store, schedule, at(1))).worker == "worker-1"


@pytest.mark.contract("SLOT-6")
async def test_a_worker_that_is_forgotten_leaves_its_id(store: Store) -> None:
    schedule = await plan(store)
    await run_and_settle(store, schedule, at(1), Succeeded(), "worker-1")
    ((node,),) = await query(store, "select node_id from oncue_jobs")
    await query(store, "delete from oncue_nodes")
    assert await store.jobs.prune(at(9), 10) == 1
    assert (await the_slot(store, schedule, at(1))).worker == str(node)


@pytest.mark.contract("SLOT-6")
async def test_a_retry_of_a_slots_job_does_not_overwrite_the_record(store: Store) -> None:
    schedule = await plan(store, max_retries=0)
    first = await run_and_settle(store, schedule, at(1), BROKEN)
    (second,) = await store.jobs.reserve(1)
    assert await rerun(store, schedule, await see(store, first), second, at(2))
    node = await enter(store, "worker-2", expires_at=after(days=9))
    await settle(store, await take(store, node, now=at(2)), at=at(3))
    assert await store.jobs.prune(at(9), 10) == 2
    slot = await the_slot(store, schedule, at(1))
    assert (slot.job_id, slot.state, slot.worker, slot.error) == (first, "failed", "worker-1", "it broke")


@pytest.mark.contract("SLOT-3")
async def test_old_slots_go_and_the_horizon_stays(store: Store) -> None:
    schedule, other = await plan(store), await plan(store, "other", horizon=at(50))
    for one in (schedule, other):
        decided = [Decided(at(n), "skipped", "max_instances") for n in (1, 2, 3)]
        assert await store.slots.decide([a_step(one, *decided)], at(3), by="tests") == [True]
    assert await store.slots.prune(at(1), 10) == 0
    assert (await find(store)).horizon is None, "nothing went"
    assert await store.slots.prune(at(3), 10) == 4
    assert [slot.scheduled_for for slot in await all_slots(store, schedule)] == [at(3)]
    assert [(await find(store, name)).horizon for name in ("report", "other")] == [at(3), at(50)]
    assert await store.slots.prune(at(3), 10) == 0


async def test_pruning_slots_is_bounded_and_takes_the_oldest_first(store: Store) -> None:
    schedule = await plan(store)
    decided = [Decided(at(n), "skipped", "max_instances") for n in (5, 3, 1, 4, 2)]
    assert await store.slots.decide([a_step(schedule, *decided)], at(9), by="tests") == [True]
    assert await store.slots.prune(at(9), 2) == 2
    assert [slot.scheduled_for for slot in await all_slots(store, schedule)] == [at(3), at(4), at(5)]
    assert [await store.slots.prune(at(9), 2) for _ in range(3)] == [2, 1, 0]


async def test_a_run_of_slots_goes_when_its_last_is_old(store: Store, ledger: Schedule) -> None:
    assert await store.slots.prune(at(10), 99) == 1
    assert [slot.scheduled_for for slot in await all_slots(store, ledger)][:2] == [at(1), at(11)]
    assert await store.slots.prune(at(10) + HAIR, 99) == 1
    assert (await all_slots(store, ledger))[0].scheduled_for == at(11)


@pytest.mark.contract("SLOT-3", "SLOT-6")
async def test_a_slot_whose_job_is_there_is_never_pruned(store: Store) -> None:
    schedule = await plan(store, max_instances=9)
    await run_and_settle(store, schedule, at(1), Succeeded())
    await fire(store, schedule, at(2))
    assert await store.slots.prune(at(99), 99) == 0
    assert (await find(store)).horizon is None
    assert await store.jobs.prune(at(99), 99) == 1
    assert await store.slots.prune(at(99), 99) == 1
    assert [slot.scheduled_for for slot in await all_slots(store, schedule)] == [at(2)]


@pytest.mark.contract("SLOT-3")
async def test_who_looked_before_slots_were_pruned_cannot_decide_them_again(store: Store) -> None:
    schedule = await plan(store)
    assert await store.slots.decide([a_step(schedule, Decided(at(1), "skipped", "x"))], at(1), by="tests") == [True]
    seen = await find(store)
    assert await store.slots.prune(at(9), 9) == 1
    (job_id,) = await store.jobs.reserve(1)
    again = Step(seen.id, seen.version, seen.cursor, seen.next_run_at, [Decided(at(1), "manual", "trigger", job_id)])
    assert await store.slots.decide([again], at(9), by="tests") == [False]
    assert await jobs(store) == []
    edit = dataclasses.replace(seen, version=seen.version + 1, revision=2)
    assert await store.schedules.revise([Revised(edit, seen.version, a_revision(edit))], at(9)) == [False]
    assert (await find(store)).horizon == at(9), "nobody writes an older one over it"


async def rerun(store: Store, schedule: Schedule, job: Job, again: Change | int, now: datetime) -> bool:
    """Run a job again, by whoever has just read its schedule."""
    current = await store.schedules.by_id(schedule.id)
    assert current is not None
    return await store.slots.rerun(current, job, again, now, by="an operator")


# --- again --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-3")
async def test_a_repeated_job_is_a_new_one_of_the_same_slot(store: Store) -> None:
    schedule = await plan(store, task="send", priority=7, max_retries=0, deadline=60.0, args='{"a":1}')
    first = await run_and_settle(store, schedule, at(1), BROKEN)
    old = await see(store, first)
    (second,) = await store.jobs.reserve(1)
    assert await rerun(store, schedule, old, second, at(9))
    new = await see(store, second)
    assert (new.retry_of, new.state, new.schedule_id, new.scheduled_for) == (first, "queued", schedule.id, at(1))
    assert (new.task, new.args, new.priority, new.options) == (old.task, old.args, old.priority, OPTIONS)
    assert new.enqueued_by == "an operator"
    assert (new.start_by, new.deadline_at, new.claim_no, new.error, new.node_id) == (None, None, 0, None, None)
    assert {new.created_at, new.visible_at, new.order_at, new.updated_at} == {at(9)}
    assert await see(store, first) == old
    assert await store.slots.doubled(schedule.id, at(0), at(9)) == []
    assert await store.slots.unfinished(schedule.id, 9) == [second]


@pytest.mark.contract("SLOT-3")
async def test_the_retries_of_a_job_are_found_and_theirs_too(store: Store) -> None:
    schedule = await plan(store, max_retries=0, max_instances=9)
    first = await see(store, await run_and_settle(store, schedule, at(1), BROKEN))
    other = await see(store, await run_and_settle(store, schedule, at(2), BROKEN))
    assert await store.jobs.retries_of(first.id) == []
    one, two, three, four = await store.jobs.reserve(4)
    assert await rerun(store, schedule, first, two, at(9))
    assert await rerun(store, schedule, first, one, at(9))
    assert await rerun(store, schedule, await see(store, one), four, at(9))
    assert await rerun(store, schedule, other, three, at(9))
    assert [(job.id, job.retry_of) for job in await store.jobs.retries_of(first.id)] == [
        (one, first.id), (two, first.id), (four, one),
    ]  # fmt: skip
    assert await store.jobs.retries_of(one) == [await see(store, four)]
    assert [job.id for job in await store.jobs.retries_of(other.id)] == [three]
    assert await store.jobs.retries_of(77) == []


async def test_only_the_job_that_was_seen_is_repeated(store: Store) -> None:
    schedule = await plan(store, max_retries=0)
    old = await see(store, await run_and_settle(store, schedule, at(1), BROKEN))
    (fresh,) = await store.jobs.reserve(1)
    for other in (
        dataclasses.replace(old, state="succeeded"),
        dataclasses.replace(old, claim_no=old.claim_no + 1),
        dataclasses.replace(old, id=fresh + 1),
    ):
        assert not await rerun(store, schedule, other, fresh, at(9))
    assert await store.jobs.get(fresh) is None


async def test_a_job_whose_key_is_taken_is_not_repeated(store: Store) -> None:
    (first,) = await put(store, keys=["a"])
    await settle(store, await take(store, await enter(store)))
    await put(store, keys=["a"])
    (fresh,) = await store.jobs.reserve(1)
    with pytest.raises(Conflict, match="same key"):
        await rerun(store, await plan(store), await see(store, first), fresh, at(9))
    assert await store.jobs.get(fresh) is None


def test_the_default_schedule_of_these_tests_is_one_that_oncue_would_make() -> None:
    from oncue.policy.schedules import created

    made = created(a_schedule(), NOW, "tests").schedule
    assert made == a_schedule()


@pytest.mark.contract("SLOT-5")
async def test_nothing_runs_again_for_whoever_read_an_older_schedule(store: Store) -> None:
    schedule = await plan(store, max_retries=0)
    first = await see(store, await run_and_settle(store, schedule, at(1), BROKEN))
    stale = await store.schedules.by_id(schedule.id)
    assert stale is not None
    one, two = await store.jobs.reserve(2)
    assert await store.slots.rerun(stale, first, one, at(9), by="tests")
    assert not await store.slots.rerun(stale, first, two, at(9), by="tests")
    assert await store.jobs.get(two) is None
    over = lifecycle.revive(first, at(9))
    assert over is not None
    assert not await store.slots.rerun(stale, first, over, at(9), by="tests")
    assert await see(store, first.id) == first


async def test_a_run_that_starts_over_may_be_late(store: Store) -> None:
    schedule = await plan(store, max_retries=0, grace=5.0, deadline=60.0)
    job = await see(store, await run_and_settle(store, schedule, at(1), BROKEN))
    assert job.start_by is not None
    over = lifecycle.revive(job, at(900))
    assert over is not None
    assert await rerun(store, schedule, job, over, at(900))
    again = await see(store, job.id)
    assert (again.state, again.start_by, again.deadline_at) == ("queued", None, at(901))
