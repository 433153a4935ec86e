"""What is to happen, in the order of true time.

Two kinds of things happen. Events are the world's: a job ends, a fault strikes, a client enqueues, a reply arrives.
Steps are the services' own: a poll, a beat, a look around. When nothing can happen until the next event, the steps up
to there would find nothing, and are skipped: time passes, and every service is as far from its next step as before.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias

from oncue.clock import VirtualClock

Action: TypeAlias = Callable[[], None]
Entry: TypeAlias = tuple[datetime, int, Action]
Forget: TypeAlias = Callable[[], None]

AT_ONE_INSTANT = 20_000


class Livelock(AssertionError):
    """Time stands still: the services wake each other for ever."""


class Timeline:
    def __init__(self, clock: VirtualClock) -> None:
        self.skipped = timedelta(0)
        """How much time has passed for everybody but the services."""
        self._clock = clock
        self._events: list[Entry] = []
        self._forgotten: set[int] = set()
        self._steps: list[Entry] = []
        self._pushed = 0
        self._instant = clock.now()
        self._here = 0

    def at(self, instant: datetime, action: Action) -> Forget:
        """Plan an event. Calling what comes back makes it as if it had never been planned."""
        self._pushed += 1
        number = self._pushed
        heapq.heappush(self._events, (instant, number, action))
        return lambda: self._forgotten.add(number)

    def step_at(self, instant: datetime, action: Action) -> None:
        """Plan a step of a service: so much later as there is until this instant, quiet time not counted."""
        self._pushed += 1
        heapq.heappush(self._steps, (instant - self.skipped, self._pushed, action))

    @property
    def next_event(self) -> datetime | None:
        while self._events and self._events[0][1] in self._forgotten:
            self._forgotten.remove(heapq.heappop(self._events)[1])
        return self._events[0][0] if self._events else None

    @property
    def next_step(self) -> datetime | None:
        return self._steps[0][0] + self.skipped if self._steps else None

    def skip_to(self, instant: datetime) -> None:
        """Let quiet time pass: no step is taken in it."""
        self.skipped += instant - self._clock.now()
        self._clock.advance_to(instant)

    def go_on(self, end: datetime) -> bool:
        """Do what comes next, unless it comes after the end; whether there was anything."""
        event, step = self.next_event, self.next_step
        heap, instant = (self._events, event) if step is None or (event and event <= step) else (self._steps, step)
        if instant is None or instant > end:
            return False
        action = heapq.heappop(heap)[2]
        self._clock.advance_to(instant)
        self._count(instant)
        action()
        return True

    def _count(self, instant: datetime) -> None:
        self._here = self._here + 1 if instant == self._instant else 0
        self._instant = instant
        if self._here > AT_ONE_INSTANT:
            raise Livelock(f"{self._here} steps at {instant}")
