"""Lets backfilled slots run one after the other.

A backfill decides many slots at once, and their jobs are written with them; but no more of a schedule's jobs may run at
once than its `max_instances`. So those jobs are parked, and released from here as room is made.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.engine.service import Signal
from oncue.store.contract import Store

LIMIT = 5000


class Backfilling:
    name = "backfilling"

    def __init__(self, store: Store, *, interval: float) -> None:
        self.signal = Signal()
        self._store = store
        self._interval = timedelta(seconds=interval)

    async def tick(self, now: datetime) -> datetime:
        await self._store.release_parked(now, LIMIT)
        return now + self._interval
