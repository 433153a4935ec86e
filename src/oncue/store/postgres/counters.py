"""Counters on PostgreSQL. The statements are in counters.sql."""

from __future__ import annotations

from datetime import datetime

from oncue.model import (
    Age,
    Count,
    Sample,
)
from oncue.store.postgres.database import Database
from oncue.store.shared import in_thread_if_many, kept_sample, sample_json


class PostgresCounters:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def count(self, limit: int) -> list[Count]:
        return [Count(*row) for row in await self._db.fetch("live_counts", limit)]

    async def ages(self, now: datetime, heads: int) -> list[Age]:
        return [Age(*row) for row in await self._db.fetch("ages", now, heads)]

    async def keep_sample(self, sample: Sample) -> None:
        counts = await in_thread_if_many(len(sample.counts), sample_json, sample)
        await self._db.fetch("keep_sample", sample.at, counts)

    async def last_sample(self) -> Sample | None:
        rows = await self._db.fetch("last_sample")
        if not rows:
            return None
        sampled_at, counts = rows[0]
        return await in_thread_if_many(len(counts) // 40, kept_sample, sampled_at, counts)

    async def fold(self, limit: int) -> int:
        folded: int = (await self._db.fetch_past_locks("fold_counters", limit))[0][0]
        return folded
