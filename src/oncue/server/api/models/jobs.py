"""Bodies about jobs: enqueueing them, looking at them, changing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias
from uuid import UUID

from pydantic import ConfigDict, FailFast, Field, PlainValidator, StrictInt, StrictStr, WithJsonSchema

from oncue.model import Stats
from oncue.policy.checks import LONGEST_KEY, LONGEST_NAME, MOST_RETRIES
from oncue.policy.names import LONGEST_ADDRESS
from oncue.records.documents import rules
from oncue.records.jobs import HandledRecord, JobRecord
from oncue.server.api.models.base import (
    LARGEST_ID,
    WHOLE,
    Arguments,
    Body,
    DurationValue,
    InstantText,
    Priority,
    Record,
    WantedStatus,
)
from oncue.verbs.jobs import MOST_AT_ONCE


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
    group: StrictStr | None = Field(
        None, min_length=1, max_length=LONGEST_NAME,
        description="Whom it is for, such as tenant:7. The groups of a queue take turns.",
    )  # fmt: skip
    address: StrictStr | None = Field(
        None, min_length=1, max_length=LONGEST_ADDRESS, description="Where alone it may run: node:NAME or role:leader."
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


class JobPage(Record):
    """Jobs, newest first. There is no total: counting would take as long as there are jobs."""

    jobs: list[JobRecord]
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")


@dataclass(frozen=True, slots=True)
class StatsRecord(Stats):
    """How many jobs there are (QUE-10)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(
        {
            "queued": 12, "running": 3, "failed": 4, "completed": 1200, "cancelled": 1, "skipped": 0,
            "counted_at": None,
        }
    )  # fmt: skip


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


class HandledRecords(Record):
    results: list[HandledRecord] = Field(description="One for each job that was named, in order.")
    changed: int
