"""Jobs that the application itself enqueues: at a rate, all day or in some hours of it, or many at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count, pairwise, takewhile
from random import Random

from oncue.planning.spans import DAY, Span, clock_time, within

EXPECTED = (
    "expected a rate such as 20/m or 1500/d, one for some hours such as 20/m@09:00-17:00, "
    "or so many at once every day such as 5000@09:00"
)
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}
MOST = 100_000_000.0
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)(?:/([smhd]))?(?:@(\d\d:\d\d)(?:-(\d\d:\d\d))?)?")


@dataclass(frozen=True, slots=True)
class Stream:
    """The jobs of one task: so many in a day's open hours, at random, or all together when these begin."""

    task: str
    per_day: float
    opens: float
    closes: float
    """Seconds since midnight, UTC. A stream whose hours end where they begin is a batch."""
    text: str

    def words(self) -> str:
        return f"{self.task}={self.text}"

    @property
    def at_once(self) -> bool:
        return self.opens == self.closes

    def expected(self, start: datetime, length: float) -> float:
        """How many jobs come in the simulated time, on average."""
        days = takewhile(lambda day: day.start < length, self._days(start))
        if self.at_once:
            return self.per_day * sum(day.start >= 0 for day in days)
        return self.per_day * within(list(days), 0.0, length) / (self.closes - self.opens)

    def batches(self, start: datetime, length: float, dice: Random) -> Iterator[tuple[float, int]]:
        """When jobs come, in seconds since the start, and how many of them together."""
        for day in self._days(start):
            if day.start >= length:
                return
            if self.at_once:
                if day.start >= 0:
                    yield day.start, round(self.per_day)
            else:
                yield from self._random(day, length, dice)

    def _random(self, day: Span, length: float, dice: Random) -> Iterator[tuple[float, int]]:
        rate = self.per_day / (self.closes - self.opens)
        at = max(day.start, 0.0)
        while (at := at + dice.expovariate(rate)) < min(day.end, length):
            yield round(at, 6), 1

    def _days(self, start: datetime) -> Iterator[Span]:
        """The open hours of each day, the first of them perhaps begun before the start."""
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
        for day in count():
            begins = (midnight + timedelta(days=day) - start).total_seconds()
            yield Span(begins + self.opens, begins + self.closes)


def stream(task: str, text: str) -> Stream:
    """What somebody wrote for a task's arrivals. Raises ValueError."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{EXPECTED}; not {text!r:.100}")
    number, unit, opens, closes = float(found[1]), found[2], found[3], found[4]
    if (unit is None) != (opens is not None and closes is None) or not 0 < number <= MOST:
        raise ValueError(f"{EXPECTED}; not {text!r:.100}")
    begins = 0.0 if opens is None else clock_time(opens, EXPECTED)
    if unit is None:
        if not number.is_integer():
            raise ValueError(f"{EXPECTED}; {text!r:.100} is not a whole number of jobs")
        return Stream(task, number, begins, begins, text.strip())
    ends = DAY if closes is None else clock_time(closes, EXPECTED)
    if ends <= begins:
        raise ValueError(f"{EXPECTED}; the hours of {text!r:.100} end before they begin")
    per_day = number if unit == "d" else number * (ends - begins) / UNITS[unit]
    return Stream(task, per_day, begins, ends, text.strip())


def check_apart(streams: Sequence[Stream]) -> None:
    """Whether two of a task are of the same hours: nobody could tell if they add up. Raises ValueError."""
    ordered = sorted(streams, key=lambda one: (one.task, one.at_once, one.opens))
    for one, two in pairwise(ordered):
        if (one.task, one.at_once) == (two.task, two.at_once) and (two.opens < one.closes or one.opens == two.opens):
            raise ValueError(f"expected {one.task} once for every hour, not both {one.text} and {two.text}")
