"""Webhooks on SQLite. The statements are in webhooks.sql."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from oncue.model import WEBHOOKS_QUEUE, Job, Note, Orphan, State, Webhook
from oncue.store import statements
from oncue.store.shared import LARGEST_ID, sizes, webhook_fields, webhook_of
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database, rows_of

_COLUMNS = statements.WEBHOOK_COLUMNS.split(", ")
_INSTANTS = [name for name in _COLUMNS if name.endswith("_at")]


class SqliteWebhooks:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, names: Sequence[str]) -> list[Webhook]:
        return [_webhook(row) for row in await self._db.rows("webhooks", names=json.dumps(list(names)))]

    async def page(self, after: str = "", limit: int = 100) -> list[Webhook]:
        return [_webhook(row) for row in await self._db.rows("webhooks_page", after=after, limit=limit)]

    async def declared(self) -> list[Webhook]:
        return [_webhook(row) for row in await self._db.rows("declared_webhooks")]

    async def write(
        self,
        webhook: Webhook,
        version: int,
        now: datetime,
        *,
        options: tuple[str, int] | None = None,
        note: Note | None = None,
    ) -> bool:
        fields = webhook_fields(webhook)
        instants = {name: values.micros_or_none(fields[name]) for name in _INSTANTS}
        parameters = {**fields, **instants, "name": webhook.name, "expected": version}

        def work(connection: sqlite3.Connection) -> bool:
            statement = self._db.sql["change_webhook" if version else "create_webhook"]
            if not connection.execute(statement, parameters).rowcount:
                return False
            if options is not None:
                told = {"name": webhook.name, "options": options[0], "max_retries": options[1]}
                connection.execute(self._db.sql["retell_schedules"], told)
            self._db.add_notes(connection, [note], now)
            return True

        return await self._db.write(work)

    async def executions(
        self, endpoint: str, states: Sequence[State], before: int | None, limit: int, *, short: bool = False
    ) -> list[Job]:
        asked = {"endpoint": endpoint, "states": json.dumps(states), "before": before or LARGEST_ID, "limit": limit}
        rows = await self._db.rows("executions_short" if short else "executions", **asked)
        if not short:
            return [values.job(row) for row in rows]
        few = -len(statements.SHORTENED)
        return [replace(values.job(row[:few]), shortened=sizes(*row[few:])) for row in rows]

    async def orphans(self, before: datetime, after: int, limit: int) -> list[Orphan]:
        asked = {"queue": WEBHOOKS_QUEUE, "before": values.micros(before), "after": after, "limit": limit}

        def look(connection: sqlite3.Connection) -> list[Orphan]:
            found: list[Orphan] = []
            for group in rows_of(connection, self._db.sql["orphans"], asked):
                rows = connection.execute(self._db.sql["orphans_of_group"], {**asked, "group": group})
                found = sorted([*found, *map(_orphan, rows)])[:limit]
            return found

        return await self._db.read(look)

    async def re_emit(self, ids: Sequence[int], now: datetime) -> list[int]:
        def work(connection: sqlite3.Connection) -> list[int]:
            found: list[int] = rows_of(connection, self._db.sql["still_queued"], {"ids": json.dumps(list(ids))})
            connection.execute(self._db.sql["wake_deliveries"], {"ids": json.dumps(found)})
            return found

        return await self._db.write(work)


def _webhook(row: Sequence[Any]) -> Webhook:
    columns = dict(zip(_COLUMNS, row, strict=True))
    instants = {name: values.instant_or_none(columns[name]) for name in _INSTANTS}
    return webhook_of({**columns, **instants, "enabled": bool(columns["enabled"]), "deleted": bool(columns["deleted"])})


def _orphan(row: Sequence[Any]) -> Orphan:
    job_id, created_at, group, schedule_id, schedule_created_at, scheduled_for, due_at = row
    schedule = (schedule_id, values.instant_or_none(schedule_created_at), values.instant_or_none(scheduled_for))
    return Orphan(job_id, values.instant(created_at), group, *schedule, values.instant(due_at))
