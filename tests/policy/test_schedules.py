"""Edits of schedules: what makes a revision, where it starts, and what becomes of the slots that it overtakes."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.model import Decided, Revised, Revision, Schedule
from oncue.policy import schedules, triggers
from oncue.policy.audit import audit
from oncue.policy.schedules import CARRIED, DELETED, EDITED, TERMS, changed, created, deleted, extra_slot
from tests.policy.test_slots import as_row

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)

OTHER: dict[str, Any] = {
    "task": "another", "args": '{"a":1}', "queue": "slow", "priority": 7, "expression": "@hourly",
    "tz": "Europe/Berlin", "dst": "all", "missed": "each", "grace": 5.0, "max_instances": 3, "enabled": False,
    "reason": "because", "description": "words", "options": '{"timeout":3}', "max_retries": 9, "max_runtime": 1.0,
    "deadline": 2.0, "declared_by": "app", "name": "another", "key": "the-same", "group": "others",
    "address": "cluster",
}  # fmt: skip
"""Another value for everything that somebody may change."""


def after(**parts: float) -> datetime:
    return NOON + timedelta(**parts)


def wanted(**fields: Any) -> Schedule:
    long_ago = datetime.min.replace(tzinfo=UTC)
    values: dict[str, Any] = {
        "id": 0, "name": "nightly", "description": "", "task": "report", "args": "{}", "queue": "default",
        "priority": 0, "expression": "* * * * *", "tz": "UTC", "dst": "debian", "missed": "latest", "grace": 300.0,
        "max_instances": 1, "enabled": True, "options": "{}", "max_retries": 3, "max_runtime": None, "deadline": None,
        "declared_by": None, "reason": None, "revision": 0, "started_at": long_ago, "version": 0, "cursor": long_ago,
        "next_run_at": None, "last_run_at": None, "horizon": None, "created_by": "", "created_at": long_ago,
        "updated_at": long_ago, "deleted_at": None,
    }  # fmt: skip
    return Schedule(**{**values, **fields})


def standing(**fields: Any) -> Schedule:
    """A schedule that was made at noon and has come some way since."""
    made = dataclasses.replace(created(wanted(), NOON, "ann").schedule, id=5)
    return dataclasses.replace(made, **fields)


def edited(current: Schedule, now: datetime, taken: Any = (), **fields: Any) -> Revised:
    change = changed(current, dataclasses.replace(current, **fields), now, "bob", taken)
    assert change is not None
    return change


# --- new ------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-7")
def test_a_new_schedule_starts_from_now() -> None:
    change = created(wanted(), after(seconds=7), "ann")
    schedule, revision = change.schedule, change.revision
    assert (change.version, schedule.version, schedule.revision) == (0, 1, 1)
    assert (schedule.started_at, schedule.cursor, schedule.next_run_at) == (after(seconds=7),) * 2 + (after(minutes=1),)
    assert (schedule.created_by, schedule.created_at, schedule.updated_at) == (
        "ann",
        after(seconds=7),
        after(seconds=7),
    )
    assert revision is not None
    assert (revision.revision, revision.started_at, revision.changed_by) == (1, after(seconds=7), "ann")
    assert all(getattr(revision, name) == getattr(schedule, name) for name in TERMS)
    assert not change.decided


def test_a_slot_at_the_very_instant_of_its_making_is_not_its_business() -> None:
    assert created(wanted(), NOON, "ann").schedule.next_run_at == after(minutes=1)


def test_a_schedule_that_is_made_disabled_has_no_next_slot() -> None:
    assert created(wanted(enabled=False), NOON, "ann").schedule.next_run_at is None


# --- what makes a revision ------------------------------------------------------------------------------------------


def test_the_same_again_is_no_change() -> None:
    current = standing()
    assert changed(current, current, after(minutes=3), "bob") is None
    declared_anew = dataclasses.replace(wanted(), name=current.name)
    assert changed(current, declared_anew, after(minutes=3), "bob") is None, "whatever its own books say"


@pytest.mark.parametrize("term", TERMS)
def test_every_term_makes_a_revision(term: str) -> None:
    change = edited(standing(), after(seconds=30), **{term: OTHER[term]})
    assert change.revision is not None
    assert (change.version, change.schedule.version) == (1, 2)
    assert (change.schedule.revision, change.revision.revision) == (2, 2)
    assert getattr(change.revision, term) == getattr(change.schedule, term) == OTHER[term]
    assert change.schedule.cursor == change.schedule.started_at == change.revision.started_at == after(seconds=30)
    assert change.revision.changed_by == "bob"


@pytest.mark.parametrize("field", CARRIED)
def test_what_is_only_carried_makes_none(field: str) -> None:
    current = standing(cursor=after(minutes=4), next_run_at=after(minutes=5))
    change = edited(current, after(minutes=9), **{field: OTHER[field]})
    assert change.revision is None
    assert not change.decided
    kept = {field: OTHER[field], "version": 2, "updated_at": after(minutes=9)}
    assert change.schedule == dataclasses.replace(current, **kept), "its slots are where they were"


def test_everything_that_a_schedule_is_made_of_is_a_term_or_carried_or_kept_in_the_books() -> None:
    books = {
        "id", "revision", "started_at", "version", "cursor", "next_run_at", "last_run_at", "horizon",
        "created_by", "created_at", "updated_at", "deleted_at",
    }  # fmt: skip
    fields = {field.name for field in dataclasses.fields(Schedule)}
    assert fields == books | set(TERMS) | set(CARRIED)
    assert {field.name for field in dataclasses.fields(Revision)} >= set(TERMS)


def test_an_edit_leaves_the_books_alone() -> None:
    current = standing(last_run_at=after(minutes=1), horizon=after(days=-9), cursor=after(minutes=1))
    now = after(minutes=1, seconds=1)
    strange = wanted(created_by="mallory", created_at=now, expression="@hourly", version=99, revision=99)
    change = changed(current, strange, now, "bob")
    assert change is not None
    for kept in ("id", "last_run_at", "horizon", "created_by", "created_at"):
        assert getattr(change.schedule, kept) == getattr(current, kept)
    assert (change.schedule.version, change.schedule.revision) == (2, 2)


# --- from now -------------------------------------------------------------------------------------------------------


def test_an_edit_before_the_next_slot_overtakes_nothing() -> None:
    assert edited(standing(), after(seconds=59), expression="@hourly").decided == []


@pytest.mark.contract("SLOT-16")
def test_slots_that_an_edit_overtakes_are_missed_and_not_lost() -> None:
    change = edited(standing(), after(minutes=5), expression="@hourly")
    assert change.decided == [Decided(after(minutes=1), "missed", EDITED, until=after(minutes=5), slots=5)]
    assert (change.schedule.cursor, change.schedule.next_run_at) == (after(minutes=5), after(hours=1))


def test_overtaken_slots_that_were_taken_by_hand_stay_as_they_are() -> None:
    change = edited(standing(), after(minutes=5), [after(minutes=2)], priority=50)
    assert [(row.scheduled_for, row.slots) for row in change.decided] == [(after(minutes=1), 1), (after(minutes=3), 3)]


def test_a_schedule_that_was_put_off_loses_no_slot_to_an_edit() -> None:
    """Its slots could not be worked out on some host, so it is looked at later; they are due all the same."""
    current = standing(next_run_at=after(minutes=9))
    change = edited(current, after(minutes=5), priority=50)
    assert sum(row.slots for row in change.decided) == 5


def test_a_schedule_that_nobody_here_can_read_can_still_be_changed() -> None:
    """The audit, on a host that can, tells of slots that were lost meanwhile."""
    current = standing(tz="Mars/Olympus", next_run_at=after(minutes=1))
    assert edited(current, after(minutes=5), tz="UTC").decided == []
    gone = changed(current, deleted(current, after(minutes=5)), after(minutes=5), "bob")
    assert gone is not None
    assert gone.schedule.deleted_at == after(minutes=5)


def test_an_edit_whose_clock_is_behind_the_cursor_starts_at_the_cursor() -> None:
    current = standing(cursor=after(minutes=3), next_run_at=after(minutes=4))
    change = edited(current, after(minutes=2, seconds=59), priority=50)
    assert change.revision is not None
    assert change.schedule.cursor == change.schedule.started_at == change.revision.started_at == after(minutes=3)
    assert change.schedule.next_run_at == after(minutes=4), "the slot at the cursor is decided"
    assert change.decided == []


def test_an_interval_is_counted_from_the_edit() -> None:
    change = edited(standing(), after(seconds=7), expression="@every 10s")
    assert change.schedule.next_run_at == after(seconds=17)


# --- on and off -----------------------------------------------------------------------------------------------------


def test_disabling_and_enabling_fires_nothing_of_the_time_between() -> None:
    off = edited(standing(id=5), after(minutes=1, seconds=30), enabled=False, reason=schedules.BY_HAND)
    assert [row.scheduled_for for row in off.decided] == [after(minutes=1)]
    assert off.schedule.next_run_at is None
    on = edited(off.schedule, after(minutes=9, seconds=1), enabled=True, reason=None)
    assert on.decided == [], "while it was disabled it had no slots"
    assert (on.schedule.cursor, on.schedule.next_run_at) == (after(minutes=9, seconds=1), after(minutes=10))
    assert on.schedule.revision == 3


def test_deleting_leaves_a_tombstone_and_the_name_comes_back_from_now() -> None:
    current = standing(cursor=after(minutes=2), next_run_at=after(minutes=3), horizon=after(days=-1))
    gone = changed(current, deleted(current, after(minutes=4)), after(minutes=4), "bob")
    assert gone is not None
    assert gone.revision is not None
    assert (gone.schedule.enabled, gone.schedule.reason, gone.schedule.next_run_at) == (False, DELETED, None)
    assert (gone.schedule.deleted_at, gone.revision.enabled) == (after(minutes=4), False)
    assert [row.scheduled_for for row in gone.decided] == [after(minutes=3)]
    back = changed(gone.schedule, wanted(), after(minutes=8), "cid")
    assert back is not None
    assert back.revision is not None
    assert (back.schedule.deleted_at, back.schedule.id, back.schedule.horizon) == (None, 5, after(days=-1))
    assert (back.schedule.revision, back.schedule.cursor) == (3, after(minutes=8))
    assert back.schedule.next_run_at == after(minutes=9)
    assert back.decided == []


def test_a_name_that_comes_back_before_its_own_cursor_fires_nothing_again() -> None:
    current = standing(cursor=after(minutes=5), next_run_at=after(minutes=6))
    gone = changed(current, deleted(current, after(minutes=4)), after(minutes=4), "bob")
    assert gone is not None
    back = changed(gone.schedule, wanted(), after(minutes=4), "cid")
    assert back is not None
    assert back.schedule.next_run_at == after(minutes=6)


# --- extra slots ----------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-11")
def test_an_extra_slot_is_never_a_regular_one() -> None:
    trigger = triggers.trigger(triggers.Rule("* * * * *"), NOON)
    assert extra_slot(trigger, after(minutes=1)) == after(minutes=1) + TICK
    assert extra_slot(trigger, after(seconds=61)) == after(seconds=61)
    taken = {after(seconds=61), after(seconds=61) + TICK}
    assert extra_slot(trigger, after(seconds=61), taken) == after(seconds=61) + 2 * TICK


# --- whatever is edited ---------------------------------------------------------------------------------------------

EDITS = st.one_of(
    st.tuples(st.just("expression"), st.sampled_from(["* * * * *", "*/7 * * * *", "@every 13s", "0 * * * *"])),
    st.tuples(st.just("enabled"), st.booleans()),
    st.tuples(st.just("tz"), st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"])),
    st.tuples(st.just("description"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("deleted"), st.none()),
)


@given(st.lists(st.tuples(st.integers(-100, 900), EDITS), max_size=8))
def test_after_any_run_of_edits_every_slot_is_accounted_for(edits: list[tuple[int, tuple[str, Any]]]) -> None:
    """Nobody decides slots here but the edits themselves: each one that was due is written down by the next edit."""
    made = created(wanted(), NOON, "ann")
    assert made.revision is not None
    current, revisions, rows, now = made.schedule, [made.revision], [], NOON
    for passed, (field, value) in edits:
        now += timedelta(seconds=passed)
        if field == "deleted":
            new = deleted(current, now)
        else:
            new = dataclasses.replace(current, deleted_at=None, **{field: value})
        change = changed(current, new, now, "bob")
        if change is None:
            continue
        number = current.revision
        rows += [dataclasses.replace(as_row(row), revision=number) for row in change.decided]
        revisions += [change.revision] if change.revision is not None else []
        assert change.schedule.cursor >= current.cursor
        assert change.revision is None or not change.decided or change.decided[0].scheduled_for > current.cursor
        current = change.schedule
    found = audit(revisions, rows, current.cursor, None, NOON, max(now, current.cursor))
    assert found.holds, found.problems
    assert "pending" not in found.counts() or current.enabled
