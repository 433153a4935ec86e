"""The job with its attempts, as it is written, claimed, run and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from oncue.identity import job_uid

State: TypeAlias = Literal["scheduled", "queued", "running", "retrying", "succeeded", "failed", "cancelled", "skipped"]
STATES: tuple[State, ...] = (
    "scheduled",
    "queued",
    "running",
    "retrying",
    "succeeded",
    "failed",
    "cancelled",
    "skipped",
)
WAITING: frozenset[State] = frozenset({"scheduled", "queued", "retrying"})
UNFINISHED: frozenset[State] = WAITING | {"running"}
TERMINAL: frozenset[State] = frozenset({"succeeded", "failed", "cancelled", "skipped"})
Delivery: TypeAlias = Literal["at_least_once", "at_most_once"]
PARKED = datetime(9999, 1, 1, tzinfo=UTC)
"""When a job is due that waits for its turn, behind others of its schedule: when the scheduler releases it."""
MAX_PRIORITY = 100
LEADER_ADDRESS = "role:leader"
NODE_ADDRESS = "node:"
"""What the address of a job begins with that is for a node: the node's name follows."""
LONGEST_LISTING = 100_000
"""How many rows one listing gives at most; the next listing begins at its end."""


class Batch(NamedTuple):
    """Jobs to be written together that differ only in identity, arguments and key."""

    task: str
    queue: str
    priority: int
    state: State
    options: str
    max_retries: int
    max_runtime: float | None
    created_at: datetime
    visible_at: datetime
    deadline_at: datetime | None
    enqueued_by: str
    retry_of: int | None
    ids: list[int]
    args: list[str]
    keys: list[str] | None = None
    order_at: datetime | None = None
    """Where the jobs stand among others of their priority, if that is not when they were made."""
    group: str | None = None
    address: str | None = None
    """Where alone they may run: `node:NAME` or `role:leader`."""


class FollowUp(NamedTuple):
    """Jobs that a handler wants to be made if its attempt succeeds. The instants of the batch count from its end."""

    batch: Batch
    at: datetime | None = None
    """When they are due, if that does not depend on when the attempt ends."""


class Receipt(NamedTuple):
    """The answer to one enqueue: which job stands, and whether this call made it."""

    id: int
    created_at: datetime
    created: bool

    @property
    def uid(self) -> UUID:
        return job_uid(self.id, self.created_at)


class LeaderEpoch(NamedTuple):
    """A node that leads, and under which epoch."""

    holder: UUID
    epoch: int


class Claim(NamedTuple):
    """A running job, as the node that holds it sees it. `claim_no` is the fence of everything it writes."""

    id: int
    task: str
    queue: str
    priority: int
    args: str
    options: str
    created_at: datetime
    visible_at: datetime
    deadline_at: datetime | None
    claimed_at: datetime
    started_at: datetime | None
    claim_no: int
    attempt: int
    retry_count: int
    max_retries: int
    crashes: int
    cancel_requested: bool
    scheduled_for: datetime | None = None
    start_by: datetime | None = None
    group: str | None = None
    address: str | None = None
    leader: LeaderEpoch | None = None
    """Of a job for the leader: as which leader this node took it. What comes of it counts while that one leads."""

    @property
    def uid(self) -> UUID:
        return job_uid(self.id, self.created_at)


class Outlook(NamedTuple):
    """What will have to be done about jobs, if nobody does anything before."""

    waiting: frozenset[str]
    """The queues in which something is queued that any node may run."""
    set_apart: frozenset[str]
    """The queues in which something with a group or an address is queued."""
    addresses: frozenset[str]
    """The addresses for which something is queued."""
    orphaned: bool
    """Whether something is running whose node is lost."""
    parked: bool
    """Whether slots of a backfill wait for room."""
    due_at: datetime | None
    """When the next scheduled or retrying job is due."""
    expires_at: datetime | None
    """When the next job will have waited past its time: its deadline is over, or the grace of its slot."""
    overdue_at: datetime | None
    """When the maximum runtime of something that is running is over."""


