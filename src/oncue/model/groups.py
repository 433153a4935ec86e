"""The groups of a queue (an endpoint, a tenant): what is set for one, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from oncue.model.jobs import PARKED

_UNITS = {1: "s", 60: "min", 3600: "h", 86400: "d"}


class Rate(NamedTuple):
    """So many jobs in so many seconds: evenly, not all at once."""

    jobs: int
    seconds: int

    def __str__(self) -> str:
        return f"{self.jobs}/{_UNITS.get(self.seconds) or f'{self.seconds}s'}"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What is set for one group alone. None: as its queue has it; for the pause: it is open."""

    limit: int | None = None
    rate: Rate | None = None
    paused_until: datetime | None = None
    trips: int = 0
    """How often in a row its circuit breaker has opened; 0: it is closed. Only `groups.trip` sets it."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of a queue of which something waits or runs, or for which something is set."""

    queue: str
    name: str
    queued: int
    """Due, and waiting for a worker; 1,000 are counted at most."""
    running: int
    limit: int | None
    """How many of its jobs may run at once, on all nodes together."""
    rate: str | None
    """How many of its jobs may start in a second, a minute, an hour or a day."""
    rated_until: datetime | None
    """When its rate lets the next job start, if that was ever asked."""
    paused_until: datetime | None
    """None: it is open. The year 9999: until it is resumed."""
    has_settings: bool
    """Whether the limit, the rate or the pause was set for this group alone."""
    trips: int = 0
    """How often in a row its circuit breaker has opened; 0: it is closed. While it is open, one job runs at a time."""


class HeldBack(NamedTuple):
    """A group of which nothing starts: it is paused, or its circuit breaker is open."""

    queue: str
    name: str
    trips: int
    """How often in a row its circuit breaker has opened; 0: it is closed, and the pause is an operator's."""
    paused_until: datetime | None
    """The year 9999: until it is resumed. Of an open breaker: when its next probe may start."""

    @property
    def by_hand(self) -> bool:
        """Whether an operator holds it: nothing is tried by itself then, also if its breaker is open."""
        return not self.trips or self.paused_until == PARKED


class Turns(NamedTuple):
    """What the rate of a queue has granted."""

    taken: int
    next_at: datetime | None
    """When the next job may start; None if none waits."""


class GroupsLook(NamedTuple):
    """What a look at what has happened in groups found."""

    wakeups: int
    """How many of them were read."""
    ready_at: datetime | None
    """When the next group of these queues had its turn, before these were read."""
