"""Expressions in words, for people who do not read cron: `0 3 * * MON-FRI` becomes `at 03:00, Monday to Friday`.

The words say what the expression says, field by field. They are made from its text, which `cron.parse` has accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeAlias

from oncue.policy.cron import normalised, parse
from oncue.policy.durations import describe
from oncue.policy.windows import is_window, rule_of

Named: TypeAlias = Callable[[str], str]
"""What a number or a name of a field is called."""

_ALIASES = {
    "@yearly": "at 00:00 on 1 January",
    "@annually": "at 00:00 on 1 January",
    "@monthly": "at 00:00 on the 1st",
    "@weekly": "at 00:00 on Sunday",
    "@daily": "every day at 00:00",
    "@midnight": "every day at 00:00",
    "@hourly": "every hour, at minute 0",
}
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH = ("", "first", "second", "third", "fourth", "fifth")
_MOST_TIMES = 6
"""So many times of day are listed one by one."""


def in_words(expression: str) -> str:
    """An expression in words. Raises InvalidSchedule if it is none."""
    if is_window(expression):
        found = rule_of(expression)
        return f"once a day for each subject, within {describe(found.length)} before its due time"
    parsed = parse(expression)
    if isinstance(parsed, timedelta):
        return f"every {describe(parsed.total_seconds())}"
    words = normalised(expression)
    if words.startswith("@"):
        return _ALIASES[words.lower()]
    fields = words.upper().split(" ")
    seconds, minutes, hours, dates, months, weekdays = fields if len(fields) == 6 else ["0", *fields]
    days, times = _days(dates, months, weekdays), _times(seconds, minutes, hours)
    clock = f"at {_list(times)}" if times else _rhythms(seconds, minutes, hours)
    if not days:
        return f"every day {clock}" if times else clock
    return f"{clock} {days}" if times and days.startswith("on ") else f"{clock}, {days}"


# --- the time of day ------------------------------------------------------------------------------------------------


def _rhythms(seconds: str, minutes: str, hours: str) -> str:
    """What is not a list of times: each field by itself, the finest that repeats first."""
    parts = [_rhythm(hours, "hour"), _rhythm(minutes, "minute"), _rhythm(seconds, "second")]
    if seconds == "0":
        parts.pop()
    while len(parts) > 1 and parts[0] in ("every hour", "every minute") and parts[1].startswith("every "):
        parts.pop(0)
    if parts[0].startswith("every "):
        return ", ".join(parts)
    return ", ".join(reversed(parts))


def _times(seconds: str, minutes: str, hours: str) -> list[str]:
    """Times of day, if they are few and all fields are plain numbers."""
    if not (_is_list(seconds) and _is_list(minutes) and _is_list(hours)):
        return []
    numbers = [sorted({int(one) for one in text.split(",")}) for text in (hours, minutes, seconds)]
    found = [(hour, minute, second) for hour in numbers[0] for minute in numbers[1] for second in numbers[2]]
    if len(found) > _MOST_TIMES:
        return []
    exact = any(second for _, _, second in found)
    return [f"{h:02}:{m:02}:{s:02}" if exact else f"{h:02}:{m:02}" for h, m, s in found]


def _is_list(text: str) -> bool:
    return all(part.isdecimal() for part in text.split(","))


def _rhythm(text: str, unit: str) -> str:
    if text in ("*", "*/1"):
        return f"every {unit}"
    if step := re.fullmatch(r"\*/(\d+)", text):
        return f"every {int(step[1])} {unit}s"
    if one := _stepped(text, unit, str):
        return one
    if unit == "hour":
        return f"from {_hours(text)}" if _is_span(text) else f"in {_plural('hour', text)} {_terms(text, str)}"
    return f"at {_plural(unit, text)} {_terms(text, str)}"


def _is_span(text: str) -> bool:
    return re.fullmatch(r"\d+-\d+", text) is not None


def _hours(text: str) -> str:
    """Hours from the first minute of the first one to the last of the last one."""
    low, high = (int(part) for part in text.split("-"))
    return f"{low:02}:00 to {high:02}:59"


def _plural(unit: str, text: str) -> str:
    return unit if text.isdecimal() else f"{unit}s"


# --- the day --------------------------------------------------------------------------------------------------------


def _days(dates: str, months: str, weekdays: str) -> str:
    of_month = "" if dates in ("*", "?") else f"on {_dates(dates)}"
    of_week = "" if weekdays in ("*", "?") else _weekdays(weekdays)
    if of_month and of_week:  # as in cron: one of the two is enough, unless one of them begins with a star
        both = dates.startswith("*") or weekdays.startswith("*")
        found = f"{of_month}, if it is {of_week.removeprefix('on ')}" if both else f"{of_month} and {of_week}"
    else:
        found = of_month or of_week
    if months == "*":
        return found
    named = _terms(months, _month)
    return f"{found} in {named}" if found else f"in {named}"


def _dates(text: str) -> str:
    if text == "L":
        return "the last day of the month"
    if text == "LW":
        return "the last weekday of the month"
    if step := re.fullmatch(r"\*/(\d+)", text):
        return f"every {_ordinal(int(step[1]))} day of the month"
    if one := _stepped(text, "day", lambda date: f"the {_date(date)}"):
        return one
    return f"the {_terms(text, _date)}"


def _date(text: str) -> str:
    return {"L": "last day", "LW": "last weekday"}.get(text) or _ordinal(int(text))


def _weekdays(text: str) -> str:
    if step := re.fullmatch(r"\*/(\d+)", text):
        return f"on every {_ordinal(int(step[1]))} day of the week"
    if one := _stepped(text, "day", _weekday):
        return f"on {one}"
    words = _terms(text, _weekday)
    return words if re.fullmatch(r"[^,/]+-[^,/]+", text) else f"on {words}"


def _weekday(text: str) -> str:
    day, _, nth = text.partition("#")
    if nth:
        return f"the {_NTH[int(nth)]} {_weekday(day)} of the month"
    if len(text) > 1 and text.endswith("L"):
        return f"the last {_weekday(text[:-1])} of the month"
    if text.isdecimal():
        return _DAYS[int(text) % 7]
    return next(day for day in _DAYS if day.upper().startswith(text[:3]))


def _month(text: str) -> str:
    if text.isdecimal():
        return _MONTHS[int(text) - 1]
    return next(month for month in _MONTHS if month.upper().startswith(text[:3]))


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


# --- lists ----------------------------------------------------------------------------------------------------------


def _stepped(text: str, unit: str, named: Named) -> str | None:
    """`8-18/2` and `8/2`, if nothing else stands beside them."""
    base, slash, step = text.partition("/")
    if not slash or "," in text or base == "*":
        return None
    low, _, high = base.partition("-")
    until = f" to {named(high)}" if high else ""
    return f"every {_ordinal(int(step))} {unit} from {named(low)}{until}"


def _terms(text: str, named: Named) -> str:
    return _list([_term(term, named) for term in text.split(",")])


def _term(term: str, named: Named) -> str:
    base, slash, step = term.partition("/")
    if base == "*":
        return f"every {_ordinal(int(step))}" if slash else "every one"
    low, dash, high = base.partition("-")
    words = f"{named(low)} to {named(high)}" if dash else named(low)
    if slash:
        return f"every {_ordinal(int(step))} from {words}"
    return words


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
