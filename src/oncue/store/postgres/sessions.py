"""Sessions of browsers on PostgreSQL. The statements are in sessions.sql."""

from __future__ import annotations

from datetime import datetime

from oncue.model import Note, Session
from oncue.store.postgres.database import Database


class PostgresSessions:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def add(self, session: Session, *, note: Note | None = None) -> None:
        fields = (session.id, session.digest, session.token_id, session.expires_at)
        await self._db.noted("add_session", session.created_at, note, *fields)

    async def get(self, session_id: str) -> Session | None:
        rows = await self._db.fetch("session", session_id)
        return Session(*rows[0]) if rows else None

    async def standing(self, now: datetime) -> list[Session]:
        return [Session(*row) for row in await self._db.fetch("standing_sessions", now)]

    async def end(self, session_id: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._db.noted("end_session", now, note, session_id)

    async def mark_used(self, session_id: str, now: datetime) -> None:
        await self._db.fetch("mark_session_used", session_id, now)

    async def prune(self, before: datetime, limit: int) -> int:
        return await self._db.execute("prune_sessions", before, limit)
