"""Instants as people write them: ISO 8601 with or without a time zone, a date, `now`, or a duration before now.

The shell, the admin API and `oncue simulate` read them here. A complaint is a ValueError; the caller names the field.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from oncue.policy.durations import seconds

EXPECTED = (
    "expected an instant such as 2030-01-31T09:00:00Z or 2030-01-31 (UTC unless it has an offset), `now`, or a "
    "duration before now such as -2h or -7d"
)
EXPECTED_WITH_ZONE = "expected an instant with a time zone, such as 2030-01-31T09:00:00Z"


class Moment(NamedTuple):
    """An instant, or a number of seconds before the database's now, which the reader may not know yet."""

    instant: datetime | None
    before: float = 0.0

    def at(self, now: datetime) -> datetime:
        return now - timedelta(seconds=self.before) if self.instant is None else self.instant


def moment(text: str) -> Moment:
    """An instant, a date, `now`, or a duration before now."""
    word = text.strip()
    if word == "now":
        return Moment(None)
    try:
        return Moment(None, seconds(word[1:])) if word.startswith("-") else Moment(utc(word))
    except ValueError:
        raise ValueError(f"{EXPECTED}, not {text!r:.100}") from None


def instant(text: str) -> datetime:
    """An instant that says in which time zone it is."""
    try:
        if datetime.fromisoformat(text.strip()).tzinfo is not None:
            return utc(text)
    except ValueError:
        pass
    raise ValueError(f"{EXPECTED_WITH_ZONE}, not {text!r:.100}")


def utc(text: str) -> datetime:
    """An instant or a date, in UTC unless it has an offset."""
    found = datetime.fromisoformat(text.strip())
    try:
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:  # the first or last hours of the calendar, with an offset
        raise ValueError(f"expected an instant from the year 1 to 9999 in UTC, not {text!r:.100}") from None
