"""Looks at the whole database now and then, for metrics and alerts: what waits, what runs, who leads, who serves what.

Every process with metrics does so by itself, and all of them see the same: a process that hangs or has died could not
tell it of itself. A look counts nothing while there is a leader: it reads the leader's sample.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice

from oncue.engine.counting import latest_sample
from oncue.engine.service import Signal, can_wait
from oncue.model import Age, AlertState, HeldBack, Lease, Node, Queue, Sample
from oncue.store.contract import EXCLUSIVE, LEADER, Store
from oncue.telemetry import Telemetry

NAME = "survey"
MOST_SEEN = 1000
MOST_HELD_BACK = 1000


@dataclass(frozen=True, slots=True)
class Survey:
    """What a look at the database found, and when by its own clock."""

    at: datetime
    queues: Sequence[Queue]
    serving: Mapping[str, int]
    """How many live nodes take jobs of a queue. A queue that no node serves is not in it."""
    ages: Sequence[Age]
    led: bool
    next_run: datetime | None
    """When the next slot of any schedule comes, or came; None if no schedule is enabled."""
    isolated: Mapping[int, int] = field(default_factory=dict)
    """How many jobs wait to run in a cohort or alone, by isolation."""
    sampled_at: datetime | None = None
    """When the jobs were counted, if that was before."""
    held_back: Sequence[HeldBack] = ()
    """Groups that are paused or whose circuit breaker is open, up to `MOST_HELD_BACK`."""
    alerts: Sequence[AlertState] = ()
    """The SLOs and alerts, as the leader's watcher last evaluated them."""


class Surveying:
    name = NAME

    def __init__(self, store: Store, telemetry: Telemetry, *, interval: float = 15.0) -> None:
        self.signal = Signal()
        self._store = store
        self._telemetry = telemetry
        self._interval = timedelta(seconds=interval)
        self._seen: set[str] = set()

    quiet_until = can_wait

    async def tick(self, now: datetime) -> datetime:
        if self._telemetry.wants("survey") or self._telemetry.wants("queue.depth"):
            await self.look(now)
        return now + self._interval

    async def look(self, now: datetime) -> None:
        sample = await latest_sample(self._store, now)
        self._telemetry.emit("survey", {}, survey=await survey(self._store, sample, now))
        # A queue that was seen is told of when it is empty, too: not for ever if there are very many.
        by_queue: dict[str, dict[int, int]] = defaultdict(dict, {queue: {} for queue in self._seen})
        for queue, priority, jobs in depths(sample):
            by_queue[queue][priority] = jobs
        self._seen = set(islice(by_queue, MOST_SEEN))
        total = sum(sum(priorities.values()) for priorities in by_queue.values())
        self._telemetry.emit("queue.depth", {"depth": total}, depths=dict(by_queue))


def depths(sample: Sample) -> list[tuple[str, int, int]]:
    """How many jobs wait, by queue and priority."""
    found: Counter[tuple[str, int]] = Counter()
    for count in sample.counts:
        if count.kind == "queued":
            found[count.queue, count.priority] += count.jobs
    return [(queue, priority, jobs) for (queue, priority), jobs in sorted(found.items())]


async def survey(store: Store, sample: Sample, now: datetime) -> Survey:
    queues, nodes = await store.queues.all(), await store.nodes.alive()
    leader, exclusive = await store.leases.get(LEADER), await store.leases.get(EXCLUSIVE)
    return Survey(
        now, queues, _serving(nodes, exclusive, now), sample.ages, _stands(leader, now), await next_due(store),
        _isolated(sample), sample.at, await store.groups.held_back(now, MOST_HELD_BACK),
        (await store.alerts.book()).alerts,
    )  # fmt: skip


async def next_due(store: Store) -> datetime | None:
    """When the leader has something to decide next: a slot of a schedule, or the day of a window's subject."""
    found = await store.slots.next_run(), await store.windows.next_at()
    return min((due_at for due_at in found if due_at is not None), default=None)


def _isolated(sample: Sample) -> Counter[int]:
    found: Counter[int] = Counter()
    for count in sample.counts:
        if count.isolation:
            found[count.isolation] += count.jobs
    return found


def _serving(nodes: Sequence[Node], exclusive: Lease | None, now: datetime) -> Counter[str]:
    """While one node is exclusive, the others stand by."""
    alive = [node for node in nodes if node.expires_at > now]
    if exclusive is not None and exclusive.expires_at > now:
        alive = [node for node in alive if node.id == exclusive.holder]
    return Counter(queue for node in alive for queue in node.queues)


def _stands(lease: Lease | None, now: datetime) -> bool:
    return lease is not None and lease.expires_at > now
