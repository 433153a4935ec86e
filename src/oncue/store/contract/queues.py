"""Queues with their limits and seats, and what is counted in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from oncue.model import (
    Age,
    Count,
    LimitedQueue,
    Limits,
    Note,
    Queue,
    Sample,
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

    async def pause(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        """Pause a queue that is not paused."""
        ...

    async def resume(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        """Open a queue that is paused."""
        ...

    async def seating(self, queues: Sequence[str], tasks: Sequence[str]) -> list[LimitedQueue]:
        """Those of these queues that have a limit, who holds their seats, and whether one of these tasks waits."""
        ...

    async def take_seats(self, queue: str, version: int, node: UUID, seats: int, wanted: int) -> bool:
        """Hold so many seats of a queue from here on, if no node's seats have changed since."""
        ...


class Counters(Protocol):
    async def count(self, limit: int) -> list[Count]:
        """Count what waits and what runs, up to `limit` jobs of each kind. What is queued is counted by priority and
        isolation too."""
        ...

    async def ages(self, now: datetime, heads: int) -> list[Age]:
        """The longest wait in each queue and the longest run of each task. Of what waits, the first `heads` of every
        priority are looked at: a job further back may have waited longer, if those before it have just come back.
        """
        ...

    async def keep_sample(self, sample: Sample) -> None:
        """Keep what was counted for every process that asks, unless there is a later sample. A sample from more than
        a minute ahead is of a clock that was set back since, and is replaced."""

    async def last_sample(self) -> Sample | None: ...

    async def fold(self, limit: int) -> int:
        """Add up to `limit` deltas that settling left behind to the totals."""
        ...
