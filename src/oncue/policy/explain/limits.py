"""What is set for a job's queue and for its group, and whether that keeps the job waiting."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from shlex import quote

from oncue.model import PARKED, Group, GroupSettings, Job, Queue, Rate
from oncue.policy import rates
from oncue.policy.checks import LARGEST_LIMIT
from oncue.policy.explain.findings import Finding, counted, length, when


@dataclass(frozen=True, slots=True)
class LimitFacts:
    """What is stored about the limits, rates and pauses that a job is under."""

    queue: Queue | None = None
    rated_until: datetime | None = None
    """When the rate of its queue lets the next job start."""
    group: Group | None = None
    """Its group, with what holds for it."""
    own: GroupSettings = field(default_factory=GroupSettings)
    """What is set for its group alone."""


def paused_group(facts: LimitFacts, now: datetime) -> list[Finding]:
    group = facts.group
    if group is None or group.paused_until is None or group.paused_until <= now:
        return []
    if group.trips and group.paused_until != PARKED:
        text = (
            f"The circuit breaker of {group.name} is open until {when(group.paused_until, now)} (trip {group.trips}): "
            "one probe goes out then, and if it is answered, everything that waits."
        )
        return [Finding("breaker_open", text, f"send the probe now: `oncue queues resume {_typed(group)}`")]
    end = "it is resumed" if group.paused_until == PARKED else when(group.paused_until, now)
    text = f"Group {group.name} of queue {group.queue} is paused until {end}: nothing of it starts, on any node."
    return [Finding("paused_group", text, f"resume it with `oncue queues resume {_typed(group)}`")]


def no_room(facts: LimitFacts, takers: int, now: datetime) -> list[Finding]:
    """Which limits are reached, and which rates let nothing start before an instant."""
    return [
        *_probed_group(facts),
        *_full_group(facts),
        *_rated_group(facts, now),
        *_full_queue(facts, takers),
        *_rated_queue(facts, now),
    ]


def _probed_group(facts: LimitFacts) -> list[Finding]:
    """While the breaker of a group is open, one job of it runs at a time, whatever its limit says."""
    group = facts.group
    if group is None or not group.trips or not group.running:
        return []
    text = (
        f"The circuit breaker of {group.name} is open (trip {group.trips}), and a probe runs: the others wait for it."
    )
    return [Finding("breaker_open", text)]


def _full_group(facts: LimitFacts) -> list[Finding]:
    group = facts.group
    if group is None or group.trips or group.limit is None or group.running < group.limit:
        return []
    run = f"{counted(group.running, 'job')} of group {group.name} run{'s' if group.running == 1 else ''}"
    text = f"{run}, and its limit is {group.limit:,}, {_set_by(group, facts.own.limit is not None)}."
    more = f"--per-group {min(group.limit * 2, LARGEST_LIMIT)}"
    return [Finding("full_group", text, _raise(group, more, facts.own.limit is not None))]


def _rated_group(facts: LimitFacts, now: datetime) -> list[Finding]:
    group = facts.group
    if group is None or group.rate is None or group.rated_until is None or group.rated_until <= now:
        return []
    text = (
        f"The rate of group {group.name} is {group.rate}, {_set_by(group, facts.own.rate is not None)}: "
        f"it lets the next job start at {when(group.rated_until, now)}."
    )
    more = f"--rate-per-group {_doubled(group.rate)}"
    return [Finding("group_rate", text, _raise(group, more, facts.own.rate is not None))]


def _full_queue(facts: LimitFacts, takers: int) -> list[Finding]:
    """A node claims a few jobs of a limited queue ahead, so more than the limit may be running by their state."""
    queue = facts.queue
    if queue is None:
        return []
    limits = [(queue.global_limit, "on all nodes together", "--global"), (queue.node_limit, "on each node", "--node")]
    for limit, where, option in limits:
        most = None if limit is None else limit if option == "--global" else limit * takers
        if limit is not None and most and queue.running >= most:
            holds = f"{counted(queue.running, 'job')} of queue {queue.name} run or wait for a seat on their node"
            more = f"raise it with `oncue queues limit {quote(queue.name)} {option} {min(limit * 2, LARGEST_LIMIT)}`"
            return [Finding("full_queue", f"{holds}, and its limit is {limit:,} {where}.", more)]
    return []


def _rated_queue(facts: LimitFacts, now: datetime) -> list[Finding]:
    queue, until = facts.queue, facts.rated_until
    if queue is None or queue.rate is None or until is None or until <= now:
        return []
    text = f"The rate of queue {queue.name} is {queue.rate}: it lets the next job start at {when(until, now)}."
    more = f"raise it with `oncue queues limit {quote(queue.name)} --rate {_doubled(queue.rate)}`"
    return [Finding("queue_rate", text, more)]


def taking(facts: LimitFacts, ahead: int) -> str:
    """How long the rate that holds takes for the jobs ahead; nothing without a rate."""
    known = facts.group.rate if facts.group is not None else None if facts.queue is None else facts.queue.rate
    if known is None:
        return ""
    rate = rates.parsed(known, "rate")
    return f" At {known} that takes {length(ahead * rate.seconds / rate.jobs)} at least."


def name_of(job: Job) -> str:
    """Whose jobs come before or after it: its group's, those with its address, else its queue's."""
    if job.group is not None:
        return f"group {job.group}"
    return f"queue {job.queue}" if job.address is None else f"queue {job.queue} for {job.address}"


def _set_by(group: Group, is_own: bool) -> str:
    return "set for this group alone" if is_own else f"set for each group of queue {group.queue}"


def _raise(group: Group, more: str, is_own: bool) -> str:
    alone = f"raise it with `oncue queues limit {_typed(group)} {more}`"
    return alone if is_own else f"{alone}, or for each group with `oncue queues limit {quote(group.queue)} {more}`"


def _typed(group: Group) -> str:
    return f"{quote(group.queue)} --group {quote(group.name)}"


def _doubled(text: str) -> str:
    rate = rates.parsed(text, "rate")
    return str(Rate(min(rate.jobs * 2, LARGEST_LIMIT), rate.seconds))
