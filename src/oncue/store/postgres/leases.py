"""Leases on PostgreSQL. The statements are in leases.sql."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from oncue.model import (
    Lease,
)
from oncue.store.postgres.database import Database


class PostgresLeases:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def acquire(
        self, name: str, holder: UUID, holder_name: str, now: datetime, expires_at: datetime, *, respect: str | None
    ) -> Lease | None:
        rows = await self._db.fetch("acquire", name, holder, holder_name, now, expires_at, respect)
        return Lease(*rows[0]) if rows else await self.get(name)

    async def renew(
        self, name: str, holder: UUID, epoch: int, now: datetime, expires_at: datetime, *, respect: str | None
    ) -> bool:
        return bool(await self._db.fetch("renew", name, holder, epoch, now, expires_at, respect))

    async def release(self, name: str, holder: UUID, epoch: int, now: datetime) -> None:
        await self._db.fetch("release_lease", name, holder, epoch, now)
        self._db.notifications.send()

    async def get(self, name: str) -> Lease | None:
        rows = await self._db.fetch("lease", name)
        return Lease(*rows[0]) if rows else None
