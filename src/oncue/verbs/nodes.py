"""The verbs on nodes."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from oncue.application.builtin import PING
from oncue.errors import Conflict
from oncue.model import DEFAULT_QUEUE, MAX_PRIORITY, PARKED, GoneNode, HeldJob, Job, Node
from oncue.policy.durations import Duration, seconds
from oncue.verbs.base import NounVerbs, checked_limit
from oncue.verbs.jobs import Jobs

if TYPE_CHECKING:
    from oncue.policy.explain import Explanation

LOOK_SECONDS = 0.02
SPARE_SECONDS = 5.0
"""How much longer than its caller waits a job of `ping` may wait, in case its caller is gone."""


MOST_HELD = 1000
"""So many jobs of a node are counted."""
NOT_ABOUT_WORKERS = ("must_start", "priority")
"""The deadline and the priority are those that `ping` has chosen: they do not tell why no worker came."""


class NodeWork(NamedTuple):
    """What a node does at this moment."""

    node: Node
    held: int
    """How many jobs it has claimed, up to `MOST_HELD`: those that run, and a few that wait for a seat there."""
    jobs: list[HeldJob]
    """Some of them, the longest running first."""

    @property
    def seats_used(self) -> int:
        return min(self.held, self.node.concurrency)


class Ping(NamedTuple):
    """What came of a job that does nothing."""

    job: Job
    node: str | None
    """The name of the worker that ran it."""
    seconds: float | None
    """From its enqueue to its end."""
    explanation: Explanation | None
    """Why it did not run."""


class Nodes(NounVerbs):
    async def list(self) -> builtins.list[Node]:
        """Every node that is alive, or was lately."""
        return await (await self._connected()).store.nodes.alive()

    async def work(self, *, most: int = 5) -> builtins.list[NodeWork]:
        """The nodes that are alive, each with how many jobs it holds and up to so many of them."""
        connected = await self._connected()
        store, nodes, most = connected.store, await self.list(), checked_limit(most, "most")
        held = await store.nodes.work([node.id for node in nodes], MOST_HELD)
        return [_at_work(node, held.get(node.id, []), most) for node in nodes]

    async def gone(self, within: Duration = "15m", *, limit: int = 100) -> builtins.list[GoneNode]:
        """The nodes that have left or were lost so lately, the latest first. Much older ones are forgotten."""
        connected, lately = await self._connected(), timedelta(seconds=seconds(within, "within"))
        return await connected.store.nodes.gone(connected.now() - lately, checked_limit(limit))

    async def ping(
        self, queue: str = DEFAULT_QUEUE, *, address: str | None = None, timeout: Duration = "10s", by: str = "system"
    ) -> Ping:
        """Let a worker run a job that does nothing, before everything else that waits: what came of it.

        One that did not begin in time is cancelled.
        """
        patience = seconds(timeout, "timeout")
        call = self._app.find(PING).using(
            queue=queue, address=address, priority=MAX_PRIORITY, deadline=patience + SPARE_SECONDS, enqueued_by=by
        )
        receipt = await call.aenqueue()
        jobs, connection = Jobs(self._app), await self._connected()
        until = receipt.created_at + timedelta(seconds=patience)
        while not (job := await jobs.get(receipt.id)).finished and connection.now() < until:
            await self._app.pause_before_retry(LOOK_SECONDS)
        if not job.finished:
            explanation = _about_workers(await jobs.explain(job.id))
            with suppress(Conflict):  # it has ended at the last moment
                await jobs.cancel(job.id, by=by)
                return Ping(job, None, None, explanation)
            job = await jobs.get(job.id)
        took = None if job.finished_at is None else (job.finished_at - job.created_at).total_seconds()
        names = {node.id: node.name for node in await self.list()}
        return Ping(job, names.get(job.node_id, str(job.node_id)) if job.node_id else None, took, None)


def _at_work(node: Node, held: Sequence[HeldJob], most: int) -> NodeWork:
    longest_first = sorted(held, key=lambda job: (job.started_at or PARKED, job.id))
    return NodeWork(node, len(held), longest_first[:most])


def _about_workers(explanation: Explanation) -> Explanation:
    findings = [finding for finding in explanation.findings if finding.code not in NOT_ABOUT_WORKERS]
    return replace(explanation, findings=findings)
