"""What an expression means, the slow and obvious way: look at every minute (or second) there is.

A timeline goes through the instants of a stretch one by one and files each under the local time that a clock on the
wall shows then. Everything that the definition says about gaps and folds can then be looked up:

    a local time with one instant     an ordinary time
    a local time with two instants    a fold: the clock shows it twice
    a local time with none            a gap, if the clock jumps over it from one instant to the next

The expression is read by splitting strings. Nothing here is shared with the code under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cache
from typing import Literal, get_args
from zoneinfo import ZoneInfo

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MICROSECONDS = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "µs": Fraction(1),
    "ms": Fraction(1000),
    "s": Fraction(10**6),
    "m": Fraction(60 * 10**6),
    "h": Fraction(3600 * 10**6),
    "d": Fraction(86400 * 10**6),
}
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)

Policy = Literal["debian", "once", "all"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

Slots = dict[datetime, str | None]
"""The instants at which a schedule fires, in order, each with its mark."""


class Timeline:
    """Every minute, or every second, from start to end, under its local time."""

    def __init__(self, zone: ZoneInfo, start: datetime, end: datetime, step: timedelta) -> None:
        self.local: dict[datetime, datetime] = {}
        self.happens: dict[datetime, list[datetime]] = {}
        self.swallowed: dict[datetime, datetime] = {}
        instant, expected = start, _shown(zone, start)
        while instant <= end:
            shown = _shown(zone, instant)
            self.swallowed |= dict.fromkeys(_between(expected, shown, step), instant)
            self.local[instant] = shown
            self.happens.setdefault(shown, []).append(instant)
            instant, expected = instant + step, shown + step
        self.hours = sorted({(time.date(), time.hour) for time in [*self.happens, *self.swallowed]})
        if step == MINUTE and any(time.second for time in self.happens):
            raise ValueError(f"{zone} is off the whole minute around {start}; look at seconds")


@dataclass(frozen=True)
class Fields:
    """An expression's fields; a day is judged by the two words for it."""

    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    month_days: str
    months: frozenset[int]
    weekdays: str
    wild: bool

    def day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month = any(_is_month_day(term, day) for term in self.month_days.split(","))
        by_week = any(_is_weekday(term, day) for term in self.weekdays.split(","))
        if self.month_days.startswith("*") or self.weekdays.startswith("*"):
            return by_month and by_week
        return by_month or by_week


def fields(expression: str) -> Fields:
    words = NICKNAMES.get(expression.lower(), expression).lower().split()
    clock = words[:-3]
    second, minute, hour = ["0", *clock] if len(clock) == 2 else clock
    return Fields(
        seconds=_numbers(second, 0, 59),
        minutes=_numbers(minute, 0, 59),
        hours=_numbers(hour, 0, 23),
        month_days=words[-3],
        months=_numbers(words[-2], 1, 12),
        weekdays=words[-1],
        wild=any(word.startswith("*") for word in clock),
    )


def matching(fields: Fields, timeline: Timeline) -> list[datetime]:
    """The local times of the timeline, shown or jumped over, that match."""
    return [
        time
        for day, hour in timeline.hours
        if hour in fields.hours and fields.day(day)
        for minute in fields.minutes
        for second in fields.seconds
        for time in [datetime(day.year, day.month, day.day, hour, minute, second)]
        if time in timeline.happens or time in timeline.swallowed
    ]


def slots(fields: Fields, times: list[datetime], timeline: Timeline, policy: Policy) -> Slots:
    """The slots on a timeline, given the local times of it that match."""
    twice = policy == "all" or (policy == "debian" and fields.wild)
    rescued = policy == "debian" and not fields.wild
    found = {instant for time in times for instant in timeline.happens.get(time, [])[: None if twice else 1]}
    made_up = {timeline.swallowed[time] for time in times if time in timeline.swallowed} if rescued else set()
    return {instant: "gap" if instant in made_up else _mark(instant, timeline) for instant in sorted(found | made_up)}


def every(expression: str, anchor: datetime, end: datetime) -> Slots:
    """The slots of an @every expression until end."""
    step = timedelta(microseconds=_microseconds(expression.split()[1]))
    start = anchor.replace(microsecond=0) if step % MINUTE else anchor.replace(second=0, microsecond=0)
    return dict.fromkeys(_between(start + step, end + timedelta.resolution, step))


def _shown(zone: ZoneInfo, instant: datetime) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None)


def _mark(slot: datetime, timeline: Timeline) -> str | None:
    instants = timeline.happens[timeline.local[slot]]
    return ("first", "second")[instants.index(slot)] if len(instants) > 1 else None


def _is_month_day(term: str, day: date) -> bool:
    if term == "l":
        return (day + DAY).day == 1
    if term == "lw":
        rest = (day + DAY * ahead for ahead in range(1, 7))
        return day.isoweekday() <= 5 and not any(d.isoweekday() <= 5 and d.month == day.month for d in rest)
    return day.day in _numbers(term, 1, 31)


def _is_weekday(term: str, day: date) -> bool:
    weekday = day.isoweekday() % 7
    if "#" in term:
        name, _, place = term.partition("#")
        return weekday == _number(name) % 7 and (day.day + 6) // 7 == int(place)
    if term.endswith("l"):
        return weekday == _number(term[:-1]) % 7 and (day + 7 * DAY).month != day.month
    return weekday in {number % 7 for number in _numbers(term, 0, 6)}


@cache
def _numbers(text: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for term in text.split(","):
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        if first == "*":
            begin, end = low, high
        else:
            begin = _number(first)
            end = _number(last) if last else high if step else begin
        found |= set(range(begin, end + 1, int(step or 1)))
    return frozenset(found)


def _number(text: str) -> int:
    if text in WEEKDAYS:
        return WEEKDAYS.index(text)
    return MONTHS.index(text) + 1 if text in MONTHS else int(text)


def _microseconds(duration: str) -> int:
    total, amount, unit = Fraction(0), "", ""
    for character in [*duration, "0"]:
        is_amount = character.isdigit() or character == "."
        if is_amount and unit:
            total += Fraction(amount) * MICROSECONDS[unit]
            amount, unit = "", ""
        if is_amount:
            amount += character
        else:
            unit += character
    return int(total)


def _between(start: datetime, end: datetime, step: timedelta) -> Iterator[datetime]:
    """Start and what follows it, before end."""
    while start < end:
        yield start
        start += step
