"""The plan of one day of a window: so many seats, the subjects' due times and how long attempts take. How many subjects
miss their cutoff, and how many seats would leave none?

This is a model of what the engine does with the jobs of a window, and of nothing else:

    a job is due when its window opens, and claimed by the earliest cutoff first, then by who came first
    an attempt is cut off at its time-out, which is a failure
    the next attempt is due the retry delay after the previous one was due, or at once if that is over
    a success counts if it comes before the cutoff; at the cutoff the job is ended
    an attempt that runs at its cutoff keeps its seat until it ends, or until its node has noticed

Every attempt has random numbers of its own, seeded by whose it is: the same subject's attempt takes as long with ten
seats as with twenty, so that numbers of seats can be compared.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from random import Random
from typing import NamedTuple

from oncue.planning.scenario import SHORTEST, Spread

UNLIMITED = 10**9


class SubjectWindow(NamedTuple):
    """The window of one subject on the day, in seconds since the plan's start."""

    opens: float
    cutoff: float
    name: str


class OpenDay(NamedTuple):
    """The same in instants."""

    opens_at: datetime
    cutoff_at: datetime
    name: str


def in_order(opened: Iterable[OpenDay]) -> tuple[datetime, list[SubjectWindow]]:
    """When a plan of these days starts, on a whole minute, and the days in the order in which they open."""
    days = sorted(opened)
    start = days[0].opens_at.replace(second=0, microsecond=0) if days else datetime(2030, 1, 1, tzinfo=UTC)
    return start, [
        SubjectWindow((one.opens_at - start).total_seconds(), (one.cutoff_at - start).total_seconds(), one.name)
        for one in days
    ]


@dataclass(frozen=True, slots=True)
class DayScenario:
    start: datetime
    subjects: Sequence[SubjectWindow]
    """In the order in which the planner opens their days: by opening, then by name. Windows are equally long."""
    seats: int
    retry: float
    timeout: float | None
    duration: Spread
    failures: float
    seed: int
    notice: float = 0.0
    """How long after a cutoff an attempt that still runs is stopped; infinite for work that cannot be stopped."""

    def at(self, seconds: float) -> datetime:
        return self.start + timedelta(seconds=seconds)

    def draw(self, name: str, attempt: int) -> tuple[float, bool]:
        """How long an attempt takes, up to its time-out, and whether it succeeds."""
        rng = Random(f"{self.seed}/{name}/{attempt}")
        seconds = max(self.duration.draw(rng), SHORTEST)
        is_cut = self.timeout is not None and seconds >= self.timeout
        took = self.timeout if is_cut and self.timeout is not None else seconds
        return took, not is_cut and rng.random() >= self.failures


@dataclass(slots=True)
class DayRun:
    """What a day comes to with a number of seats."""

    seats: int
    done: list[float | None]
    """When each subject's success came; None for those that miss their cutoff."""
    attempts: int = 0
    busy: float = 0.0
    """Seconds in which seats are taken."""
    peak: int = 0
    """The most seats that are taken at once."""
    is_complete: bool = True
    """False: it was broken off, since more misses were there than were asked for."""

    @property
    def misses(self) -> int:
        return self.done.count(None)


class DayEngine:
    """Runs a day with any number of seats. What was drawn for an attempt is kept for the next number."""

    def __init__(self, scenario: DayScenario) -> None:
        self.scenario = scenario
        self._drawn = {(number, 0): scenario.draw(one.name, 0) for number, one in enumerate(scenario.subjects)}
        self.length = max((one.cutoff for one in scenario.subjects), default=1.0)
        """From the plan's start to its last cutoff, in seconds."""

    def run(self, seats: int, most_misses: float = inf) -> DayRun:
        """Let the day pass; break off once more subjects than this have missed their cutoff."""
        return _Passing(self, seats).run(most_misses)

    def draw(self, number: int, attempt: int) -> tuple[float, bool]:
        known = self._drawn.get((number, attempt))
        if known is None:
            known = self._drawn[number, attempt] = self.scenario.draw(self.scenario.subjects[number].name, attempt)
        return known


class _Due(NamedTuple):
    """An attempt that is due at an instant."""

    at: float
    cutoff: float
    number: int
    attempt: int


