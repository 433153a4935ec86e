"""Schedules, their revisions and slots, audits of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from oncue.model import DELIVER, Missed, Revision, Schedule, Slot, State
from oncue.records.documents import ALIAS, RULES, Document, document, milliseconds, rules

if TYPE_CHECKING:
    from oncue.policy.audit import Audit, Fate
    from oncue.verbs.schedules import ComparedFire, Comparison, Fire

SCHEDULE_EXAMPLE: dict[str, Any] = {
    "name": "nightly",
    "cron_expression": "0 3 * * *",
    "tz": "Europe/Berlin",
    "task": "send_report",
    "args": {"pages": 3},
    "priority": 20,
    "description": "Yesterday's figures",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """A schedule (QUE-7): a rule that yields slots for a task."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules({"id": 3, **SCHEDULE_EXAMPLE, "enabled": True})

    id: int
    name: str
    description: str = ""
    task: str
    target: str = ""
    """The same as `task`."""
    webhook: str | None = None
    """The webhook that it delivers to, if its task is `oncue.deliver`."""
    args: dict[str, Any]
    expression: str = field(metadata={ALIAS: "cron_expression"})
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
    """The application whose code declares it; null: made at run time."""
    revision: int
    started_at: datetime
    """When this revision began."""
    next_run_at: datetime | None
    last_run_at: datetime | None
    horizon: datetime | None
    """Slots from before are no longer in the ledger."""
    created_by: str
    created_at: datetime
    updated_at: datetime


