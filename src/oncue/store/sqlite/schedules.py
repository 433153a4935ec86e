"""Schedules on SQLite. The statements are in schedules.sql."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from oncue.model import (
    DuePosition,
    Note,
    Revised,
    Revision,
    Schedule,
)
from oncue.store.shared import BEGINNING
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database


class SqliteSchedules:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, name: str) -> Schedule | None:
        rows = await self._db.rows("schedule", name=name)
        return values.schedule(rows[0]) if rows else None

    async def by_id(self, schedule_id: int) -> Schedule | None:
        rows = await self._db.rows("schedule_by_id", schedule_id=schedule_id)
        return values.schedule(rows[0]) if rows else None

    async def page(self, after: str = "", limit: int = 100) -> list[Schedule]:
        return [values.schedule(row) for row in await self._db.rows("schedules", after=after, limit=limit)]

    async def coming(self, limit: int, after: DuePosition | None = None) -> list[Schedule]:
        instant, number = after or BEGINNING
        rows = await self._db.rows("coming", instant=values.micros(instant), number=number, limit=limit)
        return [values.schedule(row) for row in rows]

    async def declared(self) -> list[Schedule]:
        return [values.schedule(row) for row in await self._db.rows("declared")]

    async def delivering_to(self, webhook: str, after: str = "", limit: int = 100) -> list[Schedule]:
        rows = await self._db.rows("schedules_delivering", webhook=webhook, after=after, limit=limit)
        return [values.schedule(row) for row in rows]

    async def revise(self, changes: Sequence[Revised], now: datetime, notes: Sequence[Note | None] = ()) -> list[bool]:
        def work(connection: sqlite3.Connection) -> list[bool]:
            took = [self._revised(connection, change, now) for change in changes]
            if notes:
                self._db.add_notes(connection, [note for note, wrote in zip(notes, took, strict=True) if wrote], now)
            return took

        return await self._db.write(work)

    def _revised(self, connection: sqlite3.Connection, change: Revised, now: datetime) -> bool:
        statement = "change_schedule" if change.version else "create_schedule"
        parameters = {**values.fields(change.schedule), "id": change.schedule.id, "expected": change.version}
        if not connection.execute(self._db.sql[statement], parameters).rowcount:
            return False
        name = change.schedule.name
        if change.revision is not None:
            connection.execute(self._db.sql["add_revision"], {**values.fields(change.revision), "name": name})
        revision = change.schedule.revision - (change.revision is not None)
        decided = json.dumps([values.decided_row(decided) for decided in change.decided])
        parameters = {"name": name, "revision": revision, "now": values.micros(now), "decided": decided}
        connection.execute(self._db.sql["give_up_slots"], parameters)
        return True

    async def revisions(
        self, schedule_id: int, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        rows = await self._db.rows(
            "revisions", schedule_id=schedule_id, before=before, limit=-1 if limit is None else limit
        )
        return [values.revision(row) for row in rows]
