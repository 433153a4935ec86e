"""When to look whether a group of a queue has its turn.

A claim of grouped jobs costs two trips to the database, and most applications have none. While there are groups, every
claim looks at them. While there are none, a worker looks as soon as it has seats to spare, but not all the time: each
look lets the next claim wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from oncue.store.contract import Store

WAKE_LIMIT = 1000
APART, APART_WHEN_BUSY = timedelta(milliseconds=5), timedelta(milliseconds=100)
"""How long to wait for the next look while no group is known: with seats to spare, and without."""
LONGEST = timedelta(seconds=1)


class GroupLooks:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked_at: datetime | None = None
        self.are_known = False
        """Whether the last look found a group that is ready, or will be."""
        self._patience = APART
        self.next_at: datetime | None = None
        """When to look again: the next group has its turn, a look came too soon, or a claim came too late."""

    def is_due(self, now: datetime, *, is_busy: bool, has_claimed: bool = False) -> bool:
        """Whether to look now. With jobs that were claimed a moment ago a look can wait until these have begun."""
        looked_at = self._looked_at
        if self.are_known or looked_at is None or looked_at > now:  # a look in the future: the clock was set back
            return True
        # A claimer that is told of something new must not go to sleep because it has just looked.
        due_at = looked_at + (APART_WHEN_BUSY if is_busy or has_claimed else APART)
        self.next_at = min(due_at, now + APART) if has_claimed and not is_busy else due_at
        return now >= due_at

    def look_again(self) -> None:
        """Something may have happened in a group, such as the end of a job: the next look is due at once."""
        self._looked_at = None

    async def look(self, queues: Sequence[str], now: datetime) -> bool:
        """Whether a group may have its turn now."""
        self._looked_at = now
        found = await self._store.groups.wake(queues, WAKE_LIMIT, now)
        self.are_known = found.wakeups > 0 or found.ready_at is not None
        has_turn = found.wakeups > 0 or (found.ready_at is not None and found.ready_at <= now)
        self.next_at = None if has_turn else found.ready_at
        return has_turn

    def claimed(self, jobs: int, now: datetime) -> None:
        """How much a claim has found. If it is nothing, another node may have had the rows of the groups that were
        ready, and may have no seats for what is left in them.

        Or their jobs are for other nodes, and they stay ready for as long as these are busy: so each time is later.
        """
        if jobs:
            self._patience = APART
        else:
            self.next_at, self._patience = now + self._patience, min(self._patience * 2, LONGEST)
