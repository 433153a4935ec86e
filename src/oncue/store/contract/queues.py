"""Queues with their limits and seats, and what is counted in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from oncue.model import (
    Age,
    Claim,
    Count,
    Group,
    GroupSettings,
    GroupsLook,
    HeldBack,
    LimitedQueue,
    Limits,
    Note,
    Queue,
    Sample,
    Turns,
)


class Queues(Protocol):
    async def all(self) -> list[Queue]:
        """All queues, with what waits and runs in them. Of each kind LIVE_LIMIT jobs are counted at most: where there
        are more, the counts are those of the last sample."""
        ...

    async def limits(self, queue: str) -> Limits:
        """The limits of a queue; one that is not known has none."""
        ...

    async def set_limits(
        self, queue: str, known: Limits, limits: Limits, now: datetime, *, note: Note | None = None
    ) -> bool:
        """Set the limits of a queue that still has those that are known."""
        ...

    async def default_limits(self, queue: str, limits: Limits, now: datetime) -> bool:
        """Set the limits of a queue for which nothing was ever set."""
        ...

    async def pause(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        """Pause a queue that is not paused."""
        ...

    async def resume(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        """Open a queue that is paused."""
        ...

    async def seating(
        self, queues: Sequence[str], tasks: Sequence[str], addresses: Sequence[str] = ()
    ) -> list[LimitedQueue]:
        """Those of these queues that have a limit, who holds their seats, and whether one of these tasks waits: for
        any node, or at one of these addresses."""
        ...

    async def take_seats(self, queue: str, version: int, node: UUID, seats: int, wanted: int) -> bool:
        """Hold so many seats of a queue from here on, if no node's seats have changed since."""
        ...

    async def take_turns(
        self,
        queue: str,
        tasks: Sequence[str],
        wanted: int,
        now: datetime,
        *,
        grouped: bool = False,
        addresses: Sequence[str] = (),
    ) -> Turns:
        """Use up what the rate of a queue allows now, up to so many, if a job of these tasks waits that has no group:
        for any node, or at one of these addresses. `grouped`: if a group is ready."""
        ...

    async def return_turns(self, queue: str, turns: int, next_at: datetime) -> None:
        """Give turns back for which there was no job; `next_at` is what was said when they were taken.

        If many were taken since, or the last one much later, these are lost: their time has passed, and given back they
        would let the queue get over its rate.
        """

    async def rated_until(self, queue: str) -> datetime | None:
        """When the rate of a queue lets the next job start; None if it has no rate, or nothing has started yet."""
        ...


class Groups(Protocol):
    async def wake(self, queues: Sequence[str], limit: int, now: datetime) -> GroupsLook:
        """Read up to `limit` notes of what has happened in groups: the groups are ready again as soon as their rate and
        their pause allow it."""
        ...

    async def next_ready(self, queues: Sequence[str]) -> datetime | None:
        """When the next group of these queues is ready. If something has happened in a group that was not read yet, an
        instant long ago."""
        ...

    async def claim(
        self,
        node: UUID,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        now: datetime,
        *,
        few: int = 0,
        alone: datetime | None = None,
        rooms: Mapping[str, int] | None = None,
    ) -> list[Claim]:
        """Take up to `limit` queued jobs of groups that are ready, as `jobs.claim` does of those without a group.

        Groups take turns; within one, priority comes first, then age. No group gets over its limit or its rate. One job
        that is kept apart comes without any others.
        """
        ...

    async def all(self, queue: str, limit: int, *, after: str | None = None) -> list[Group]:
        """The groups of a queue of which something waits or runs, or for which something is set, by name; those
        `after` a name."""
        ...

    async def get(self, queue: str, group: str) -> Group:
        """One group of a queue, whether anything is known of it or not."""
        ...

    async def settings(self, queue: str, group: str) -> GroupSettings:
        """What is set for one group alone."""
        ...

    async def set(
        self,
        queue: str,
        group: str,
        known: GroupSettings,
        settings: GroupSettings,
        now: datetime,
        *,
        note: Note | None = None,
    ) -> bool:
        """Set what is to hold for one group alone, if that is still what is known. A new rate counts anew.

        `trips` is neither compared nor set.
        """
        ...

    async def trip(
        self,
        queue: str,
        group: str,
        known_trips: int,
        trips: int,
        paused_until: datetime | None,
        now: datetime,
        *,
        known_until: datetime | None = None,
    ) -> bool:
        """Open the circuit breaker of a group until an instant, or close it (`trips` 0, `paused_until` None), if it
        has still tripped as often as is known.

        While `trips` is over 0, the group's limit counts as 1. A later pause of an operator's stays: opening does not
        shorten it, and closing ends only the pause `known_until`, which is what the breaker itself had set.
        """
        ...

    async def tripped(self, queue: str, groups: Sequence[str]) -> dict[str, tuple[int, datetime | None]]:
        """Those of these groups whose circuit breaker is open: how often it has tripped, and the end of its pause."""
        ...

    async def forget_tripped(self, before: datetime, limit: int) -> int:
        """Forget up to `limit` circuit breakers that could have been probed since before an instant, in whose groups
        nothing waits or runs, and for which nothing else is set. How many these were.

        Deliveries go to any URL, and nobody calls a dead one again only to close its breaker.
        """
        ...

    async def held_back(self, now: datetime, limit: int) -> list[HeldBack]:
        """Up to `limit` groups of any queue that are paused, or whose circuit breaker is open: by queue and name."""
        ...


class Counters(Protocol):
    async def count(self, limit: int) -> list[Count]:
        """Count what waits and what runs, up to `limit` jobs of each kind. What is queued is counted by priority and
        isolation too."""
        ...

    async def ages(self, now: datetime, heads: int) -> list[Age]:
        """The longest wait in each queue and the longest run of each task. Of what waits, the first `heads` of every
        priority are looked at: a job further back may have waited longer, if those before it have just come back.
        Jobs of a group wait from the turn of their group on, not while they wait for its room, rate or pause.
        """
        ...

    async def keep_sample(self, sample: Sample) -> None:
        """Keep what was counted for every process that asks, unless there is a later sample. A sample from more than
        a minute ahead is of a clock that was set back since, and is replaced."""

    async def last_sample(self) -> Sample | None: ...

    async def fold(self, limit: int) -> int:
        """Add up to `limit` deltas that settling left behind to the totals."""
        ...
