"""What users hand in of a window's subjects: checked, and turned into rows."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from datetime import date, datetime

from oncue.errors import InvalidSchedule, InvalidSubject
from oncue.model import EVERY_DAY, Schedule, Subject
from oncue.policy import windows
from oncue.policy.zones import zone

LONGEST_NAME = 200
MOST_ROWS = 1000
"""So many subjects are written at once."""
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def checked_name(name: str) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        expected = f"a printable name of 1 to {LONGEST_NAME} characters"
        raise InvalidSubject("subject", f"expected {expected}, not {name!r:.80}")
    return name


def checked_due(at: str) -> int:
    """The minute of the day that a text such as 09:00 names."""
    match = _TIME.fullmatch(at) if isinstance(at, str) else None
    if match is None:
        raise InvalidSubject("at", f"expected a time of day such as '09:00', not {at!r:.40}")
    return int(match[1]) * 60 + int(match[2])


def shown_due(due: int) -> str:
    return f"{due // 60:02}:{due % 60:02}"


def checked_zone(tz: str | None) -> str | None:
    if tz is None:
        return None
    try:
        zone(tz if isinstance(tz, str) else "")
    except InvalidSchedule as error:
        raise InvalidSubject("tz", str(error).removeprefix("tz: ")) from None
    return tz


def checked_weekdays(weekdays: str | Iterable[str] | None) -> int:
    """The bits of texts such as `MON-FRI` or `MON,WED`, or of a list of weekdays."""
    if weekdays is None:
        return EVERY_DAY
    names = weekdays.split(",", len(WEEKDAYS)) if isinstance(weekdays, str) else list(weekdays)
    if len(names) > len(WEEKDAYS):
        raise InvalidSubject("weekdays", f"expected at most {len(WEEKDAYS)} weekdays or ranges of them")
    bits = 0
    for name in names:
        first, dash, last = str(name).strip().upper().partition("-")
        if first not in WEEKDAYS or (dash and last not in WEEKDAYS):
            raise InvalidSubject("weekdays", f"expected weekdays such as 'MON-FRI' or 'MON,WED', not {weekdays!r:.60}")
        begin, end = WEEKDAYS.index(first), WEEKDAYS.index(last or first)
        for day in range(begin, end + 1 if end >= begin else end + 8):
            bits |= 1 << day % 7
    if not bits:
        raise InvalidSubject("weekdays", "expected at least one weekday")
    return bits


def shown_weekdays(bits: int) -> str:
    return ",".join(name for place, name in enumerate(WEEKDAYS) if bits >> place & 1)


def checked_days_off(days: Iterable[date | str]) -> tuple[date, ...]:
    try:
        found = {day if isinstance(day, date) else date.fromisoformat(day) for day in days}
    except (TypeError, ValueError):
        raise InvalidSubject("days_off", f"expected dates such as '2026-12-24', not {days!r:.80}") from None
    if len(found) > windows.MOST_DAYS_OFF:
        raise InvalidSubject("days_off", f"expected at most {windows.MOST_DAYS_OFF} dates, not {len(found)}")
    return tuple(sorted(found))


def added(window: Schedule, wanted: Subject, current: Subject | None, now: datetime) -> Subject:
    """The row of a subject that is added or changed. A day that has begun, or is decided, stays as it is: other terms
    count from the next day on."""
    if current is not None:
        history = ("version", "job_id", "last_date", "status", "reason", "last_run_at", "created_at")
        wanted = dataclasses.replace(wanted, **{name: getattr(current, name) for name in history})
        is_decided = current.last_date is not None and current.last_date >= current.day
        kept = {name: getattr(current, name) for name in ("day", "opens_at", "cutoff_at", "next_at")}
        # After a decided day the next one may begin before its cutoff: in another zone, say.
        if current.removed_at is None and now < current.cutoff_at and not is_decided and current.job_id is not None:
            return dataclasses.replace(wanted, since=now, **kept)
        if current.removed_at is None and not is_decided and _is_promised(current) and current.cutoff_at <= now:
            return dataclasses.replace(wanted, since=current.since, **kept)  # the planner has yet to decide it
    terms = windows.terms_of(wanted, windows.rule_of(window.expression), window.tz)
    last = wanted.last_date
    if current is not None and current.job_id is not None and (last is None or last < current.day):
        if now < current.cutoff_at:  # removed while its day was open, and added again: that day gets another job
            same = {name: getattr(current, name) for name in ("day", "opens_at", "cutoff_at")}
            return dataclasses.replace(wanted, since=now, next_at=max(now, current.opens_at), **same)
        last = current.day
    day = windows.first_day(terms, last, now)
    return dataclasses.replace(
        wanted, since=now, day=day.date, opens_at=day.opens_at, cutoff_at=day.cutoff_at,
        next_at=max(day.opens_at, now), job_id=None,
    )  # fmt: skip


def _is_promised(current: Subject) -> bool:
    """Whether its day was ahead when its terms began to count, or has begun."""
    return current.since < current.cutoff_at or current.job_id is not None


def removed(current: Subject, now: datetime) -> Subject:
    return dataclasses.replace(current, next_at=None, removed_at=now)


def same_terms(one: Subject, other: Subject) -> bool:
    """Whether both ask for the same, so that there is nothing to write."""
    names = ("due", "tz", "weekdays", "days_off", "removed_at")
    same = all(getattr(one, name) == getattr(other, name) for name in names)
    return same and (one.args == other.args or json.loads(one.args) == json.loads(other.args))
