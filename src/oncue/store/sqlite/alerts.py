"""Minutes and alerts on SQLite. The statements are in alerts.sql."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from oncue.model import NO_ALERTS, AlertBook, Batch, Minute
from oncue.store.shared import alerts_json, alerts_of
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database
from oncue.store.sqlite.jobs import SqliteJobs


class SqliteAlerts:
    def __init__(self, database: Database, jobs: SqliteJobs) -> None:
        self._db = database
        self._jobs = jobs

    async def append(self, minutes: Sequence[Minute]) -> None:
        rows = [
            {
                "minute": values.micros(one.minute), "node_id": str(one.node_id), "kind": one.kind, "name": one.name,
                "figures": json.dumps(one.figures),
            }
            for one in minutes
        ]  # fmt: skip
        if rows:
            await self._db.write(lambda connection: connection.executemany(self._db.sql["append_minutes"], rows))

    async def minutes(self, since: datetime) -> list[Minute]:
        def work(connection: sqlite3.Connection) -> list[Minute]:
            # In the reader's thread: of a hundred nodes there are thousands.
            rows = connection.execute(self._db.sql["minutes"], {"since": values.micros(since)})
            return [
                Minute(values.instant(minute), UUID(node_id), kind, name, json.loads(figures))
                for minute, node_id, kind, name, figures in rows
            ]

        return await self._db.read(work)

    async def prune(self, before: datetime, limit: int) -> int:
        ((is_any,),) = await self._db.rows("any_old_minute", before=values.micros(before))
        return await self._db.execute("prune_minutes", before=values.micros(before), limit=limit) if is_any else 0

    async def book(self) -> AlertBook:
        rows = await self._db.rows("alert_book")
        return NO_ALERTS if not rows else AlertBook(rows[0][0], values.instant(rows[0][1]), alerts_of(rows[0][2]))

    async def write(
        self, book: AlertBook, now: datetime, *, node: UUID, epoch: int, jobs: Sequence[Batch] = ()
    ) -> bool:
        told = {"version": book.version, "now": values.micros(now), "alerts": alerts_json(book.alerts)}

        def work(connection: sqlite3.Connection) -> bool:
            if not connection.execute(self._db.sql["leads"], {"node": str(node), "epoch": epoch}).fetchall():
                return False
            if not connection.execute(self._db.sql["write_alert_book"], told).rowcount:
                return False
            for batch in jobs:
                self._jobs.insert(connection, batch)
            return True

        return await self._db.write(work)
