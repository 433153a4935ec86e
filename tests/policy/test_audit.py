"""The audit sees what is missing, doubled, unexpected or lost, and names it; and nothing else."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.model import Decided, Revision, Slot
from oncue.policy import triggers
from oncue.policy.audit import MOST_NAMED, Audit, audit
from oncue.policy.triggers import trigger_of
from tests.policy.test_slots import as_row

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def after(**parts: float) -> datetime:
    return NOON + timedelta(**parts)


def revision(number: int = 1, started_at: datetime = NOON, expression: str = "* * * * *", **fields: Any) -> Revision:
    made = Revision(
        1, number, started_at, "task", "{}", "default", 0, expression, "UTC", "debian", "latest", 300.0, 1, True, None,
        "tests",
    )  # fmt: skip
    return dataclasses.replace(made, **fields)


def fired(minute: int, **fields: Any) -> Slot:
    row = as_row(Decided(after(minutes=minute), "fired", None, 100 + minute), state="succeeded")
    return dataclasses.replace(row, **fields)


def missed(first: int, last: int, **fields: Any) -> Slot:
    decided = Decided(after(minutes=first), "missed", "misfire", until=after(minutes=last), slots=last - first + 1)
    return dataclasses.replace(as_row(decided), **fields)


def manual(at: datetime, reason: str) -> Slot:
    return as_row(Decided(at, "manual", reason, 900), state="running")


LEDGER = (fired(1), fired(2), missed(3, 6), fired(7), fired(8))


def audited(
    *rows: Slot,
    revisions: tuple[Revision, ...] = (revision(),),
    cursor: datetime = NOON + timedelta(minutes=8),
    start: datetime = NOON,
    end: datetime = NOON + timedelta(minutes=8),
    **fields: Any,
) -> Audit:
    horizon = fields.pop("horizon", None)
    return audit(revisions, sorted(rows, key=lambda row: row.scheduled_for), cursor, horizon, start, end, **fields)


def problems(found: Audit) -> list[tuple[datetime, str]]:
    return [(fate.scheduled_for, fate.verdict) for fate in found.problems]


@pytest.mark.contract("SLOT-16")
def test_a_whole_ledger_holds_and_every_slot_has_its_fate() -> None:
    found = audited(*LEDGER)
    assert found.holds
    assert found.counts() == {"fired": 4, "missed": 4}
    assert [fate.scheduled_for for fate in found.fates] == [row.scheduled_for for row in LEDGER]
    assert [fate.row for fate in found.fates] == list(LEDGER)
    assert [(fate.reason, fate.until, fate.slots) for fate in found.fates][2] == ("misfire", after(minutes=6), 4)


@pytest.mark.contract("SLOT-16")
@pytest.mark.parametrize("gone", range(len(LEDGER)))
def test_a_row_that_was_removed_is_missed_slot_by_slot(gone: int) -> None:
    found = audited(*LEDGER[:gone], *LEDGER[gone + 1 :])
    row = LEDGER[gone]
    expected = [row.scheduled_for + timedelta(minutes=number) for number in range(row.slots)]
    assert problems(found) == [(slot, "unaccounted") for slot in expected]
    assert found.problems[0].reason == "no row of the ledger tells of it"


@pytest.mark.contract("SLOT-16")
def test_a_slot_that_is_told_of_twice_is_doubled() -> None:
    found = audited(*LEDGER, fired(4))
    assert problems(found) == [(after(minutes=4), "doubled")]
    assert found.problems[0].reason == f"it is also in the run from {after(minutes=3).isoformat()}"


def test_runs_that_overlap_are_doubled() -> None:
    found = audited(fired(1), fired(2), missed(3, 6), missed(5, 8))
    assert (after(minutes=5), "doubled") in problems(found)


def test_a_short_run_inside_of_a_long_one_does_not_hide_what_follows() -> None:
    found = audited(missed(1, 8), missed(2, 3), fired(5))
    assert problems(found) == [(after(minutes=2), "doubled"), (after(minutes=5), "doubled")]


@pytest.mark.parametrize("reason", ["trigger", "backfill"])
def test_a_slot_by_hand_of_a_later_rule_is_none_of_a_run_from_before(reason: str) -> None:
    revisions = revision(expression="*/2 * * * *"), revision(2, after(minutes=6))
    run = missed(2, 6, slots=3)
    for minute, expected in ((3, []), (4, [(after(minutes=4), "doubled")])):
        by_hand = dataclasses.replace(manual(after(minutes=minute), reason), revision=2)
        found = audited(run, by_hand, fired(7, revision=2), fired(8, revision=2), revisions=revisions)
        assert problems(found) == expected
    found = audited(run, fired(3, revision=2), fired(7, revision=2), fired(8, revision=2), revisions=revisions)
    assert (after(minutes=3), "doubled") in problems(found), "the leader decides no slot of the past"


@pytest.mark.contract("SLOT-16")
def test_a_slot_with_two_jobs_is_doubled() -> None:
    found = audited(*LEDGER, doubled=[after(minutes=7)])
    assert problems(found) == [(after(minutes=7), "doubled")]
    assert found.problems[0].reason == "it has two jobs"


@pytest.mark.parametrize(
    "strange",
    [
        fired(2, scheduled_for=after(minutes=2, seconds=30)),
        fired(9, revision=7),
        fired(0),
        fired(-5),
    ],
    ids=["between two slots", "of no revision", "at its revision's start", "before its revision"],
)
def test_a_row_that_no_revision_asked_for_is_unexpected(strange: Slot) -> None:
    found = audited(*LEDGER, strange, start=after(minutes=-9))
    assert problems(found) == [(strange.scheduled_for, "unexpected")]
    assert found.problems[0].reason == f"revision {strange.revision} has no such slot"


def test_a_slot_of_a_revision_that_was_over_is_unexpected() -> None:
    revisions = (revision(), revision(2, after(minutes=5), "@hourly"))
    assert problems(audited(fired(1), fired(2), missed(3, 5), fired(6), revisions=revisions)) == [
        (after(minutes=6), "unexpected")
    ]
    assert (after(minutes=3), "unexpected") in problems(audited(fired(1), fired(2), missed(3, 6), revisions=revisions))


def test_a_slot_of_a_disabled_schedule_is_unexpected() -> None:
    revisions = (revision(), revision(2, after(minutes=2), enabled=False))
    found = audited(fired(1), fired(2), fired(5, revision=2), revisions=revisions)
    assert problems(found) == [(after(minutes=5), "unexpected")]


@pytest.mark.contract("SLOT-16")
def test_a_slot_whose_job_is_gone_is_lost() -> None:
    found = audited(*LEDGER[:4], fired(8, state=None))
    assert problems(found) == [(after(minutes=8), "lost")]
    assert found.problems[0].reason == "its job 108 is not there"
    assert found.counts() == {"fired": 3, "missed": 4, "lost": 1}


@pytest.mark.parametrize(("slots", "until"), [(3, 6), (5, 6), (4, 5)])
def test_a_run_that_miscounts_is_named(slots: int, until: int) -> None:
    found = audited(*LEDGER[:2], missed(3, 6, slots=slots, until=after(minutes=until)), *LEDGER[3:])
    told = {fate.scheduled_for: fate.reason or "" for fate in found.problems}
    assert after(minutes=3) in told
    assert f"the ledger tells of {slots} slots up to {after(minutes=until).isoformat()}" in told[after(minutes=3)]


def test_what_lies_beyond_the_cursor_is_pending() -> None:
    found = audited(*LEDGER[:2], cursor=after(minutes=2))
    assert found.holds
    (pending,) = [fate for fate in found.fates if fate.verdict == "pending"]
    assert (pending.scheduled_for, pending.until, pending.slots) == (after(minutes=3), after(minutes=8), 6)
    (last,) = [fate for fate in audited(*LEDGER[:4], cursor=after(minutes=7)).fates if fate.verdict == "pending"]
    assert (last.scheduled_for, last.until, last.slots) == (after(minutes=8), None, 1)


def test_a_slot_that_was_taken_beyond_the_cursor_is_not_pending() -> None:
    found = audited(*LEDGER[:2], manual(after(minutes=5), "trigger"), cursor=after(minutes=2))
    assert found.counts() == {"fired": 2, "manual": 1, "pending": 5}


@pytest.mark.contract("SLOT-11")
def test_runs_by_hand_are_fates_like_others() -> None:
    by_hand = as_row(Decided(after(minutes=1), "manual", "trigger", 7), state="queued")
    assert audited(by_hand, *LEDGER[1:]).counts() == {"manual": 1, "fired": 3, "missed": 4}
    extra = manual(after(minutes=4, seconds=30), "run_now")
    assert audited(*LEDGER, extra).holds, "an extra run within a run of missed slots is none of them"
    before = manual(after(minutes=-3), "backfill")
    assert audited(*LEDGER, before, start=after(minutes=-9)).holds


def test_each_revision_is_judged_by_its_own_rule() -> None:
    revisions = (revision(), revision(2, after(minutes=2), "*/3 * * * *"), revision(3, after(minutes=7)))
    rows = [fired(1), fired(2), fired(3, revision=2), fired(6, revision=2), fired(8, revision=3)]
    assert audited(*rows, revisions=revisions).holds
    assert problems(audited(*rows[:2], *rows[3:], revisions=revisions)) == [(after(minutes=3), "unaccounted")]
    assert problems(audited(*rows[1:], revisions=revisions)) == [(after(minutes=1), "unaccounted")]


def test_two_revisions_at_one_instant_are_fine() -> None:
    revisions = (revision(), revision(2, after(minutes=2), "@hourly"), revision(3, after(minutes=2)))
    rows = [fired(1), fired(2), *(fired(minute, revision=3) for minute in range(3, 9))]
    assert audited(*rows, revisions=revisions).holds


def test_a_disabled_stretch_has_no_slots() -> None:
    revisions = (revision(), revision(2, after(minutes=2), enabled=False), revision(3, after(minutes=6)))
    rows = [fired(1), fired(2), fired(7, revision=3), fired(8, revision=3)]
    assert audited(*rows, revisions=revisions).holds


def test_only_the_span_that_was_asked_about_is_judged() -> None:
    assert problems(audited(fired(2), start=after(minutes=2), end=after(minutes=3))) == [
        (after(minutes=3), "unaccounted")
    ]
    within = audited(missed(3, 6), start=after(minutes=4), end=after(minutes=5))
    assert within.holds
    assert within.counts() == {"missed": 4}, "a run that reaches into the span is told as it stands"


def test_what_is_no_longer_kept_is_not_held_against_the_ledger() -> None:
    found = audited(*LEDGER[3:], horizon=after(minutes=6) + TICK)
    assert found.holds
    assert found.start == after(minutes=6) + TICK
    assert found.notes == (f"slots from before {found.start.isoformat()} are no longer kept",)
    at_the_horizon = audited(*LEDGER[3:], horizon=after(minutes=6))
    assert problems(at_the_horizon) == [(after(minutes=6), "unaccounted")]
    assert audited(*LEDGER, horizon=after(days=-1)).notes == ()


def test_a_gap_of_a_million_slots_names_a_thousand() -> None:
    found = audited(
        revisions=(revision(expression="* * * * * *"),), cursor=after(days=30), start=NOON, end=after(days=30)
    )
    assert len(found.problems) == MOST_NAMED
    assert found.problems[0].scheduled_for == after(seconds=1)


@given(
    st.lists(st.tuples(st.sampled_from(["* * * * *", "*/3 * * * *", "@every 70s"]), st.integers(1, 900)), min_size=1),
    st.data(),
)
def test_any_row_that_goes_missing_is_named(edits: list[tuple[str, int]], data: st.DataObject) -> None:
    revisions, start = [], NOON
    for number, (expression, length) in enumerate(edits, 1):
        revisions.append(revision(number, start, expression))
        start += timedelta(seconds=length)
    ends = [*(later.started_at for later in revisions[1:]), start]
    rows = [
        dataclasses.replace(as_row(Decided(slot, "fired", None, 1)), revision=one.revision)
        for one, end in zip(revisions, ends, strict=True)
        for slot in triggers.between(trigger_of(one), one.started_at, end)
    ]
    assert audit(revisions, rows, start, None, NOON, start).holds
    if rows:
        gone = data.draw(st.sampled_from(rows))
        found = audit(revisions, [row for row in rows if row is not gone], start, None, NOON, start)
        assert problems(found) == [(gone.scheduled_for, "unaccounted")]
