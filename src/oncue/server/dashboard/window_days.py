"""What became of a window's day, as pages show it: sums, bars by the minute of the cutoff, and the days around it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple

from oncue.model import DayCount, Schedule
from oncue.policy.subjects import shown_due
from oncue.records.windows import day_totals_of

if TYPE_CHECKING:
    from oncue.app import Oncue

FATES = {
    "success": "success", "cutoff_reached": "cutoff reached", "missed": "missed", "added_late": "added late",
    "open": "open",
}  # fmt: skip
"""What a day comes to, from the bottom of a bar to its top."""
AT_RISK = "at_risk"
STEPS = (1, 5, 10, 15, 30, 60)
MOST_BARS = 96
LABELS_APART = (1, 2, 3, 4, 6)
MOST_LABELS = 8
MOST_ROWS = 24
"""More cutoffs than that are shown by the hour."""
LEAST_HEIGHT = 1.5
DAY_MINUTES = 1440
KEPT_SECONDS, KEPT_LATELY = 60.0, 5.0
"""How long the sums of a day are kept that is over, and of one that may change."""
SETTLED_AFTER = timedelta(days=2)
"""So long after its date a day is over in every zone."""


class DaySums(NamedTuple):
    """How many subjects came to what."""

    success: int = 0
    cutoff_reached: int = 0
    missed: int = 0
    added_late: int = 0
    open: int = 0

    @property
    def all(self) -> int:
        return sum(self)

    @property
    def done(self) -> int:
        return self.all - self.open

    @property
    def without(self) -> int:
        """Those who got nothing, and should have."""
        return self.cutoff_reached + self.missed

    @property
    def sentence(self) -> str:
        return ", ".join(f"{number:,} {FATES[name]}" for name, number in self._asdict().items() if number) or "nothing"


class BarPart(NamedTuple):
    """One colour of a bar. All is told in hundredths of the whole height, or width."""

    kind: str
    start: float
    length: float


class DayBar(NamedTuple):
    """The cutoffs of some minutes, as a column."""

    x: int
    parts: Sequence[BarPart]
    title: str


class DayChart(NamedTuple):
    """The columns of a day, or of an hour of it, beside each other, ten wide each."""

    bars: Sequence[DayBar]
    width: int
    highest: int
    labels: Sequence[str]


class CutoffRow(NamedTuple):
    """The cutoffs of a minute or of an hour, in figures."""

    name: str
    sums: DaySums
    at_risk: int
    hour: int | None
    """The hour whose minutes can be looked at one by one."""


def by_bucket(counts: Sequence[DayCount]) -> dict[int, DaySums]:
    """What subjects came to by the minute of their cutoff, in UTC, the earliest first."""
    found: dict[int, dict[str, int]] = {}
    for bucket, event, number in counts:
        found.setdefault(bucket, {})[event] = number
    return {bucket: DaySums(**day_totals_of(found[bucket])) for bucket in sorted(found)}


def together(many: Sequence[DaySums]) -> DaySums:
    return DaySums(*map(sum, zip(*many, strict=True))) if many else DaySums()


# --- the columns of a day -------------------------------------------------------------------------------------------


def chart(buckets: Mapping[int, DaySums], at_risk: Mapping[int, int], hour: int | None = None) -> DayChart | None:
    """The columns of a day; None if it has none yet. `at_risk` are the subjects that will miss their cutoff."""
    known = [bucket for bucket in buckets if hour is None or bucket // 60 == hour]
    if not known:
        return None
    first, last, apart = _span(known, hour)
    step = next(step for step in STEPS if (last - first) / step <= MOST_BARS)
    columns = [
        (at, together([buckets[bucket] for bucket in range(at, at + step) if bucket in buckets]),
         sum(at_risk.get(bucket, 0) for bucket in range(at, at + step)))
        for at in range(first, last, step)
    ]  # fmt: skip
    highest = max(sums.all for _, sums, _ in columns) or 1
    bars = [
        DayBar(place * 10, _parts(sums, risk, highest), _title(at, step, sums, risk))
        for place, (at, sums, risk) in enumerate(columns)
        if sums.all
    ]
    labels = [shown_due(at % DAY_MINUTES) for at in range(first, last + 1, apart)]
    return DayChart(bars, len(columns) * 10, highest, labels)


def _span(known: Sequence[int], hour: int | None) -> tuple[int, int, int]:
    """From when until when, in whole hours, and how far the labels are apart."""
    if hour is not None:
        return hour * 60, hour * 60 + 60, 10
    first, hours = min(known) // 60, max(known) // 60 - min(known) // 60 + 1
    apart = next(apart for apart in LABELS_APART if hours <= apart * MOST_LABELS)
    hours = -(-hours // apart) * apart
    first = max(min(first, 24 - hours), 0)
    return first * 60, (first + hours) * 60, apart * 60


def _parts(sums: DaySums, at_risk: int, highest: int) -> list[BarPart]:
    """From the bottom up; what is small is seen all the same."""
    numbers = {**sums._asdict(), AT_RISK: min(at_risk, sums.open)}
    numbers["open"] -= numbers[AT_RISK]
    found, top = [], 100.0
    for kind, number in numbers.items():
        if number:
            length = max(100 * number / highest, LEAST_HEIGHT)
            top = max(top - length, 0.0)
            found.append(BarPart(kind, round(top, 2), round(length, 2)))
    return found


def _title(at: int, step: int, sums: DaySums, at_risk: int) -> str:
    until = "" if step == 1 else f" to {shown_due(at + step - 1)}"
    risk = f"; at the present rate {at_risk:,} miss it" if at_risk else ""
    return f"{shown_due(at)}{until} UTC: {sums.sentence}{risk}"


def stripe(sums: DaySums) -> list[BarPart]:
    """All together from left to right, in hundredths."""
    found, reached = [], 0.0
    for kind, number in sums._asdict().items():
        if number:
            length = 100 * number / sums.all
            found.append(BarPart(kind, round(reached, 2), round(length, 2)))
            reached += length
    return found


def rows(buckets: Mapping[int, DaySums], at_risk: Mapping[int, int], hour: int | None = None) -> list[CutoffRow]:
    """By the minute if these are few, or if they are of one hour; else by the hour."""
    known = [bucket for bucket in buckets if hour is None or bucket // 60 == hour]
    if hour is not None or len(known) <= MOST_ROWS:
        return [CutoffRow(shown_due(bucket), buckets[bucket], at_risk.get(bucket, 0), None) for bucket in known]
    return [
        CutoffRow(f"{one:02}:00 to {one:02}:59", together([buckets[bucket] for bucket in known if bucket // 60 == one]),
            sum(at_risk.get(bucket, 0) for bucket in known if bucket // 60 == one), one)
        for one in sorted({bucket // 60 for bucket in known})
    ]  # fmt: skip


# --- the days around it ---------------------------------------------------------------------------------------------


class PastDays:
    """The sums of the days around the one that is shown. They are kept for a while, however many tabs show them: a day
    may have a count for every minute."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, date], tuple[float, DaySums]] = {}

    async def sums(self, app: Oncue, window: Schedule, day: date, today: date) -> DaySums:
        key, now = (window.id, day), time.monotonic()
        if key in self._kept and self._kept[key][0] > now:
            return self._kept[key][1]
        found = together([*by_bucket(await app.windows.day(window.name, day)).values()])
        lasts = KEPT_SECONDS if day < today - SETTLED_AFTER else KEPT_LATELY
        self._kept = {one: kept for one, kept in self._kept.items() if kept[0] > now}
        self._kept[key] = now + lasts, found
        return found
