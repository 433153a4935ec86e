"""Groups on PostgreSQL. The statements are in groups.sql."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from oncue.errors import RowLocked
from oncue.model import Claim, Group, GroupSettings, GroupsLook, HeldBack, Note
from oncue.store.postgres import values
from oncue.store.postgres.database import Database
from oncue.store.shared import group_of, group_settings, settings_row


class PostgresGroups:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._some_are_held = False
        self._seen = 0
        """How much has happened in groups so far."""

    async def wake(self, queues: Sequence[str], limit: int, now: datetime) -> GroupsLook:
        """As long as another session holds a group of which something was told, no look waits for it again."""
        if not self._some_are_held:
            try:
                (found,) = await self._db.fetch_by_size("wake_groups", self._seen, now, limit, queues)
                return self._noted(GroupsLook(*found))
            except RowLocked:
                self._some_are_held = True
        ((wakeups, ready_at, held),) = await self._db.fetch_by_size("wake_groups_free", self._seen, now, limit, queues)
        self._some_are_held = held > 0
        return self._noted(GroupsLook(wakeups, ready_at))

    def _noted(self, found: GroupsLook) -> GroupsLook:
        self._seen += found.wakeups
        return found

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
        most = [known.get(queue) for queue in queues]
        rows = await self._db.fetch_by_size(
            "claim_grouped", self._seen, node, queues, tasks, limit, now, most, few, alone
        )
        self._seen += len(rows)
        return values.claims(rows, now)

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

    async def trip(
        self,
        queue: str,
        group: str,
        known_trips: int,
        trips: int,
        paused_until: datetime | None,
        now: datetime,
        *,
        known_until: datetime | None = None,
    ) -> bool:
        took = await self._db.fetch("trip", queue, group, known_trips, trips, paused_until, now, known_until)
        if took and not trips:
            self._db.notifications.send()  # what was held back may go
        return bool(took)

    async def tripped(self, queue: str, groups: Sequence[str]) -> dict[str, tuple[int, datetime | None]]:
        return {name: (trips, until) for name, trips, until in await self._db.fetch("tripped", queue, groups)}

    async def forget_tripped(self, before: datetime, limit: int) -> int:
        return len(await self._db.fetch("forget_tripped", before, limit))

    async def held_back(self, now: datetime, limit: int) -> list[HeldBack]:
        return [HeldBack(*row) for row in await self._db.fetch("held_back", now, limit)]
