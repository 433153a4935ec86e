"""Bodies about jobs: enqueueing them, looking at them, changing them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from pydantic import ConfigDict, FailFast, Field, PlainValidator, StrictInt, StrictStr, WithJsonSchema

from oncue.checks import LONGEST_KEY, LONGEST_NAME, MOST_RETRIES
from oncue.server.api.models.base import (
    LARGEST_ID,
    WHOLE,
    Arguments,
    Body,
    DurationValue,
    Instant,
    InstantText,
    Priority,
    Record,
    Status,
    WantedStatus,
)
from oncue.verbs.jobs import MOST_AT_ONCE

JOB_EXAMPLE: dict[str, Any] = {
    "id": 42,
    "uid": "01960f3c-7c00-8000-8000-00000000002a",
    "task": "send_invoice",
    "target": "send_invoice",
    "args": {"order_id": 7},
    "key": None,
    "queue": "mail",
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


class Enqueue(Body):
    """One job to be written."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"task": "send_invoice", "args": {"order_id": 7}, "priority": 60, "key": "invoice:7"}]
        }
    )

    task: StrictStr = Field(description="The name of a task that the application declares.")
    args: Arguments = Field(default_factory=dict)
    queue: StrictStr | None = Field(None, max_length=LONGEST_NAME, description="Instead of the task's own.")
    priority: Priority | None = None
    delay: DurationValue | None = Field(None, description="Not before so long from now; or give `at`.")
    at: InstantText | None = Field(None, description="Not before this instant.")
    key: StrictStr | None = Field(
        None, min_length=1, max_length=LONGEST_KEY, description="At most one unfinished job of the task has it."
    )
    deadline: DurationValue | None = Field(None, description="The job is skipped if it cannot start within this time.")
    max_retries: Annotated[StrictInt, Field(ge=0, le=MOST_RETRIES), WHOLE] | None = None


class EnqueueMany(Body):
    """Jobs to be written together, all or none."""

    jobs: Annotated[list[Enqueue], FailFast()] = Field(min_length=1, max_length=MOST_AT_ONCE)


