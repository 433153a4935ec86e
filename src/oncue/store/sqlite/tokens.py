"""Tokens on SQLite. The statements are in tokens.sql."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from oncue.model import (
    Note,
    Token,
)
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database


class SqliteTokens:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def add(self, token: Token, *, note: Note | None = None) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                self._db.sql["add_token"],
                {
                    "id": token.id,
                    "name": token.name,
                    "digest": token.digest,
                    "scopes": json.dumps(token.scopes),
                    "created_by": token.created_by,
                    "created_at": values.micros(token.created_at),
                    "expires_at": values.micros_or_none(token.expires_at),
                },
            )
            self._db.add_notes(connection, [note], token.created_at)

        await self._db.write(work)

    async def get(self, token_id: str) -> Token | None:
        rows = await self._db.rows("token", token_id=token_id)
        return _token(rows[0]) if rows else None

    async def all(self) -> list[Token]:
        return [_token(row) for row in await self._db.rows("tokens")]

    async def exist(self) -> bool:
        return bool(await self._db.value("has_tokens"))

    async def revoke(self, token_id: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._db.noted("revoke_token", now, note, token_id=token_id)

    async def mark_used(self, token_id: str, now: datetime) -> None:
        await self._db.execute("mark_token_used", token_id=token_id, now=values.micros(now))


def _token(row: Sequence[Any]) -> Token:
    token_id, name, digest, scopes, created_by, *instants = row
    times = map(values.instant_or_none, instants[1:])
    return Token(token_id, name, digest, tuple(json.loads(scopes)), created_by, values.instant(instants[0]), *times)
