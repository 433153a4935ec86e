"""The nouns of oncue, as plain immutable values. No behaviour, no I/O.

`Claim`, `Change` and `Receipt` cross the hot path, many thousands a second: they are named tuples, which cost
a third of what a frozen dataclass costs to make. The rest are frozen dataclasses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
Missed: TypeAlias = Literal["latest", "each", "none"]
Verdict: TypeAlias = Literal["fired", "coalesced", "missed", "skipped", "manual"]

PARKED = datetime(9999, 1, 1, tzinfo=UTC)
"""When a job is due that waits for its turn, behind others of its schedule: not before somebody says so."""

MAX_PRIORITY = 100
LONGEST_LISTING = 100_000
"""How many rows one listing gives at most; who wants more goes on from its end."""
DEFAULT_QUEUE = "default"


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


class Receipt(NamedTuple):
    """The answer to one enqueue: which job stands, and whether this call made it."""

    id: int
    created_at: datetime
    created: bool

    @property
    def uid(self) -> UUID:
        return job_uid(self.id, self.created_at)


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

    @property
    def uid(self) -> UUID:
        return job_uid(self.id, self.created_at)


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned. `reason` says why its result could not be kept, if so."""

    result: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised. `delay` and `final` are a custom policy's word; without them the job's policy decides."""

    error: str
    delay: float | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The attempt outlived its time-out, its maximum runtime or its deadline, and was cut off."""

    error: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The node that held the job is gone."""

    cause: str = "node_lost"


@dataclass(frozen=True, slots=True)
class Released:
    """The node gave the job back: it is shutting down, or cannot run it."""

    cause: str = "released"


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to be called again later, at no cost."""

    delay: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """There was nothing to do, or it was too late to do it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A handler or an operator gave the job up."""

    reason: str = "cancelled"


Outcome: TypeAlias = Succeeded | Failed | TimedOut | Lost | Released | Snoozed | Skipped | Cancelled


class Change(NamedTuple):
    """One conditional write: the guard (id, from_state, claim_no), then what the row becomes.

    `outcome` names how the attempt ended; None means that no attempt had started. A job that is not finished by
    the change keeps such an attempt as a row of its own.
    """

    id: int
    from_state: State
    claim_no: int
    state: State
    reason: str | None
    outcome: str | None
    visible_at: datetime
    retry_count: int
    attempt: int
    crashes: int
    started_at: datetime | None
    ended_at: datetime | None
    result: str | None
    error: str | None
    isolation: int = 0
    """What company the job may have when it runs next (`policy.suspicion`): 0 any, 1 a cohort, 2 none."""


class Holding(NamedTuple):
    """A running row of a node, as the database has it."""

    id: int
    claim_no: int
    cancel_requested: bool


class Started(NamedTuple):
    """An attempt that has been running long enough to be worth telling the database about."""

    id: int
    claim_no: int
    started_at: datetime


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
    progress: float | None = None
    """How far its latest attempt has come, from 0 to 1, if its handler says so."""
    progress_note: str | None = None
    shortened: Mapping[str, int] | None = None
    """The fields that a short listing left out for their size, with their bytes: args, result or error."""

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


@dataclass(frozen=True, slots=True)
class Node:
    """One running process: a fresh UUID, alive while its lease is renewed. Names and hosts are labels."""

    id: UUID
    name: str
    host: str
    pid: int
    boot_id: str
    version: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    concurrency: int
    address: str | None
    started_at: datetime
    beat_at: datetime
    expires_at: datetime
    process_start: str = ""
    exclusive: bool = False
    schedules: tuple[str, ...] = ()
    beat_no: int = 0
    """Grows with every beat: one that was given up may reach the database after a later one, and must not count."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Something that one node at a time may hold. `epoch` grows with every new holder and is the fence."""

    name: str
    holder: UUID
    holder_name: str
    epoch: int
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Queue:
    """A named lane: what an operator set for it, and what was last counted in it."""

    name: str
    paused_at: datetime | None
    queued: int
    running: int
    later: int
    succeeded: int
    failed: int
    cancelled: int
    skipped: int
    global_limit: int | None = None
    node_limit: int | None = None
    counted_at: datetime | None = None
    """When what waits was counted, if that was some time ago; None is just now."""


