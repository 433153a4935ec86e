"""Counters on PostgreSQL. The statements are in counters.sql."""

from __future__ import annotations

import json
from datetime import datetime

from oncue.model import (
    Age,
    Count,
    Depth,
    Sample,
)
from oncue.store.contract import DEPTH_LIMIT
from oncue.store.postgres.database import Database


class PostgresCounters:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def count(self, limit: int) -> list[Count]:
        return [Count(*row) for row in await self._db.fetch("live_counts", limit)]

    async def depth(self) -> list[Depth]:
        return [Depth(*row) for row in await self._db.fetch("depth", DEPTH_LIMIT)]

    async def kept_apart(self) -> dict[int, int]:
        return dict(map(tuple, await self._db.fetch("kept_apart", DEPTH_LIMIT)))

    async def ages(self, now: datetime, heads: int) -> list[Age]:
        return [Age(*row) for row in await self._db.fetch("ages", now, heads)]

    async def keep_sample(self, sample: Sample) -> None:
        await self._db.fetch("keep_sample", sample.at, json.dumps(sample.counts))

    async def last_sample(self) -> Sample | None:
        rows = await self._db.fetch("last_sample")
        return Sample(rows[0][0], [Count(*count) for count in json.loads(rows[0][1])]) if rows else None

    async def fold(self, limit: int) -> int:
        folded: int = (await self._db.fetch_past_locks("fold_counters", limit))[0][0]
        return folded
