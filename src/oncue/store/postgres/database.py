"""The database behind the nouns of the PostgreSQL store: its connections, its statements, its notifications."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import asyncpg

from oncue.errors import NameClash, RowLocked, StoreError
from oncue.model import Note
from oncue.store import statements
from oncue.store.postgres.connections import Connection, Connections, Loan
from oncue.store.postgres.notifications import Notifications
from oncue.store.shared import note_row

DIALECT = "postgres"
ANSWER_SECONDS = 15.0
MIGRATION_SECONDS = 3600.0
MIGRATION_LOCK_SECONDS = 60
# One migration of a schema at a time, in whatever process it was started; the number is arbitrary and only ours.
MIGRATION_LOCK = 0x6F6E6375


class Database:
    """The tables in one schema of a database."""

    def __init__(
        self, dsn: str, *, schema: str, size: int, prepare: bool, listen: bool, patience: float | None
    ) -> None:
        self.schema = schema
        self.patience = patience or ANSWER_SECONDS
        self.connections = Connections(dsn, size, prepare=prepare, timeout=self.patience)
        self.notifications = Notifications(self.connections, statements.channel(schema), listen=listen)
        self.sql = statements.load(DIALECT, schema)
        self._anew = 0

    async def open(self) -> None:
        statements.check_version(DIALECT, await self.version(), self.schema)

    async def close(self) -> None:
        try:
            await self.notifications.close()
        finally:  # also when the caller is cut off
            await self.connections.close()

    # --- statements ---------------------------------------------------------------------------------------------

    def use(self, seconds: float | None = None) -> Loan:
        """A connection for the length of an `async with`, which may last so long."""
        return self.connections.use(seconds)

    async def fetch(self, statement: str, *parameters: Any) -> list[asyncpg.Record]:
        async with self.connections.use() as connection:
            return await connection.fetch(self.sql[statement], *parameters)

    async def fetch_by_size(self, statement: str, size: int, *parameters: Any) -> list[asyncpg.Record]:
        """Ask by a plan of its own for each order of magnitude of `size`, which is how much there was to do so far.

        PostgreSQL keeps the plan of a prepared statement until the tables are analysed. A plan that was made while they
        were empty reads them whole, for each group, once there are many.
        """
        async with self.connections.use() as connection:
            return await connection.fetch(f"-- {len(str(size))}\n{self.sql[statement]}", *parameters)

    async def fetch_anew(self, statement: str, *parameters: Any) -> list[asyncpg.Record]:
        """Ask by a plan that is made for this call. For what is asked rarely and reads much, so that no plan is kept
        from when there was little."""
        self._anew += 1
        async with self.connections.use() as connection:
            return await connection.fetch(f"-- {self._anew}\n{self.sql[statement]}", *parameters)

    async def fetch_past_locks(self, statement: str, *parameters: Any) -> list[asyncpg.Record]:
        """Ask by the plain statement. If a lock is in its way for too long, by the one that passes over locked rows."""
        try:
            return await self.fetch(statement, *parameters)
        except RowLocked:
            return await self.fetch(f"{statement}_free", *parameters)

    async def noted(self, statement: str, now: datetime, note: Note | None, *parameters: Any) -> bool:
        """Make a change by a statement that returns a row if it takes, and that writes its line of the audit log."""
        line = [None] * 5 if note is None else note_row(note)
        return bool(await self.fetch(statement, now, *line, *parameters))

    async def execute(self, statement: str, *parameters: Any) -> int:
        """Write by one statement; how many rows it touched."""
        async with self.connections.use() as connection:
            status = await connection.execute(self.sql[statement], *parameters)
        return int(status.split()[-1])

    # --- the tables ---------------------------------------------------------------------------------------------

    async def version(self) -> int:
        """The number of the last migration, 0 on an empty database."""
        async with self.connections.use() as connection:
            return await self._version(connection)

    async def _version(self, connection: Connection) -> int:
        if not await connection.fetchval("select to_regclass($1) is not null", f'"{self.schema}".oncue_migrations'):
            return 0
        number: int = await connection.fetchval(
            f'select coalesce(max(number), 0) from "{self.schema}".oncue_migrations'
        )
        return number

    async def migrate(self) -> list[str]:
        async with self.connections.use(MIGRATION_SECONDS) as connection, connection.transaction():
            await connection.execute(f"set local lock_timeout = '{MIGRATION_LOCK_SECONDS}s'")
            await connection.execute(
                "select pg_advisory_xact_lock($1, hashtext($2))", MIGRATION_LOCK, self.schema,
                timeout=MIGRATION_LOCK_SECONDS + ANSWER_SECONDS,
            )  # fmt: skip
            await self._enter_schema(connection)
            await connection.execute(
                "create table if not exists oncue_migrations "
                "(number integer primary key, name text not null, applied_at timestamptz not null)"
            )
            done = await self._version(connection)
            missing = [step for step in statements.migrations(DIALECT) if step.number > done]
            applied_at = await _time(connection)
            for step in missing:
                await connection.execute(step.script)
                await connection.execute(
                    "insert into oncue_migrations values ($1, $2, $3)", step.number, step.name, applied_at
                )
            return [step.name for step in missing]

    async def _enter_schema(self, connection: Connection) -> None:
        """Make the schema if it is missing, and let names without one mean it until the end of the transaction."""
        look = "select current_user, exists (select from pg_namespace where nspname = $1)"
        role, is_there = (await connection.fetch(look, self.schema))[0]
        if not is_there:
            try:
                await connection.execute(f'create schema "{self.schema}"')
            except asyncpg.InsufficientPrivilegeError as error:
                raise StoreError(
                    f"the database has no schema {self.schema!r}, and the role {role!r} may not create it ({error}): "
                    f'let an administrator run: create schema "{self.schema}" authorization "{role}"'
                ) from error
        await connection.execute(f'set local search_path = "{self.schema}"')

    async def create_views(self) -> list[str]:
        views = statements.views(DIALECT)
        async with self.connections.use() as connection, connection.transaction():
            await self._enter_schema(connection)
            for name, script in views.items():
                is_ours = await connection.fetchval(
                    "select c.relkind = 'v' and coalesce(obj_description(c.oid, 'pg_class'), '') = 'made by oncue' "
                    "from pg_class c where c.oid = to_regclass($1)", f'"{self.schema}".{name}'
                )  # fmt: skip
                if is_ours is False:
                    raise NameClash(f"{name}: the database has a table or view of this name that is not oncue's")
                await connection.execute(script)
        return list(views)

    async def time(self) -> datetime:
        async with self.connections.use() as connection:
            return await _time(connection)


async def _time(connection: Connection) -> datetime:
    # The one place where the database's clock is read: everything else gets its time from here.
    told: datetime = await connection.fetchval("select clock_timestamp()")
    return told
