"""Something that goes up and down over time: how many jobs wait, how many seats are taken."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import ceil
from typing import NamedTuple

from oncue.planning.spans import Span


class Series:
    """A number that changes at certain instants, and is 0 before the first."""

    def __init__(self, spans: Iterable[Span]) -> None:
        """How many of these spans cover an instant."""
        changes: dict[float, int] = {}
        for start, end in spans:
            if end > start:
                changes[start] = changes.get(start, 0) + 1
                changes[end] = changes.get(end, 0) - 1
        self.instants = sorted(changes)
        self.values: list[int] = []
        value = 0
        for instant in self.instants:
            value += changes[instant]
            self.values.append(value)

    def peak(self, start: float = 0.0, end: float = float("inf")) -> tuple[int, float]:
        """The highest value between two instants, and when it is first reached."""
        highest, at = 0, start
        for number in range(max(bisect_right(self.instants, start) - 1, 0), bisect_left(self.instants, end)):
            if self.values[number] > highest:
                highest, at = self.values[number], max(self.instants[number], start)
        return highest, at

    def area(self) -> float:
        """Value times seconds."""
        return sum(value * span.length for span, value in self._pieces())

    def areas(self, spans: Sequence[Span]) -> list[float]:
        """Value times seconds within each of these."""
        upto = [0.0]
        for span, value in self._pieces():
            upto.append(upto[-1] + value * span.length)

        def until(instant: float) -> float:
            number = bisect_right(self.instants, instant) - 1
            return upto[number] + self.values[number] * (instant - self.instants[number]) if number >= 0 else 0.0

        return [until(span.end) - until(span.start) for span in spans]

    def buckets(self, length: float, count: int) -> list[Bucket]:
        """The time from 0 to `length` in equal parts, each with its highest value and its mean."""
        width = length / count
        highest, area = [0] * count, [0.0] * count
        for (begins, ends), value in self._pieces():
            first, last = max(int(begins / width), 0), min(ceil(ends / width), count)
            for number in range(first, last):
                inside = min(ends, (number + 1) * width) - max(begins, number * width)
                if value and inside > 0:
                    highest[number] = max(highest[number], value)
                    area[number] += value * inside
        return [Bucket(number * width, highest[number], area[number] / width) for number in range(count)]

    def _pieces(self) -> Iterable[tuple[Span, int]]:
        following = self.instants[1:]
        return ((Span(*span), value) for *span, value in zip(self.instants, following, self.values, strict=False))


class Bucket(NamedTuple):
    start: float
    highest: int
    mean: float


class Percentiles(NamedTuple):
    """Of so many values; half of them, 95 % and 99 % are no larger than these, and none is larger than the last."""

    of: int
    p50: float
    p95: float
    p99: float
    max: float


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that so large a share does not exceed."""
    return ordered[max(ceil(share * len(ordered)) - 1, 0)] if ordered else 0.0


def percentiles(values: Iterable[float]) -> Percentiles:
    ordered = sorted(values)
    p50, p95, p99 = (percentile(ordered, share) for share in (0.5, 0.95, 0.99))
    return Percentiles(len(ordered), p50, p95, p99, ordered[-1] if ordered else 0.0)
