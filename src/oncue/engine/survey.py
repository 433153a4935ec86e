"""Looks at the whole database now and then, for metrics and alerts: who waits, who runs, who leads, who serves what.

Every process that is watched does so by itself, and all of them see the same: it is what a process that hangs or has
died could not tell of itself. A look costs what waits at the head of each queue and what runs, never what is finished
or not due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from oncue.engine.service import Signal
from oncue.model import Age, Lease, Node, Queue
from oncue.store.contract import EXCLUSIVE, LEADER, Store
from oncue.telemetry import Telemetry

NAME = "survey"
HEADS = 20
"""How many jobs of each queue and priority are asked how long they have waited."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a look at the database found, and when by its own clock."""

    at: datetime
    queues: Sequence[Queue]
    serving: Mapping[str, int]
    """How many live nodes take jobs of a queue; one that nobody serves is not in it."""
    ages: Sequence[Age]
    led: bool
    next_run: datetime | None
    """When the next slot of any schedule comes, or came; None if no schedule is enabled."""
    apart: Mapping[int, int] = field(default_factory=dict)
    """How many jobs wait that are kept apart from others, by how they are."""


class Surveying:
    name = NAME

    def __init__(self, store: Store, telemetry: Telemetry, *, interval: float = 15.0) -> None:
        self.signal = Signal()
        self._store = store
        self._telemetry = telemetry
        self._interval = timedelta(seconds=interval)

    async def tick(self, now: datetime) -> datetime:
        if self._telemetry.wants("survey"):
            self._telemetry.emit("survey", {}, survey=await survey(self._store, now))
        return now + self._interval


async def survey(store: Store, now: datetime) -> Survey:
    queues, nodes = await store.queues.all(peek=True), await store.nodes.alive()
    leader, exclusive = await store.leases.get(LEADER), await store.leases.get(EXCLUSIVE)
    return Survey(
        now, queues, _serving(nodes, exclusive, now), await store.counters.ages(now, HEADS), _stands(leader, now),
        await store.slots.next_run(), await store.counters.kept_apart(),
    )  # fmt: skip


def _serving(nodes: Sequence[Node], exclusive: Lease | None, now: datetime) -> Counter[str]:
    """While one node is exclusive, the others stand by."""
    alive = [node for node in nodes if node.expires_at > now]
    if exclusive is not None and exclusive.expires_at > now:
        alive = [node for node in alive if node.id == exclusive.holder]
    return Counter(queue for node in alive for queue in node.queues)


def _stands(lease: Lease | None, now: datetime) -> bool:
    return lease is not None and lease.expires_at > now
