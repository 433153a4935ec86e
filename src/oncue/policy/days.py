"""What became of the days of a window's subjects: read off the ledger, and laid beside the days that they should have
had.

A day is worked out from the terms that its subject has now, so only days that were over after these terms began are
judged. Days before that, and those of removed subjects, are told as the ledger has them. A day that the planner has not
come to is pending; a day that it has passed, and of which no row tells, is unaccounted for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, NamedTuple, TypeAlias

from oncue.model import TERMINAL, Day, Revision, Slot, Subject
from oncue.policy import windows
from oncue.policy.windows import DayTerms

DayFate: TypeAlias = Literal[
    "success", "cutoff_reached", "added_late", "missed", "open", "ended", "pending", "unaccounted", "doubled", "lost"
]
PROBLEMS: tuple[DayFate, ...] = ("unaccounted", "doubled", "lost")
_BY_REASON: dict[str, DayFate] = {
    windows.CUTOFF_REACHED: "cutoff_reached",
    windows.ADDED_LATE: "added_late",
    windows.OUTAGE: "missed",
}


class SubjectDay(NamedTuple):
    """What became of a subject's day, or of a run of them up to `until`."""

    subject: str
    day: date
    fate: DayFate
    reason: str | None = None
    job_id: int | None = None
    until: date | None = None
    days: int = 1


@dataclass(frozen=True, slots=True)
class DaysAudit:
    """The days of some subjects in [start, end], by subject, oldest first."""

    start: date
    end: date
    subjects: int
    days: Sequence[SubjectDay]
    last: str | None = None
    """The last subject of them, by name: the next page begins after it."""

    @property
    def problems(self) -> list[SubjectDay]:
        return [day for day in self.days if day.fate in PROBLEMS]

    def counts(self) -> Counter[DayFate]:
        """How many days met with each fate."""
        counted: Counter[DayFate] = Counter()
        for day in self.days:
            counted[day.fate] += day.days
        return counted


def fate_of(slot: Slot) -> DayFate:
    """What a row of the ledger tells of a day. `ended`: its job ended without deciding it, and its cutoff will."""
    if slot.state == "succeeded":
        return "success"
    told = slot.reason or (slot.state_reason if slot.state == "skipped" else None)
    if told in _BY_REASON:
        return _BY_REASON[told]
    if slot.job_id is None:
        return "missed" if slot.verdict == "missed" else "cutoff_reached"
    if slot.state is None:
        return "lost"
    return "ended" if slot.state in TERMINAL else "open"


def row_of(rows: Iterable[Slot], day: date) -> Slot | None:
    """The row that tells of a day: its own, else the run that it lies in."""
    slot = windows.slot_of(day)
    covering = [row for row in rows if row.scheduled_for <= slot <= (row.until or row.scheduled_for)]
    return next((row for row in covering if row.scheduled_for == slot), covering[0] if covering else None)


def audit(
    subject: Subject,
    terms: DayTerms,
    revisions: Sequence[Revision],
    rows: Sequence[Slot],
    span: tuple[date, date],
    now: datetime,
) -> list[SubjectDay]:
    """Lay the ledger's rows of one subject beside the days of its terms."""
    found = [_told(subject.name, row) for row in rows]
    for day in _expected(subject, terms, revisions, span, now):
        row = row_of(rows, day.date)
        if row is None:
            found.append(_absent(subject, day))
        elif row.until is None and (run := _run_over(rows, row)) is not None:
            reason = f"it is also in the run from {run.scheduled_for.date()}"
            found.append(SubjectDay(subject.name, day.date, "doubled", reason, row.job_id))
    return sorted(found, key=lambda one: one.day)


def _told(name: str, row: Slot) -> SubjectDay:
    fate, until = fate_of(row), None if row.until is None else row.until.date()
    reason = {"missed": windows.OUTAGE, "lost": f"its job {row.job_id} is not there"}.get(fate)
    if fate == "ended":
        reason = f"its job {row.state}; the day is left to its cutoff"
    return SubjectDay(name, row.scheduled_for.date(), fate, reason, row.job_id, until, row.slots)


def _expected(
    subject: Subject, terms: DayTerms, revisions: Sequence[Revision], span: tuple[date, date], now: datetime
) -> Iterator[Day]:
    """The days of the span that have begun, and were over, if they are, after the subject's terms began."""
    if subject.removed_at is not None:
        return
    first, last = span
    for day in windows.days_from(terms, first):
        if day.date > last or day.opens_at > now:
            return
        if day.cutoff_at > subject.since and _was_enabled(revisions, day.cutoff_at):
            yield day


def _was_enabled(revisions: Sequence[Revision], at: datetime) -> bool:
    """Whether the window was there and enabled at an instant."""
    begun = [revision for revision in revisions if revision.started_at < at]
    return bool(begun) and begun[-1].enabled


def _absent(subject: Subject, day: Day) -> SubjectDay:
    if day.date >= subject.day:
        return SubjectDay(subject.name, day.date, "pending", "no leader has come to it yet")
    return SubjectDay(subject.name, day.date, "unaccounted", "no row of the ledger tells of it")


def _run_over(rows: Sequence[Slot], row: Slot) -> Slot | None:
    return next(
        (run for run in rows if run.until is not None and run.scheduled_for < row.scheduled_for <= run.until), None
    )
