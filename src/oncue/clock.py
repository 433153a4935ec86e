"""Time, handed in. Nothing else in oncue reads a clock.

The database's time is the only time: hosts may be a day off. `DatabaseClock` learns it from time to time and goes on
with the monotonic clock in between. A reply is as old as its trip took, so there are two readings: `now` is never
ahead of the database (it counts from the moment the reply came: for "is it due"), `latest` is never behind it (it
counts from the moment the question was sent: for "is my lease over").
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The lower bound of the database's time."""
        ...

    def latest(self) -> datetime:
        """The upper bound of the database's time."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, for measuring."""
        ...

    def at(self, monotonic: float) -> datetime:
        """The reading of `now` at an earlier `monotonic`."""
        ...


def wall() -> datetime:
    """The host's own clock: what an embedded database has for a clock of its own."""
    return datetime.now(UTC)


class DatabaseClock:
    """The database's time, carried on by the monotonic clock. It runs backwards only if the database's does.

    Its two clocks are the host's, unless the simulator hands in others.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], datetime] = wall) -> None:
        self.monotonic = monotonic
        self._lower = self._upper = wall().timestamp() - monotonic()
        self._last_reading = float("nan")
        self._last_instant = wall()

    def sent(self) -> float:
        """Call before asking the database for its time, and give the answer to `learn`."""
        return self.monotonic()

    def learn(self, told: datetime, sent: float) -> None:
        """Take over the database's answer to a question of ours."""
        lower, upper = told.timestamp() - self.monotonic(), told.timestamp() - sent
        # A bound that this answer does not contradict may be the better one: it came on a faster trip. One that it
        # does contradict is wrong, in whichever direction the database's clock has moved.
        if not lower <= self._lower <= upper:
            self._lower = lower
        if not lower <= self._upper <= upper:
            self._upper = upper

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._lower + self.monotonic(), UTC)

    def at(self, monotonic: float) -> datetime:
        # The end of one attempt is the start of the next: half of all questions repeat the one before.
        if monotonic != self._last_reading:
            self._last_instant = datetime.fromtimestamp(self._lower + monotonic, UTC)
            self._last_reading = monotonic
        return self._last_instant

    def latest(self) -> datetime:
        return datetime.fromtimestamp(self._upper + self.monotonic(), UTC)


class VirtualClock:
    """Time that moves when it is told to."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._now = start

    def advance(self, by: timedelta) -> None:
        self.advance_to(self._now + by)

    def advance_to(self, instant: datetime) -> None:
        if instant < self._now:
            raise ValueError(f"virtual time cannot run backwards, from {self._now} to {instant}")
        self._now = instant

    def now(self) -> datetime:
        return self._now

    def latest(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    def at(self, monotonic: float) -> datetime:
        return self._start + timedelta(seconds=monotonic)
