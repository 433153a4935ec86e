"""Lets backfilled slots run one after the other.

A backfill decides many slots at once, and their jobs are written with them; but no more of a schedule's jobs may run at
once than its `max_instances`. So those jobs are parked, and released from here as room is made.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.engine.service import Signal
from oncue.store.contract import Store

LIMIT = 5000
BRISK = timedelta(seconds=0.1)
FOR_A_WHILE = timedelta(seconds=5)


class Backfilling:
    name = "backfilling"

    def __init__(self, store: Store, *, interval: float) -> None:
        self.signal = Signal()
        self.released = Signal()
        self._store = store
        self._interval = timedelta(seconds=interval)
        self._brisk_until: datetime | None = None

    async def tick(self, now: datetime) -> datetime:
        """While a backfill goes on its next job should not wait for long; else there is nothing to hurry for."""
        if await self._store.slots.release_parked(now, LIMIT):
            self._brisk_until = now + FOR_A_WHILE
            self.released.set()
        brisk = self._brisk_until is not None and now < self._brisk_until
        return now + (min(BRISK, self._interval) if brisk else self._interval)

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        return now if (await store.jobs.outlook()).parked else None
