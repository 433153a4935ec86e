"""Expressions such as `*/5 9-17 * * MON-FRI`: read into bit masks, and searched by local time.

A field is an integer whose bit n says that n matches, and so are the matching days of a month, of which there are only
28 shapes: a length and a first weekday. Searching shifts masks instead of stepping through minutes. Local times are
whole seconds, as if the local clock had run evenly since 1970: what a time zone makes of them is for `triggers` to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple, NoReturn

from oncue.errors import InvalidSchedule

LONGEST_EXPRESSION = 255
NEVER = 1 << 61
"""A local time beyond all others."""

_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_YEAR, _LAST_YEAR = 1969, 9999
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY = 2
_SUNDAY, _SATURDAY = 0, 6

_EVERY_DATE, _EVERY_WEEKDAY, _EVERY_MONTH = (2 << 31) - 2, (1 << 7) - 1, (2 << 12) - 2
_EVERY_SEVENTH = sum(2 << 7 * week for week in range(5))
_LAST_DAY, _LAST_WORKDAY = 1 << 32, 1 << 33
"""Bits beyond the days of a month: for `L` and for `LW`."""
_LAST = 6
"""The n of `FRIL`, where that of `FRI#2` is 2. Bit 7 n + d stands for the n-th weekday d; with n = 0, for every one."""


class _Kind(NamedTuple):
    """One of the six fields."""

    name: str
    low: int
    high: int
    written: int
    """The highest number that may be written: Sunday is 0, and 7 too."""
    names: tuple[str, ...] = ()

    def expected(self) -> str:
        article = "an" if self.name == "hour" else "a"
        named = f" or {self.names[0]}..{self.names[-1]}" if self.names else ""
        return f"{article} {self.name} from {self.low} to {self.written}{named}"

    def span(self, low: int, high: int) -> str:
        return self._shown(low) if low == high else f"{self._shown(low)}-{self._shown(high)}"

    def _shown(self, value: int) -> str:
        return self.names[value - self.low] if self.names else str(value)


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SECOND, _MINUTE, _HOUR = _Kind("second", 0, 59, 59), _Kind("minute", 0, 59, 59), _Kind("hour", 0, 23, 23)
_MONTH_DAY, _MONTH = _Kind("day of the month", 1, 31, 31), _Kind("month", 1, 12, 12, _MONTHS)
_WEEKDAY = _Kind("weekday", 0, 6, 7, _WEEKDAYS)
_KINDS = (_SECOND, _MINUTE, _HOUR, _MONTH_DAY, _MONTH, _WEEKDAY)

_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_UNITS |= {"h": 3600 * 10**9, "d": _DAY * 10**9}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d)")
_SHORTEST_STEP, _LONGEST_STEP = 10**9, 36_525 * _DAY * 10**9
_WORD = re.compile(r"[^ \t]+")


class Days(NamedTuple):
    """Which days match, month by month."""

    dates: int
    weekdays: int
    both: bool
    """Whether a day has to match both, and not just one of them."""

    def every(self) -> bool:
        dates = self.dates & _EVERY_DATE == _EVERY_DATE
        weekdays = self.weekdays & _EVERY_WEEKDAY == _EVERY_WEEKDAY
        return dates and weekdays if self.both else dates or weekdays

    def of(self, length: int, weekday: int) -> int:
        """The days of a month of this length that begins with this weekday (0 is Sunday)."""
        dates, weekdays = self._by_date(length, weekday), self._by_weekday(length, weekday)
        return (dates & weekdays if self.both else dates | weekdays) & (2 << length) - 2

    def _by_date(self, length: int, weekday: int) -> int:
        mask = self.dates
        if mask & _LAST_DAY:
            mask |= 1 << length
        if mask & _LAST_WORKDAY:
            last = (weekday + length - 1) % 7
            mask |= 1 << length - {_SATURDAY: 1, _SUNDAY: 2}.get(last, 0)
        return mask

    def _by_weekday(self, length: int, weekday: int) -> int:
        if self.weekdays == _EVERY_WEEKDAY:
            return _EVERY_DATE
        mask = 0
        for bit in _bits(self.weekdays):
            nth, wanted = divmod(bit, 7)
            first = 1 + (wanted - weekday) % 7
            if nth == 0:
                mask |= _EVERY_SEVENTH << first - 1
            else:
                mask |= 1 << first + 7 * ((length - first) // 7 if nth == _LAST else nth - 1)
        return mask


class Fields:
    """What an expression matches, by local time."""

    __slots__ = (
        "_days", "_every_day", "_first_clock", "_hours", "_last_clock", "_minutes", "_months", "_per_day", "_per_hour",
        "_per_minute", "_seconds", "_shapes", "wild",
    )  # fmt: skip

    def __init__(self, seconds: int, minutes: int, hours: int, months: int, days: Days, wild: bool) -> None:
        self._seconds, self._minutes, self._hours, self._months, self._days = seconds, minutes, hours, months, days
        self.wild = wild
        """Whether this is a rhythm (`*/5 * * * *`) rather than a time of day (`30 2 * * *`)."""
        self._shapes: dict[int, int] = {}
        self._every_day = months == _EVERY_MONTH and days.every()
        self._first_clock = _lowest(hours) * 3600 + _lowest(minutes) * 60 + _lowest(seconds)
        self._last_clock = _highest(hours) * 3600 + _highest(minutes) * 60 + _highest(seconds)
        self._per_minute = seconds.bit_count()
        self._per_hour = minutes.bit_count() * self._per_minute
        self._per_day = hours.bit_count() * self._per_hour

    def matches(self, local: int) -> bool:
        day, clock = divmod(local, _DAY)
        hour, rest = divmod(clock, 3600)
        minute, second = divmod(rest, 60)
        on_time = self._hours >> hour & self._minutes >> minute & self._seconds >> second & 1
        return bool(on_time) and self._has_day(day)

    def ceil(self, local: int) -> int:
        """The first match that is not earlier; `NEVER` if there is none before the calendar ends."""
        day, clock = divmod(local, _DAY)
        found = self._first_day(day)
        if found == day:
            later = self._ceil_clock(clock)
            if later is not None:
                return local - clock + later
            found = self._first_day(day + 1)
        return NEVER if found is None else found * _DAY + self._first_clock

    def floor(self, local: int) -> int:
        """The last match that is not later; minus `NEVER` if there is none since 1969."""
        day, clock = divmod(local, _DAY)
        found = self._last_day(day)
        if found == day:
            earlier = self._floor_clock(clock)
            if earlier is not None:
                return local - clock + earlier
            found = self._last_day(day - 1)
        return -NEVER if found is None else found * _DAY + self._last_clock

    def count(self, start: int, end: int) -> int:
        """How many matches there are in [start, end)."""
        if start >= end:
            return 0
        (first, since), (last, until) = divmod(start, _DAY), divmod(end, _DAY)
        total = self._count_days(first, last) * self._per_day
        if self._has_day(first):
            total -= self._count_clock(since)
        if self._has_day(last):
            total += self._count_clock(until)
        return total

    def fires(self) -> bool:
        """Whether any date matches at all: within 400 years, every month comes in all the shapes that it can have."""
        lengths = {length for month in _bits(self._months) for length in _possible_lengths(month)}
        return any(self._days.of(length, weekday) for length in lengths for weekday in range(7))

    def _has_day(self, day: int) -> bool:
        if self._every_day:
            return True
        today = date.fromordinal(day + _EPOCH)
        return bool(self._mask(today.year, today.month, day - today.day) >> today.day & 1)

    def _first_day(self, day: int) -> int | None:
        if self._every_day:
            return day
        today = date.fromordinal(day + _EPOCH)
        year, month, eve = today.year, today.month, day - today.day
        rest = self._mask(year, month, eve) >> today.day
        if rest:
            return day + _lowest(rest)
        while year <= _LAST_YEAR:
            eve += _length(year, month)
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            mask = self._mask(year, month, eve)
            if mask:
                return eve + _lowest(mask)
        return None

    def _last_day(self, day: int) -> int | None:
        if self._every_day:
            return day
        today = date.fromordinal(day + _EPOCH)
        year, month, eve = today.year, today.month, day - today.day
        rest = self._mask(year, month, eve) & (2 << today.day) - 1
        if rest:
            return eve + _highest(rest)
        while year >= _FIRST_YEAR:
            year, month = (year, month - 1) if month > 1 else (year - 1, 12)
            eve -= _length(year, month)
            mask = self._mask(year, month, eve)
            if mask:
                return eve + _highest(mask)
        return None

    def _count_days(self, first: int, last: int) -> int:
        """How many days in [first, last) match."""
        if self._every_day or first == last:
            return last - first
        start = date.fromordinal(first + _EPOCH)
        year, month, eve = start.year, start.month, first - start.day
        total = -(self._mask(year, month, eve) & (1 << start.day) - 1).bit_count()
        while eve + _length(year, month) < last:
            total += self._mask(year, month, eve).bit_count()
            eve += _length(year, month)
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        return total + (self._mask(year, month, eve) & (1 << last - eve) - 1).bit_count()

    def _mask(self, year: int, month: int, eve: int) -> int:
        """The matching days of a month, given the day before its first."""
        if not self._months >> month & 1:
            return 0
        length, weekday = _length(year, month), (eve + 1 + _EPOCH) % 7
        shape = length * 7 + weekday
        mask = self._shapes.get(shape)
        if mask is None:
            mask = self._shapes[shape] = self._days.of(length, weekday)
        return mask

    def _ceil_clock(self, clock: int) -> int | None:
        """The first matching time of a day that is not earlier, in seconds since midnight."""
        hour, rest = divmod(clock, 3600)
        if self._hours >> hour & 1:
            minute, second = divmod(rest, 60)
            if self._minutes >> minute & 1 and (seconds := self._seconds >> second):
                return clock + _lowest(seconds)
            if minutes := self._minutes >> minute + 1:
                return hour * 3600 + (minute + 1 + _lowest(minutes)) * 60 + _lowest(self._seconds)
        if hours := self._hours >> hour + 1:
            return (hour + 1 + _lowest(hours)) * 3600 + self._first_clock % 3600
        return None

    def _floor_clock(self, clock: int) -> int | None:
        hour, rest = divmod(clock, 3600)
        if self._hours >> hour & 1:
            minute, second = divmod(rest, 60)
            if self._minutes >> minute & 1 and (seconds := self._seconds & (2 << second) - 1):
                return clock - second + _highest(seconds)
            if minutes := self._minutes & (1 << minute) - 1:
                return hour * 3600 + _highest(minutes) * 60 + _highest(self._seconds)
        if hours := self._hours & (1 << hour) - 1:
            return _highest(hours) * 3600 + self._last_clock % 3600
        return None

    def _count_clock(self, clock: int) -> int:
        """How many times of a day are earlier than this one."""
        hour, rest = divmod(clock, 3600)
        minute, second = divmod(rest, 60)
        total = (self._hours & (1 << hour) - 1).bit_count() * self._per_hour
        if self._hours >> hour & 1:
            total += (self._minutes & (1 << minute) - 1).bit_count() * self._per_minute
            if self._minutes >> minute & 1:
                total += (self._seconds & (1 << second) - 1).bit_count()
        return total


def parse(expression: str) -> Fields | timedelta:
    """What an expression means: fields to match, or the step of an `@every`. Raises InvalidSchedule."""
    if len(expression) > LONGEST_EXPRESSION:
        _refuse(f"expected at most {LONGEST_EXPRESSION} characters, not {len(expression)}", LONGEST_EXPRESSION)
    words = [(word[0], word.start()) for word in _WORD.finditer(expression)]
    if not words:
        _refuse("expected five fields such as '*/5 * * * *', or an alias such as @daily, not nothing", 0)
    if words[0][0].startswith("@"):
        return _alias(words)
    return _fields(words, len(expression))


def normalised(expression: str) -> str:
    """The expression with single blanks between its fields, as it is stored and shown."""
    return " ".join(_WORD.findall(expression))


def _alias(words: list[tuple[str, int]]) -> Fields | timedelta:
    (name, at), *others = words
    _refuse_foreign_characters(name, at)
    folded = name.lower()
    if folded == "@every":
        return _step(others, at + len(name))
    if folded == "@reboot":
        _refuse("@reboot is not known here: a schedule belongs to the database, which outlives every boot", at)
    if folded not in _ALIASES:
        _refuse(f"expected one of {', '.join(_ALIASES)} or @every <duration>, not {_shown(name)}", at)
    if others:
        _refuse(f"expected nothing after {folded}, not {_shown(others[0][0])}", others[0][1])
    return _fields([(word[0], word.start()) for word in _WORD.finditer(_ALIASES[folded])], 0)


def _step(words: list[tuple[str, int]], end: int) -> timedelta:
    """The duration of an `@every`, added up exactly and then rounded to the microsecond."""
    if not words:
        _refuse("expected a duration after @every, such as @every 1h30m", end)
    if len(words) > 1:
        _refuse("expected one duration without blanks, such as @every 1h30m", words[1][1])
    from fractions import Fraction  # most rules are no @every

    text, at = words[0]
    total, read = Fraction(0), 0
    while part := _DURATION_PART.match(text, read):
        total += Fraction(part[1]) * _UNITS[part[2]]
        read = part.end()
    if read != len(text):
        _refuse(
            f"expected a duration such as 30s, 10m or 1h30m (units ns, us, ms, s, m, h, d), not {_shown(text[read:])}",
            at + read,
        )
    if not _SHORTEST_STEP <= total <= _LONGEST_STEP:
        _refuse(f"expected a duration from 1 second to 100 years, not {_shown(text)}", at)
    return timedelta(microseconds=round(total / 1000))


def _fields(words: list[tuple[str, int]], end: int) -> Fields:
    if len(words) not in (5, 6):
        _refuse_number_of_fields(words, end)
    for word, at in words:
        _refuse_foreign_characters(word, at)
    masks = [_field(kind, word, at) for kind, (word, at) in zip(_KINDS[-len(words) :], words, strict=True)]
    *clock, (dates, at), _, (weekdays, _) = words
    *seconds, minutes, hours, date_mask, months, weekday_mask = masks
    days = Days(date_mask, weekday_mask, both=dates.startswith("*") or weekdays.startswith("*"))
    wild = any(word.startswith("*") for word, _ in clock)
    fields = Fields(seconds[0] if seconds else 1, minutes, hours, months, days, wild)
    if not fields.fires():
        _refuse("this never fires: none of its months has such a day", at)
    return fields


def _field(kind: _Kind, text: str, at: int) -> int:
    mask = 0
    for term in text.split(","):
        mask |= _term(kind, term, at)
        at += len(term) + 1
    return mask


def _term(kind: _Kind, term: str, at: int) -> int:
    base, slash, step = term.partition("/")
    every = _every(step, at + len(base) + 1) if slash else 1
    if base == "*":
        return _mask_of(kind, kind.low, kind.high, every)
    if "-" in base:
        low, high = _range(kind, base, at)
        return _mask_of(kind, low, high, every)
    if not slash and (special := _special(kind, base, at)):
        return special
    low = _value(kind, base, at)
    return _mask_of(kind, low, max(low, kind.high) if slash else low, every)


def _every(text: str, at: int) -> int:
    if not text.isdigit() or not int(text):
        _refuse(f"expected a step of at least 1, not {_shown(text)}", at)
    return int(text)


def _range(kind: _Kind, text: str, at: int) -> tuple[int, int]:
    first, _, last = text.partition("-")
    low, high = _value(kind, first, at), _value(kind, last, at + len(first) + 1)
    if low > high:
        instead = kind.span(kind.low, high)
        if low <= kind.high:
            instead = f"{kind.span(low, kind.high)},{instead}"
        _refuse(f"expected a range that rises, not {_shown(text)}: write {instead}", at)
    return low, high


def _special(kind: _Kind, text: str, at: int) -> int:
    """The mask of a term that depends on the month: `L` or `LW`, `FRI#2` or `FRIL`. 0 if it is none."""
    if kind is _MONTH_DAY:
        return {"L": _LAST_DAY, "LW": _LAST_WORKDAY}.get(text.upper(), 0)
    if kind is not _WEEKDAY:
        return 0
    day, hash_sign, nth = text.partition("#")
    if hash_sign:
        weekday = _value(kind, day, at)
        if nth not in ("1", "2", "3", "4", "5"):
            _refuse(f"expected a number from 1 to 5 after #, not {_shown(nth)}", at + len(day) + 1)
        return 1 << 7 * int(nth) + weekday % 7
    if len(text) > 1 and text.endswith(("L", "l")):
        return 1 << 7 * _LAST + _value(kind, text[:-1], at) % 7
    return 0


def _mask_of(kind: _Kind, low: int, high: int, every: int) -> int:
    mask = (2 << high) - (1 << low)
    if every > 1:
        mask = sum(1 << value for value in range(low, high + 1, every))
    return mask & _EVERY_WEEKDAY | mask >> 7 if kind is _WEEKDAY else mask


def _value(kind: _Kind, text: str, at: int) -> int:
    if text.isdigit():
        value = int(text)
        if kind.low <= value <= kind.written:
            return value
    elif text.upper() in kind.names:
        return kind.names.index(text.upper()) + kind.low
    _refuse(_hint(kind, text.upper()) or f"expected {kind.expected()}, not {_shown(text)}", at)


def _hint(kind: _Kind, text: str) -> str | None:
    """What to say about things that other crons know."""
    if "?" in text:
        return "'?' is not known here: write * for any value"
    if "#" in text:
        return "only day-of-week knows #, as in MON#2 for the second Monday of a month"
    if kind is _MONTH_DAY and "W" in text:
        return "of the forms with W only LW is known, the last weekday of the month"
    if kind is _MONTH_DAY and text.startswith("L"):
        return "L stands alone: it is the last day of the month"
    if kind is _WEEKDAY and text == "L":
        return "expected a weekday before L, as in FRIL for the last Friday of a month"
    if text == "L":
        return "only day-of-month and day-of-week know L"
    return None


def _refuse_number_of_fields(words: list[tuple[str, int]], end: int) -> NoReturn:
    wanted = "expected five fields (minute hour day-of-month month day-of-week), or six with the second first"
    at = words[6][1] if len(words) > 6 else end
    years = "; a year is not known here" if len(words) == 7 else ""
    _refuse(f"{wanted}, not {len(words)}{years}", at)


def _refuse_foreign_characters(word: str, at: int) -> None:
    """Before anything is turned to upper case, which makes ordinary letters of some foreign ones."""
    if not word.isascii():
        place = next(place for place, character in enumerate(word) if not character.isascii())
        _refuse(f"unexpected character {_shown(word[place])}", at + place)


def _refuse(message: str, at: int) -> NoReturn:
    raise InvalidSchedule("expression", f"{message} (at position {at + 1})", at + 1)


def _shown(text: str) -> str:
    return "nothing" if not text else repr(text) if len(text) <= 30 else f"{text[:30]!r}..."


def _length(year: int, month: int) -> int:
    if month == _FEBRUARY and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _LENGTHS[month]


def _possible_lengths(month: int) -> tuple[int, ...]:
    return (28, 29) if month == _FEBRUARY else (_LENGTHS[month],)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        yield _lowest(mask)
        mask &= mask - 1


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _highest(mask: int) -> int:
    return mask.bit_length() - 1
