"""The nouns of operators and callers: limits, seats, progress, tokens, the audit log. Values only, as in `model`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

Scope: TypeAlias = Literal["read", "enqueue", "operate", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "enqueue", "operate", "admin")


class Note(NamedTuple):
    """A line of the audit log, as the author of a change hands it in: it is written if the change is."""

    actor: str
    action: str
    subject: str
    before: Any = None
    after: Any = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change that somebody made by hand."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Limits:
    """How many jobs of a queue may run at once: on all nodes together, and on each. None is no limit."""

    globally: int | None = None
    per_node: int | None = None


@dataclass(frozen=True, slots=True)
class Seat:
    """How many seats of a limited queue a node holds, and how many it could use."""

    node: UUID
    seats: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Seating:
    """A limited queue as whoever takes seats in it must know it. `version` is the guard of the next change."""

    queue: str
    limits: Limits
    version: int
    seats: Sequence[Seat]
    """Of the nodes that were not declared lost, and have not left."""
    waiting: bool = False
    """Whether a job waits that whoever asks could run."""


class Progress(NamedTuple):
    """How far an attempt has come, as its handler says."""

    job_id: int
    claim_no: int
    fraction: float
    note: str | None
    told_at: datetime


@dataclass(frozen=True, slots=True)
class Token:
    """A credential of the API, without its secret."""

    id: str
    name: str
    digest: str
    scopes: tuple[Scope, ...]
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """A request that carried an idempotency key. While it has no `status`, it is being answered, or was cut off."""

    fingerprint: str
    started_at: datetime
    ids: tuple[int, ...]
    """The numbers that were reserved for the jobs that it makes: written again under them, they are written once."""
    status: int | None = None
    answer: str | None = None


class Count(NamedTuple):
    """How many jobs of a queue wait, run or are due later. `kind` is `queued`, `running` or `later`."""

    queue: str
    kind: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What waited when it was last counted."""

    at: datetime
    counts: Sequence[Count]


class Age(NamedTuple):
    """Since when the oldest job of its kind has waited (`queued`, in a queue) or run (`running`, of a task as well)."""

    kind: str
    queue: str
    task: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Stats:
    """How many jobs there are. `queued` are all that wait; `counted_at` says when, if that was some time ago."""

    queued: int
    running: int
    completed: int
    failed: int
    cancelled: int
    skipped: int
    counted_at: datetime | None = None


KINDS = ("queued", "running", "later")
PEEK_LIMIT = 1000
"""How much of what waits is counted for whoever asks. Where there is more, the last sample must do."""


def cut_off(live: Sequence[Count]) -> frozenset[str]:
    """The kinds of which there is more than is counted for whoever asks."""
    return frozenset(k for k in KINDS if sum(count.jobs for count in live if count.kind == k) >= PEEK_LIMIT)


def known(live: Sequence[Count], sample: Sample | None) -> tuple[list[Count], datetime | None]:
    """What waits: as just counted; of a kind of which there is more than was counted, as last sampled (and when)."""
    old = cut_off(live)
    if sample is None or not old:
        return list(live), None
    fresh = [count for count in live if count.kind not in old]
    return [*fresh, *(count for count in sample.counts if count.kind in old)], sample.at
