"""Cluster jobs with their parts, and who leads the cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from oncue.model import TERMINAL, ClusterJob, ClusterStatus, Part, PartStatus
from oncue.policy import quorum
from oncue.records.documents import RULES, Document, document, rules
from oncue.records.nodes import NodeRecord

if TYPE_CHECKING:
    from oncue.verbs.cluster import Leader

PART_EXAMPLE: dict[str, Any] = {
    "node": "worker-1",
    "node_id": "4b7a1c9e-0d5f-4c5e-9d57-3a2f0f6a3b11",
    "status": "completed",
    "lost": False,
    "late": False,
    "job_id": 43,
    "attempts": 1,
    "result": {"freed_mb": 112},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """One node's part of a cluster job."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(PART_EXAMPLE)

    node: str
    """The name of the node."""
    node_id: UUID
    status: PartStatus
    """`lost`: its node is gone. It counts as open until the quorum's time-out."""
    lost: bool
    """Whether its node is gone, or was, before the part had ended; also once the cluster job has ended."""
    late: bool
    """Whether it ran to its end after the cluster job had ended: what it came to is kept here and changed nothing."""
    job_id: int | None
    """The job of this part; null where the leader action is all there is."""
    attempts: int
    """How many attempts have started."""
    next_retry_at: datetime | None
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    reason: str | None
    """Why it ended so, if it did not simply succeed or fail."""
    error: str | None
    result: Any
    """What the node returned."""


def part_record(part: Part, cluster: ClusterJob) -> PartRecord:
    return PartRecord(
        node=part.node_name,
        node_id=part.node_id,
        status=quorum.status_of(part, cluster.job),
        lost=quorum.is_lost(part),
        late=quorum.is_late(part),
        job_id=part.job_id,
        attempts=part.attempt,
        next_retry_at=part.visible_at if part.state == "retrying" and not part.was_open else None,
        claimed_at=part.claimed_at,
        started_at=part.started_at,
        finished_at=part.finished_at,
        reason=part.reason,
        error=part.error,
        result=part.result,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumRecord:
    """How many parts are done, and how many have to be."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    parts: int
    """How many nodes take part."""
    needed: int
    """So many are a quorum: more than half."""
    completed: int
    """How many parts are completed."""
    reached: bool | None
    """Whether a quorum was completed when the leader decided; null until then."""


CLUSTER_JOB_EXAMPLE: dict[str, Any] = {
    "id": 42,
    "task": "compact",
    "args": {"level": 2},
    "status": "running",
    "quorum": {"parts": 3, "needed": 2, "completed": 1, "reached": None},
    "waits_for": "1 of 3 parts are done, a quorum is 2: worker-2 runs its part; worker-3 has not claimed its part",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterJobRecord:
    """A cluster job: every node does its part, then the leader acts."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(CLUSTER_JOB_EXAMPLE)

    id: int
    uid: UUID
    task: str
    args: dict[str, Any]
    key: str | None
    priority: int
    status: ClusterStatus
    """`new`: its parts are not written yet."""
    reason: str | None
    """Why it ended so, if it did not simply succeed or fail; `no_quorum`: the leader acted without a quorum."""
    nodes: tuple[str, ...] | None
    """The nodes that the caller named; null for all that were active."""
    quorum: QuorumRecord
    waits_for: str | None
    """What its quorum lacks, in a sentence, while the leader waits for it."""
    enqueued_by: str
    created_at: datetime
    updated_at: datetime
    spread_at: datetime | None
    """When its parts were written."""
    epoch: int | None
    """The epoch of the leader that wrote them."""
    decided_at: datetime | None
    """When the leader stopped waiting for parts."""
    decided_epoch: int | None
    """The epoch of the leader that did."""
    started_at: datetime | None
    """When the leader action last began."""
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    schedule_id: int | None
    scheduled_for: datetime | None
    retry_of: int | None
    error: str | None
    result: Any
    """What the leader action returned."""

    @property
    def finished(self) -> bool:
        return self.status in ("completed", "failed", "cancelled", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterJobDetail(ClusterJobRecord):
    """A cluster job with its parts, by the names of their nodes."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules({**CLUSTER_JOB_EXAMPLE, "parts": [PART_EXAMPLE]})

    parts: tuple[PartRecord, ...]


def without_outcomes(cluster: ClusterJob) -> ClusterJob:
    """The same cluster job for one who may create it and not read it: without what it and its parts came to."""
    parts = tuple(part._replace(result=None, error=None) for part in cluster.parts)
    return replace(cluster, job=replace(cluster.job, result=None, error=None), parts=parts)


def cluster_job_record(cluster: ClusterJob) -> Document:
    return document(ClusterJobRecord(**_told(cluster)))


def cluster_job_detail(cluster: ClusterJob) -> Document:
    parts = sorted(cluster.parts, key=lambda part: (part.node_name, part.node_id))
    return document(ClusterJobDetail(**_told(cluster), parts=tuple(part_record(part, cluster) for part in parts)))


def _told(cluster: ClusterJob) -> dict[str, Any]:
    job = cluster.job
    same = {
        name: getattr(job, name)
        for name in (
            "id", "uid", "task", "args", "key", "priority", "reason", "enqueued_by", "created_at", "updated_at",
            "started_at", "finished_at", "cancel_requested_at", "schedule_id", "scheduled_for", "retry_of", "error",
            "result",
        )
    }  # fmt: skip
    return {
        **same,
        "status": quorum.job_status(cluster),
        "nodes": quorum.terms_of(cluster).parts.nodes,
        "quorum": quorum_record(cluster),
        "waits_for": quorum.missing(cluster) if _waits(cluster) else None,
        "spread_at": cluster.spread_at,
        "epoch": cluster.epoch,
        "decided_at": cluster.decided_at,
        "decided_epoch": cluster.decided_epoch,
    }


def _waits(cluster: ClusterJob) -> bool:
    """Whether the leader waits for parts of it."""
    return cluster.job.state not in TERMINAL and cluster.decided_at is None and len(cluster.parts) > 0


def quorum_record(cluster: ClusterJob) -> QuorumRecord:
    parts = len(cluster.parts)
    return QuorumRecord(
        parts=parts,
        needed=quorum.needed(parts) if parts else 0,
        completed=quorum.statuses_of(cluster).count("completed"),
        reached=cluster.quorum,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLeaderRecord:
    """The node that leads."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(
        {
            "name": "worker-1", "id": "4b7a1c9e-0d5f-4c5e-9d57-3a2f0f6a3b11", "address": "http://worker-1:8080",
            "epoch": 7, "since": "2030-01-31T09:00:00Z", "expires_at": "2030-01-31T09:00:15Z",
        }
    )  # fmt: skip

    name: str
    id: UUID
    address: str | None
    """Of its HTTP server, if it has one that you can reach."""
    epoch: int
    """Grows with every change of the leader."""
    since: datetime
    expires_at: datetime
    """When its lease ends, unless it renews it."""


def cluster_leader_record(leader: Leader, *, address: str | None = None) -> Document:
    """`address`: what of its address is told to the one who asks."""
    return document(
        ClusterLeaderRecord(
            name=leader.name, id=leader.node_id, address=address, epoch=leader.epoch, since=leader.since,
            expires_at=leader.expires_at,
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """The nodes, and which of them leads; without a leader, null."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    leader: ClusterLeaderRecord | None
    nodes: tuple[NodeRecord, ...]
