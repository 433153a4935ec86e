"""Tokens and the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from oncue.model import AuditEntry, Scope, Session, Token
from oncue.records.documents import RULES, Document, document


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A credential of the API as anybody may see it: nothing of its secret, not even the digest."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


def token_record(token: Token) -> Document:
    return document(
        TokenRecord(
            id=token.id,
            name=token.name,
            scopes=token.scopes,
            created_by=token.created_by,
            created_at=token.created_at,
            expires_at=token.expires_at,
            revoked_at=token.revoked_at,
            last_used_at=token.last_used_at,
        )
    )


def session_record(session: Session, token: Token) -> Document:
    """A browser that is signed in, without anything of its secret."""
    return {
        "id": session.id, "token": token.id, "token_name": token.name, "scopes": list(token.scopes),
        "created_at": session.created_at.isoformat(), "expires_at": session.expires_at.isoformat(),
        "last_used_at": None if session.last_used_at is None else session.last_used_at.isoformat(),
    }  # fmt: skip


def audit_entry_record(entry: AuditEntry) -> Document:
    return document(entry)
