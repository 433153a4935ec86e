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
APART, APART_WHEN_BUSY = timedelta(milliseconds=20), timedelta(milliseconds=100)
"""How long to wait for the next look while no group is known: with seats to spare, and without."""
LONGEST = timedelta(seconds=1)


class GroupLooks:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked_at: datetime | None = None
        self._are_known = False
        self._patience = APART
        self.next_at: datetime | None = None
        """When to look again: the next group has its turn, a look that was asked for came too soon, or a claim did."""

    def expect(self) -> None:
        """A job of a group has ended here: what waited for its room can be claimed at once."""
        self._looked_at = None

    def is_due(self, now: datetime, *, is_busy: bool) -> bool:
        looked_at = self._looked_at
        if self._are_known or looked_at is None or looked_at > now:  # a look in the future: the clock was set back
            return True
        # A claimer that is told of something new must not go to sleep because it has just looked.
        self.next_at = looked_at + (APART_WHEN_BUSY if is_busy else APART)
        return now >= self.next_at

    def look_again(self) -> None:
        """Something may have happened in a group: the next look is due at once."""
        self._looked_at = None

    async def look(self, queues: Sequence[str], now: datetime) -> bool:
        """Whether a group may have its turn now."""
        self._looked_at = now
        found = await self._store.groups.wake(queues, WAKE_LIMIT, now)
        self._are_known = found.wakeups > 0 or found.ready_at is not None
        has_turn = found.wakeups > 0 or (found.ready_at is not None and found.ready_at <= now)
        self.next_at = None if has_turn else found.ready_at
        return has_turn

    def claimed(self, jobs: int, now: datetime) -> None:
        """A group was ready and gave nothing: another node may have had its row, and may have no seats for the rest.

        Or its jobs are for other nodes, and it stays ready for as long as these are busy: so each time is later.
        """
        if jobs:
            self._patience = APART
        else:
            self.next_at, self._patience = now + self._patience, min(self._patience * 2, LONGEST)
