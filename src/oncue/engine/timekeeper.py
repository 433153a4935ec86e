"""Learns the database's time every few seconds."""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.clock import DatabaseClock
from oncue.engine.service import Signal
from oncue.store.contract import Store


class Timekeeper:
    name = "timekeeper"

    def __init__(self, store: Store, clock: DatabaseClock, *, interval: float = 5.0) -> None:
        self.signal = Signal()
        self._store = store
        self._clock = clock
        self._interval = timedelta(seconds=interval)

    async def tick(self, now: datetime) -> datetime:
        sent = self._clock.sent()
        self._clock.learn(await self._store.time(), sent)
        return self._clock.now() + self._interval
