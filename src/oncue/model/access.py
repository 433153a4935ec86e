"""Tokens, sessions of browsers, the audit log, and requests that carried an idempotency key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

Scope: TypeAlias = Literal["read", "enqueue", "operate", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "enqueue", "operate", "admin")


class Note(NamedTuple):
    """A line of the audit log, as the author of a change hands it in: it is written if the change is."""

    actor: str
    action: str
    subject: str
    before: Any = None
    after: Any = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change that an operator made by hand."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Token:
    """A credential of the API, without its secret."""

    id: str
    name: str
    digest: str
    scopes: tuple[Scope, ...]
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that came in with a token, without its secret. It may what its token may, while that is valid."""

    id: str
    digest: str
    token_id: str
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """A request that carried an idempotency key. While it has no `status`, it is being answered, or was cut off."""

    fingerprint: str
    started_at: datetime
    ids: tuple[int, ...]
    """The numbers that were reserved for the jobs that it makes: written again under them, they are written once."""
    status: int | None = None
    answer: str | None = None
