"""What the ledger tells of a subject's days, and which of them are not accounted for."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from oncue.model import EVERY_DAY, DayCount, Revision, Slot, Subject
from oncue.policy.days import DayFate, DaysAudit, SubjectDay, audit, fate_of
from oncue.policy.windows import DayTerms, slot_of
from oncue.records.windows import day_records
from tests.policy.test_explain import NOW, a_revision, after, before
from tests.policy.test_explain_windows import a_row, ann

TODAY = NOW.date()
TERMS = DayTerms(750, "UTC", EVERY_DAY, (), 3600.0)
SINCE_LONG = [a_revision(started_at=before(days=90))]


def ago(days: int) -> date:
    return TODAY - timedelta(days=days)


def judged(
    *rows: Slot,
    subject: Subject | None = None,
    terms: DayTerms = TERMS,
    revisions: list[Revision] | None = None,
    first: int = 3,
) -> list[tuple[date, DayFate]]:
    found = audit(subject or ann(), terms, revisions or SINCE_LONG, rows, (ago(first), TODAY), NOW)
    return [(one.day, one.fate) for one in found]


def success(day: date, **fields: Any) -> Slot:
    return a_row(day, state="succeeded", **fields)


@pytest.mark.contract("WIN-2", "WIN-6")
def test_a_day_that_the_planner_has_passed_without_a_row_is_named() -> None:
    rows = [success(ago(3)), a_row(ago(1), state="skipped", state_reason="cutoff_reached"), a_row()]
    assert judged(*rows) == [
        (ago(3), "success"), (ago(2), "unaccounted"), (ago(1), "cutoff_reached"), (TODAY, "open"),
    ]  # fmt: skip


def test_a_day_that_the_planner_has_not_come_to_is_pending() -> None:
    behind = ann(day=ago(1), opens_at=before(hours=25), cutoff_at=before(hours=23), job_id=None)
    assert judged(success(ago(3)), success(ago(2)), subject=behind) == [
        (ago(3), "success"), (ago(2), "success"), (ago(1), "pending"), (TODAY, "pending"),
    ]  # fmt: skip
    later = ann(opens_at=after(hours=1), cutoff_at=after(hours=2), due=840)
    assert judged(subject=later, terms=TERMS._replace(due=840), first=0) == [], "its window has not opened"


def test_days_before_its_terms_are_told_and_not_judged() -> None:
    changed = ann(since=before(days=1, hours=2))
    assert judged(a_row(ago(3), state="failed", reason="cutoff_reached"), subject=changed) == [
        (ago(3), "cutoff_reached"), (ago(1), "unaccounted"), (TODAY, "pending"),
    ]  # fmt: skip


def test_days_off_weekdays_and_a_disabled_window_ask_for_nothing() -> None:
    assert judged(success(ago(3)), success(ago(1)), success(TODAY), terms=TERMS._replace(days_off=(ago(2),))) == [
        (ago(3), "success"), (ago(1), "success"), (TODAY, "success"),
    ]  # fmt: skip
    off = [*SINCE_LONG, a_revision(2, before(days=2, hours=5), enabled=False), a_revision(3, before(hours=5))]
    assert judged(success(ago(3)), success(TODAY), revisions=off) == [(ago(3), "success"), (TODAY, "success")]
    gone = ann(removed_at=before(hours=1), next_at=None)
    assert judged(success(ago(3)), subject=gone) == [(ago(3), "success")]


@pytest.mark.contract("WIN-14")
def test_a_run_of_missed_days_counts_and_is_not_doubled_by_a_row_of_its_own() -> None:
    run = a_row(ago(3), until=slot_of(ago(1)), slots=3, verdict="missed", reason="outage", job_id=None, state=None)
    found = audit(ann(), TERMS, SINCE_LONG, [run, a_row()], (ago(3), TODAY), NOW)
    assert found[0] == SubjectDay("ann", ago(3), "missed", "outage", None, ago(1), 3)
    assert DaysAudit(ago(3), TODAY, 1, found).counts() == {"missed": 3, "open": 1}
    twice = judged(run, success(ago(2)), a_row())
    assert (ago(2), "doubled") in twice


@pytest.mark.parametrize(
    ("row", "fate"),
    [
        (a_row(state="succeeded"), "success"),
        (a_row(state="running"), "open"),
        (a_row(state="failed"), "ended"),
        (a_row(state="skipped", state_reason="deadline"), "ended"),
        (a_row(state="cancelled", reason="cutoff_reached"), "cutoff_reached"),
        (a_row(state="skipped", state_reason="outage"), "missed"),
        (a_row(state=None), "lost"),
        (a_row(verdict="skipped", reason="added_late", job_id=None, state=None), "added_late"),
    ],
)
def test_what_a_row_tells(row: Slot, fate: DayFate) -> None:
    assert fate_of(row) == fate
    assert fate_of(replace(row, finished_at=NOW)) == fate


def test_a_day_that_was_opened_and_missed_is_not_open_any_more() -> None:
    counts = [DayCount(540, "opened", 3), DayCount(540, "success", 1), DayCount(540, "missed", 1)]
    (bucket,) = day_records(counts)
    assert (bucket["cutoff"], bucket["open"], bucket["success"], bucket["missed"]) == ("09:00", 1, 1, 1)
