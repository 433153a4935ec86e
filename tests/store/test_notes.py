"""A change by hand and its line in the audit log: both are there, or neither."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest

from oncue.errors import Conflict, StoreError
from oncue.model import Decided, Note, Revised
from oncue.policy import lifecycle
from oncue.store import Store
from tests.store.scene import (
    BROKEN,
    NOW,
    a_revision,
    a_schedule,
    a_step,
    after,
    at,
    change,
    enter,
    find,
    fire,
    plan,
    put,
    see,
    settle,
    take,
)

BEFORE, AFTER = {"status": "queued", "words": "Größe"}, {"status": "failed", "list": [1, None]}


def a_note(subject: str = "job:1") -> Note:
    return Note("ada", "job.status", subject, BEFORE, AFTER)


async def noted(store: Store) -> list[str]:
    """The subjects of the log, oldest first."""
    return [entry.subject for entry in reversed(await store.audit_log.page())]


async def test_a_note_is_written_as_it_was_handed_in(store: Store) -> None:
    (job_id,) = await put(store)
    assert await store.jobs.prioritize(job_id, 0, 5, after(seconds=7), note=a_note("job:7"))
    (entry,) = await store.audit_log.page()
    assert (entry.at, entry.actor, entry.action, entry.subject) == (after(seconds=7), "ada", "job.status", "job:7")
    assert (entry.before, entry.after) == (BEFORE, AFTER)


async def test_only_the_changes_that_took_are_noted(store: Store) -> None:
    node = await enter(store)
    await put(store, 4)
    claims = await take(store, node)
    await settle(store, claims[1:2])
    changes = [change(claim, BROKEN) for claim in reversed(claims)]  # the ids descend, and the third is stale
    took = await store.jobs.apply(changes, NOW, [a_note("last"), None, a_note("stale"), a_note("first")])
    assert took == [True, True, False, True]
    assert sorted(await noted(store)) == ["first", "last"]


async def test_plain_successes_may_be_noted_too(store: Store) -> None:
    node = await enter(store)
    await put(store, 2)
    claims = await take(store, node)
    changes = [change(claim) for claim in claims]
    assert await store.jobs.apply(changes[:1], NOW, [a_note("one")]) == [True]
    assert await store.jobs.apply(changes, NOW, [a_note("again"), a_note("two")]) == [False, True]
    assert await noted(store) == ["one", "two"]


async def test_a_change_that_is_refused_for_its_key_leaves_no_note(store: Store) -> None:
    (old,) = await put(store, keys=["k"])
    job = await see(store, old)
    cancelled = lifecycle.cancel(job, NOW)
    assert cancelled is not None
    await store.jobs.apply([cancelled], NOW)
    await put(store, keys=["k"])
    again = lifecycle.revive(await see(store, old), NOW)
    assert again is not None
    with pytest.raises(Conflict):
        await store.jobs.apply([again], NOW, [a_note()])
    assert await noted(store) == []


Verb = Callable[[Note], Awaitable[bool]]


async def test_a_change_of_a_job_or_queue_is_noted_when_it_takes_and_only_then(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    verbs: dict[str, Verb] = {
        "priority": lambda note: store.jobs.prioritize(job_id, 0, 9, NOW, note=note),
        "cancel": lambda note: store.jobs.request_cancel(job_id, claim.claim_no, NOW, note=note),
        "pause": lambda note: store.queues.pause("mail", NOW, note=note),
        "resume": lambda note: store.queues.resume("mail", NOW, note=note),
    }
    for name, verb in verbs.items():
        assert await verb(a_note(name))
        assert not await verb(a_note(f"{name} again")), "the second finds nothing as it was"
    assert await noted(store) == list(verbs)


async def test_a_schedule_s_change_is_noted_if_its_guard_held(store: Store) -> None:
    one, two = a_schedule("one"), a_schedule("two")
    created = [Revised(schedule, 0, a_revision(schedule)) for schedule in (one, two)]
    assert await store.schedules.revise(created, NOW, [a_note("one"), None]) == [True, True]
    assert await store.schedules.revise(created, NOW, [a_note("one again"), a_note("two again")]) == [False, False]
    assert await noted(store) == ["one"]


@pytest.mark.parametrize("parked", [False, True])
async def test_slots_decided_by_hand_are_noted_if_the_schedule_stood_still(store: Store, parked: bool) -> None:
    one, two = await plan(store, "one"), await plan(store, "two")
    ids = await store.jobs.reserve(2)
    steps = [
        a_step(schedule, Decided(at(1), "manual", "trigger", job_id))
        for schedule, job_id in zip((two, one), ids, strict=True)
    ]
    notes = [a_note("two"), a_note("one")]
    assert await store.slots.decide(steps[:1], at(2), by="ada", parked=parked, notes=notes[:1]) == [True]
    assert await store.slots.decide(steps, at(2), by="ada", parked=parked, notes=notes) == [False, True]
    assert await noted(store) == ["two", "one"]


@pytest.mark.parametrize("in_place", [True, False])
async def test_a_slot_s_job_that_runs_again_is_noted_once(store: Store, in_place: bool) -> None:
    node, schedule = await enter(store), await plan(store)
    (job_id,) = await fire(store, schedule, at(1))
    await settle(store, await take(store, node, now=at(1)), at=at(2))
    job, seen = await see(store, job_id), await find(store)
    again = lifecycle.revive(job, at(3)) if in_place else (await store.jobs.reserve(1))[0]
    assert again is not None
    assert await store.slots.rerun(seen, job, again, at(3), by="ada", note=a_note("again"))
    assert not await store.slots.rerun(seen, job, again, at(3), by="ada", note=a_note("once more"))
    assert await noted(store) == ["again"]


async def test_a_job_without_a_schedule_is_repeated_with_its_note_or_not_at_all(store: Store) -> None:
    node = await enter(store)
    (job_id,) = await put(store, 1, group="orders", keys=["seven"])
    await store.groups.wake(["default"], 10, at(1))
    await settle(store, await store.groups.claim(node, ["default"], ["send"], 1, at(1), rooms={"default": 1}), at=at(2))
    job, ids = await see(store, job_id), await store.jobs.reserve(2)
    assert await store.slots.rerun(None, job, ids[0], at(3), by="ada", note=a_note("again"))
    with pytest.raises(Conflict):
        await store.slots.rerun(None, job, ids[1], at(3), by="ada", note=a_note("once more"))
    stale = dataclasses.replace(job, claim_no=job.claim_no + 1)
    assert not await store.slots.rerun(None, stale, ids[1], at(3), by="ada", note=a_note("of another"))
    assert await noted(store) == ["again"]
    again = await see(store, ids[0])
    assert (again.retry_of, again.group, again.key, again.enqueued_by) == (job.id, "orders", "seven", "ada")
    await store.groups.wake(["default"], 10, at(3))
    (claim,) = await store.groups.claim(node, ["default"], ["send"], 1, at(3), rooms={"default": 1})
    assert claim.id == again.id


async def test_pruning_by_hand_is_noted_with_what_went(store: Store) -> None:
    node = await enter(store)
    await put(store, 3)
    await settle(store, await take(store, node))

    def by_hand(now: datetime) -> dict[str, Any]:
        return {"noted": (Note("ada", "prune", "jobs", {"finished_before": "noon"}), now)}

    assert await store.jobs.prune(after(hours=1), 2, **by_hand(after(hours=2))) == 2
    assert await store.jobs.prune(after(hours=1), 2, **by_hand(after(hours=3))) == 1
    assert await store.jobs.prune(after(hours=1), 2, **by_hand(after(hours=4))) == 0
    entries = await store.audit_log.page()
    assert [(entry.at, entry.after) for entry in entries] == [
        (after(hours=3), {"jobs": 1}),
        (after(hours=2), {"jobs": 2}),
    ]
    assert entries[0].before == {"finished_before": "noon"}


async def test_a_change_whose_note_cannot_be_written_is_not_made(store: Store) -> None:
    node, schedule = await enter(store), await plan(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    new = a_schedule("new")
    step = a_step(schedule, Decided(at(1), "manual", "trigger", (await store.jobs.reserve(1))[0]))
    wrong = a_note()._replace(subject=None)  # type: ignore[arg-type]
    for verb in (
        store.jobs.apply([change(claim, BROKEN)], NOW, [wrong]),
        store.jobs.apply([change(claim)], NOW, [wrong]),
        store.jobs.prioritize(job_id, 0, 9, NOW, note=wrong),
        store.jobs.request_cancel(job_id, claim.claim_no, NOW, note=wrong),
        store.queues.pause("mail", NOW, note=wrong),
        store.schedules.revise([Revised(new, 0, a_revision(new))], NOW, [wrong]),
        store.slots.decide([step], at(2), by="ada", notes=[wrong]),
    ):
        with pytest.raises(StoreError):
            await verb
    job = await see(store, job_id)
    assert (job.state, job.priority, job.cancel_requested_at) == ("running", 0, None)
    assert all(queue.paused_at is None for queue in await store.queues.all())
    assert [one.version for one in await store.schedules.page()] == [schedule.version]
    assert await noted(store) == []


async def test_the_engine_s_own_changes_are_not_noted(store: Store) -> None:
    node = await enter(store)
    await put(store, 2)
    await settle(store, await take(store, node))
    await plan(store)
    await store.jobs.prune(after(hours=1), 2)
    assert await noted(store) == []
