"""Schedules on PostgreSQL. The statements are in schedules.sql."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from oncue.model import (
    DuePosition,
    Note,
    Revised,
    Revision,
    Schedule,
)
from oncue.store.postgres import values
from oncue.store.postgres.database import Database
from oncue.store.shared import BEGINNING


class PostgresSchedules:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, name: str) -> Schedule | None:
        rows = await self._db.fetch("schedule", name)
        return values.schedule(rows[0]) if rows else None

    async def by_id(self, schedule_id: int) -> Schedule | None:
        rows = await self._db.fetch("schedule_by_id", schedule_id)
        return values.schedule(rows[0]) if rows else None

    async def page(self, after: str = "", limit: int = 100) -> list[Schedule]:
        return [values.schedule(row) for row in await self._db.fetch("schedules", after, limit)]

    async def coming(self, limit: int, after: DuePosition | None = None) -> list[Schedule]:
        return [values.schedule(row) for row in await self._db.fetch("coming", *(after or BEGINNING), limit)]

    async def declared(self) -> list[Schedule]:
        return [values.schedule(row) for row in await self._db.fetch("declared")]

    async def delivering_to(self, webhook: str, after: str = "", limit: int = 100) -> list[Schedule]:
        return [values.schedule(row) for row in await self._db.fetch("schedules_delivering", webhook, after, limit)]

    async def revise(self, changes: Sequence[Revised], now: datetime, notes: Sequence[Note | None] = ()) -> list[bool]:
        pairs = zip(changes, notes or [None] * len(changes), strict=True)
        took = [await self._revised(change, now, note) for change, note in pairs]
        self._db.notifications.send()
        return took

    async def _revised(self, change: Revised, now: datetime, note: Note | None) -> bool:
        revision = [None] * 15 if change.revision is None else values.revision_row(change.revision)[1:]
        given_up_in = change.schedule.revision - (change.revision is not None)
        rows = [(d.scheduled_for, d.until, d.slots, d.verdict, d.reason) for d in change.decided]
        slots = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(5)]
        fields = (*values.schedule_row(change.schedule), *revision, given_up_in, *slots)
        if change.version == 0:
            return await self._db.noted("create_schedule", now, note, *fields)
        return await self._db.noted("change_schedule", now, note, *fields, change.version, change.schedule.id)

    async def revisions(
        self, schedule_id: int, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        rows = await self._db.fetch("revisions", schedule_id, before, limit)
        return [Revision(**{**row, "grace": row["grace"].total_seconds()}) for row in map(dict, rows)]
