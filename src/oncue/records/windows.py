"""Windows, their subjects, and what became of days."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, ClassVar

from oncue.model import DayCount, DayStatus, RowOutcome, Schedule, Slot, Subject
from oncue.policy.days import PROBLEMS, DayFate, DaysAudit, SubjectDay, fate_of
from oncue.policy.subjects import shown_due, shown_weekdays
from oncue.policy.windows import rule_of
from oncue.records.documents import ALIAS, RULES, Document, document, rules

SUBJECT_EXAMPLE: dict[str, Any] = {
    "at": "09:00",
    "tz": "Europe/Berlin",
    "weekdays": "MON-FRI",
    "days_off": ["2030-12-24"],
    "args": {"language": "de"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRecord:
    """A daily window: a task that runs once a day for each of its subjects."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    name: str
    task: str
    queue: str
    window_seconds: float
    """How long before its cutoff a day opens."""
    retry_seconds: float
    """How far apart the attempts are."""
    tz: str
    """The zone of subjects that have none of their own."""
    enabled: bool
    reason: str | None
    """Why it is disabled."""


def window_record(window: Schedule) -> Document:
    rule = rule_of(window.expression)
    return document(
        WindowRecord(
            name=window.name, task=window.task, queue=window.queue, window_seconds=rule.length,
            retry_seconds=rule.retry, tz=window.tz, enabled=window.enabled, reason=window.reason,
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRecord:
    """A subject of a window (WIN-7): its terms, the day that comes next or is open, and what became of the last."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules({"subject": "ann", **SUBJECT_EXAMPLE, "status": "success"})

    subject: str
    at: str
    """When its day is over, in its zone."""
    tz: str | None
    """Its zone; null: the window's."""
    weekdays: str
    days_off: tuple[date, ...] = ()
    args: dict[str, Any]
    """Arguments of its own."""
    day: date
    """The day that is open or comes next."""
    opens_at: datetime
    cutoff_at: datetime
    job_id: int | None
    """The latest job of that day, once it has opened."""
    last_date: date | None
    """The last day that is decided."""
    status: DayStatus | None
    """What became of that."""
    reason: str | None
    last_run_at: datetime | None
    """When it last succeeded."""


def subject_record(subject: Subject) -> Document:
    return document(
        SubjectRecord(
            subject=subject.name,
            at=shown_due(subject.due),
            tz=subject.tz,
            weekdays=shown_weekdays(subject.weekdays),
            days_off=subject.days_off,
            args=json.loads(subject.args),
            day=subject.day,
            opens_at=subject.opens_at,
            cutoff_at=subject.cutoff_at,
            job_id=subject.job_id,
            last_date=subject.last_date,
            status=subject.status,
            reason=subject.reason,
            last_run_at=subject.last_run_at,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRecord:
    """How many subjects whose cutoff is in the same minute, in UTC, came to what on a day."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    cutoff: str
    open: int
    success: int
    cutoff_reached: int
    missed: int
    added_late: int


def day_records(counts: list[DayCount]) -> list[Document]:
    """One for each minute at which days were over: how many were opened, and what they came to."""
    return [document(_bucket(bucket, events)) for bucket, events in sorted(_by_bucket(counts).items())]


def day_totals(counts: list[DayCount]) -> dict[str, int]:
    """The same of all minutes together. What is open is told minute by minute: days of one that were missed without
    ever being opened take nothing away from those of another."""
    each = [day_totals_of(events) for events in _by_bucket(counts).values()]
    return {name: sum(totals[name] for totals in each) for name in day_totals_of({})}


def _by_bucket(counts: list[DayCount]) -> dict[int, dict[str, int]]:
    buckets: dict[int, dict[str, int]] = {}
    for bucket, event, number in counts:
        buckets.setdefault(bucket, {})[event] = number
    return buckets


def _bucket(bucket: int, events: dict[str, int]) -> BucketRecord:
    return BucketRecord(cutoff=shown_due(bucket), **day_totals_of(events))


def day_totals_of(events: dict[str, int]) -> dict[str, int]:
    """What the events of one minute come to."""
    done = {name: events.get(name, 0) for name in ("success", "cutoff_reached", "missed", "added_late")}
    opened = events.get("opened", 0)
    # A day that is over without a job was never opened.
    return {"open": max(opened - done["success"] - done["cutoff_reached"] - done["missed"], 0), **done}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """What became of a day of a subject, or of several in a row."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    day: date
    until: date
    """The last one of several."""
    days: int
    outcome: str | None
    job_id: int | None


def ledger_record(slot: Slot) -> Document:
    return document(
        LedgerRecord(
            day=slot.scheduled_for.date(), until=(slot.until or slot.scheduled_for).date(), days=slot.slots,
            outcome=fate_of(slot), job_id=slot.job_id,
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRecord:
    """What came of one row of several subjects."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    subject: str
    outcome: str
    """added, changed or unchanged; repeated if a later row is for the same subject; invalid if it was left out."""
    field: str | None
    """What is wrong with a row that is invalid."""
    message: str | None
    """What is expected there."""


def row_record(row: RowOutcome) -> Document:
    return document(RowRecord(**row._asdict()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectDayRecord:
    """What became of a day of a subject, or of several that were missed in a row."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    subject: str
    day: date
    until: date
    """The last one of several."""
    days: int
    fate: DayFate
    """`unaccounted`, `doubled` and `lost` should not be."""
    reason: str | None
    job_id: int | None


def subject_day_record(day: SubjectDay) -> Document:
    return document(_subject_day(day))


def _subject_day(day: SubjectDay) -> SubjectDayRecord:
    return SubjectDayRecord(
        subject=day.subject, day=day.day, until=day.until or day.day, days=day.days, fate=day.fate, reason=day.reason,
        job_id=day.job_id,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysAuditRecord:
    """The days that some subjects of a window should have had, by subject, oldest first, and what became of them."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    window: str
    start: date = field(metadata={ALIAS: "from"})
    end: date = field(metadata={ALIAS: "to"})
    holds: bool
    """Whether each day of these subjects is accounted for, once."""
    subjects: int
    """How many were looked at."""
    counts: dict[str, int]
    """How many days met with each fate."""
    days: tuple[SubjectDayRecord, ...]
    last: str | None
    """The last subject that was looked at: the next page begins after it."""
    next: str | None
    """Where to go on; null on the last page."""

    @property
    def problems(self) -> list[SubjectDayRecord]:
        return [day for day in self.days if day.fate in PROBLEMS]


def days_audit_record(window: str, found: DaysAudit, days: Sequence[SubjectDay], following: str | None) -> Document:
    return document(
        DaysAuditRecord(
            window=window, start=found.start, end=found.end, holds=not found.problems, subjects=found.subjects,
            counts=dict(sorted(found.counts().items())), days=tuple(map(_subject_day, days)), last=found.last,
            next=following,
        )
    )  # fmt: skip
