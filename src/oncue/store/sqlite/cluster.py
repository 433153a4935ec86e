"""Cluster jobs on SQLite. The statements are in cluster.sql."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.model import Batch, ClusterJob, Creation, Job, NewParts
from oncue.store.shared import LARGEST_ID, cluster_job_of
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database
from oncue.store.sqlite.jobs import SqliteJobs

OF_CLUSTER = 2
"""So many columns of a cluster job are not its job's: the record, and the parts."""


class SqliteCluster:
    def __init__(self, database: Database, jobs: SqliteJobs) -> None:
        self._db = database
        self._jobs = jobs

    async def create(self, batch: Batch, parts: NewParts, now: datetime, *, node: UUID, epoch: int) -> Creation:
        asked = _asked(batch.ids[0], parts, now, node, epoch)

        def work(connection: sqlite3.Connection) -> Creation:
            if not self._leads(connection, asked):
                return Creation(False, 0, False)
            members = self._members(connection, asked, parts)
            if not members:
                return Creation(True, 0, False)
            ids = {"ids": json.dumps(batch.ids)}
            self._jobs.insert(connection, batch)
            if not connection.execute(self._db.sql["cluster_job_written"], ids).fetchone()[0]:
                return Creation(True, len(members), False)
            connection.execute(self._db.sql["record_cluster_job"], asked)
            own = {"args": batch.args[0], "priority": batch.priority, "scheduled_for": None}
            self._write_parts(connection, {**asked, **own}, parts, members)
            return Creation(True, len(members), True)

        return await self._db.write(work)

    async def spread(self, job_id: int, parts: NewParts, now: datetime, *, node: UUID, epoch: int) -> int | None:
        asked = _asked(job_id, parts, now, node, epoch)

        def work(connection: sqlite3.Connection) -> int | None:
            own = connection.execute(self._db.sql["waiting_cluster_job"], asked).fetchone()
            if own is None or not self._leads(connection, asked):
                return None
            if not connection.execute(self._db.sql["record_cluster_job"], asked).rowcount:
                return None
            members = self._members(connection, asked, parts)
            connection.execute(self._db.sql["start_cluster_job"], asked)
            told = dict(zip(("args", "priority", "scheduled_for"), own, strict=True))
            self._write_parts(connection, {**asked, **told}, parts, members)
            return len(members)

        return await self._db.write(work)

    def _leads(self, connection: sqlite3.Connection, asked: dict[str, Any]) -> bool:
        return connection.execute(self._db.sql["leads_now"], asked).fetchone() is not None

    def _members(self, connection: sqlite3.Connection, asked: dict[str, Any], parts: NewParts) -> list[Any]:
        """If a node that is named does not take part, nobody does."""
        found = connection.execute(self._db.sql["members"], asked).fetchall()
        is_whole = parts.nodes is None or len({name for _, name, _ in found}) == len(parts.nodes)
        return found if is_whole else []

    def _write_parts(
        self, connection: sqlite3.Connection, asked: dict[str, Any], parts: NewParts, members: Sequence[Any]
    ) -> None:
        ids: list[int | None] = [None] * len(members)
        if not parts.leader_only and members:
            ((last,),) = connection.execute(self._db.sql["reserve"], {"count": len(members)}).fetchall()
            ids = list(range(last - len(members) + 1, last + 1))
        rows = json.dumps([(job_id, *member) for job_id, member in zip(ids, members, strict=True)])
        if not parts.leader_only:
            connection.execute(self._db.sql["write_part_jobs"], {**asked, "parts": rows})
        connection.execute(self._db.sql["write_parts"], {**asked, "parts": rows})

    async def release(self, job_id: int, quorum: bool, now: datetime, *, node: UUID, epoch: int) -> bool:
        asked = {"job_id": job_id, "now": values.micros(now), "node": str(node), "epoch": epoch, "quorum": quorum}

        def work(connection: sqlite3.Connection) -> bool:
            if not connection.execute(self._db.sql["release_cluster_job"], asked).rowcount:
                return False
            connection.execute(self._db.sql["decide_cluster_job"], asked)
            return True

        return await self._db.write(work)

    async def undecided(self, now: datetime, limit: int, after: int = 0) -> list[ClusterJob]:
        if not await self._db.value("any_undecided"):
            return []
        return await self._found("undecided", now=values.micros(now), results=False, limit=limit, after=after)

    async def get(self, job_ids: Sequence[int], now: datetime) -> list[ClusterJob]:
        ids = json.dumps(list(job_ids))
        return await self._found("cluster_jobs", now=values.micros(now), results=True, ids=ids)

    async def page(self, now: datetime, before: int | None, limit: int) -> list[ClusterJob]:
        asked = {"now": values.micros(now), "before": before or LARGEST_ID, "limit": limit}
        return await self._found("cluster_jobs_page", results=False, **asked)

    async def _found(self, statement: str, **parameters: Any) -> list[ClusterJob]:
        rows = await self._db.rows(statement, **parameters)
        return [_cluster_job(row) for row in rows]

    async def whole_of(self, job_ids: Sequence[int]) -> dict[int, int]:
        return dict(await self._db.rows("whole_of", ids=json.dumps(list(job_ids))))

    async def interrupted(self, name: str, node: UUID) -> list[Job]:
        return [values.job(row) for row in await self._db.rows("interrupted", name=name, node=str(node))]


def _asked(job_id: int, parts: NewParts, now: datetime, node: UUID, epoch: int) -> dict[str, Any]:
    return {
        "job_id": job_id, "now": values.micros(now), "node": str(node), "epoch": epoch, "part_task": parts.task,
        "part_queue": parts.queue, "part_options": parts.options, "part_retries": parts.max_retries,
        "part_runtime": None if parts.max_runtime is None else round(parts.max_runtime * 1e6),
        "nodes": None if parts.nodes is None else json.dumps(parts.nodes), "leader_only": parts.leader_only,
    }  # fmt: skip


def _cluster_job(row: Sequence[Any]) -> ClusterJob:
    record, parts = (None if text is None else json.loads(text) for text in row[-OF_CLUSTER:])
    return cluster_job_of(values.job(row[:-OF_CLUSTER]), record, parts, values.instant)
