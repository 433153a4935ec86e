"""A row decides its own instant; a run of slots decides those instants in it that were slots of its rule."""

from __future__ import annotations

import dataclasses
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.model import Revision, Slot
from oncue.policy.ledger import Decisions
from tests.policy.test_audit import after, fired, missed, revision

OLD = revision(1, expression="*/2 * * * *")
NEW = revision(2, after(minutes=20), expression="* * * * *")


def minute_of(row: Slot | None) -> float | None:
    return None if row is None else (row.scheduled_for - after()).total_seconds() / 60


@pytest.mark.parametrize(
    ("minute", "decided_by"),
    [
        (1, None),
        (2, 2),
        (3, None),
        (4, 2),
        (5, 5),
        (6, 2),
        (10, 2),
        (11, None),
        (12, None),
        (13, 13),
        (14, 14),
        (16, 14),
    ],
)
def test_a_run_decides_its_own_slots(minute: int, decided_by: int | None) -> None:
    decisions = Decisions([missed(2, 10), fired(5, revision=2), fired(13), missed(14, 16)], [OLD, NEW])
    assert minute_of(decisions.row_of(after(minutes=minute))) == decided_by


def test_the_first_slot_of_a_run_needs_no_rule() -> None:
    assert minute_of(Decisions([missed(2, 10)], ()).row_of(after(minutes=2), in_doubt=False)) == 2


@pytest.mark.parametrize(
    "revisions", [(), (dataclasses.replace(OLD, tz="Mars/Phobos"),)], ids=["unknown", "unworkable"]
)
def test_a_run_whose_slots_nobody_can_work_out_decides_all_in_doubt(revisions: tuple[Revision, ...]) -> None:
    decisions = Decisions([missed(2, 10)], revisions)
    assert minute_of(decisions.row_of(after(minutes=3))) == 2
    assert decisions.row_of(after(minutes=3), in_doubt=False) is None
    assert decisions.row_of(after(minutes=11)) is None


def naive(rows: list[Slot], at: datetime) -> bool:
    terms = {1: set(range(0, 60, 2)), 2: set(range(60))}
    minute = (at - after()).total_seconds() / 60
    single = any(row.scheduled_for == at for row in rows)
    return single or any(
        row.until is not None and row.scheduled_for <= at <= row.until and minute in terms[row.revision] for row in rows
    )


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 15), st.sampled_from((1, 2))), max_size=8))
def test_runs_that_overlap_hide_none_of_each_other(spans: list[tuple[int, int, int]]) -> None:
    rows = [
        fired(first, revision=number) if length == 0 else missed(first, first + length, revision=number)
        for first, length, number in sorted(spans)
    ]
    decisions = Decisions(rows, [OLD, NEW])
    for minute in range(60):
        at = after(minutes=minute)
        assert (decisions.row_of(at) is not None) == naive(rows, at)
