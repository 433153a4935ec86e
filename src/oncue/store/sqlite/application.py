"""Whose tables these are, on SQLite. The statements are in application.sql."""

from __future__ import annotations

from datetime import datetime

from oncue.model import Note, Owner
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database


class SqliteApplication:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def owner(self) -> Owner | None:
        rows = await self._db.rows("owner")
        return Owner(rows[0][0], bool(rows[0][1]), values.instant(rows[0][2])) if rows else None

    async def own(self, owner: Owner, known: Owner | None, now: datetime, *, note: Note | None = None) -> bool:
        return await self._db.noted(
            "own", now, note, name=owner.name, given=owner.given, since=values.micros(owner.since),
            known=None if known is None else known.name, known_given=None if known is None else known.given,
        )  # fmt: skip
