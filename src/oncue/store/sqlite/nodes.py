"""Nodes on SQLite. The statements are in nodes.sql."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.model import (
    GoneNode,
    HeldJob,
    Node,
)
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database


class SqliteNodes:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def register(self, node: Node) -> None:
        parameters = values.registration(node)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(self._db.sql["free_own_seats"], parameters)
            connection.execute(self._db.sql["register"], parameters)

        await self._db.write(work)

    async def beat(self, node: UUID, now: datetime, expires_at: datetime, number: int = 0) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            times = {"now": values.micros(now), "expires_at": values.micros(expires_at)}
            connection.execute(self._db.sql["raise_high_water"], {"now": values.micros(now)})
            return (
                connection.execute(self._db.sql["beat"], {"node": str(node), "number": number, **times}).rowcount == 1
            )

        return await self._db.write(work)

    async def expire(self, now: datetime, only: UUID | None = None) -> list[Node]:
        # Most passes find no lost node: look first, without a lock.
        if all(node.expires_at > now for node in await self.alive()):
            return []

        def work(connection: sqlite3.Connection) -> list[Any]:
            parameters = {"now": values.micros(now), "only": None if only is None else str(only)}
            return connection.execute(self._db.sql["expire_nodes"], parameters).fetchall()

        return [values.node(row) for row in await self._db.write(work)]

    async def next_lease_end(self) -> datetime | None:
        return values.instant_or_none(await self._db.value("next_lease_end"))

    async def leave(self, node: UUID, now: datetime, number: int = 0) -> None:
        parameters = {"node": str(node), "now": values.micros(now), "number": number}

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(self._db.sql["raise_high_water"], {"now": values.micros(now)})
            connection.execute(self._db.sql["leave"], parameters)

        await self._db.write(work)

    async def alive(self) -> list[Node]:
        return [values.node(row) for row in await self._db.rows("nodes")]

    async def gone(self, since: datetime, limit: int) -> list[GoneNode]:
        rows = await self._db.rows("gone_nodes", since=values.micros(since), limit=limit)
        return [GoneNode(UUID(node), name, values.instant(at), bool(left)) for node, name, at, left in rows]

    async def work(self, nodes: Sequence[UUID], limit: int) -> dict[UUID, list[HeldJob]]:
        ids = json.dumps([str(node) for node in nodes])
        return {
            UUID(node): [HeldJob(job, task, values.instant_or_none(began)) for job, task, began in json.loads(held)]
            for node, held in await self._db.rows("node_work", nodes=ids, limit=limit)
        }

    async def namesakes(self, node: Node) -> list[Node]:
        return [values.node(row) for row in await self._db.rows("namesakes", name=node.name, node=str(node.id))]

    async def take_name(self, node: UUID, name: str) -> Node | None:
        parameters = {"node": str(node), "name": name}

        def work(connection: sqlite3.Connection) -> list[Any]:
            if connection.execute(self._db.sql["take_name"], parameters).rowcount:
                connection.execute(self._db.sql["readdress"], parameters)
                connection.execute(self._db.sql["rename_parts"], parameters)
            return connection.execute(self._db.sql["name_holder"], parameters).fetchall()

        rows = await self._db.write(work)
        return values.node(rows[0]) if rows else None

    async def names(self, ids: Sequence[UUID]) -> dict[UUID, str]:
        rows = await self._db.rows("node_names", ids=json.dumps([str(node) for node in ids]))
        return {UUID(node): name for node, name in rows}

    async def declare_lost(self, node: UUID, now: datetime) -> bool:
        parameters = {"node": str(node), "now": values.micros(now)}

        def work(connection: sqlite3.Connection) -> bool:
            if not connection.execute(self._db.sql["declare_lost"], parameters).rowcount:
                return False
            connection.execute(self._db.sql["free_leases"], parameters)
            return True

        return await self._db.write(work)
