"""Tokens on PostgreSQL. The statements are in tokens.sql."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from oncue.model import (
    Note,
    Token,
)
from oncue.store.postgres.database import Database


class PostgresTokens:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def add(self, token: Token, *, note: Note | None = None) -> None:
        fields = (token.id, token.name, token.digest, list(token.scopes), token.created_by, token.expires_at)
        await self._db.noted("add_token", token.created_at, note, *fields)

    async def get(self, token_id: str) -> Token | None:
        rows = await self._db.fetch("token", token_id)
        return _token(rows[0]) if rows else None

    async def all(self) -> list[Token]:
        return [_token(row) for row in await self._db.fetch("tokens")]

    async def exist(self) -> bool:
        return bool((await self._db.fetch("has_tokens"))[0][0])

    async def revoke(self, token_id: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._db.noted("revoke_token", now, note, token_id)

    async def mark_used(self, token_id: str, now: datetime) -> None:
        await self._db.fetch("mark_token_used", token_id, now)


def _token(row: Iterable[Any]) -> Token:
    token_id, name, digest, scopes, *rest = row
    return Token(token_id, name, digest, tuple(scopes), *rest)
