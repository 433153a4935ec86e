"""Why jobs of a queue start, or wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

from oncue.model import HeldBack, Queue
from oncue.policy.explain.cluster import Cluster, paused_queue, stand_by, unserved
from oncue.policy.explain.findings import Explanation, Finding, counted, length
from oncue.policy.explain.limits import LimitFacts, no_room

MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What is stored about a queue and the nodes that serve it."""

    queue: Queue
    cluster: Cluster
    rated_until: datetime | None = None
    """When its rate lets the next job start."""
    held_back: Sequence[HeldBack] = ()
    """Its groups of which nothing starts."""
    is_full: bool = False
    """Whether every seat of the nodes that serve it is taken, by jobs of any queue."""
    oldest: datetime | None = None
    """Since when its oldest job has waited."""


def explain_queue(facts: QueueFacts) -> Explanation:
    stands = _stands(facts)
    findings = [*stands, *_groups(facts), *_waiting(facts, is_open=not stands)]
    return Explanation(f"queue {facts.queue.name}", _status(facts, stands), findings)


def _status(facts: QueueFacts, stands: Sequence[Finding]) -> str:
    if facts.queue.paused_at is not None:
        return "paused"
    if not facts.queue.queued:
        return "idle" if not facts.queue.running else "running"
    return "waiting" if stands else "running"


def _stands(facts: QueueFacts) -> list[Finding]:
    """What keeps its jobs from starting."""
    queue, cluster = facts.queue, facts.cluster
    serving = [node for node in cluster.workers if queue.name in node.queues]
    found = [*paused_queue(queue.name, queue.paused_at, cluster.now)]
    if queue.queued or queue.later or not queue.running:
        found += [*unserved(queue.name, cluster), *stand_by(cluster)]
    if queue.queued:
        found += no_room(LimitFacts(queue, facts.rated_until), len(serving), cluster.now)
        if serving and facts.is_full:
            seats = sum(node.concurrency for node in serving)
            text = f"All {counted(seats, 'seat')} of the {counted(len(serving), 'worker')} that serve it are taken."
            more = "start another worker, or one with more seats (`oncue worker --concurrency`)"
            found.append(Finding("no_seat", text, more))
    return found


def _groups(facts: QueueFacts) -> list[Finding]:
    paused = [group.name for group in facts.held_back if group.by_hand]
    opened = [group.name for group in facts.held_back if not group.by_hand]
    found = []
    if paused:
        text = f"Nothing starts of {counted(len(paused), 'group')} that an operator has paused: {_few(paused)}."
        found.append(Finding("paused_groups", text, f"`oncue queues groups {quote(facts.queue.name)}` says until when"))
    if opened:
        text = f"The circuit breaker is open of {counted(len(opened), 'group')}: {_few(opened)}."
        found.append(Finding("breakers_open", text, "a probe goes out by itself"))
    return found


def _waiting(facts: QueueFacts, *, is_open: bool) -> list[Finding]:
    queue, now = facts.queue, facts.cluster.now
    if not queue.queued:
        later = f"; {counted(queue.later, 'job')} of it {'is' if queue.later == 1 else 'are'} due later"
        return [Finding("nothing_waits", f"Nothing waits in it{later if queue.later else ''}.")]
    waits = f"{counted(queue.queued, 'job')} {'waits' if queue.queued == 1 else 'wait'}"
    since = f", the oldest for {length((now - facts.oldest).total_seconds())}" if facts.oldest is not None else ""
    if not is_open:
        return [Finding("jobs_wait", f"{waits}{since}.")]
    return [Finding("next_in_turn", f"{waits}{since}: workers take them as fast as seats become free.")]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
