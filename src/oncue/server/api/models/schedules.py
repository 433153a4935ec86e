"""Bodies about schedules, their revisions and slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import ConfigDict, Field, StrictBool, StrictInt, StrictStr

from oncue.model import Missed
from oncue.policy.checks import LONGEST_NAME, MOST_INSTANCES, MOST_RETRIES
from oncue.policy.triggers import DstPolicy
from oncue.records.documents import RULES
from oncue.records.schedules import SCHEDULE_EXAMPLE, FireRecord, RevisionRecord, ScheduleRecord, SlotRecord
from oncue.server.api.models.base import (
    WHOLE,
    Arguments,
    Body,
    DurationValue,
    Instant,
    Priority,
    Record,
)

MomentText: TypeAlias = Annotated[
    StrictStr,
    Field(description="ISO 8601 (UTC unless it has an offset), a date, `now`, or a duration ago such as `-2h`."),
]


class Terms(Body):
    """What a schedule can be told. Null is the same as nothing: for a change, that it stays as it is."""

    description: StrictStr | None = Field(None, max_length=1000)
    task: StrictStr | None = Field(None, description="The name of a task that the application declares.")
    target: StrictStr | None = Field(None, description="Another name for `task`.")
    webhook: StrictStr | None = Field(
        None, max_length=LONGEST_NAME, description="The webhook to deliver to, instead of a task."
    )
    args: Arguments | None = Field(None, description="The task's arguments by name; of a webhook, only the `payload`.")
    cron_expression: StrictStr | None = Field(None, examples=["0 3 * * *", "@daily", "@every 90s"])
    tz: StrictStr | None = Field(None, description="A time zone such as Europe/Berlin; UTC by default.")
    dst: DstPolicy | None = Field(None, description="What a change of the clocks does to slots.")
    missed: Missed | None = Field(None, description="What becomes of slots that are found late.")
    grace: DurationValue | None = Field(None, description="A slot that starts later than this is missed.")
    max_instances: Annotated[StrictInt, Field(ge=1, le=MOST_INSTANCES), WHOLE] | None = None
    max_retries: Annotated[StrictInt, Field(ge=0, le=MOST_RETRIES), WHOLE] | None = Field(
        None, description="Of each of its jobs, instead of the task's own; a webhook has its own."
    )
    queue: StrictStr | None = Field(None, max_length=LONGEST_NAME)
    priority: Priority | None = None
    enabled: StrictBool | None = None


class NewSchedule(Terms):
    """A schedule to be made."""

    model_config = ConfigDict(json_schema_extra={"examples": [SCHEDULE_EXAMPLE]})

    name: StrictStr = Field(min_length=1, max_length=LONGEST_NAME)
    cron_expression: StrictStr = Field(examples=["0 3 * * *", "@daily", "@every 90s"])


class ScheduleChange(Terms):
    """What shall be different. Fields that are absent keep their value."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"cron_expression": "30 3 * * *", "priority": 30}]})

    name: StrictStr | None = Field(None, description="Another name. It stays the same schedule, with its slots.")


class Toggle(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"enabled": False}]})

    enabled: StrictBool


class Trigger(Body):
    """Which slot to run. Without one, the task runs now, in an extra slot."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"at": "2030-01-31T03:00:00Z"}]})

    at: MomentText | None = None


class Span(Body):
    """From the first slot to the last."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"from": "2030-01-28", "to": "now", "dry_run": True}]}, populate_by_name=False
    )

    start: MomentText = Field(alias="from")
    end: MomentText = Field("now", alias="to")
    dry_run: StrictBool = Field(False, description="Only say what would be done.")


# --- looking --------------------------------------------------------------------------------------------------------


class SchedulePage(Record):
    """Schedules by name."""

    scheduled_jobs: list[ScheduleRecord]
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")


class Revisions(Record):
    revisions: list[RevisionRecord] = Field(description="Newest first.")
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggeredSlot(SlotRecord):
    """The slot that was claimed."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    schedule: str


class SlotPage(Record):
    slots: list[SlotRecord] = Field(description="Oldest first.")
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")


class Preview(Record):
    schedule: str
    fires: list[FireRecord]


class Backfill(Record):
    """What a backfill did, or would do."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "schedule": "nightly", "from": "2030-01-28T00:00:00Z", "to": "2030-01-31T00:00:00Z", "made": 3,
                    "present": 0, "skipped": 0, "jobs": [51, 52, 53],
                }
            ]
        }
    )  # fmt: skip

    schedule: str
    start: Instant = Field(alias="from")
    end: Instant = Field(alias="to")
    made: int
    present: int = Field(description="Slots that were decided before.")
    skipped: int = Field(0, description="Slots that share the key of the first job: it stands for them.")
    jobs: list[int] = Field(default_factory=list)
    would_make: int | None = Field(None, description="Only of a dry run.")
    slots: list[Instant] | None = Field(None, description="Only of a dry run: those that would get a job.")
