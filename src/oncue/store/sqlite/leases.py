"""Leases on SQLite. The statements are in leases.sql."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.model import (
    Lease,
)
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database


class SqliteLeases:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def acquire(
        self, name: str, holder: UUID, holder_name: str, now: datetime, expires_at: datetime, *, respect: str | None
    ) -> Lease | None:
        # While a node holds it, looking costs no lock.
        standing = await self.get(name)
        if standing is not None and standing.expires_at > now:
            return standing
        parameters = {
            "name": name,
            "holder": str(holder),
            "holder_name": holder_name,
            "now": values.micros(now),
            "expires_at": values.micros(expires_at),
            "respect": respect,
        }

        def work(connection: sqlite3.Connection) -> list[Any]:
            connection.execute(self._db.sql["acquire"], parameters)
            return connection.execute(self._db.sql["lease"], {"name": name}).fetchall()

        rows = await self._db.write(work)
        return values.lease(rows[0]) if rows else None

    async def renew(
        self, name: str, holder: UUID, epoch: int, now: datetime, expires_at: datetime, *, respect: str | None
    ) -> bool:
        renewed = await self._db.execute(
            "renew",
            name=name,
            holder=str(holder),
            epoch=epoch,
            now=values.micros(now),
            expires_at=values.micros(expires_at),
            respect=respect,
        )
        return renewed == 1

    async def release(self, name: str, holder: UUID, epoch: int, now: datetime) -> None:
        await self._db.execute("release_lease", name=name, holder=str(holder), epoch=epoch, now=values.micros(now))

    async def get(self, name: str) -> Lease | None:
        rows = await self._db.rows("lease", name=name)
        return values.lease(rows[0]) if rows else None
