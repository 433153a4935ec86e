"""Tokens, sessions of browsers, the audit log, and requests that are kept under their idempotency keys.

A change by hand carries its `Note`, which is written to the audit log in the same transaction, if the change is.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from oncue.model import AuditEntry, KeptRequest, Note, Session, Token


class Tokens(Protocol):
    async def add(self, token: Token, *, note: Note | None = None) -> None: ...

    async def get(self, token_id: str) -> Token | None: ...

    async def all(self) -> list[Token]:
        """All of them, the revoked and the expired too, oldest first."""
        ...

    async def exist(self) -> bool:
        """Whether a token was ever made."""
        ...

    async def revoke(self, token_id: str, now: datetime, *, note: Note | None = None) -> bool:
        """Revoke a token that was not revoked."""
        ...

    async def mark_used(self, token_id: str, now: datetime) -> None: ...


class Sessions(Protocol):
    async def add(self, session: Session, *, note: Note | None = None) -> None: ...

    async def get(self, session_id: str) -> Session | None: ...

    async def standing(self, now: datetime) -> list[Session]:
        """Those that have neither ended nor expired, newest first. Their tokens may be invalid by now."""
        ...

    async def end(self, session_id: str, now: datetime, *, note: Note | None = None) -> bool:
        """End a session that was not ended."""
        ...

    async def mark_used(self, session_id: str, now: datetime) -> None: ...

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` sessions that ended or expired before this instant. How many."""
        ...


class AuditLog(Protocol):
    async def page(
        self, *, actor: str | None = None, subject: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """Changes by hand, newest first; `before` is the id to go on from."""
        ...

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` entries that are older than this. How many."""
        ...


class Requests(Protocol):
    async def begin(self, actor: str, key: str, request: KeptRequest) -> KeptRequest | None:
        """Keep a request under its key; None if it is new, else the one that is kept already."""
        ...

    async def end(self, actor: str, key: str, status: int, answer: str) -> None:
        """Keep what was answered."""

    async def forget(self, actor: str, key: str) -> None:
        """The request came to nothing: its key may be used again."""

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` requests that began before this instant. How many."""
        ...
