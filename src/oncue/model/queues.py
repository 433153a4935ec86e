"""The queue with its limits, and the seats that nodes hold in a limited one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from oncue.model.groups import Rate

DEFAULT_QUEUE = "default"


@dataclass(frozen=True, slots=True)
class Queue:
    """A name under which jobs wait: what an operator set for it, and what was last counted in it."""

    name: str
    paused_at: datetime | None
    queued: int
    """Due, and waiting for a worker."""
    running: int
    later: int
    """Scheduled or retrying: not due yet."""
    succeeded: int
    """Since the beginning, pruned jobs included."""
    failed: int
    cancelled: int
    skipped: int
    global_limit: int | None = None
    """How many may run at once on all nodes together."""
    node_limit: int | None = None
    """How many may run at once on each node."""
    group_limit: int | None = None
    """How many of each group may run at once, unless the group has a limit of its own."""
    rate: str | None = None
    """How many may start in a second, a minute, an hour or a day, on all nodes together."""
    group_rate: str | None = None
    """The same for each group, unless the group has a rate of its own."""
    counted_at: datetime | None = None
    """When what waits was counted; null: just now."""


class PriorityLevel(NamedTuple):
    """The jobs of one queue that have the same priority."""

    queue: str
    priority: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How many jobs of a queue may run at once: on all nodes together, on each, and of each group; and how many may
    start in a while: in all, and of each group. None is no limit."""

    globally: int | None = None
    per_node: int | None = None
    per_group: int | None = None
    rate: Rate | None = None
    rate_per_group: Rate | None = None


@dataclass(frozen=True, slots=True)
class NodeSeats:
    """How many seats of a limited queue a node holds, and how many it could use."""

    node: UUID
    seats: int
    wanted: int


@dataclass(frozen=True, slots=True)
class LimitedQueue:
    """A limited queue, as a node that takes seats in it must know it. `version` is the guard of the next change."""

    queue: str
    limits: Limits
    version: int
    seats: Sequence[NodeSeats]
    """Of the nodes that were not declared lost, and have not left."""
    waiting: bool = False
    """Whether a job waits that the node could run."""