class _Passing:
    """A day that passes, from one instant at which something happens to the next."""

    def __init__(self, engine: DayEngine, seats: int) -> None:
        self._engine = engine
        self._subjects = engine.scenario.subjects
        self._retry, self._notice = engine.scenario.retry, engine.scenario.notice
        self._seats = seats
        self._opened = 0
        """How many days have opened."""
        self._missed = 0
        self._again: list[_Due] = []
        """Attempts after a failure that are due later."""
        self._ready: list[tuple[float, int, float, int]] = []
        """What waits for a seat: its cutoff, whose it is, since when it is due, which attempt."""
        self._taken: list[float] = []
        """When each seat that is taken is free again."""
        self._found = DayRun(seats, [None] * len(self._subjects))

    def run(self, most_misses: float) -> DayRun:
        now = 0.0
        while self._opened < len(self._subjects) or self._again or self._ready:
            now = max(self._next(now), now)
            self._admit(now)
            while self._taken and self._taken[0] <= now:
                heapq.heappop(self._taken)
            while self._ready and (len(self._taken) < self._seats or self._ready[0][0] <= now):
                self._start(now)
            self._found.peak = max(self._found.peak, len(self._taken))
            if self._missed > most_misses:
                self._found.is_complete = False
                break
        return self._found

    def _next(self, now: float) -> float:
        """When something happens next: a window opens, an attempt is due, or a seat is free that one waits for."""
        instants = [self._again[0].at] if self._again else []
        if self._opened < len(self._subjects):
            instants.append(self._subjects[self._opened].opens)
        if self._ready:
            instants.append(self._taken[0] if len(self._taken) >= self._seats else now)
        return min(instants)

    def _admit(self, now: float) -> None:
        subjects = self._subjects
        while self._opened < len(subjects) and subjects[self._opened].opens <= now:
            opens, cutoff, _ = subjects[self._opened]
            heapq.heappush(self._ready, (cutoff, self._opened, opens, 0))
            self._opened += 1
        while self._again and self._again[0].at <= now:
            due = heapq.heappop(self._again)
            heapq.heappush(self._ready, (due.cutoff, due.number, due.at, due.attempt))

    def _start(self, now: float) -> None:
        """Take the most urgent one: it begins, unless its cutoff has come."""
        cutoff, number, due, attempt = heapq.heappop(self._ready)
        if cutoff <= now:
            self._missed += 1
            return
        took, succeeds = self._engine.draw(number, attempt)
        end, found = now + took, self._found
        free_at = end if end < cutoff else min(end, cutoff + self._notice)
        heapq.heappush(self._taken, free_at)
        found.attempts += 1
        found.busy += free_at - now
        next_at = max(end, due + self._retry)
        if end < cutoff and succeeds:
            found.done[number] = end
        elif end < cutoff and next_at < cutoff:
            heapq.heappush(self._again, _Due(next_at, cutoff, number, attempt + 1))
        else:
            self._missed += 1


class CutoffBucket(NamedTuple):
    """The subjects whose cutoff is in the same minute."""

    cutoff: datetime
    subjects: int
    misses: int
    latest: float | None
    """How many seconds before the cutoff the last success came."""


@dataclass(frozen=True, slots=True)
class DayFigures:
    scenario: DayScenario
    run: DayRun
    buckets: Sequence[CutoffBucket]
    needed: int
    """The smallest number of seats found with which no more subjects miss their cutoff than with any number."""
    unavoidable: int
    """How many miss it with any number of seats: their attempts fail or take too long."""
    length: float
    """From the plan's start to its last cutoff, in seconds."""
    others: Sequence[DayRun] = ()
    """The same day with other numbers of seats, fewest first."""

    @property
    def misses(self) -> int:
        return self.run.misses

    def in_use(self, run: DayRun) -> float:
        """Which share of the seats is taken, from the first opening to the last cutoff."""
        return run.busy / (self.length * run.seats)


def planned(scenario: DayScenario) -> DayFigures:
    """What the day comes to with the seats of the scenario, and how many seats it needs."""
    engine = DayEngine(scenario)
    free = engine.run(UNLIMITED)
    needed = _smallest(engine, free)
    run = engine.run(scenario.seats)
    near = sorted({one for one in (needed - 1, needed) if one > 0 and one != scenario.seats})
    others = [engine.run(seats) for seats in near]
    return DayFigures(scenario, run, _buckets(scenario, run), needed, free.misses, engine.length, others)


def _smallest(engine: DayEngine, free: DayRun) -> int:
    """What fits a number of seats is taken to fit larger ones. The search begins where all the work would just fit."""

    def fits(seats: int) -> bool:
        return engine.run(seats, free.misses).is_complete

    low, high = 1, max(free.peak, 1)
    guess = max(int(free.busy / engine.length), 1)
    while guess < high and not fits(guess):
        low, guess = guess + 1, guess * 2
    high = min(guess, high)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def _buckets(scenario: DayScenario, run: DayRun) -> list[CutoffBucket]:
    subjects: Counter[int] = Counter()
    misses: Counter[int] = Counter()
    latest: dict[int, float] = {}
    for one, done in zip(scenario.subjects, run.done, strict=True):
        minute = int(one.cutoff // 60)
        subjects[minute] += 1
        if done is None:
            misses[minute] += 1
        else:
            latest[minute] = min(latest.get(minute, inf), one.cutoff - done)
    return [
        CutoffBucket(scenario.at(minute * 60), subjects[minute], misses[minute], latest.get(minute))
        for minute in sorted(subjects)
    ]
