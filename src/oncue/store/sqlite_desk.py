"""Limits, progress, tokens, the audit log and kept requests on SQLite. The statements are in sqlite_desk.sql."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.model import Age, AuditEntry, Count, KeptRequest, LimitedQueue, Limits, Note, Progress, Sample, Token
from oncue.store import sqlite_values as values
from oncue.store.sqlite_ledger import SqliteLedger
from oncue.store.tables import note_row, seatings


class SqliteDesk(SqliteLedger):
    """The part of the store that serves operators and callers."""

    def _add_notes(self, connection: sqlite3.Connection, notes: Sequence[Note | None], now: datetime) -> None:
        """Write the lines of the audit log that there are, in the transaction of their changes."""
        rows = [note_row(note) for note in notes if note is not None]
        if rows:
            connection.execute(self._sql["add_notes"], {"now": values.micros(now), "notes": json.dumps(rows)})

    async def _noted(self, name: str, now: datetime, note: Note | None, /, **parameters: Any) -> bool:
        """Make a change by a statement that touches a row if it takes, and note it."""

        def work(connection: sqlite3.Connection) -> bool:
            took = connection.execute(self._sql[name], {**parameters, "now": values.micros(now)}).rowcount > 0
            if took:
                self._add_notes(connection, [note], now)
            return took

        return await self._writer.write(work)

    # --- queues -------------------------------------------------------------------------------------------------

    async def limits(self, queue: str) -> Limits:
        rows = await self._rows("limits", queue=queue)
        return Limits(*rows[0]) if rows else Limits()

    async def limit(
        self, queue: str, known: Limits, limits: Limits, now: datetime, *, note: Note | None = None
    ) -> bool:
        return await self._noted(
            "limit", now, note, queue=queue, globally=limits.globally, per_node=limits.per_node,
            known_globally=known.globally, known_per_node=known.per_node,
        )  # fmt: skip

    async def seating(self, queues: Sequence[str], tasks: Sequence[str]) -> list[LimitedQueue]:
        rows = await self._rows("seating", queues=json.dumps(list(queues)), tasks=json.dumps(list(tasks)))
        return seatings((*row[:4], bool(row[4]), values.uuid(row[5]), *row[6:]) for row in rows)

    async def take_seats(self, queue: str, version: int, node: UUID, seats: int, wanted: int) -> bool:
        parameters = {"queue": queue, "version": version, "node": str(node), "seats": seats, "wanted": wanted}

        def work(connection: sqlite3.Connection) -> bool:
            if not connection.execute(self._sql["take_turn"], parameters).rowcount:
                return False
            connection.execute(self._sql["free_seats"], parameters)
            connection.execute(self._sql["take_seats"], parameters)
            return True

        return await self._writer.write(work)

    # --- progress -----------------------------------------------------------------------------------------------

    async def report_progress(self, progress: Sequence[Progress]) -> None:
        if progress:
            rows = [(*told[:4], values.micros(told.told_at)) for told in progress]
            await self._write("report_progress", progress=json.dumps(rows))

    # --- counting -----------------------------------------------------------------------------------------------

    async def count(self, limit: int) -> list[Count]:
        return [Count(*row) for row in await self._rows("live_counts", limit=limit)]

    async def keep_sample(self, sample: Sample) -> None:
        await self._write("keep_sample", now=values.micros(sample.at), counts=json.dumps(sample.counts))

    async def last_sample(self) -> Sample | None:
        rows = await self._rows("last_sample")
        if not rows:
            return None
        return Sample(values.instant(rows[0][0]), [Count(*count) for count in json.loads(rows[0][1])])

    async def ages(self, now: datetime, heads: int) -> list[Age]:
        rows = await self._rows("ages", now=values.micros(now), heads=heads)
        return [Age(kind, queue, task, values.instant(since)) for kind, queue, task, since in rows]

    # --- tokens -------------------------------------------------------------------------------------------------

    async def add_token(self, token: Token, *, note: Note | None = None) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                self._sql["add_token"],
                {
                    "id": token.id,
                    "name": token.name,
                    "digest": token.digest,
                    "scopes": json.dumps(token.scopes),
                    "created_by": token.created_by,
                    "created_at": values.micros(token.created_at),
                    "expires_at": values.micros_or_none(token.expires_at),
                },
            )
            self._add_notes(connection, [note], token.created_at)

        await self._writer.write(work)

    async def token(self, token_id: str) -> Token | None:
        rows = await self._rows("token", token_id=token_id)
        return _token(rows[0]) if rows else None

    async def tokens(self) -> list[Token]:
        return [_token(row) for row in await self._rows("tokens")]

    async def has_tokens(self) -> bool:
        return bool(await self._value("has_tokens"))

    async def revoke_token(self, token_id: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._noted("revoke_token", now, note, token_id=token_id)

    async def mark_token_used(self, token_id: str, now: datetime) -> None:
        await self._write("mark_token_used", token_id=token_id, now=values.micros(now))

    # --- the audit log ------------------------------------------------------------------------------------------

    async def audit_log(
        self, *, actor: str | None = None, subject: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        rows = await self._rows("audit_log", actor=actor, subject=subject, before=before, limit=limit)
        return [
            AuditEntry(row[0], values.instant(row[1]), *row[2:5], *(text and json.loads(text) for text in row[5:]))
            for row in rows
        ]

    async def prune_audit_log(self, before: datetime, limit: int) -> int:
        return await self._write("prune_audit_log", before=values.micros(before), limit=limit)

    # --- requests -----------------------------------------------------------------------------------------------

    async def begin_request(self, actor: str, key: str, request: KeptRequest) -> KeptRequest | None:
        parameters = {
            "actor": actor,
            "key": key,
            "fingerprint": request.fingerprint,
            "started_at": values.micros(request.started_at),
            "ids": json.dumps(request.ids),
        }

        def work(connection: sqlite3.Connection) -> Any:
            if connection.execute(self._sql["begin_request"], parameters).rowcount > 0:
                return None
            return connection.execute(self._sql["request"], {"actor": actor, "key": key}).fetchone()

        kept = await self._writer.write(work)
        if kept is None:
            return None
        fingerprint, started_at, ids, status, answer = kept
        return KeptRequest(fingerprint, values.instant(started_at), tuple(json.loads(ids)), status, answer)

    async def end_request(self, actor: str, key: str, status: int, answer: str) -> None:
        await self._write("end_request", actor=actor, key=key, status=status, answer=answer)

    async def forget_request(self, actor: str, key: str) -> None:
        await self._write("forget_request", actor=actor, key=key)

    async def prune_requests(self, before: datetime, limit: int) -> int:
        return await self._write("prune_requests", before=values.micros(before), limit=limit)


def _token(row: Sequence[Any]) -> Token:
    token_id, name, digest, scopes, created_by, *instants = row
    times = map(values.instant_or_none, instants[1:])
    return Token(token_id, name, digest, tuple(json.loads(scopes)), created_by, values.instant(instants[0]), *times)
