"""Counts jobs: keeps the totals of what has ended, and samples what waits and runs.

One process counts for the whole database: the leader keeps a sample, a few seconds old at most, and every other process
reads it. Without a leader the sample grows old. Then the first process that needs it counts and keeps it instead.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.engine.service import Signal, can_wait
from oncue.model import KINDS, LIVE_LIMIT, Queue, Sample
from oncue.store.contract import Store

FOLD_LIMIT = 1000
COUNT_LIMIT = 100_000
"""How many jobs of each kind are counted at most."""
STALE = timedelta(seconds=15)
"""How old a sample may be before another process than the leader counts."""
HEADS = 20
"""How many jobs of each queue and priority are asked how long they have waited."""


class Folding:
    """Adds the deltas that settling leaves behind to the totals, of jobs and of the days of windows."""

    name = "folding"

    def __init__(self, store: Store, *, interval: float = 10.0) -> None:
        self.signal = Signal()
        self._store = store
        self._interval = timedelta(seconds=interval)

    quiet_until = can_wait

    async def tick(self, now: datetime) -> datetime:
        folded = await self._store.counters.fold(FOLD_LIMIT)
        days = await self._store.windows.fold(FOLD_LIMIT)
        return now if max(folded, days) >= FOLD_LIMIT else now + self._interval


class Sampling:
    """Counts what waits and runs, on the leader, so that no other process has to."""

    name = "sampling"

    def __init__(self, store: Store, *, interval: float = 5.0) -> None:
        self.signal = Signal()
        self._store = store
        self._interval = timedelta(seconds=interval)

    quiet_until = can_wait

    async def tick(self, now: datetime) -> datetime:
        await take_sample(self._store, now)
        return now + self._interval


async def take_sample(store: Store, now: datetime) -> Sample:
    sample = Sample(now, await store.counters.count(COUNT_LIMIT), await store.counters.ages(now, HEADS))
    await store.counters.keep_sample(sample)
    return sample


async def latest_sample(store: Store, now: datetime) -> Sample:
    """The leader's last sample; if that is old, a new one."""
    sample = await store.counters.last_sample()
    if sample is not None and not _is_old(sample.at, now):
        return sample
    return await take_sample(store, now)


async def counted_queues(store: Store, now: datetime) -> list[Queue]:
    """All queues. If there are too many jobs to count them for one request, and the last sample is old, count them."""
    queues = await store.queues.all()
    is_cut_off = any(sum(getattr(queue, kind) for queue in queues) >= LIVE_LIMIT for kind in KINDS)
    if not is_cut_off or not all(_is_old(queue.counted_at, now) for queue in queues):
        return queues
    await take_sample(store, now)
    return await store.queues.all()


def _is_old(sampled_at: datetime | None, now: datetime) -> bool:
    """An instant in the future was before the database's clock was set back."""
    return sampled_at is None or not sampled_at <= now <= sampled_at + STALE
