"""Bodies about queues, nodes, tokens and the audit log."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias
from uuid import UUID

from pydantic import ConfigDict, Field, StrictInt, StrictStr

from oncue.checks import LARGEST_LIMIT, LONGEST_NAME
from oncue.model import Scope
from oncue.server.api.models.base import WHOLE, Body, DurationValue, Instant, Record

LimitValue: TypeAlias = Annotated[StrictInt, Field(ge=1, le=LARGEST_LIMIT), WHOLE]


class LimitsChange(Body):
    """How many jobs of a queue may run at once. A field that is absent stays; null lifts the limit."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"global": 50, "per_node": None}]})

    globally: LimitValue | None = Field(None, alias="global", description="On all nodes together.")
    per_node: LimitValue | None = Field(None, description="On each node.")


class QueueRecord(Record):
    """A queue: what was set for it, and what was last counted in it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "mail", "paused_at": None, "queued": 12, "running": 3, "later": 2, "succeeded": 1200,
                    "failed": 4, "cancelled": 1, "skipped": 0, "global_limit": 50, "node_limit": None,
                    "counted_at": None,
                }
            ]
        }
    )  # fmt: skip

    name: str
    paused_at: Instant | None
    queued: int = Field(description="Due, and waiting for a worker.")
    running: int
    later: int = Field(description="Scheduled or retrying: not due yet.")
    succeeded: int = Field(description="Since the beginning, pruned jobs included.")
    failed: int
    cancelled: int
    skipped: int
    global_limit: int | None = Field(description="How many may run at once on all nodes together.")
    node_limit: int | None = Field(description="How many may run at once on each node.")
    counted_at: Instant | None = Field(description="When what waits was counted; null: just now.")


class Queues(Record):
    queues: list[QueueRecord]


class NodeRecord(Record):
    """A worker process."""

    id: UUID
    name: str
    alive: bool
    holds: list[str] = Field(description="The leases that it holds: `leader`, `exclusive`.")
    exclusive: bool
    host: str
    pid: int
    version: str
    queues: list[str]
    tasks: list[str]
    concurrency: int
    address: str | None
    started_at: Instant
    beat_at: Instant
    expires_at: Instant


class Nodes(Record):
    nodes: list[NodeRecord]


class LeaderRecord(Record):
    """Who leads; or that nobody does, and since when (null: nobody ever has)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "worker-1", "id": "4b7a1c9e-0d5f-4c5e-9d57-3a2f0f6a3b11", "epoch": 7,
                    "since": "2030-01-31T09:00:00Z", "none_since": None,
                }
            ]
        }
    )  # fmt: skip

    name: str | None
    id: UUID | None = None
    epoch: int | None = None
    since: Instant | None = None
    none_since: Instant | None = None


# --- tokens ---------------------------------------------------------------------------------------------------------


class NewToken(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ci", "scopes": ["enqueue"], "expires": "90d"}]})

    name: StrictStr = Field(min_length=1, max_length=LONGEST_NAME)
    scopes: list[Scope] = Field(min_length=1, max_length=10)
    expires: DurationValue | None = Field(None, description="So long from now; never by default.")


class TokenRecord(Record):
    """A credential of the API, without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    created_by: str
    created_at: Instant
    expires_at: Instant | None
    revoked_at: Instant | None
    last_used_at: Instant | None


class CreatedToken(TokenRecord):
    token: str = Field(description="The credential itself. It is told once, and kept nowhere.")


class TokenList(Record):
    tokens: list[TokenRecord]


# --- the audit log --------------------------------------------------------------------------------------------------


class AuditEntryRecord(Record):
    """A change that somebody made by hand."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": 9, "at": "2030-01-31T09:00:00Z", "actor": "ops#k3x2m7qa", "action": "job.retry",
                    "subject": "job:42", "before": {"status": "failed"}, "after": {"status": "queued"},
                }
            ]
        }
    )  # fmt: skip

    id: int
    at: Instant
    actor: str
    action: str
    subject: str
    before: Any
    after: Any


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
