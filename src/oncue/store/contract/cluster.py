"""Cluster jobs: their parts, one for each node, and what their leader has decided.

A cluster job is a job, addressed to the cluster until it is decided: so no node claims it. Its parts are jobs that are
addressed to nodes. What the leader writes is written only while it leads under its epoch. The end of a cluster job,
whatever ends it (`jobs.apply`), ends those of its parts that have not begun, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from oncue.model import Batch, ClusterJob, Creation, Job, NewParts


class Cluster(Protocol):
    async def create(self, batch: Batch, parts: NewParts, now: datetime, *, node: UUID, epoch: int) -> Creation:
        """Write the one cluster job of this batch together with its parts, if `node` leads under this epoch: one part
        for each active node that knows the task of the parts and serves their queue. Nothing is written if there is no
        such node, if one of those that are named is none, or if another unfinished job of the task has the key."""
        ...

    async def spread(self, job_id: int, parts: NewParts, now: datetime, *, node: UUID, epoch: int) -> int | None:
        """Write the parts of a cluster job that has none yet, if it still waits and `node` leads under this epoch: for
        how many nodes. 0: it is written that there are none. None: nothing was written."""
        ...

    async def release(self, job_id: int, quorum: bool, now: datetime, *, node: UUID, epoch: int) -> bool:
        """Let the leader action of a cluster job begin that still waits, if `node` leads under this epoch."""
        ...

    async def undecided(self, now: datetime, limit: int, after: int = 0) -> list[ClusterJob]:
        """Up to `limit` cluster jobs that wait for their leader's decision, by id, from `after` on; without results."""
        ...

    async def get(self, job_ids: Sequence[int], now: datetime) -> list[ClusterJob]:
        """Those of these jobs that are cluster jobs, newest first."""
        ...

    async def page(self, now: datetime, before: int | None, limit: int) -> list[ClusterJob]:
        """Cluster jobs, newest first, without results; `before` is the id to go on from."""
        ...

    async def whole_of(self, job_ids: Sequence[int]) -> dict[int, int]:
        """Of which cluster jobs these jobs are parts."""
        ...

    async def interrupted(self, name: str, node: UUID) -> list[Job]:
        """The parts that wait to be tried again, are due perhaps, and were begun by an earlier process of this name."""
        ...
