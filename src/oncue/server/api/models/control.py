"""Bodies about queues, nodes, tokens and the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import ConfigDict, Field, StrictInt, StrictStr

from oncue.model import AuditEntry, Queue, Scope
from oncue.policy.checks import LARGEST_LIMIT, LONGEST_NAME
from oncue.records.access import TokenRecord
from oncue.records.documents import RULES, rules
from oncue.records.nodes import NodeRecord
from oncue.server.api.models.base import WHOLE, Body, DurationValue, Record

LimitValue: TypeAlias = Annotated[StrictInt, Field(ge=1, le=LARGEST_LIMIT), WHOLE]


class LimitsChange(Body):
    """How many jobs of a queue may run at once. A field that is absent stays; null lifts the limit."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"global": 50, "per_node": None}]})

    globally: LimitValue | None = Field(None, alias="global", description="On all nodes together.")
    per_node: LimitValue | None = Field(None, description="On each node.")


@dataclass(frozen=True, slots=True)
class QueueRecord(Queue):
    """A queue: what was set for it, and what was last counted in it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(
        {
            "name": "mail", "paused_at": None, "queued": 12, "running": 3, "later": 2, "succeeded": 1200,
            "failed": 4, "cancelled": 1, "skipped": 0, "global_limit": 50, "node_limit": None,
            "counted_at": None,
        }
    )  # fmt: skip


class Queues(Record):
    queues: list[QueueRecord]


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
