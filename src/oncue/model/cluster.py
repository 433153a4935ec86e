"""Cluster jobs: work that every node does its own part of, and one action of the leader's afterwards.

The cluster job itself is a job: what its leader action comes to, it comes to. Each part is a job of its own, addressed
to one node. This file has what is known of both together.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from oncue.model.jobs import Job, State

CLUSTER_QUEUE = "cluster"
"""The queue of cluster jobs. Every worker serves it whose application declares a cluster task."""
CLUSTER_ADDRESS = "cluster"
"""The address of a cluster job until it is decided: no node claims it, the leader's coordinator looks after it."""

PartStatus: TypeAlias = Literal[
    "queued", "running", "retrying", "completed", "failed", "cancelled", "skipped", "lost"
]  # fmt: skip
"""How it is with a part. A lost one is that of a node that is gone: it counts as open until the time-out."""
ClusterStatus: TypeAlias = Literal[
    "new", "queued", "running", "retrying", "completed", "failed", "cancelled", "skipped"
]  # fmt: skip
"""How it is with a cluster job. `new`: its parts are not written yet."""


class NewParts(NamedTuple):
    """What the parts of a cluster job have in common, and for which nodes they are."""

    task: str
    queue: str
    options: str
    max_retries: int
    max_runtime: float | None
    nodes: tuple[str, ...] | None = None
    """The names of the nodes that take part; None for all that are active, know the task and serve its queue."""
    leader_only: bool = False
    """The leader alone takes part, and its part is the leader action: no job is made for it."""


class Creation(NamedTuple):
    """What came of the leader's attempt to create a cluster job with its parts."""

    leads: bool
    """False: the node does not lead any more, and nothing was written."""
    parts: int
    """For how many nodes; 0: no active node takes part, and nothing was written."""
    created: bool
    """False: another unfinished job has its key, and nothing was written."""


class Part(NamedTuple):
    """One node's part of a cluster job, with what is known of its job."""

    node_id: UUID
    node_name: str
    job_id: int | None
    """None: the leader's, where all there is to do is the leader action."""
    was_open: bool | None
    """Whether its job had not ended when the cluster job did; None until then. Its late result changes nothing."""
    state: State | None
    """Of its job."""
    reason: str | None
    error: str | None
    result: Any
    attempt: int
    visible_at: datetime | None
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    is_alive: bool
    """Whether a node is alive that runs it, or may claim it."""


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """A cluster job with its parts."""

    job: Job
    spread_at: datetime | None = None
    """When its parts were written; None: that is still to be done."""
    epoch: int | None = None
    """Of the leader that wrote them."""
    decided_at: datetime | None = None
    """When the leader stopped waiting for parts, and let its action begin."""
    decided_epoch: int | None = None
    quorum: bool | None = None
    """Whether a quorum of parts was completed by then."""
    parts: tuple[Part, ...] = ()

    @property
    def id(self) -> int:
        return self.job.id


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What one node's part came to, as the leader action is told it."""

    node: str
    status: PartStatus
    result: Any = None
    error: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def completed(self) -> bool:
        return self.status == "completed"
