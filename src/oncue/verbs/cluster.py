"""The verbs on cluster jobs."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from oncue.application.clustering import address_from_here
from oncue.errors import InvalidJob, JobNotFound
from oncue.model import CLUSTER_ADDRESS, ClusterJob
from oncue.policy.checks import checked_name
from oncue.policy.durations import Duration, seconds
from oncue.store.contract import LEADER
from oncue.tasks.cluster import ClusterTask
from oncue.verbs.base import NounVerbs, checked_before, checked_limit
from oncue.verbs.jobs import Jobs

LOOK_SECONDS = 0.05


class Leader(NamedTuple):
    """The node that leads."""

    node_id: UUID
    name: str
    address: str | None
    """Of its API, if that is known."""
    epoch: int
    since: datetime
    expires_at: datetime


class Cluster(NounVerbs):
    """In plain code: `app.wait(app.cluster.run("compact"))`. A cluster job is cancelled and tried again as any job is:
    `app.jobs.cancel`, `app.jobs.retry`."""

    async def leader(self) -> Leader | None:
        """The node that leads, if one does at this moment."""
        connected = await self._connected()
        lease, now = await connected.store.leases.get(LEADER), connected.now()
        if lease is None or lease.expires_at <= now:
            return None
        node = next((node for node in await connected.store.nodes.alive() if node.id == lease.holder), None)
        address = None if node is None else address_from_here(node)
        return Leader(lease.holder, lease.holder_name, address, lease.epoch, lease.acquired_at, lease.expires_at)

    async def run(
        self,
        task: ClusterTask[Any, Any] | str,
        args: Mapping[str, Any] | None = None,
        *,
        nodes: Sequence[str] | None = None,
        key: str | None = None,
        priority: int | None = None,
        by: str = "system",
        timeout: Duration = "10s",
        hand_over: bool = False,
    ) -> ClusterJob:
        """Create a cluster job, and wait until its parts are written, for `timeout` at most: without a leader that
        takes longer, and the job is there all the same. With `hand_over` a node that does not lead hands the job to the
        leader, as a process does that is no node.

        Raises Conflict if an unfinished job has the key; NotLeader in a process that is a node and does not lead,
        unless it hands over; InvalidJob if the arguments do not fit, or if one of the `nodes` is not active.
        """
        found = self.task(task)
        call = found.using(nodes=nodes, key=key, priority=priority, enqueued_by=checked_name(by, "by"))
        call.hands_over = hand_over
        await found.app.internals.clustering.check_named(call)
        receipt = await call.aenqueue(**dict(args or {}))
        return await self.spread(receipt.id, timeout=timeout)

    async def spread(self, ref: int | UUID, *, timeout: Duration = "10s") -> ClusterJob:
        """A cluster job, once the leader has written its parts; or as it is when `timeout` is over."""
        connected = await self._connected()
        until = connected.now() + timedelta(seconds=seconds(timeout, "timeout"))
        while True:
            cluster = await self.get(ref)
            if cluster.spread_at is not None or cluster.job.finished or connected.now() >= until:
                return cluster
            await self._app.pause_before_retry(LOOK_SECONDS)

    async def get(self, ref: int | UUID) -> ClusterJob:
        """A cluster job with its parts. Raises JobNotFound; a part is no cluster job."""
        job = await Jobs(self._app).get(ref)
        connected = await self._connected()
        found = await connected.store.cluster.get([job.id], connected.now())
        if not found:
            whole = (await connected.store.cluster.whole_of([job.id])).get(job.id)
            instead = "" if whole is None else f": it is a part of job {whole}"
            raise JobNotFound(f"job {job.id} is no cluster job{instead}")
        return found[0]

    async def list(self, *, before: int | None = None, limit: int = 100) -> builtins.list[ClusterJob]:
        """Cluster jobs, newest first, without the results of their parts; `before` is the id to go on from."""
        connected = await self._connected()
        asked = (checked_before(before, "a cluster job"), checked_limit(limit))
        return await connected.store.cluster.page(connected.now(), *asked)

    def task(self, task: ClusterTask[Any, Any] | str) -> ClusterTask[Any, Any]:
        """A cluster task, by its name too. Raises InvalidJob for another task."""
        found = self._app.find(task) if isinstance(task, str) else task
        if not isinstance(found, ClusterTask) or found.address != CLUSTER_ADDRESS:
            raise InvalidJob("task", f"{found.name!r} is no cluster task: those are declared with @app.cluster_task")
        return found
