"""Nodes on PostgreSQL. The statements are in nodes.sql."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from oncue.errors import StoreRefused
from oncue.model import (
    GoneNode,
    HeldJob,
    Node,
)
from oncue.store.postgres import values
from oncue.store.postgres.database import Database


class PostgresNodes:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def register(self, node: Node) -> None:
        await self._db.fetch(
            "register",
            node.id,
            node.name,
            node.host,
            node.pid,
            node.boot_id,
            node.version,
            list(node.queues),
            list(node.tasks),
            node.concurrency,
            node.address,
            node.started_at,
            node.beat_at,
            node.expires_at,
            node.process_start,
            node.exclusive,
            list(node.schedules),
            node.beat_no,
        )

    async def beat(self, node: UUID, now: datetime, expires_at: datetime, number: int = 0) -> bool:
        return bool(await self._db.fetch("beat", node, now, expires_at, number))

    async def expire(self, now: datetime, only: UUID | None = None) -> list[Node]:
        return [values.node(row) for row in await self._db.fetch_past_locks("expire_nodes", now, only)]

    async def next_lease_end(self) -> datetime | None:
        rows = await self._db.fetch("next_lease_end")
        found: datetime | None = rows[0][0]
        return found

    async def leave(self, node: UUID, now: datetime, number: int = 0) -> None:
        await self._db.fetch("leave", node, now, number)
        self._db.notifications.send()

    async def alive(self) -> list[Node]:
        return [values.node(row) for row in await self._db.fetch("nodes")]

    async def gone(self, since: datetime, limit: int) -> list[GoneNode]:
        return [GoneNode(*row) for row in await self._db.fetch("gone_nodes", since, limit)]

    async def work(self, nodes: Sequence[UUID], limit: int) -> dict[UUID, list[HeldJob]]:
        found: dict[UUID, list[HeldJob]] = {node: [] for node in nodes}
        for node, *held in await self._db.fetch("node_work", list(nodes), limit):
            found[node].append(HeldJob(*held))
        return found

    async def namesakes(self, node: Node) -> list[Node]:
        return [values.node(row) for row in await self._db.fetch("namesakes", node.name, node.id)]

    async def take_name(self, node: UUID, name: str) -> Node | None:
        try:
            await self._db.fetch("take_name", node, name)
            await self._db.fetch("move_to_name", node, name)
        except StoreRefused as error:
            if getattr(error.__cause__, "constraint_name", None) != "oncue_nodes_named":
                raise
        rows = await self._db.fetch("name_holder", node, name)
        return values.node(rows[0]) if rows else None

    async def names(self, ids: Sequence[UUID]) -> dict[UUID, str]:
        return {row[0]: row[1] for row in await self._db.fetch("node_names", list(ids))}

    async def declare_lost(self, node: UUID, now: datetime) -> bool:
        return bool(await self._db.fetch("declare_lost", node, now))
