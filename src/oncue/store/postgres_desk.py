"""Limits, progress, tokens, the audit log and kept requests on PostgreSQL. The statements are in postgres_desk.sql."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.model import Age, AuditEntry, Count, KeptRequest, LimitedQueue, Limits, Note, Progress, Sample, Token
from oncue.store.postgres_ledger import PostgresLedger
from oncue.store.tables import seatings


class PostgresDesk(PostgresLedger):
    """The part of the store that serves operators and callers."""

    async def session_limits(self) -> tuple[str, int, int]:
        """The role of a session, and after how many milliseconds it gives up: a lock, an idle transaction. 0: never."""
        role, lock, idle = (await self._fetch("session_limits"))[0]
        return role, lock, idle

    @property
    def pooled(self) -> bool:
        """Whether a pooler was met, and statements are prepared all the same."""
        return self._connections.pooled

    # --- queues -------------------------------------------------------------------------------------------------

    async def limits(self, queue: str) -> Limits:
        rows = await self._fetch("limits", queue)
        return Limits(*rows[0]) if rows else Limits()

    async def limit(
        self, queue: str, known: Limits, limits: Limits, now: datetime, *, note: Note | None = None
    ) -> bool:
        took = await self._noted(
            "limit", now, note, queue, known.globally, known.per_node, limits.globally, limits.per_node
        )
        self._hints.send()
        return took

    async def seating(self, queues: Sequence[str], tasks: Sequence[str]) -> list[LimitedQueue]:
        return seatings(tuple(row) for row in await self._fetch("seating", queues, tasks))

    async def take_seats(self, queue: str, version: int, node: UUID, seats: int, wanted: int) -> bool:
        return bool(await self._fetch("take_seats", queue, version, node, seats, wanted))

    # --- progress -----------------------------------------------------------------------------------------------

    async def report_progress(self, progress: Sequence[Progress]) -> None:
        if progress:
            await self._fetch_past_locks("report_progress", *(list(column) for column in zip(*progress, strict=True)))

    # --- counting -----------------------------------------------------------------------------------------------

    async def count(self, limit: int) -> list[Count]:
        return [Count(*row) for row in await self._fetch("live_counts", limit)]

    async def keep_sample(self, sample: Sample) -> None:
        await self._fetch("keep_sample", sample.at, json.dumps(sample.counts))

    async def last_sample(self) -> Sample | None:
        rows = await self._fetch("last_sample")
        return Sample(rows[0][0], [Count(*count) for count in json.loads(rows[0][1])]) if rows else None

    async def ages(self, now: datetime, heads: int) -> list[Age]:
        return [Age(*row) for row in await self._fetch("ages", now, heads)]

    # --- tokens -------------------------------------------------------------------------------------------------

    async def add_token(self, token: Token, *, note: Note | None = None) -> None:
        fields = (token.id, token.name, token.digest, list(token.scopes), token.created_by, token.expires_at)
        await self._noted("add_token", token.created_at, note, *fields)

    async def token(self, token_id: str) -> Token | None:
        rows = await self._fetch("token", token_id)
        return _token(rows[0]) if rows else None

    async def tokens(self) -> list[Token]:
        return [_token(row) for row in await self._fetch("tokens")]

    async def has_tokens(self) -> bool:
        return bool((await self._fetch("has_tokens"))[0][0])

    async def revoke_token(self, token_id: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._noted("revoke_token", now, note, token_id)

    async def mark_token_used(self, token_id: str, now: datetime) -> None:
        await self._fetch("mark_token_used", token_id, now)

    # --- the audit log ------------------------------------------------------------------------------------------

    async def audit_log(
        self, *, actor: str | None = None, subject: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        rows = await self._fetch("audit_log", actor, subject, before, limit)
        return [AuditEntry(*row[:5], *(None if text is None else json.loads(text) for text in row[5:])) for row in rows]

    async def prune_audit_log(self, before: datetime, limit: int) -> int:
        async with self._connections.use() as connection:
            return int((await connection.execute(self._sql["prune_audit_log"], before, limit)).split()[-1])

    # --- requests -----------------------------------------------------------------------------------------------

    async def begin_request(self, actor: str, key: str, request: KeptRequest) -> KeptRequest | None:
        fields = (request.fingerprint, request.started_at, list(request.ids))
        while True:
            if await self._fetch("begin_request", actor, key, *fields):
                return None
            rows = await self._fetch("request", actor, key)
            if rows:  # else it was forgotten in between
                fingerprint, started_at, ids, status, answer = rows[0]
                return KeptRequest(fingerprint, started_at, tuple(ids), status, answer)

    async def end_request(self, actor: str, key: str, status: int, answer: str) -> None:
        await self._fetch("end_request", actor, key, status, answer)

    async def forget_request(self, actor: str, key: str) -> None:
        await self._fetch("forget_request", actor, key)

    async def prune_requests(self, before: datetime, limit: int) -> int:
        async with self._connections.use() as connection:
            return int((await connection.execute(self._sql["prune_requests"], before, limit)).split()[-1])


def _token(row: Iterable[Any]) -> Token:
    token_id, name, digest, scopes, *rest = row
    return Token(token_id, name, digest, tuple(scopes), *rest)
