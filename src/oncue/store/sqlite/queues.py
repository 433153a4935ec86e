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
    Turns,
)
from oncue.store import statements
from oncue.store.shared import (
    limits_row,
    queue_limits,
    queue_rows,
    seatings,
)
from oncue.store.sqlite import values
from oncue.store.sqlite.counters import SqliteCounters
from oncue.store.sqlite.database import Database
from oncue.store.sqlite.rates import allowed, burst


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
        return queue_limits(*rows[0]) if rows else Limits()

    async def set_limits(
        self, queue: str, known: Limits, limits: Limits, now: datetime, *, note: Note | None = None
    ) -> bool:
        parameters = {"queue": queue, "now": values.micros(now), **_columns(limits), **_columns(known, "known_")}

        def work(connection: sqlite3.Connection) -> bool:
            took = connection.execute(self._db.sql["set_limits"], parameters).rowcount > 0
            if took:
                connection.execute(self._db.sql["wake_queue"], parameters)
                self._db.add_notes(connection, [note], now)
            return took

        return await self._db.write(work)

    async def default_limits(self, queue: str, limits: Limits, now: datetime) -> bool:
        return await self._db.execute("default_limits", queue=queue, **_columns(limits)) > 0

    async def pause(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._db.noted("pause", now, note, queue=queue, now=values.micros(now))

    async def resume(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._db.noted("resume", now, note, queue=queue)

    async def seating(
        self, queues: Sequence[str], tasks: Sequence[str], addresses: Sequence[str] = ()
    ) -> list[LimitedQueue]:
        wanted = {"queues": queues, "tasks": tasks, "addresses": addresses}
        rows = await self._db.rows("seating", **{name: json.dumps(list(texts)) for name, texts in wanted.items()})
        return seatings((*row[:-4], bool(row[-4]), values.uuid(row[-3]), *row[-2:]) for row in rows)

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
        at = values.micros(now)
        asked = {
            "queue": queue, "tasks": json.dumps(list(tasks)), "now": at, "grouped": grouped,
            "addresses": json.dumps(list(addresses)),
        }  # fmt: skip

        def work(connection: sqlite3.Connection) -> Turns:
            found = connection.execute(self._db.sql["rate_of"], asked).fetchone()
            if found is None:
                return Turns(0, None)
            every, rate_at = found
            used_until = max(rate_at or 0, at - burst(every))
            turns = min(wanted, allowed(every, used_until, at))
            used_until += round(every * turns)
            connection.execute(self._db.sql["use_rate"], {"queue": queue, "rate_at": used_until})
            return Turns(turns, values.instant(used_until))

        if not await self._db.rows("rate_of", **asked):  # looking costs no lock
            return Turns(0, None)
        return await self._db.write(work)

    async def return_turns(self, queue: str, turns: int, next_at: datetime) -> None:
        await self._db.execute("return_turns", queue=queue, turns=turns, next_at=values.micros(next_at))

    async def rated_until(self, queue: str) -> datetime | None:
        rows = await self._db.rows("rated_until", queue=queue)
        return values.instant_or_none(rows[0][0]) if rows else None

    async def take_seats(self, queue: str, version: int, node: UUID, seats: int, wanted: int) -> bool:
        parameters = {"queue": queue, "version": version, "node": str(node), "seats": seats, "wanted": wanted}

        def work(connection: sqlite3.Connection) -> bool:
            if not connection.execute(self._db.sql["take_turn"], parameters).rowcount:
                return False
            connection.execute(self._db.sql["free_seats"], parameters)
            connection.execute(self._db.sql["take_seats"], parameters)
            return True

        return await self._db.write(work)


def _columns(limits: Limits, prefix: str = "") -> dict[str, int | None]:
    names = (prefix + name for name in statements.LIMIT_COLUMNS.split(", "))
    return dict(zip(names, limits_row(limits), strict=True))
