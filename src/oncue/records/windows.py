"""Windows, their subjects, and what became of days."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, ClassVar

from oncue.model import DayCount, DayStatus, RowOutcome, Schedule, Slot, Subject
from oncue.policy.days import SubjectDay, fate_of
from oncue.policy.subjects import shown_due, shown_weekdays
from oncue.policy.windows import rule_of
from oncue.records.documents import RULES, Document, document, rules

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
    buckets: dict[int, dict[str, int]] = {}
    for bucket, event, number in counts:
        buckets.setdefault(bucket, {})[event] = number
    return [document(_bucket(bucket, events)) for bucket, events in sorted(buckets.items())]


def day_totals(counts: list[DayCount]) -> dict[str, int]:
    """The same of all minutes together."""
    events: dict[str, int] = {}
    for _, event, number in counts:
        events[event] = events.get(event, 0) + number
    return _totals(events)


def _bucket(bucket: int, events: dict[str, int]) -> BucketRecord:
    return BucketRecord(cutoff=shown_due(bucket), **_totals(events))


def _totals(events: dict[str, int]) -> dict[str, int]:
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


def subject_day_record(day: SubjectDay) -> dict[str, Any]:
    return {
        "subject": day.subject, "day": day.day.isoformat(), "until": (day.until or day.day).isoformat(),
        "days": day.days, "fate": day.fate, "reason": day.reason, "job_id": day.job_id,
    }  # fmt: skip
