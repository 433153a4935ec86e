"""Bodies about queues, nodes, tokens and the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import ConfigDict, Field, StrictInt, StrictStr, WithJsonSchema

from oncue.model import AuditEntry, Group, Queue, Scope
from oncue.policy.checks import LARGEST_LIMIT, LONGEST_NAME
from oncue.records.access import TokenRecord
from oncue.records.documents import RULES, rules
from oncue.records.nodes import NodeRecord
from oncue.server.api.models.base import WHOLE, Body, DurationValue, InstantText, Record

LimitValue: TypeAlias = Annotated[StrictInt, Field(ge=1, le=LARGEST_LIMIT), WHOLE]


RateText: TypeAlias = Annotated[
    StrictStr,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(1000000|[1-9][0-9]{0,5})/(s|sec|second|m|min|minute|h|hour|d|day)$",
            "examples": ["10/s", "600/min", "5/h"],
        }
    ),
]
"""So many jobs in a second, minute, hour or day; `policy/rates.py` reads it."""
GroupName: TypeAlias = Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_NAME)]


class LimitsChange(Body):
    """How many jobs of a queue may run at once, and how many may start in a while. A field that is absent stays; null
    lifts the limit."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"global": 50, "per_node": None, "per_group": 4, "rate_per_group": "10/s"},
                {"group": "tenant:7", "per_group": 1},
            ]
        }
    )

    globally: LimitValue | None = Field(None, alias="global", description="At once on all nodes together.")
    per_node: LimitValue | None = Field(None, description="At once on each node.")
    per_group: LimitValue | None = Field(None, description="At once of each group, on all nodes together.")
    rate: RateText | None = Field(None, description="So many may start, on all nodes together.")
    rate_per_group: RateText | None = Field(None, description="So many of each group may start.")
    group: GroupName | None = Field(
        None, description="Set `per_group` and `rate_per_group` for this group alone; the others are the queue's."
    )


class QueuePause(Body):
    """What to pause: all of the queue, or one of its groups."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"group": "tenant:7", "for": "10m"}]})

    group: GroupName | None = Field(default=None, description="Only this group.")
    until: InstantText | None = Field(default=None, description="Of a group: until then, not until it is resumed.")
    for_: DurationValue | None = Field(
        default=None, alias="for", description="Of a group: for so long; or give `until`."
    )


class QueueResume(Body):
    """What to resume: all of the queue, or one of its groups."""

    group: GroupName | None = Field(None, description="Only this group.")


@dataclass(frozen=True, slots=True)
class QueueRecord(Queue):
    """A queue: what was set for it, and what was last counted in it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(
        {
            "name": "mail", "paused_at": None, "queued": 12, "running": 3, "later": 2, "succeeded": 1200,
            "failed": 4, "cancelled": 1, "skipped": 0, "global_limit": 50, "node_limit": None, "group_limit": 4,
            "rate": None, "group_rate": "10/s", "counted_at": None,
        }
    )  # fmt: skip


class Queues(Record):
    queues: list[QueueRecord]


@dataclass(frozen=True, slots=True)
class GroupRecord(Group):
    """A group of a queue: what waits and runs of it, and what holds for it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(
        {
            "queue": "mail", "name": "tenant:7", "queued": 12, "running": 4, "limit": 4, "rate": "10/s",
            "rated_until": None, "paused_until": None, "has_settings": False, "trips": 0,
        }
    )  # fmt: skip


class GroupPage(Record):
    groups: list[GroupRecord] = Field(description="By name.")
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")


class Nodes(Record):
    nodes: list[NodeRecord]


# --- tokens ---------------------------------------------------------------------------------------------------------


class NewToken(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ci", "scopes": ["enqueue"], "expires": "90d"}]})

    name: StrictStr = Field(min_length=1, max_length=LONGEST_NAME)
    scopes: list[Scope] = Field(min_length=1, max_length=10)
    expires: DurationValue | None = Field(None, description="So long from now; never by default.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedToken(TokenRecord):
    """A new token, with its secret."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    token: str
    """The credential itself. It is told once, and kept nowhere."""


class TokenList(Record):
    tokens: list[TokenRecord]


# --- the audit log --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuditEntryRecord(AuditEntry):
    """A change that an operator made by hand."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(
        {
            "id": 9, "at": "2030-01-31T09:00:00Z", "actor": "ops#k3x2m7qa", "action": "job.retry",
            "subject": "job:42", "before": {"status": "failed"}, "after": {"status": "queued"},
        }
    )  # fmt: skip


class AuditPage(Record):
    entries: list[AuditEntryRecord] = Field(description="Newest first.")
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")


# --- the process ----------------------------------------------------------------------------------------------------


class Health(Record):
    status: str = Field(examples=["ok"])


class Ready(Record):
    """Whether this process may be given work, and why not."""

    model_config = ConfigDict(extra="allow")

    status: str = Field(
        examples=["ready"],
        description="ready, standing_by, draining, lease_lost, database_full or database_unavailable",
    )
    database: dict[str, Any]
