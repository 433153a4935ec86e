"""Webhooks on PostgreSQL. The statements are in webhooks.sql."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from oncue.model import WEBHOOKS_QUEUE, Job, Note, Orphan, State, Webhook
from oncue.store.postgres import values
from oncue.store.postgres.database import Database
from oncue.store.postgres.slots import untangled
from oncue.store.shared import LARGEST_ID, webhook_fields, webhook_of


class PostgresWebhooks:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, names: Sequence[str]) -> list[Webhook]:
        return [webhook_of(dict(row)) for row in await self._db.fetch("webhooks", names)] if names else []

    async def page(self, after: str = "", limit: int = 100) -> list[Webhook]:
        return [webhook_of(dict(row)) for row in await self._db.fetch("webhooks_page", after, limit)]

    async def declared(self) -> list[Webhook]:
        return [webhook_of(dict(row)) for row in await self._db.fetch("declared_webhooks")]

    async def write(
        self,
        webhook: Webhook,
        version: int,
        now: datetime,
        *,
        options: tuple[str, int] | None = None,
        note: Note | None = None,
    ) -> bool:
        statement = "change_webhook" if version else "create_webhook"
        fields = (webhook.name, version, *webhook_fields(webhook).values(), *(options or (None, None)))
        # The leader, which decides slots of the same schedules, may hold them in another order.
        return await untangled(lambda: self._db.noted(statement, now, note, *fields))

    async def executions(
        self, endpoint: str, states: Sequence[State], before: int | None, limit: int, *, short: bool = False
    ) -> list[Job]:
        statement = "executions_short" if short else "executions"
        rows = await self._db.fetch(statement, endpoint, list(states), before or LARGEST_ID, limit)
        return [values.job(row) for row in rows]

    async def orphans(self, before: datetime, after: int, limit: int) -> list[Orphan]:
        return [Orphan(*row) for row in await self._db.fetch_anew("orphans", before, after, limit, WEBHOOKS_QUEUE)]

    async def re_emit(self, ids: Sequence[int], now: datetime) -> list[int]:
        found = [row[0] for row in await self._db.fetch("re_emit", ids)]
        if found:
            self._db.notifications.send()
        return found
