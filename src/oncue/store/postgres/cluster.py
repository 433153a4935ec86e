"""Cluster jobs on PostgreSQL. The statements are in cluster.sql."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from oncue.model import Batch, ClusterJob, Creation, Job, NewParts
from oncue.store.postgres import values
from oncue.store.postgres.database import Database
from oncue.store.shared import LARGEST_ID, cluster_job_of, loaded


class PostgresCluster:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def create(self, batch: Batch, parts: NewParts, now: datetime, *, node: UUID, epoch: int) -> Creation:
        hint = self._db.notifications.take()
        own = (
            batch.args[0], None if batch.keys is None else batch.keys[0], batch.task, batch.queue, batch.priority,
            batch.options, batch.max_retries, _interval(batch.max_runtime), batch.deadline_at, batch.enqueued_by,
            batch.retry_of,
        )  # fmt: skip
        ((leads, members, made, _),) = await self._db.fetch(
            "create_cluster_job", now, node, epoch, batch.ids[0], *_template(parts), *own, hint is not None
        )
        if made and hint is not None:
            hint.arrived()
        elif made:
            self._db.notifications.send()
        return Creation(bool(leads), members, bool(made))

    async def spread(self, job_id: int, parts: NewParts, now: datetime, *, node: UUID, epoch: int) -> int | None:
        ((made, members, _),) = await self._db.fetch("spread", now, node, epoch, job_id, *_template(parts))
        return members if made else None

    async def release(self, job_id: int, quorum: bool, now: datetime, *, node: UUID, epoch: int) -> bool:
        return bool(await self._db.fetch("release_cluster_job", now, node, epoch, job_id, quorum))

    async def undecided(self, now: datetime, limit: int, after: int = 0) -> list[ClusterJob]:
        return [_cluster_job(row) for row in await self._db.fetch("undecided", now, False, limit, after)]

    async def get(self, job_ids: Sequence[int], now: datetime) -> list[ClusterJob]:
        return [_cluster_job(row) for row in await self._db.fetch("cluster_jobs", now, True, list(job_ids))]

    async def page(self, now: datetime, before: int | None, limit: int) -> list[ClusterJob]:
        rows = await self._db.fetch("cluster_jobs_page", now, False, before or LARGEST_ID, limit)
        return [_cluster_job(row) for row in rows]

    async def whole_of(self, job_ids: Sequence[int]) -> dict[int, int]:
        return dict(map(tuple, await self._db.fetch("whole_of", list(job_ids))))

    async def interrupted(self, name: str, node: UUID) -> list[Job]:
        return [values.job(row) for row in await self._db.fetch("interrupted", name, node)]


def _template(parts: NewParts) -> tuple[Any, ...]:
    nodes = None if parts.nodes is None else list(parts.nodes)
    shared = (parts.task, parts.queue, parts.options, parts.max_retries, _interval(parts.max_runtime))
    return (*shared, nodes, parts.leader_only)


def _interval(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _cluster_job(row: asyncpg.Record) -> ClusterJob:
    columns = dict(row)
    record, parts = loaded(columns.pop("record")), loaded(columns.pop("parts"))
    return cluster_job_of(values.job(columns), record, parts, datetime.fromisoformat)
