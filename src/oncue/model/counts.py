"""How many jobs there are, as counted just now or as sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

KINDS = ("queued", "running", "later")
LIVE_LIMIT = 1000
"""How many jobs of a kind are counted for one request. Where there are more, the answer is the last sample."""


class Count(NamedTuple):
    """How many jobs of a queue wait, run or are due later. `kind` is `queued`, `running` or `later`.

    Those that are queued are counted by priority and isolation; of the others these are 0.
    """

    queue: str
    kind: str
    jobs: int
    priority: int = 0
    isolation: int = 0


class Age(NamedTuple):
    """Since when the oldest job of its kind has waited (`queued`, in a queue) or run (`running`, of a task as well)."""

    kind: str
    queue: str
    task: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Sample:
    """How many jobs there were, and how old the oldest were, when the jobs were last counted."""

    at: datetime
    counts: Sequence[Count]
    ages: Sequence[Age] = ()


@dataclass(frozen=True, slots=True)
class Stats:
    """How many jobs there are."""

    queued: int
    """Jobs that wait, scheduled and retrying ones too."""
    running: int
    completed: int
    """Succeeded since the beginning, pruned jobs included."""
    failed: int
    """Since the beginning, pruned jobs included."""
    cancelled: int
    skipped: int
    counted_at: datetime | None = None
    """When what waits was counted; null: just now."""


def cut_off(live: Sequence[Count]) -> frozenset[str]:
    """The kinds of which there are more jobs than one request counts."""
    return frozenset(k for k in KINDS if sum(count.jobs for count in live if count.kind == k) >= LIVE_LIMIT)


def known(live: Sequence[Count], sample: Sample | None) -> tuple[list[Count], datetime | None]:
    """What waits: as just counted. A kind with more jobs than were counted is as last sampled (and when)."""
    old = cut_off(live)
    if sample is None or not old:
        return list(live), None
    fresh = [count for count in live if count.kind not in old]
    return [*fresh, *(count for count in sample.counts if count.kind in old)], sample.at
