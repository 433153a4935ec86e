"""Counters on SQLite. The statements are in counters.sql."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from oncue.model import (
    Age,
    Count,
    Sample,
)
from oncue.store.shared import kept_sample, sample_json
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database


class SqliteCounters:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def count(self, limit: int) -> list[Count]:
        return [Count(*row) for row in await self._db.rows("live_counts", limit=limit)]

    async def ages(self, now: datetime, heads: int) -> list[Age]:
        def work(connection: sqlite3.Connection) -> list[Age]:
            rows = connection.execute(self._db.sql["ages"], {"now": values.micros(now), "heads": heads})
            return [Age(kind, queue, task, values.instant(since)) for kind, queue, task, since in rows]

        return await self._db.read(work)

    async def keep_sample(self, sample: Sample) -> None:
        # In the reader's thread, as below: of twenty thousand queues it takes a tenth of a second.
        counts = await self._db.read(lambda _: sample_json(sample))
        await self._db.execute("keep_sample", now=values.micros(sample.at), counts=counts)

    async def last_sample(self) -> Sample | None:
        def work(connection: sqlite3.Connection) -> Sample | None:
            row = connection.execute(self._db.sql["last_sample"]).fetchone()
            return None if row is None else kept_sample(values.instant(row[0]), row[1])

        return await self._db.read(work)

    async def fold(self, limit: int) -> int:
        def work(connection: sqlite3.Connection) -> int:
            connection.execute(self._db.sql["fold_into_totals"], {"limit": limit})
            return connection.execute(self._db.sql["drop_folded"], {"limit": limit}).rowcount

        return await self._db.write(work)
