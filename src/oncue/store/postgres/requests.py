"""Kept requests on PostgreSQL. The statements are in requests.sql."""

from __future__ import annotations

from datetime import datetime

from oncue.model import (
    KeptRequest,
)
from oncue.store.postgres.database import Database


class PostgresRequests:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def begin(self, actor: str, key: str, request: KeptRequest) -> KeptRequest | None:
        fields = (request.fingerprint, request.started_at, list(request.ids))
        while True:
            if await self._db.fetch("begin_request", actor, key, *fields):
                return None
            rows = await self._db.fetch("request", actor, key)
            if rows:  # else it was forgotten in between
                fingerprint, started_at, ids, status, answer = rows[0]
                return KeptRequest(fingerprint, started_at, tuple(ids), status, answer)

    async def end(self, actor: str, key: str, status: int, answer: str) -> None:
        await self._db.fetch("end_request", actor, key, status, answer)

    async def forget(self, actor: str, key: str) -> None:
        await self._db.fetch("forget_request", actor, key)

    async def prune(self, before: datetime, limit: int) -> int:
        async with self._db.use() as connection:
            return int((await connection.execute(self._db.sql["prune_requests"], before, limit)).split()[-1])
