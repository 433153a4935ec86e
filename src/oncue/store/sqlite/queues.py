"""Queues on SQLite. The statements are in queues.sql."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from oncue.model import (
    LIVE_LIMIT,
    LimitedQueue,
    Limits,
    Note,
    Queue,
)
from oncue.store.shared import (
    queue_rows,
    seatings,
)
from oncue.store.sqlite import values
from oncue.store.sqlite.counters import SqliteCounters
from oncue.store.sqlite.database import Database


class SqliteQueues:
    def __init__(self, database: Database, counters: SqliteCounters) -> None:
        self._db = database
        self._counters = counters

    async def all(self) -> list[Queue]:
        rows, live = await self._db.rows("queues"), await self._counters.count(LIVE_LIMIT)
        totals, sample = await self._db.rows("totals"), await self._counters.last_sample()
        settings = [(name, values.instant_or_none(paused_at), *limits) for name, paused_at, *limits in rows]
        # In the level's thread: of twenty thousand queues it takes a tenth of a second.
        return await self._db.read(lambda _: queue_rows(settings, live, totals, sample))

    async def limits(self, queue: str) -> Limits:
        rows = await self._db.rows("limits", queue=queue)
        return Limits(*rows[0]) if rows else Limits()

    async def set_limits(
        self, queue: str, known: Limits, limits: Limits, now: datetime, *, note: Note | None = None
    ) -> bool:
        return await self._db.noted(
            "set_limits", now, note, queue=queue, globally=limits.globally, per_node=limits.per_node,
            known_globally=known.globally, known_per_node=known.per_node,
        )  # fmt: skip

    async def pause(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._db.noted("pause", now, note, queue=queue, now=values.micros(now))

    async def resume(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._db.noted("resume", now, note, queue=queue)

    async def seating(self, queues: Sequence[str], tasks: Sequence[str]) -> list[LimitedQueue]:
        rows = await self._db.rows("seating", queues=json.dumps(list(queues)), tasks=json.dumps(list(tasks)))
        return seatings((*row[:4], bool(row[4]), values.uuid(row[5]), *row[6:]) for row in rows)

    async def take_seats(self, queue: str, version: int, node: UUID, seats: int, wanted: int) -> bool:
        parameters = {"queue": queue, "version": version, "node": str(node), "seats": seats, "wanted": wanted}

        def work(connection: sqlite3.Connection) -> bool:
            if not connection.execute(self._db.sql["take_turn"], parameters).rowcount:
                return False
            connection.execute(self._db.sql["free_seats"], parameters)
            connection.execute(self._db.sql["take_seats"], parameters)
            return True

        return await self._db.write(work)