class Lane(NamedTuple):
    """The jobs of one queue that have the same priority."""

    queue: str
    priority: int


@dataclass(frozen=True, slots=True)
class Depth:
    """How many jobs wait in one queue at one priority. A sample, cut off at the store's counting limit."""

    queue: str
    priority: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """A rule that yields slots for a task, with everything that its jobs will carry."""

    id: int
    name: str
    description: str
    task: str
    args: str
    queue: str
    priority: int
    expression: str
    tz: str
    dst: str
    missed: Missed
    grace: float
    max_instances: int
    enabled: bool
    options: str
    max_retries: int
    max_runtime: float | None
    deadline: float | None
    declared_by: str | None
    reason: str | None
    revision: int
    started_at: datetime
    version: int
    cursor: datetime
    next_run_at: datetime | None
    last_run_at: datetime | None
    horizon: datetime | None
    created_by: str
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    key: str | None = None
    """The key that its jobs share, by its task's own key: while another unfinished job has it, no slot fires."""


class Declaration(NamedTuple):
    """What is stored of a schedule that code declared: why it is disabled, if so, and the options of its jobs."""

    reason: str | None
    options: str


@dataclass(frozen=True, slots=True)
class Revision:
    """What a schedule was from `started_at` on, until the next revision began."""

    schedule_id: int
    revision: int
    started_at: datetime
    task: str
    args: str
    queue: str
    priority: int
    expression: str
    tz: str
    dst: str
    missed: Missed
    grace: float
    max_instances: int
    enabled: bool
    reason: str | None
    changed_by: str


Place: TypeAlias = tuple[datetime, int]
"""Where a schedule stands among those that are due: (next_run_at, id)."""


class Due(NamedTuple):
    """A schedule whose next slot has come, as whoever decides it must know it."""

    id: int
    name: str
    version: int
    started_at: datetime
    cursor: datetime
    next_run_at: datetime
    expression: str
    tz: str
    dst: str
    missed: Missed
    grace: timedelta
    max_instances: int
    unfinished: Sequence[int]
    """Its jobs that are not finished, as many as `max_instances` counts."""
    taken: Sequence[datetime]
    """Slots beyond the cursor that somebody decided by hand."""
    key: str | None = None
    holder: int | None = None
    """The unfinished job that has its key, if there is one."""


class Decided(NamedTuple):
    """What becomes of one slot, or of a run of them up to `until`. A slot with a job id has its job made with it."""

    scheduled_for: datetime
    verdict: Verdict
    reason: str | None = None
    job_id: int | None = None
    blocked_by: int | None = None
    until: datetime | None = None
    slots: int = 1


class Step(NamedTuple):
    """One conditional write to a schedule: the guard (id, version, a free key), then its slots and its cursor."""

    schedule_id: int
    version: int
    cursor: datetime
    next_run_at: datetime | None
    decided: Sequence[Decided]
    key: str | None = None
    """The key of its jobs: a step with a job takes effect only while no unfinished job has it."""


class Revised(NamedTuple):
    """One conditional write of a schedule itself: the guard (id, version), 0 for one that does not exist yet.

    `decided` accounts for slots of the former rule that were due and not decided. `revision` is None if the write
    changes nothing that a slot depends on.
    """

    schedule: Schedule
    version: int
    revision: Revision | None
    decided: Sequence[Decided] = ()


@dataclass(frozen=True, slots=True)
class Slot:
    """A row of the ledger with what is known of its run: from its job, or kept after that was pruned."""

    schedule_id: int
    scheduled_for: datetime
    until: datetime | None
    slots: int
    verdict: Verdict
    reason: str | None
    job_id: int | None
    blocked_by: int | None
    revision: int
    decided_at: datetime
    decided_by: UUID | None
    epoch: int | None
    state: State | None
    state_reason: str | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    error: str | None


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
    """Leave out what is large of arguments, results and errors: `Job.shortened` says what and how large."""
