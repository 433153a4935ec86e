"""Sessions of browsers on SQLite. The statements are in sessions.sql."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from oncue.model import Note, Session
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database


class SqliteSessions:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def add(self, session: Session, *, note: Note | None = None) -> None:
        fields = {"id": session.id, "digest": session.digest, "token_id": session.token_id}
        expires_at = values.micros(session.expires_at)
        await self._db.noted("add_session", session.created_at, note, **fields, expires_at=expires_at)

    async def get(self, session_id: str) -> Session | None:
        rows = await self._db.rows("session", session_id=session_id)
        return _session(rows[0]) if rows else None

    async def standing(self, now: datetime) -> list[Session]:
        return [_session(row) for row in await self._db.rows("standing_sessions", now=values.micros(now))]

    async def end(self, session_id: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._db.noted("end_session", now, note, session_id=session_id)

    async def mark_used(self, session_id: str, now: datetime) -> None:
        await self._db.execute("mark_session_used", session_id=session_id, now=values.micros(now))

    async def prune(self, before: datetime, limit: int) -> int:
        return await self._db.execute("prune_sessions", before=values.micros(before), limit=limit)


def _session(row: Sequence[Any]) -> Session:
    session_id, digest, token_id, created_at, expires_at, *later = row
    begun, over = values.instant(created_at), values.instant(expires_at)
    return Session(session_id, digest, token_id, begun, over, *map(values.instant_or_none, later))
