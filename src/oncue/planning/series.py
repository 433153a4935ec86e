"""Numbers over time and percentiles."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from oncue.planning.scenario import Span


class Bucket(NamedTuple):
    start: float
    highest: int
    mean: float


class Series:
    """How many of some spans cover an instant: jobs that wait, seats that are taken."""

    def __init__(self, spans: Iterable[Span]) -> None:
        changes: dict[float, int] = {}
        for start, end in spans:
            if end > start:
                changes[start] = changes.get(start, 0) + 1
                changes[end] = changes.get(end, 0) - 1
        self.instants = sorted(changes)
        self.values: list[int] = []
        self._area_until = [0.0]
        value = 0
        for number, instant in enumerate(self.instants):
            if number:
                self._area_until.append(self._area_until[-1] + value * (instant - self.instants[number - 1]))
            value += changes[instant]
            self.values.append(value)

    def peak(self, start: float = 0.0, end: float = float("inf")) -> tuple[int, float]:
        """The highest value between two instants, and when it is first reached."""
        highest, at = 0, start
        for number in range(max(bisect_right(self.instants, start) - 1, 0), bisect_left(self.instants, end)):
            if self.values[number] > highest:
                highest, at = self.values[number], max(self.instants[number], start)
        return highest, at

    def area(self, start: float = 0.0, end: float = float("inf")) -> float:
        """Value times seconds between two instants."""
        return self._area(end) - self._area(start)

    def _area(self, until: float) -> float:
        number = bisect_right(self.instants, until) - 1
        if number < 0:
            return 0.0
        value = self.values[number]
        return self._area_until[number] + (value * (until - self.instants[number]) if value else 0.0)

    def buckets(self, length: float, count: int) -> list[Bucket]:
        """The time from 0 to `length` in equal parts, each with its highest value and its mean."""
        width = length / count
        spans = [Span(number * width, (number + 1) * width) for number in range(count)]
        return [Bucket(span.start, self.peak(*span)[0], self.area(*span) / width) for span in spans]


class Percentiles(NamedTuple):
    """Of so many values; half of them, 95 % and 99 % are no larger than these, and none is larger than the last."""

    of: int
    p50: float
    p95: float
    p99: float
    max: float


def percentiles(values: Iterable[float]) -> Percentiles:
    ordered = sorted(values)
    if not ordered:
        return Percentiles(0, 0.0, 0.0, 0.0, 0.0)
    p50, p95, p99 = (ordered[ceil(share * len(ordered)) - 1] for share in (0.5, 0.95, 0.99))
    return Percentiles(len(ordered), p50, p95, p99, ordered[-1])