class ReceiptRecord(Record):
    """Which job stands, and whether this request made it."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": 42, "uid": "01960f3c-7c00-8000-8000-00000000002a", "created": True}]}
    )

    id: int
    uid: UUID
    created: bool = Field(description="False: an unfinished job has this key already, and it is this one.")


class Receipts(Record):
    jobs: list[ReceiptRecord] = Field(description="One for each job of the request, in order.")
    created: int
    duplicates: int


# --- looking --------------------------------------------------------------------------------------------------------


class JobRecord(Record):
    """A job (QUE-23)."""

    model_config = ConfigDict(json_schema_extra={"examples": [JOB_EXAMPLE]})

    id: int
    uid: UUID
    task: str
    target: str = Field(description="The same as `task`.")
    args: dict[str, Any]
    key: str | None
    queue: str
    status: Status
    reason: str | None = Field(description="Why it ended so, if it did not simply succeed or fail.")
    priority: int
    enqueued_by: str
    created_at: Instant
    updated_at: Instant
    visible_at: Instant = Field(description="It is not started before.")
    deadline_at: Instant | None
    last_attempt: Instant | None
    duration_ms: float | None
    attempts: int = Field(description="How many attempts have started.")
    retry_count: int
    max_retries: int
    next_retry_at: Instant | None
    max_runtime: float | None
    crashes: int = Field(description="With how many deaths of its process in a row it is charged.")
    max_crashes: int | None = Field(description="With so many it fails as poison; null for never.")
    isolation: Literal["none", "cohort", "alone"] = Field(description="How it is kept apart because of that.")
    claim_no: int
    node_id: UUID | None
    claimed_at: Instant | None
    started_at: Instant | None
    finished_at: Instant | None
    cancel_requested_at: Instant | None
    progress: float | None = Field(description="How far the latest attempt has come, from 0 to 1.")
    progress_note: str | None
    retry_of: int | None
    schedule_id: int | None
    scheduled_for: Instant | None
    result: Any
    error: str | None
    shortened: dict[str, int] = Field(
        description="What a listing left out for its size, with its bytes: `args` and `result` are then empty, `error` "
        "is cut. `GET /jobs/{id}` has it whole, and so has a listing with `whole=true`."
    )


class AttemptRecord(Record):
    """An attempt that has ended."""

    attempt: int
    claim_no: int
    outcome: str
    started_at: Instant
    finished_at: Instant | None
    duration_ms: float | None
    node_id: UUID | None
    worker: str | None = Field(description="The name of the node.")
    error: str | None


class FindingRecord(Record):
    code: str = Field(description="For programs.")
    text: str = Field(description="For people.")
    suggestion: str | None


class ExplanationRecord(Record):
    """Why something is as it is, and what could be done about it."""

    subject: str
    status: str
    findings: list[FindingRecord]


class RetriedAs(Record):
    id: int
    status: Status


class JobDetail(JobRecord):
    """A job with its attempts and why it is as it is."""

    worker: str | None = Field(description="The name of the node that runs it, or ran it last.")
    schedule: str | None = Field(description="The name of the schedule that it was made for.")
    retried_as: list[RetriedAs]
    attempt_list: list[AttemptRecord]
    explanation: ExplanationRecord


class JobPage(Record):
    """Jobs, newest first. There is no total: counting would take as long as there are jobs."""

    jobs: list[JobRecord]
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")


class Stats(Record):
    """How many jobs there are (QUE-10)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "queued": 12, "running": 3, "failed": 4, "completed": 1200, "cancelled": 1, "skipped": 0,
                    "counted_at": None,
                }
            ]
        }
    )  # fmt: skip

    queued: int = Field(description="Jobs that wait, scheduled and retrying ones too.")
    running: int
    failed: int = Field(description="Since the beginning, pruned jobs included.")
    completed: int = Field(description="Succeeded since the beginning, pruned jobs included.")
    cancelled: int
    skipped: int
    counted_at: Instant | None = Field(description="When what waits was counted; null: just now.")


# --- changing -------------------------------------------------------------------------------------------------------


class StatusChange(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "queued"}]})

    status: WantedStatus


class PriorityChange(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"priority": 80}]})

    priority: Priority


class Boost(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"boost": 20}]})

    boost: Annotated[
        StrictInt, Field(ge=-100, le=100, description="How much to add; it stays within 0 and 100."), WHOLE
    ] = 10


def _reference(value: Any) -> int | UUID:
    if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= LARGEST_ID and value % 1 == 0:
        return int(value)
    try:
        if isinstance(value, str):
            return UUID(value)
    except ValueError:
        pass
    raise ValueError("expected the id of a job (a number) or its uid (a UUID)")


Reference: TypeAlias = Annotated[
    int | UUID,
    PlainValidator(_reference),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": LARGEST_ID},
                {"type": "string", "format": "uuid"},
            ]
        }
    ),
]
JobReferences: TypeAlias = Annotated[
    list[Reference], Field(min_length=1, max_length=MOST_AT_ONCE, description="Ids or uids of jobs.")
]


class BulkStatus(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"job_ids": [42, 43], "status": "failed"}]})

    job_ids: JobReferences
    status: WantedStatus


class BulkRetry(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"job_ids": [42, 43]}]})

    job_ids: JobReferences


class HandledRecord(Record):
    """What happened to one of many jobs."""

    id: int | UUID = Field(description="As it was asked for.")
    outcome: Literal["changed", "unchanged", "not_found", "conflict"]
    message: str
    status: Status | None = Field(description="The job's state afterwards, if there is such a job.")


class HandledRecords(Record):
    results: list[HandledRecord] = Field(description="One for each job that was named, in order.")
    changed: int
