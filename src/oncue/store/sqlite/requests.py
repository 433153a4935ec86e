"""Kept requests on SQLite. The statements are in requests.sql."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime
from typing import Any

from oncue.model import (
    KeptRequest,
)
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database


class SqliteRequests:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def begin(self, actor: str, key: str, request: KeptRequest) -> KeptRequest | None:
        parameters = {
            "actor": actor,
            "key": key,
            "fingerprint": request.fingerprint,
            "started_at": values.micros(request.started_at),
            "ids": json.dumps(request.ids),
        }

        def work(connection: sqlite3.Connection) -> Any:
            if connection.execute(self._db.sql["begin_request"], parameters).rowcount > 0:
                return None
            return connection.execute(self._db.sql["request"], {"actor": actor, "key": key}).fetchone()

        kept = await self._db.write(work)
        if kept is None:
            return None
        fingerprint, started_at, ids, status, answer = kept
        return KeptRequest(fingerprint, values.instant(started_at), tuple(json.loads(ids)), status, answer)

    async def end(self, actor: str, key: str, status: int, answer: str) -> None:
        await self._db.execute("end_request", actor=actor, key=key, status=status, answer=answer)

    async def forget(self, actor: str, key: str) -> None:
        await self._db.execute("forget_request", actor=actor, key=key)

    async def prune(self, before: datetime, limit: int) -> int:
        return await self._db.execute("prune_requests", before=values.micros(before), limit=limit)
