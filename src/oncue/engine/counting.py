"""Keeps the totals folded, and samples what waits."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from itertools import islice

from oncue.engine.service import Signal
from oncue.model import PEEK_LIMIT, Sample, cut_off
from oncue.store.contract import DEPTH_LIMIT, Store
from oncue.telemetry import Telemetry

LIMIT = 1000
MOST_SEEN = 1000


class Folding:
    """Adds the deltas that settling leaves behind to the totals."""

    name = "folding"

    def __init__(self, store: Store, *, interval: float = 10.0) -> None:
        self.signal = Signal()
        self._store = store
        self._interval = timedelta(seconds=interval)

    async def tick(self, now: datetime) -> datetime:
        folded = await self._store.counters.fold(LIMIT)
        return now if folded >= LIMIT else now + self._interval


class Sampling:
    """Counts what waits, so that nobody who asks for it has to."""

    name = "sampling"

    def __init__(self, store: Store, *, interval: float = 5.0) -> None:
        self.signal = Signal()
        self._store = store
        self._interval = timedelta(seconds=interval)

    async def tick(self, now: datetime) -> datetime:
        await self.sample(now)
        return now + self._interval

    async def sample(self, now: datetime) -> None:
        counts = await self._store.counters.count(DEPTH_LIMIT)
        if cut_off(counts):  # what is less is counted anew whenever somebody asks
            await self._store.counters.keep_sample(Sample(now, counts))

    async def stand_in(self, now: datetime, patience: timedelta) -> None:
        """Count for a leader that does not, since there is none: nobody has for so long, and whoever asks cannot."""
        if not cut_off(await self._store.counters.count(PEEK_LIMIT)):
            return
        last = await self._store.counters.last_sample()
        if last is None or now - last.at > patience:
            await self.sample(now)


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
            # A queue that was seen is told of when it is empty, too: not for ever if there are very many.
            by_queue: dict[str, dict[int, int]] = defaultdict(dict, {queue: {} for queue in self._seen})
            for depth in await self._store.counters.depth():
                by_queue[depth.queue][depth.priority] = depth.jobs
            self._seen = set(islice(by_queue, MOST_SEEN))
            total = sum(sum(priorities.values()) for priorities in by_queue.values())
            self._telemetry.emit("queue.depth", {"depth": total}, depths=dict(by_queue))
        return now + self._interval
