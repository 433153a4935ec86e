"""What the API tells, as values. A field has the name that it has in the Python API; `told_as` is its name over HTTP.

What the Python API has in exactly this form is used as it is: Receipt, Queue, Stats, AuditEntry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.model import TERMINAL, Missed, Scope, State

TOLD_AS = "told_as"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job, as a listing shows it."""

    id: int
    uid: UUID
    task: str
    queue: str
    priority: int
    state: State = field(metadata={TOLD_AS: "status"})
    reason: str | None
    args: dict[str, Any]
    key: str | None
    enqueued_by: str
    created_at: datetime
    updated_at: datetime
    visible_at: datetime
    deadline_at: datetime | None
    max_runtime: float | None
    max_retries: int
    retry_count: int
    attempt: int = field(metadata={TOLD_AS: "attempts"})
    """How many attempts have started."""
    crashes: int = 0
    max_crashes: int | None = None
    isolation: str = "none"
    """How it is kept apart because of its crashes: none, cohort or alone."""
    claim_no: int = 0
    node_id: UUID | None
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    result: Any
    error: str | None
    retry_of: int | None
    schedule_id: int | None
    scheduled_for: datetime | None
    progress: float | None
    """How far its latest attempt has come, from 0 to 1, if its handler says so."""
    progress_note: str | None
    shortened: dict[str, int] | None = None
    """What a listing left out for its size, with its bytes: args, result or error. `job` and `whole=True` have it."""

    @property
    def finished(self) -> bool:
        return self.state in TERMINAL

    @property
    def duration(self) -> float | None:
        """Seconds that the latest attempt took, once it ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """An attempt that has ended. `worker` is the name of its node."""

    attempt: int
    claim_no: int
    outcome: str
    started_at: datetime
    finished_at: datetime | None
    node_id: UUID | None
    worker: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedAs:
    """A job that repeats another one."""

    id: int
    state: State = field(metadata={TOLD_AS: "status"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRecord:
    """One thing that matters: a code for programs, a sentence for people, and what could be done about it."""

    code: str
    text: str
    suggestion: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationRecord:
    """What was asked about, how it stands, and why."""

    subject: str
    status: str
    findings: tuple[FindingRecord, ...]

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(JobRecord):
    """A job with its attempts, and why it is as it is."""

    worker: str | None
    schedule: str | None
    """The name of the schedule that it was made for."""
    retried_as: tuple[RetriedAs, ...] = ()
    attempts: tuple[AttemptRecord, ...] = field(default=(), metadata={TOLD_AS: "attempt_list"})
    explanation: ExplanationRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class HandledRecord:
    """What a verb on many jobs did to one of them: changed, unchanged, not_found or conflict."""

    id: int | UUID
    outcome: str
    message: str
    state: State | None = field(metadata={TOLD_AS: "status"})


# --- schedules ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """A rule that yields slots for a task."""

    id: int
    name: str
    description: str = ""
    task: str
    args: dict[str, Any]
    expression: str = field(metadata={TOLD_AS: "cron_expression"})
    tz: str
    dst: str
    missed: Missed
    grace: float
    max_instances: int
    max_retries: int
    key: str | None
    """The key of its jobs, if the task declares one."""
    queue: str
    priority: int
    enabled: bool
    reason: str | None
    """Why it is disabled."""
    declared_by: str | None
    """The application whose code declares it; None: made at run time."""
    revision: int
    started_at: datetime
    next_run_at: datetime | None
    last_run_at: datetime | None
    horizon: datetime | None
    created_by: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRecord:
    """What a schedule was from `started_at` on, until the next revision began."""

    revision: int
    started_at: datetime
    changed_by: str
    enabled: bool
    reason: str | None
    expression: str = field(metadata={TOLD_AS: "cron_expression"})
    tz: str
    dst: str
    task: str
    args: dict[str, Any]
    queue: str
    priority: int
    missed: Missed
    grace: float
    max_instances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRecord:
    """A row of the ledger with what is known of its run. `until` and `slots` tell of a run of slots with one fate."""

    scheduled_for: datetime
    until: datetime | None
    slots: int = 1
    verdict: str
    reason: str | None
    job_id: int | None
    blocked_by: int | None
    revision: int
    decided_at: datetime
    decided_by: UUID | None
    epoch: int | None
    state: State | None = field(metadata={TOLD_AS: "outcome"})
    state_reason: str | None = field(metadata={TOLD_AS: "outcome_reason"})
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FireRecord:
    """A slot to come. `mark` is what a change of the clocks does to it: gap, first or second."""

    scheduled_for: datetime
    local: datetime
    mark: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilled:
    """What a backfill did: the jobs that it made, and how many slots were decided before."""

    jobs: tuple[int, ...]
    present: int
    skipped: int = 0
    """Slots that share the key of the first job, which stands for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FateRecord:
    """What an audit says of a slot, or of a run of them up to `until`."""

    scheduled_for: datetime
    until: datetime | None
    slots: int = 1
    verdict: str
    reason: str | None
    holds: bool
    row: SlotRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """What became of every slot that a schedule should have had in [start, end], oldest first."""

    schedule: str
    start: datetime = field(metadata={TOLD_AS: "from"})
    end: datetime = field(metadata={TOLD_AS: "to"})
    holds: bool
    counts: dict[str, int]
    """How many slots met with each fate."""
    notes: tuple[str, ...] = ()
    fates: tuple[FateRecord, ...]

    @property
    def problems(self) -> list[FateRecord]:
        return [fate for fate in self.fates if not fate.holds]


# --- the cluster, tokens --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A worker process. `holds` are the leases that it has: leader, exclusive."""

    id: UUID
    name: str
    alive: bool
    holds: tuple[str, ...] = ()
    exclusive: bool = False
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRecord:
    """Who leads. Without a name nobody does, since `none_since`; None there: nobody ever has."""

    name: str | None
    id: UUID | None
    epoch: int | None
    since: datetime | None
    none_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A credential of the API, without its secret."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether a process may be given work: ready, standing_by, draining, lease_lost or database_unavailable."""

    status: str
    facts: Mapping[str, Any]
    """Everything that it tells: the database, the leader, the backlog, the worker in it."""

    @property
    def is_ready(self) -> bool:
        return self.status in ("ready", "standing_by")
