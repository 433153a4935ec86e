"""What oncue tells of windows and their subjects."""

from __future__ import annotations

import json
from typing import Any

from oncue.model import DayCount, Schedule, Slot, Subject
from oncue.policy.days import SubjectDay, fate_of
from oncue.policy.subjects import shown_due, shown_weekdays
from oncue.policy.windows import rule_of


def window_record(window: Schedule) -> dict[str, Any]:
    rule = rule_of(window.expression)
    return {
        "name": window.name, "task": window.task, "queue": window.queue, "window_seconds": rule.length,
        "retry_seconds": rule.retry, "tz": window.tz, "enabled": window.enabled, "reason": window.reason,
    }  # fmt: skip


def subject_record(subject: Subject) -> dict[str, Any]:
    return {
        "subject": subject.name, "at": shown_due(subject.due), "tz": subject.tz,
        "weekdays": shown_weekdays(subject.weekdays), "days_off": [day.isoformat() for day in subject.days_off],
        "args": json.loads(subject.args), "day": subject.day.isoformat(), "opens_at": subject.opens_at.isoformat(),
        "cutoff_at": subject.cutoff_at.isoformat(), "job_id": subject.job_id,
        "last_date": None if subject.last_date is None else subject.last_date.isoformat(), "status": subject.status,
        "reason": subject.reason,
        "last_run_at": None if subject.last_run_at is None else subject.last_run_at.isoformat(),
    }  # fmt: skip


def day_records(counts: list[DayCount]) -> list[dict[str, Any]]:
    """One for each minute at which days were over: how many were opened, and what they came to."""
    buckets: dict[int, dict[str, int]] = {}
    for bucket, event, number in counts:
        buckets.setdefault(bucket, {})[event] = number
    return [{"cutoff": shown_due(bucket), **_day(events)} for bucket, events in sorted(buckets.items())]


def day_totals(counts: list[DayCount]) -> dict[str, int]:
    """The same of all minutes together."""
    events: dict[str, int] = {}
    for _, event, number in counts:
        events[event] = events.get(event, 0) + number
    return _day(events)


def subject_day_record(day: SubjectDay) -> dict[str, Any]:
    return {
        "subject": day.subject, "day": day.day.isoformat(), "until": (day.until or day.day).isoformat(),
        "days": day.days, "fate": day.fate, "reason": day.reason, "job_id": day.job_id,
    }  # fmt: skip


def _day(events: dict[str, int]) -> dict[str, int]:
    done = {name: events.get(name, 0) for name in ("success", "cutoff_reached", "missed", "added_late")}
    opened = events.get("opened", 0)
    # A day that is over without a job was never opened.
    return {"open": max(opened - done["success"] - done["cutoff_reached"], 0), **done}


def ledger_record(slot: Slot) -> dict[str, Any]:
    last = slot.until or slot.scheduled_for
    return {
        "day": slot.scheduled_for.date().isoformat(), "until": last.date().isoformat(), "days": slot.slots,
        "outcome": fate_of(slot), "job_id": slot.job_id,
    }  # fmt: skip
