"""A scenario: what is to be simulated, as one value, and the random numbers of each attempt in it.

Every attempt has random numbers of its own, seeded by what it is: the same job takes as long on two nodes as on three,
so that scenarios can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count, takewhile
from random import Random
from typing import NamedTuple

from oncue.model import Limits

DAY = 86400.0
SHORTEST = 0.001
"""The least that an attempt takes. With thousands of attempts of no length the simulated clock would stand still."""


class Span(NamedTuple):
    """A stretch of the simulated time, in seconds since its start."""

    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


def joined(spans: Iterable[Span], gap: float = 0.0) -> list[Span]:
    """The spans in order. Those that overlap, or that are no further apart than `gap`, become one."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start <= found[-1].end + gap:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def within(spans: Sequence[Span], start: float, end: float) -> float:
    """How many seconds between these two lie inside of the spans."""
    return sum(max(min(span.end, end) - max(span.start, start), 0.0) for span in spans)


@dataclass(frozen=True, slots=True)
class Spread:
    """How long the attempts of a task take."""

    text: str
    """As it is written on a command line."""
    draw: Callable[[Random], float] = field(compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Stream:
    """Jobs of one task that the application enqueues: at random in a day's open hours, or all when these begin."""

    task: str
    per_day: float
    opens: float
    closes: float
    """Seconds since midnight, UTC. A stream whose hours end where they begin is a batch."""
    text: str

    def __str__(self) -> str:
        return f"{self.task}={self.text}"

    @property
    def at_once(self) -> bool:
        return self.opens == self.closes

    def expected(self, start: datetime, length: float) -> float:
        """How many jobs come in the simulated time, on average."""
        days = list(self._days(start, length))
        if self.at_once:
            return self.per_day * sum(day.start >= 0 for day in days)
        return self.per_day * within(days, 0.0, length) / (self.closes - self.opens)

    def batches(self, start: datetime, length: float, rng: Random) -> Iterator[tuple[float, int]]:
        """When jobs come, in seconds since the start, and how many of them together."""
        for day in self._days(start, length):
            if not self.at_once:
                rate, at = self.per_day / day.length, max(day.start, 0.0)
                while (at := at + rng.expovariate(rate)) < min(day.end, length):
                    yield round(at, 6), 1
            elif day.start >= 0:
                yield day.start, round(self.per_day)

    def _days(self, start: datetime, length: float) -> Iterator[Span]:
        """The open hours of each day; the first of them may have begun before the start."""
        first = -(start - start.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
        begins = takewhile(lambda at: at + self.opens < length, (first + DAY * day for day in count()))
        return (Span(at + self.opens, at + self.closes) for at in begins)


@dataclass(frozen=True, slots=True)
class Scenario:
    start: datetime
    length: float
    """In seconds, as every time in planning: since the start."""
    nodes: int
    concurrency: int
    """The seats of each node."""
    processes: int
    """How many of them tasks that run in processes can take."""
    queues: tuple[str, ...]
    seed: int
    durations: Mapping[str, Spread]
    """Of every task."""
    assumed: tuple[str, ...]
    """The tasks whose duration was not given."""
    failures: Mapping[str, float]
    arrivals: tuple[Stream, ...]
    outages: tuple[Span, ...]
    limits: Mapping[str, Limits]
    target: float
    """How late a job may start."""
    longest_waits: Mapping[str, float] = field(default_factory=dict)
    """By task: after this wait a job is given up (its grace or its deadline)."""

    @property
    def slack(self) -> float:
        """How much later than the target a job may start before another node is advised: nodes poll."""
        return min(self.target / 50, 1.0)

    @property
    def seats(self) -> int:
        return self.nodes * self.concurrency

    def at(self, seconds: float) -> datetime:
        return self.start + timedelta(seconds=seconds)

    def rng(self, *what: object) -> Random:
        return Random("/".join(map(str, (self.seed, *what))))

    def draw(self, task: str, job: str, attempt: int) -> tuple[float, bool]:
        """How many seconds an attempt takes, and whether it fails. `job` tells it from others of its task."""
        rng = self.rng("attempt", task, job, attempt)
        return max(self.durations[task].draw(rng), SHORTEST), rng.random() < self.failures.get(task, 0.0)
