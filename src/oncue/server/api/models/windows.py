"""Bodies about windows and their subjects."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, TypeAlias

from pydantic import ConfigDict, Field, StrictStr, WithJsonSchema

from oncue.policy.subjects import LONGEST_NAME, MOST_ROWS, WEEKDAYS
from oncue.policy.windows import MOST_DAYS_OFF
from oncue.records.windows import SUBJECT_EXAMPLE, BucketRecord, LedgerRecord, RowRecord, SubjectRecord, WindowRecord
from oncue.server.api.models.base import Body, Record

TimeText: TypeAlias = Annotated[
    StrictStr,
    WithJsonSchema({"type": "string", "pattern": "^([01]?[0-9]|2[0-3]):[0-5][0-9]$", "examples": ["09:00"]}),
]
DayText: TypeAlias = Annotated[
    StrictStr, WithJsonSchema({"type": "string", "format": "date", "examples": ["2030-12-24"]})
]
WeekdayList: TypeAlias = Annotated[
    list[StrictStr],
    WithJsonSchema(
        {"type": "array", "minItems": 1, "maxItems": 7, "items": {"type": "string", "enum": [*WEEKDAYS]}}
    ),
]  # fmt: skip
Arguments: TypeAlias = Annotated[
    dict[str, Any], Field(description="Arguments of its own by name; they are checked against the task's type hints.")
]


class SubjectTerms(Body):
    """What a subject can be told. Null is the same as nothing."""

    tz: StrictStr | None = Field(None, description="A time zone such as Europe/Berlin; null: the window's.")
    weekdays: StrictStr | WeekdayList | None = Field(None, description="Such as MON-FRI; null: every day.")
    days_off: list[DayText] | None = Field(None, max_length=MOST_DAYS_OFF, description="Dates without a window.")
    args: Arguments | None = None


class NewSubject(SubjectTerms):
    """A subject: what it is told is all that holds afterwards."""

    model_config = ConfigDict(json_schema_extra={"examples": [SUBJECT_EXAMPLE]})

    at: TimeText = Field(description="When its day is over, in its zone.")


class SubjectChange(SubjectTerms):
    """What shall be different. Fields that are absent keep their value; null takes back what was set."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"at": "10:00"}, {"tz": None}]})

    at: TimeText | None = Field(None, description="When its day is over; null is the same as nothing.")


class SubjectRow(NewSubject):
    model_config = ConfigDict(json_schema_extra={"examples": [{"subject": "ann", **SUBJECT_EXAMPLE}]})

    subject: StrictStr = Field(description=f"Its name, of up to {LONGEST_NAME} printable characters.")


class SubjectRows(Body):
    """Subjects to be added or changed."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"subjects": [{"subject": "ann", "at": "09:00", "tz": "Europe/Berlin"}]}]}
    )

    subjects: list[SubjectRow] = Field(min_length=1, max_length=MOST_ROWS)


# --- looking --------------------------------------------------------------------------------------------------------


class Windows(Record):
    windows: list[WindowRecord] = Field(description="By name.")


class SubjectPage(Record):
    """Subjects by name."""

    subjects: list[SubjectRecord]
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")


class DayOfWindow(Record):
    """What a day came to, by the minute of the cutoff in UTC."""

    window: str
    day: date
    buckets: list[BucketRecord]


class SubjectLedger(Record):
    """What became of the days of a subject, oldest first."""

    days: list[LedgerRecord]
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")


class AddedRows(Record):
    """What came of each row, in the same order."""

    subjects: list[RowRecord]
    written: int
    """How many were added or changed."""
    invalid: int
    """How many were left out, for what is wrong with them."""
