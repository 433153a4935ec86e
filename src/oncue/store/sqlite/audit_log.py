"""The audit log on SQLite. The statements are in audit_log.sql."""

from __future__ import annotations

import json
from datetime import datetime

from oncue.model import (
    AuditEntry,
)
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database


class SqliteAuditLog:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def page(
        self, *, actor: str | None = None, subject: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        # A condition for each: where one may be null, SQLite reads all lines to find those of a subject.
        if subject is not None:
            rows = await self._db.rows("audit_log_of", subject=subject, actor=actor, before=before, limit=limit)
        elif actor is not None:
            rows = await self._db.rows("audit_log_by", actor=actor, before=before, limit=limit)
        else:
            rows = await self._db.rows("audit_log", before=before, limit=limit)
        return [
            AuditEntry(row[0], values.instant(row[1]), *row[2:5], *(text and json.loads(text) for text in row[5:]))
            for row in rows
        ]

    async def prune(self, before: datetime, limit: int) -> int:
        return await self._db.execute("prune_audit_log", before=values.micros(before), limit=limit)
