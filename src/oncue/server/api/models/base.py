"""What all bodies have in common, and the kinds of values in them."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)

from oncue.model import MAX_PRIORITY, STATES
from oncue.policy.statuses import ALIASES

LARGEST_ID = 2**63 - 1


class Body(BaseModel):
    """What a request says. An unknown field is refused: it may be a known one, misspelt."""

    model_config = ConfigDict(extra="forbid")


class Record(BaseModel):
    """What is answered."""

    model_config = ConfigDict(extra="forbid")


DurationPattern = r"^(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d))*$"


def _duration(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("expected a duration such as '30s' or '10m', or a number of seconds")
    if not isinstance(value, str) and not 0 <= value <= LARGEST_ID:  # a larger one does not even fit into a float
        raise ValueError("expected a duration between 0 and 100 years")
    return value


DurationValue: TypeAlias = Annotated[
    str | float,
    PlainValidator(_duration),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "pattern": DurationPattern}, {"type": "number", "minimum": 0}],
            "examples": ["10m", "1h30m", 90],
            "description": "A duration: seconds, or a text with units (ns, us, ms, s, m, h, d).",
        }
    ),
]
"""A duration as people write it. The verbs check it, and say what they expect."""

InstantText: TypeAlias = Annotated[
    StrictStr, WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2030-01-31T09:00:00Z"]})
]
"""An instant in a request; `policy/moments.py` reads it."""

Instant: TypeAlias = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""An instant in an answer: in UTC, written with a Z."""


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 73.0 is a whole one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""Comes after the bounds of a number: those that come later would be missing in the OpenAPI document."""
Priority: TypeAlias = Annotated[StrictInt, Field(ge=0, le=MAX_PRIORITY, description="From 0 to 100, 100 first."), WHOLE]
STATUS_WORD = rf"\s*({'|'.join((*STATES, *ALIASES))})\s*"
StatusFilter: TypeAlias = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": f"^({STATUS_WORD}(,{STATUS_WORD})*)?$"})
]
Status: TypeAlias = Annotated[
    str, WithJsonSchema({"type": "string", "enum": [*STATES], "description": "The state that the job is in."})
]
WantedStatus: TypeAlias = Annotated[
    StrictStr,
    WithJsonSchema(
        {
            "type": "string",
            "enum": [*STATES, *ALIASES],
            "description": "`crawling` is another name for running, `success` for succeeded.",
        }
    ),
]
Arguments: TypeAlias = Annotated[
    dict[str, Any], Field(description="The task's arguments by name; they are checked against its type hints.")
]


class FieldProblem(Record):
    """What is wrong with one field."""

    field: str = Field(description="The field, with dots for what is inside of others.")
    message: str = Field(description="What is expected.")
    position: int | None = Field(None, description="A column in the field's text, counted from 1.")


class LeaderPlace(Record):
    """The node that leads."""

    name: str
    address: str | None = Field(description="Of its API; null if it is unknown, or one that you cannot reach.")


class ProblemDocument(BaseModel):
    """A problem (RFC 9457), sent as application/problem+json."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "/problems/invalid-field",
                    "title": "A field is not as expected",
                    "status": 422,
                    "detail": "priority: expected at most 100, not 500",
                    "instance": "/api/admin/jobs/7/priority",
                    "errors": [{"field": "priority", "message": "expected at most 100, not 500"}],
                }
            ]
        }
    )

    type: str = Field(description="The sort of problem, always the same for the same sort.")
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldProblem] | None = None
    job_id: int | None = Field(None, description="The job that is in the way.")
    leader: LeaderPlace | None = Field(None, description="The node to ask instead; null while no node leads.")
    needed_scope: str | None = Field(None, description="The scope that a token would need.")
