"""Jobs, their attempts, and why they are as they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from uuid import UUID

from oncue.model import TERMINAL, Attempt, Job, State, Stats
from oncue.policy import options, suspicion
from oncue.records.documents import ALIAS, RULES, Document, document, milliseconds, rules

if TYPE_CHECKING:
    from oncue.policy.explain import Explanation
    from oncue.verbs.jobs import Handled

JOB_EXAMPLE: dict[str, Any] = {
    "id": 42,
    "uid": "01960f3c-7c00-8000-8000-00000000002a",
    "task": "send_invoice",
    "target": "send_invoice",
    "args": {"order_id": 7},
    "key": None,
    "queue": "mail",
    "group": "tenant:7",
    "address": None,
    "status": "failed",
    "reason": None,
    "priority": 60,
    "enqueued_by": "system",
    "created_at": "2030-01-31T09:00:00Z",
    "updated_at": "2030-01-31T09:00:01Z",
    "visible_at": "2030-01-31T09:00:00Z",
    "deadline_at": None,
    "last_attempt": "2030-01-31T09:00:00.5Z",
    "duration_ms": 412.5,
    "attempts": 4,
    "retry_count": 3,
    "max_retries": 3,
    "next_retry_at": None,
    "error": "ConnectionError: the mail server is busy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job (QUE-23)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(JOB_EXAMPLE)

    id: int
    uid: UUID
    task: str
    target: str = ""
    """The same as `task`."""
    args: dict[str, Any]
    key: str | None
    queue: str
    group: str | None
    """The group of its queue that it belongs to: a tenant, an endpoint."""
    address: str | None
    """Where alone it may run: `node:NAME` or `role:leader`."""
    state: State = field(metadata={ALIAS: "status"})
    """The state that the job is in."""
    reason: str | None
    """Why it ended so, if it did not simply succeed or fail."""
    priority: int
    enqueued_by: str
    created_at: datetime
    updated_at: datetime
    visible_at: datetime
    """It is not started before."""
    deadline_at: datetime | None
    last_attempt: datetime | None
    duration_ms: float | None
    attempt: int = field(metadata={ALIAS: "attempts"})
    """How many attempts have started."""
    retry_count: int
    max_retries: int
    next_retry_at: datetime | None
    max_runtime: float | None
    crashes: int = 0
    """With how many deaths of its process in a row it is charged."""
    max_crashes: int | None = None
    """With so many it fails as poison; null for never."""
    isolation: Literal["none", "cohort", "alone"] = "none"
    """How it is kept apart because of that."""
    claim_no: int = 0
    node_id: UUID | None
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    progress: float | None
    """How far the latest attempt has come, from 0 to 1."""
    progress_note: str | None
    details: dict[str, Any] | None
    """What the handler told of the latest attempt."""
    retry_of: int | None
    schedule_id: int | None
    scheduled_for: datetime | None
    result: Any
    error: str | None
    shortened: dict[str, int] = field(default_factory=dict)
    """What a listing left out for its size, with its bytes: `args`, `result` and `details` are then empty,
    `error` is cut. `GET /jobs/{id}` has it whole, and so has a listing with `whole=true`."""

    @property
    def finished(self) -> bool:
        return self.state in TERMINAL

    @property
    def duration(self) -> float | None:
        """Seconds that the latest attempt took, once it ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


def job_record(job: Job) -> Document:
    return document(
        JobRecord(
            id=job.id,
            uid=job.uid,
            task=job.task,
            target=job.task,
            args=job.args,
            key=job.key,
            queue=job.queue,
            group=job.group,
            address=job.address,
            state=job.state,
            reason=job.reason,
            priority=job.priority,
            enqueued_by=job.enqueued_by,
            created_at=job.created_at,
            updated_at=job.updated_at,
            visible_at=job.visible_at,
            deadline_at=job.deadline_at,
            last_attempt=job.started_at or job.claimed_at,
            duration_ms=milliseconds(job.started_at, job.finished_at),
            attempt=job.attempt,
            retry_count=job.retry_count,
            max_retries=job.max_retries,
            next_retry_at=job.visible_at if job.state == "retrying" else None,
            max_runtime=job.max_runtime,
            crashes=job.crashes,
            max_crashes=options.read(job.options).max_crashes,
            isolation=suspicion.NAMES[suspicion.isolation_of(job)],
            claim_no=job.claim_no,
            node_id=job.node_id,
            claimed_at=job.claimed_at,
            started_at=job.started_at,
            finished_at=job.finished_at,
            cancel_requested_at=job.cancel_requested_at,
            progress=job.progress,
            progress_note=job.progress_note,
            details=job.details,
            retry_of=job.retry_of,
            schedule_id=job.schedule_id,
            scheduled_for=job.scheduled_for,
            result=job.result,
            error=job.error,
            shortened=dict(job.shortened or {}),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """An attempt that has ended."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    attempt: int
    claim_no: int
    outcome: str
    started_at: datetime
    finished_at: datetime | None
    duration_ms: float | None
    node_id: UUID | None
    worker: str | None
    """The name of the node."""
    error: str | None
    details: dict[str, Any] | None
    """What its handler told of it."""


def attempt_record(attempt: Attempt, worker: str | None) -> Document:
    return document(
        AttemptRecord(
            attempt=attempt.attempt,
            claim_no=attempt.claim_no,
            outcome=attempt.outcome,
            started_at=attempt.started_at,
            finished_at=attempt.finished_at,
            duration_ms=milliseconds(attempt.started_at, attempt.finished_at),
            node_id=attempt.node_id,
            worker=worker,
            error=attempt.error,
            details=attempt.details,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedAs:
    """A job that repeats another one."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    id: int
    state: State = field(metadata={ALIAS: "status"})
    """The state that the job is in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRecord:
    """One thing that matters."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    code: str
    """For programs."""
    text: str
    """For people."""
    suggestion: str | None
    """What could be done about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationRecord:
    """Why something is as it is, and what could be done about it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    subject: str
    status: str
    findings: tuple[FindingRecord, ...]

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]


def explanation_record(explanation: Explanation) -> Document:
    return document(
        ExplanationRecord(
            subject=explanation.subject,
            status=explanation.status,
            findings=tuple(
                FindingRecord(code=finding.code, text=finding.text, suggestion=finding.suggestion)
                for finding in explanation.findings
            ),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(JobRecord):
    """A job with its attempts and why it is as it is."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(JOB_EXAMPLE)

    worker: str | None
    """The name of the node that runs it, or ran it last."""
    schedule: str | None
    """The name of the schedule that it was made for."""
    retried_as: tuple[RetriedAs, ...]
    attempts: tuple[AttemptRecord, ...] = field(metadata={ALIAS: "attempt_list"})
    explanation: ExplanationRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class HandledRecord:
    """What happened to one of many jobs."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    id: int | UUID
    """As it was asked for."""
    outcome: Literal["changed", "unchanged", "not_found", "conflict"]
    message: str
    state: State | None = field(metadata={ALIAS: "status"})
    """The job's state afterwards, if there is such a job."""


def handled_record(handled: Handled) -> Document:
    return document(HandledRecord(id=handled.id, outcome=handled.outcome, message=handled.message, state=handled.state))


def stats_record(stats: Stats) -> Document:
    return document(stats)
