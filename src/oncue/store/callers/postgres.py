"""The steps of an enqueue on a caller's connection to PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from oncue.errors import SchemaMismatch
from oncue.model import Batch, Declaration, Owner, Receipt
from oncue.store import statements
from oncue.store.callers.connections import CallerConnection
from oncue.store.postgres.inserting import Statements, insert, receipts_of

# One trip for both. Where there are no oncue tables the ids are nulls: an error would end the caller's transaction.
STATEMENTS = {
    "reserve": "select clock_timestamp(), array_agg(nextval(to_regclass('oncue_job_ids'))) from generate_series(1, $1)",
    "version": "select max(number) from oncue_migrations",
    "declaration": """
select reason, options from oncue_schedules where name = $1 and declared_by is not null and deleted_at is null
""",
    "notify_later": "select pg_notify('oncue', 'later')",
}


@cache
def _own(schema: str) -> Statements:
    return {name: statements.qualified(text, schema) for name, text in STATEMENTS.items()}


class OnPostgres:
    def __init__(self, connection: CallerConnection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._own = _own(schema)
        self._sql = statements.load("postgres", schema)

    async def reserve(self, count: int) -> tuple[list[int], datetime]:
        """Numbers for new jobs, and the time. A transaction that is rolled back leaves a gap in the numbers."""
        ((now, ids),) = await self._connection.fetch(self._own["reserve"], count)
        if None in ids:
            raise SchemaMismatch(f"on: the database of this connection {statements.no_tables(self._schema)}")
        return list(ids), now.astimezone(UTC)

    async def version(self) -> int:
        ((number,),) = await self._connection.fetch(self._own["version"])
        return int(number)

    async def declaration(self, name: str) -> Declaration | None:
        """What is stored of the schedule that code declares under this name."""
        rows = await self._connection.fetch(self._own["declaration"], name)
        return Declaration(*rows[0]) if rows else None

    async def owner(self) -> Owner | None:
        """The application that the tables belong to."""
        rows = await self._connection.fetch(self._sql["owner"])
        return Owner(*rows[0]) if rows else None

    async def enqueue(self, batch: Batch) -> list[Receipt]:
        """Write a batch in one statement, so that it is all or nothing also where every statement is committed alone.

        The workers' hint travels with it, always: it is delivered at the commit. Elsewhere hints are gathered and sent
        a few milliseconds later, but here oncue is not told when the caller commits.
        """
        soon = batch.state == "queued"
        written = await insert(self._sql, self._connection, [batch], tell=soon)
        receipts = await receipts_of(self._sql, self._connection, batch, written, tell=soon)
        if not soon and any(receipt.created for receipt in receipts):
            await self._connection.fetch(self._own["notify_later"])
        return receipts
