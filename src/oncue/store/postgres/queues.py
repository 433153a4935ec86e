"""Queues on PostgreSQL. The statements are in queues.sql."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from oncue.errors import RowLocked
from oncue.model import (
    LIVE_LIMIT,
    LimitedQueue,
    Limits,
    Note,
    Queue,
    Turns,
)
from oncue.store.postgres.counters import PostgresCounters
from oncue.store.postgres.database import Database
from oncue.store.shared import (
    in_thread_if_many,
    limits_row,
    queue_limits,
    queue_rows,
    seatings,
)


class PostgresQueues:
    def __init__(self, database: Database, counters: PostgresCounters) -> None:
        self._db = database
        self._counters = counters

    async def all(self) -> list[Queue]:
        rows, live = await self._db.fetch("queues"), await self._counters.count(LIVE_LIMIT)
        totals, sample = await self._db.fetch("totals"), await self._counters.last_sample()
        return await in_thread_if_many(len(live) + len(totals), queue_rows, rows, live, totals, sample)

    async def limits(self, queue: str) -> Limits:
        rows = await self._db.fetch("limits", queue)
        return queue_limits(*rows[0]) if rows else Limits()

    async def set_limits(
        self, queue: str, known: Limits, limits: Limits, now: datetime, *, note: Note | None = None
    ) -> bool:
        took = await self._db.noted("set_limits", now, note, queue, *limits_row(known), *limits_row(limits))
        self._db.notifications.send()
        return took

    async def default_limits(self, queue: str, limits: Limits, now: datetime) -> bool:
        return bool(await self._db.fetch("default_limits", queue, *limits_row(limits)))

    async def pause(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._db.noted("pause", now, note, queue)

    async def resume(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        opened = await self._db.noted("resume", now, note, queue)
        self._db.notifications.send()
        return opened

    async def seating(
        self, queues: Sequence[str], tasks: Sequence[str], addresses: Sequence[str] = ()
    ) -> list[LimitedQueue]:
        return seatings(tuple(row) for row in await self._db.fetch("seating", queues, tasks, addresses))

    async def take_turns(
        self,
        queue: str,
        tasks: Sequence[str],
        wanted: int,
        now: datetime,
        *,
        grouped: bool = False,
        addresses: Sequence[str] = (),
    ) -> Turns:
        rows = await self._db.fetch("take_turns", queue, tasks, wanted, now, grouped, addresses)
        return Turns(*rows[0]) if rows else Turns(0, None)

    async def return_turns(self, queue: str, turns: int, next_at: datetime) -> None:
        with contextlib.suppress(RowLocked):  # then the rate is used up a little sooner
            await self._db.fetch("return_turns", queue, turns, next_at)

    async def rated_until(self, queue: str) -> datetime | None:
        rows = await self._db.fetch("rated_until", queue)
        rate_at: datetime | None = rows[0][0] if rows else None
        return rate_at

    async def take_seats(self, queue: str, version: int, node: UUID, seats: int, wanted: int) -> bool:
        return bool(await self._db.fetch("take_seats", queue, version, node, seats, wanted))
