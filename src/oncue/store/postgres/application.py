"""Whose tables these are, on PostgreSQL. The statements are in application.sql."""

from __future__ import annotations

from datetime import datetime

from oncue.model import Note, Owner
from oncue.store.postgres.database import Database


class PostgresApplication:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def owner(self) -> Owner | None:
        rows = await self._db.fetch("owner")
        return Owner(*rows[0]) if rows else None

    async def own(self, owner: Owner, known: Owner | None, now: datetime, *, note: Note | None = None) -> bool:
        before = (None, None) if known is None else (known.name, known.given)
        return await self._db.noted("own", now, note, *owner, *before)
