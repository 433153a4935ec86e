"""Minutes and alerts on PostgreSQL. The statements are in alerts.sql."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from oncue.model import NO_ALERTS, AlertBook, Batch, Minute
from oncue.store.postgres.database import Database
from oncue.store.postgres.jobs import jobs_document
from oncue.store.shared import alerts_json, alerts_of, in_thread_if_many


class PostgresAlerts:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def append(self, minutes: Sequence[Minute]) -> None:
        if minutes:
            rows = sorted((*one[:4], json.dumps(one.figures)) for one in minutes)
            await self._db.fetch("append_minutes", *(list(column) for column in zip(*rows, strict=True)))

    async def minutes(self, since: datetime) -> list[Minute]:
        rows = await self._db.fetch("minutes", since)
        return await in_thread_if_many(len(rows), _minutes, rows)

    async def prune(self, before: datetime, limit: int) -> int:
        pruned: int = (await self._db.fetch("prune_minutes", before, limit))[0][0]
        return pruned

    async def book(self) -> AlertBook:
        rows = await self._db.fetch("alert_book")
        return NO_ALERTS if not rows else AlertBook(rows[0][0], rows[0][1], alerts_of(rows[0][2]))

    async def write(
        self, book: AlertBook, now: datetime, *, node: UUID, epoch: int, jobs: Sequence[Batch] = ()
    ) -> bool:
        made = jobs_document(
            ({"id": job_id, "args": args}, batch)
            for batch in jobs
            for job_id, args in zip(batch.ids, batch.args, strict=True)
        )
        ((written,),) = await self._db.fetch(
            "write_alert_book", now, node, epoch, book.version, alerts_json(book.alerts), made
        )
        if written and made:
            self._db.notifications.send()
        return bool(written)


def _minutes(rows: Sequence[asyncpg.Record]) -> list[Minute]:
    return [Minute(minute, node_id, kind, name, json.loads(figures)) for minute, node_id, kind, name, figures in rows]
