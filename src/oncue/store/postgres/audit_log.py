"""The audit log on PostgreSQL. The statements are in audit_log.sql."""

from __future__ import annotations

import json
from datetime import datetime

from oncue.model import (
    AuditEntry,
)
from oncue.store.postgres.database import Database


class PostgresAuditLog:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def page(
        self, *, actor: str | None = None, subject: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        if subject is not None:
            rows = await self._db.fetch("audit_log_of", subject, actor, before, limit)
        elif actor is not None:
            rows = await self._db.fetch("audit_log_by", actor, before, limit)
        else:
            rows = await self._db.fetch("audit_log", before, limit)
        return [AuditEntry(*row[:5], *(None if text is None else json.loads(text) for text in row[5:])) for row in rows]

    async def prune(self, before: datetime, limit: int) -> int:
        async with self._db.use() as connection:
            return int((await connection.execute(self._db.sql["prune_audit_log"], before, limit)).split()[-1])
