"""Nodes, and who leads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from oncue.model import Lease, Node
from oncue.records.documents import RULES, Document, document, rules


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A worker process."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    id: UUID
    name: str
    named: bool
    """Whether the name is leased to this node, so that jobs can be addressed to it; else the node asks for it."""
    alive: bool
    holds: tuple[str, ...] = ()
    """The leases that it holds: `leader`, `exclusive`."""
    exclusive: bool = False
    leads: bool = False
    """Whether it holds the lease `leader`."""
    epoch: int | None = None
    """The epoch under which it leads."""
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    concurrency: int
    address: str | None
    started_at: datetime
    beat_at: datetime
    expires_at: datetime


def node_record(node: Node, now: datetime, leases: Iterable[Lease] = ()) -> Document:
    held = {lease.name: lease for lease in leases if lease.holder == node.id and lease.expires_at > now}
    return document(
        NodeRecord(
            id=node.id,
            name=node.name,
            named=node.named,
            alive=node.expires_at > now,
            holds=tuple(held),
            exclusive=node.exclusive,
            leads="leader" in held,
            epoch=held["leader"].epoch if "leader" in held else None,
            host=node.host,
            pid=node.pid,
            version=node.version,
            queues=node.queues,
            tasks=node.tasks,
            concurrency=node.concurrency,
            address=node.address,
            started_at=node.started_at,
            beat_at=node.beat_at,
            expires_at=node.expires_at,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRecord:
    """Who leads. Without a name no node does, since `none_since` (null: there was never a leader)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(
        {
            "name": "worker-1", "id": "4b7a1c9e-0d5f-4c5e-9d57-3a2f0f6a3b11", "epoch": 7,
            "since": "2030-01-31T09:00:00Z", "none_since": None,
        },
        partial=True,
    )  # fmt: skip

    name: str | None
    id: UUID | None = None
    epoch: int | None = None
    since: datetime | None = None
    none_since: datetime | None = None
