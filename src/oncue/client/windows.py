"""The verbs on daily windows and their subjects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from types import EllipsisType
from typing import Any

from oncue.client import reading, requests
from oncue.client.requests import Page, Request, checked_key, given, query, segment
from oncue.records.jobs import ExplanationRecord
from oncue.records.windows import (
    BucketRecord,
    DaysAuditRecord,
    LedgerRecord,
    RowRecord,
    SubjectRecord,
    WindowRecord,
)

PREFIX = "/api/admin/windows"

_window = reading.record(WindowRecord)
_subject = reading.record(SubjectRecord)
_bucket = reading.record(BucketRecord)
_ledger = reading.record(LedgerRecord)
_row = reading.record(RowRecord)
_audit = reading.record(DaysAuditRecord)
_explanation = reading.record(ExplanationRecord)


def windows() -> Request[list[WindowRecord]]:
    """The windows that there are, by name."""
    return Request("GET", PREFIX, requests.rows(_window, "windows"), about="subject")


def window(window: str) -> Request[WindowRecord]:
    """One window. Raises SubjectNotFound."""
    return Request("GET", _path(window), _window, about="subject")


def day(window: str, day: date | None = None) -> Request[list[BucketRecord]]:
    """What a day came to, by the minute of the cutoff in UTC; today unless it is given."""
    return Request("GET", f"{_path(window)}/day", requests.rows(_bucket, "buckets"), query(day=day), about="subject")


def subjects(window: str, *, after: str = "", prefix: str = "", limit: int = 100) -> Request[list[SubjectRecord]]:
    """The subjects of a window by name, up to 1,000. `after` is the name to go on from, `prefix` how a name begins."""
    wanted = query(after=after or None, prefix=prefix or None, limit=limit)
    return Request("GET", _subjects(window), requests.rows(_subject, "subjects"), wanted, about="subject")


def all_subjects(window: str, *, page: int = 500) -> Request[Page[SubjectRecord]]:
    """Every subject of a window by name, fetched page by page as you go on."""
    read = requests.page(_subject, "subjects")
    return Request("GET", _subjects(window), read, query(limit=page), about="subject")


def subject(window: str, name: str) -> Request[SubjectRecord]:
    """One subject. Raises SubjectNotFound."""
    return Request("GET", _path(window, name), _subject, about="subject")


def ledger(
    window: str, name: str, *, start: date | None = None, end: date | None = None, limit: int = 1000
) -> Request[list[LedgerRecord]]:
    """What became of the days of a subject, oldest first: of the last 30 unless a span is given."""
    wanted, read = query(from_=start, to=end, limit=limit), requests.rows(_ledger, "days")
    return Request("GET", f"{_path(window, name)}/ledger", read, wanted, about="subject")


def audit_days(
    window: str,
    start: date | None = None,
    end: date | None = None,
    *,
    subject: str | None = None,
    after: str = "",
    limit: int = 1000,
) -> Request[DaysAuditRecord]:
    """What became of every day that subjects should have had, by default yesterday and today: of up to `limit` subjects
    by name, from `after` on, or of one. Its `last` is where the next page begins."""
    wanted = query(from_=start, to=end, subject=subject, after=after or None, limit=limit)
    return Request("GET", f"{_path(window)}/audit", _audit, wanted, about="subject")


def explain_day(window: str, name: str, day: date | None = None) -> Request[ExplanationRecord]:
    """Why a subject has, or has not, got what a day was for: of the day that is open, or today's, unless one is given.
    Raises SubjectNotFound."""
    return Request("GET", f"{_path(window, name)}/explain", _explanation, query(day=day), about="subject")


# --- changing -------------------------------------------------------------------------------------------------------


def add(
    window: str,
    name: str,
    *,
    at: str,
    tz: str | None = None,
    weekdays: str | Iterable[str] | None = None,
    days_off: Iterable[date | str] = (),
    args: Mapping[str, Any] | None = None,
) -> Request[SubjectRecord]:
    """Add a subject, or give it these terms and no others. Raises SubjectNotFound if there is no such window, and
    InvalidSubject, which names the field."""
    told = given({"at": at, "tz": tz, "weekdays": _weekdays(weekdays), "days_off": list(days_off), "args": args})
    return Request("PUT", _path(window, name), _subject, body=requests.body(told), about="subject")


def change(
    window: str,
    name: str,
    *,
    at: str | None = None,
    tz: str | EllipsisType | None = ...,
    weekdays: str | Iterable[str] | EllipsisType | None = ...,
    days_off: Iterable[date | str] | EllipsisType | None = ...,
    args: Mapping[str, Any] | EllipsisType | None = ...,
) -> Request[SubjectRecord]:
    """Change what is given; the rest stays. None takes back what was set: the zone is the window's again, say."""
    told: dict[str, Any] = {"tz": tz, "args": args}
    if weekdays is not ...:
        told["weekdays"] = _weekdays(weekdays)
    if days_off is not ...:
        told["days_off"] = None if days_off is None else list(days_off)
    body = given({"at": at}) | {field: value for field, value in told.items() if value is not ...}
    return Request("PATCH", _path(window, name), _subject, body=requests.body(body), about="subject")


def remove(window: str, name: str) -> Request[None]:
    """Remove a subject. No attempt of its day's job starts any more, and one that runs is asked to stop."""
    return Request("DELETE", _path(window, name), lambda _: None, about="subject", gone_is_done=True)


def add_each(window: str, rows: Sequence[Mapping[str, Any]]) -> Request[list[RowRecord]]:
    """Add or change up to 1,000 subjects, and say what came of each row.

    A row has `subject` and `at`, and what else `add` takes. Those that are wrong are left out: the others are written
    all the same. Repeating it changes nothing.
    """
    body = requests.body({"subjects": [dict(row) for row in rows]})
    return Request("POST", _subjects(window), requests.rows(_row, "subjects"), body=body, about="subject", is_long=True)


def run_now(window: str, name: str, *, idempotency_key: str | None = None) -> Request[SubjectRecord]:
    """Open a subject's day before its time. Raises Conflict if that is decided, or has its job already."""
    key = checked_key(idempotency_key)
    return Request("POST", f"{_path(window, name)}/run", _subject, key=key, about="subject")


# --- what these stand on --------------------------------------------------------------------------------------------


def _path(window: str, name: str | None = None) -> str:
    return f"{PREFIX}/{segment(window)}" if name is None else f"{_subjects(window)}/{segment(name)}"


def _subjects(window: str) -> str:
    return f"{PREFIX}/{segment(window)}/subjects"


def _weekdays(weekdays: str | Iterable[str] | None) -> str | list[str] | None:
    return weekdays if weekdays is None or isinstance(weekdays, str) else list(weekdays)