class HeldClaim(NamedTuple):
    """A running row of a node, as the database has it."""

    id: int
    claim_no: int
    cancel_requested: bool


class Started(NamedTuple):
    """An attempt that has been running long enough to be worth telling the database about."""

    id: int
    claim_no: int
    started_at: datetime


class Progress(NamedTuple):
    """How far an attempt has come, as its handler reports it."""

    job_id: int
    claim_no: int
    fraction: float
    note: str | None
    told_at: datetime


class ToldDetails(NamedTuple):
    """What a handler has told of its attempt so far: a JSON object."""

    job_id: int
    claim_no: int
    details: str


@dataclass(frozen=True, slots=True)
class Job:
    """One durable unit of work: the whole row, for people and for operators' verbs."""

    id: int
    task: str
    queue: str
    priority: int
    state: State
    reason: str | None
    args: dict[str, Any]
    options: str
    key: str | None
    enqueued_by: str
    created_at: datetime
    updated_at: datetime
    order_at: datetime
    visible_at: datetime
    deadline_at: datetime | None
    max_runtime: float | None
    max_retries: int
    retry_count: int
    attempt: int
    crashes: int
    claim_no: int
    node_id: UUID | None
    claimed_at: datetime | None
    run_until: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    result: Any
    error: str | None
    retry_of: int | None
    schedule_id: int | None = None
    scheduled_for: datetime | None = None
    start_by: datetime | None = None
    group: str | None = None
    """The group of its queue that it belongs to: an endpoint, a tenant."""
    address: str | None = None
    """Where alone it may run: `node:NAME` or `role:leader`. None means on any node."""
    progress: float | None = None
    """How far its latest attempt has come, from 0 to 1, if its handler says so."""
    progress_note: str | None = None
    details: dict[str, Any] | None = None
    """What the handler told of the latest attempt."""
    subject: str | None = None
    """Of a window's job: whose it is."""
    shortened: Mapping[str, int] | None = None
    """The fields that a short listing left out for their size, with their bytes: args, result, error or details."""

    @property
    def uid(self) -> UUID:
        """The job's public name: stable, unique, and good as an idempotency key elsewhere."""
        return job_uid(self.id, self.created_at)

    @property
    def finished(self) -> bool:
        return self.state in TERMINAL

    @property
    def duration(self) -> float | None:
        """Seconds that the latest attempt took, once it ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True)
class Attempt:
    """A started attempt of a job. The latest one is read off the job itself."""

    job_id: int
    attempt: int
    claim_no: int
    node_id: UUID | None
    started_at: datetime
    finished_at: datetime | None
    outcome: str
    error: str | None
    details: dict[str, Any] | None = None
    """What its handler told of it."""

    @property
    def duration(self) -> float | None:
        """Seconds that it took, once it ended."""
        return None if self.finished_at is None else (self.finished_at - self.started_at).total_seconds()


class JobCount(NamedTuple):
    """How many jobs match a filter, of how many that were looked at."""

    matching: int
    looked_at: int


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a listing asks for. Newest first; `before` is the id to go on from."""

    states: tuple[State, ...] = ()
    queue: str | None = None
    task: str | None = None
    key: str | None = None
    before: int | None = None
    limit: int = 100
    offset: int = 0
    short: bool = False
    """Leave out what is large of arguments, results, errors and details: `Job.shortened` says what and how large."""
    group: str | None = None
    address: str | None = None
    since: datetime | None = None
    """Made at this instant or later."""
    until: datetime | None = None
    """Made before this instant."""

    @property
    def reads_rows(self) -> bool:
        """Whether no index tells which jobs match: only the jobs themselves have what is asked for."""
        wanted = (self.key, self.group, self.address, self.since, self.until)
        return any(value is not None for value in wanted)
