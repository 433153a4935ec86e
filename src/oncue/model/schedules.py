"""The schedule with its revisions and its slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from oncue.model.jobs import State

Missed: TypeAlias = Literal["latest", "each", "none"]
Verdict: TypeAlias = Literal["fired", "coalesced", "missed", "skipped", "manual"]


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
    group: str | None = None
    """The group of its queue that its jobs belong to: of a schedule whose target is a webhook, the webhook."""
    address: str | None = None
    """Where alone its jobs may run: those of a cluster task are for the cluster."""


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


DuePosition: TypeAlias = tuple[datetime, int]
"""A page of due schedules ends here: (next_run_at, id) of its last one."""


class Due(NamedTuple):
    """A schedule whose next slot has come, as the leader must know it to decide."""

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
    """Slots beyond the cursor that an operator decided by hand."""
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

    @property
    def duration(self) -> float | None:
        """Seconds that its run took, once it ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()
