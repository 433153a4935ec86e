"""Groups on PostgreSQL. The statements are in groups.sql."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from oncue.errors import RowLocked
from oncue.model import Claim, Group, GroupSettings, GroupsLook, Note
from oncue.store.postgres.database import Database
from oncue.store.shared import group_of, group_settings, settings_row

PAST_LOCKS = timedelta(seconds=10)
"""For so long looks pass over the groups that another session holds, once a look had to wait for one."""


class PostgresGroups:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._locked_at: datetime | None = None

    async def wake(self, queues: Sequence[str], limit: int, now: datetime) -> GroupsLook:
        if self._locked_at is not None and abs(now - self._locked_at) < PAST_LOCKS:
            (found,) = await self._db.fetch("wake_groups_free", now, limit, queues)
            return GroupsLook(*found)
        try:
            (found,) = await self._db.fetch("wake_groups", now, limit, queues)
        except RowLocked:
            # What has happened in the locked group is told of until the lock is gone: not every look is to wait for it.
            self._locked_at = now
            (found,) = await self._db.fetch("wake_groups_free", now, limit, queues)
        return GroupsLook(*found)

    async def next_ready(self, queues: Sequence[str]) -> datetime | None:
        ((ready_at,),) = await self._db.fetch("next_ready", queues)
        found: datetime | None = ready_at
        return found

    async def claim(
        self,
        node: UUID,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        now: datetime,
        *,
        few: int = 0,
        alone: datetime | None = None,
        rooms: Mapping[str, int] | None = None,
    ) -> list[Claim]:
        known = rooms or {}
        rows = await self._db.fetch(
            "claim_grouped", node, queues, tasks, limit, now, few, [known.get(queue) for queue in queues], alone
        )
        return [Claim(*row) for row in rows]

    async def all(self, queue: str, limit: int, *, after: str | None = None) -> list[Group]:
        return [group_of(queue, tuple(row)) for row in await self._db.fetch("groups", queue, limit, after)]

    async def get(self, queue: str, group: str) -> Group:
        return group_of(queue, tuple((await self._db.fetch("group", queue, group))[0]))

    async def settings(self, queue: str, group: str) -> GroupSettings:
        rows = await self._db.fetch("group_settings", queue, group)
        return group_settings(tuple(rows[0])) if rows else GroupSettings()

    async def set(
        self,
        queue: str,
        group: str,
        known: GroupSettings,
        settings: GroupSettings,
        now: datetime,
        *,
        note: Note | None = None,
    ) -> bool:
        rows = (*settings_row(known), *settings_row(settings))
        took = await self._db.noted("set_group", now, note, queue, group, *rows)
        self._db.notifications.send()
        return took
