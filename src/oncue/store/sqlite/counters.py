"""Counters on SQLite. The statements are in counters.sql."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime

from oncue.model import (
    Age,
    Count,
    Depth,
    Sample,
)
from oncue.store.contract import DEPTH_LIMIT
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database


class SqliteCounters:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def count(self, limit: int) -> list[Count]:
        return [Count(*row) for row in await self._db.rows("live_counts", limit=limit)]

    async def depth(self) -> list[Depth]:
        return [Depth(*row) for row in await self._db.rows("depth", limit=DEPTH_LIMIT)]

    async def kept_apart(self) -> dict[int, int]:
        return dict(await self._db.rows("kept_apart", limit=DEPTH_LIMIT))

    async def ages(self, now: datetime, heads: int) -> list[Age]:
        rows = await self._db.rows("ages", now=values.micros(now), heads=heads)
        return [Age(kind, queue, task, values.instant(since)) for kind, queue, task, since in rows]

    async def keep_sample(self, sample: Sample) -> None:
        await self._db.execute("keep_sample", now=values.micros(sample.at), counts=json.dumps(sample.counts))

    async def last_sample(self) -> Sample | None:
        rows = await self._db.rows("last_sample")
        if not rows:
            return None
        return Sample(values.instant(rows[0][0]), [Count(*count) for count in json.loads(rows[0][1])])

    async def fold(self, limit: int) -> int:
        def work(connection: sqlite3.Connection) -> int:
            connection.execute(self._db.sql["fold_into_totals"], {"limit": limit})
            return connection.execute(self._db.sql["drop_folded"], {"limit": limit}).rowcount

        return await self._db.write(work)
