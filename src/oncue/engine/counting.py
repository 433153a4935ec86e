"""Keeps the totals folded, and samples what waits."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from oncue.engine.service import Signal
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

LIMIT = 1000


class Folding:
    """Adds the deltas that settling leaves behind to the totals."""

    name = "folding"

    def __init__(self, store: Store, *, interval: float = 10.0) -> None:
        self.signal = Signal()
        self._store = store
        self._interval = timedelta(seconds=interval)

    async def tick(self, now: datetime) -> datetime:
        folded = await self._store.fold_counters(LIMIT)
        return now if folded >= LIMIT else now + self._interval


class DepthGauge:
    """Tells how many jobs wait in each queue, by priority."""

    name = "depth"

    def __init__(self, store: Store, telemetry: Telemetry, *, interval: float = 15.0) -> None:
        self.signal = Signal()
        self._store = store
        self._telemetry = telemetry
        self._interval = timedelta(seconds=interval)
        self._seen: set[str] = set()

    async def tick(self, now: datetime) -> datetime:
        if self._telemetry.wants("queue.depth"):
            # A queue that was seen once is told of when it is empty, too.
            by_queue: dict[str, dict[int, int]] = defaultdict(dict, {queue: {} for queue in self._seen})
            for depth in await self._store.depth():
                by_queue[depth.queue][depth.priority] = depth.jobs
            self._seen.update(by_queue)
            for queue, priorities in by_queue.items():
                self._telemetry.emit(
                    "queue.depth", {"depth": sum(priorities.values())}, queue=queue, priorities=priorities
                )
        return now + self._interval
