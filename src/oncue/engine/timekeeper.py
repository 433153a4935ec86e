"""Learns the database's time every few seconds.

An embedded database has the host's clock and the mark that the last beat left: when the host's clock steps back, the
mark is all that is left, and it is as old as that beat. What this process knew when it asked is not forgotten then:
otherwise its time would fall back a little at every lesson. A server's clock is followed wherever it goes.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.clock import DatabaseClock
from oncue.engine.service import Signal, can_wait
from oncue.store.contract import Store

EMBEDDED = "sqlite"


class Timekeeper:
    name = "timekeeper"

    def __init__(self, store: Store, clock: DatabaseClock, *, interval: float = 5.0) -> None:
        self.signal = Signal()
        self._store = store
        self._clock = clock
        self._interval = timedelta(seconds=interval)

    quiet_until = can_wait

    async def tick(self, now: datetime) -> datetime:
        sent, known = self._clock.sent(), self._clock.now()
        told = await self._store.time()
        self._clock.learn(max(told, known) if self._store.dialect == EMBEDDED else told, sent)
        return self._clock.now() + self._interval