def schedule_record(schedule: Schedule) -> Document:
    return document(
        ScheduleRecord(
            id=schedule.id,
            name=schedule.name,
            description=schedule.description,
            task=schedule.task,
            target=schedule.task,
            webhook=schedule.group if schedule.task == DELIVER else None,
            args=json.loads(schedule.args),
            expression=schedule.expression,
            tz=schedule.tz,
            dst=schedule.dst,
            missed=schedule.missed,
            grace=schedule.grace,
            max_instances=schedule.max_instances,
            max_retries=schedule.max_retries,
            key=schedule.key,
            queue=schedule.queue,
            priority=schedule.priority,
            enabled=schedule.enabled,
            reason=schedule.reason,
            declared_by=schedule.declared_by,
            revision=schedule.revision,
            started_at=schedule.started_at,
            next_run_at=schedule.next_run_at,
            last_run_at=schedule.last_run_at,
            horizon=schedule.horizon,
            created_by=schedule.created_by,
            created_at=schedule.created_at,
            updated_at=schedule.updated_at,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRecord:
    """What a schedule was from `started_at` on, until the next revision began."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    revision: int
    started_at: datetime
    changed_by: str
    enabled: bool
    reason: str | None
    expression: str = field(metadata={ALIAS: "cron_expression"})
    tz: str
    dst: str
    task: str
    args: dict[str, Any]
    queue: str
    priority: int
    missed: Missed
    grace: float
    max_instances: int


def revision_record(revision: Revision) -> Document:
    return document(
        RevisionRecord(
            revision=revision.revision,
            started_at=revision.started_at,
            changed_by=revision.changed_by,
            enabled=revision.enabled,
            reason=revision.reason,
            expression=revision.expression,
            tz=revision.tz,
            dst=revision.dst,
            task=revision.task,
            args=json.loads(revision.args),
            queue=revision.queue,
            priority=revision.priority,
            missed=revision.missed,
            grace=revision.grace,
            max_instances=revision.max_instances,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRecord:
    """A row of the ledger. `until` and `slots` tell of a run of slots that share one fate."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

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
    state: State | None = field(metadata={ALIAS: "outcome"})
    """The state of its job, or the one that it ended in."""
    state_reason: str | None = field(metadata={ALIAS: "outcome_reason"})
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: float | None
    worker: str | None
    error: str | None


def slot_record(slot: Slot) -> Document:
    return document(_slot(slot))


def _slot(slot: Slot) -> SlotRecord:
    return SlotRecord(
        scheduled_for=slot.scheduled_for,
        until=slot.until,
        slots=slot.slots,
        verdict=slot.verdict,
        reason=slot.reason,
        job_id=slot.job_id,
        blocked_by=slot.blocked_by,
        revision=slot.revision,
        decided_at=slot.decided_at,
        decided_by=slot.decided_by,
        epoch=slot.epoch,
        state=slot.state,
        state_reason=slot.state_reason,
        started_at=slot.started_at,
        finished_at=slot.finished_at,
        duration_ms=milliseconds(slot.started_at, slot.finished_at),
        worker=slot.worker,
        error=slot.error,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FireRecord:
    """A slot to come."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    scheduled_for: datetime
    local: datetime
    tz: str = ""
    mark: str | None
    """What a change of the clocks does to it: gap, first or second."""
    instead_of: tuple[str, ...] = ()
    """Local times that it stands for because they never come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFireRecord(FireRecord):
    """A slot to come, before or after an edit."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    stays: bool
    """Whether it is a slot before the edit and after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRecord:
    """What an edit would do to the slots to come. Nothing is written."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    before: ScheduleRecord
    after: ScheduleRecord
    is_revision: bool
    """Whether it would be a new revision, which starts from now."""
    given_up: int
    """Slots that are due and undecided: they would be told as missed."""
    going: tuple[ComparedFireRecord, ...]
    """The next slots without the edit: those that do not stay go."""
    coming: tuple[ComparedFireRecord, ...]
    """The next slots after the edit: those that do not stay are new."""


def comparison_record(found: Comparison) -> Document:
    def told(side: Schedule, compared: Sequence[ComparedFire]) -> list[Document]:
        return [{**fire_record(one.fire, side.tz), "stays": one.stays} for one in compared]

    return {
        "before": schedule_record(found.before),
        "after": schedule_record(found.after),
        "is_revision": found.is_revision,
        "given_up": found.given_up,
        "going": told(found.before, found.going),
        "coming": told(found.after, found.coming),
    }


def fire_record(fire: Fire, tz: str, instead_of: Sequence[datetime] = ()) -> Document:
    record = FireRecord(
        scheduled_for=fire.scheduled_for,
        local=fire.local,
        tz=tz,
        mark=fire.mark,
        instead_of=tuple(time.isoformat() for time in instead_of),
    )
    return {**document(record), "local": fire.local.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FateRecord:
    """What an audit says of a slot or of a run of them up to `until`, with the ledger's row if there is one."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    scheduled_for: datetime
    until: datetime | None
    slots: int = 1
    verdict: str
    reason: str | None
    holds: bool
    row: SlotRecord | None


def _fate(fate: Fate) -> FateRecord:
    return FateRecord(
        scheduled_for=fate.scheduled_for,
        until=fate.until,
        slots=fate.slots,
        verdict=fate.verdict,
        reason=fate.reason,
        holds=fate.holds,
        row=None if fate.row is None else _slot(fate.row),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """Every slot that a schedule should have had, oldest first, and what became of it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    schedule: str
    start: datetime = field(metadata={ALIAS: "from"})
    end: datetime = field(metadata={ALIAS: "to"})
    holds: bool
    counts: dict[str, int]
    """How many slots met with each fate."""
    notes: tuple[str, ...] = ()
    fates: tuple[FateRecord, ...]

    @property
    def problems(self) -> list[FateRecord]:
        return [fate for fate in self.fates if not fate.holds]


def audit_record(name: str, found: Audit, fates: Sequence[Fate]) -> Document:
    return document(
        AuditRecord(
            schedule=name,
            start=found.start,
            end=found.end,
            holds=found.holds,
            counts=found.counts(),
            notes=tuple(found.notes),
            fates=tuple(map(_fate, fates)),
        )
    )
