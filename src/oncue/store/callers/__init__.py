"""Enqueueing, and subjects of windows, on a connection that is not ours: inside the caller's own transaction.

The job is there if and when the caller commits, and never was if it rolls back. So everything is asked of that one
connection: the time, the ids, the insert, the hint for the workers. What the database answers to it is the caller's
too: errors pass through as they are, since it is the caller who knows how to repeat its transaction.

finding      which kind of connection it is
connections  how each kind is asked, in one verb
postgres     the steps of an enqueue on PostgreSQL
sqlite       the same on SQLite
windows      subjects of windows, on both
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from oncue.errors import InvalidJob
from oncue.model import Batch, Declaration, Owner, Receipt
from oncue.store.callers.connections import CallerConnection
from oncue.store.callers.finding import connection_to, is_asynchronous
from oncue.store.callers.postgres import OnPostgres
from oncue.store.callers.sqlite import OnSqlite
from oncue.store.statements import DEFAULT_SCHEMA, check_version

if TYPE_CHECKING:
    from oncue.store.callers.windows import SubjectsOnPostgres, SubjectsOnSqlite

__all__ = ["Callers", "Home", "is_asynchronous"]

NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}

TRUSTED = timedelta(seconds=30)

Check: TypeAlias = Callable[[Declaration | None, Owner | None], None]
"""Raises an error if what is stored of the task's schedule, or whose tables these are, does not allow the enqueue."""
Make: TypeAlias = Callable[[list[int], datetime], Batch]
"""Makes the batch, once its ids and the database's time are known."""


class Home(NamedTuple):
    """Where the application's own jobs live: what a caller's connection has to lead to."""

    dialect: str
    path: str | None = None
    schema: str = DEFAULT_SCHEMA


class Callers:
    """Writes on the connections of an application's callers."""

    def __init__(self) -> None:
        self._checked = False
        self._declarations: dict[str, tuple[datetime, Declaration | None]] = {}
        self._owner: tuple[datetime, Owner | None] | None = None

    async def write(
        self, on: object, home: Home, count: int, make: Make, task: str, check: Check, *, named: bool
    ) -> tuple[Batch, list[Receipt]]:
        """Write so many jobs. Raises InvalidJob if `on` is no connection, or leads somewhere else.

        An application that is `named` is told whose tables these are.
        """
        connection = await _led_home(on, home)
        writer, ids, now = await self._begun(connection, home, count)
        owner = await self._owner_of(writer, now) if named else None
        check(await self._declaration(writer, task, now), owner)
        batch = make(ids, now)
        return batch, await writer.enqueue(batch)

    async def subjects(
        self, on: object, home: Home, check: Callable[[Owner | None], None], *, named: bool
    ) -> SubjectsOnPostgres | SubjectsOnSqlite:
        """The subjects of windows, as this connection sees and writes them. Raises InvalidJob as `write` does."""
        from oncue.store.callers.windows import SubjectsOnPostgres, SubjectsOnSqlite  # few applications have windows

        connection = await _led_home(on, home)
        writer, _, now = await self._begun(connection, home, 1)
        check(await self._owner_of(writer, now) if named else None)
        if home.path is None:
            return SubjectsOnPostgres(connection, home.schema, now)
        return SubjectsOnSqlite(connection, now)

    async def _begun(
        self, connection: CallerConnection, home: Home, count: int
    ) -> tuple[OnPostgres | OnSqlite, list[int], datetime]:
        writer = OnPostgres(connection, home.schema) if home.path is None else OnSqlite(connection, home.path)
        ids, now = await writer.reserve(count)
        if not self._checked:  # once, as a store does when it opens: while it runs, others may migrate
            check_version(connection.dialect, await writer.version())
            self._checked = True
        return writer, ids, now

    async def _declaration(self, writer: OnPostgres | OnSqlite, task: str, now: datetime) -> Declaration | None:
        """What is stored of the schedule that code declares under this name; what was read lately is believed."""
        known = self._declarations.get(task)
        if known is None or abs(now - known[0]) > TRUSTED:
            known = self._declarations[task] = now, await writer.declaration(task)
        return known[1]

    async def _owner_of(self, writer: OnPostgres | OnSqlite, now: datetime) -> Owner | None:
        """The application that the tables belong to; what was read lately is believed."""
        if self._owner is None or abs(now - self._owner[0]) > TRUSTED:
            self._owner = now, await writer.owner()
        return self._owner[1]


async def _led_home(on: object, home: Home) -> CallerConnection:
    """How to ask this connection. Raises InvalidJob if it leads to another kind of database."""
    connection = await connection_to(on)
    if connection.dialect != home.dialect:
        ours, theirs = NAMES[home.dialect], NAMES[connection.dialect]
        raise InvalidJob("on", f"expected a connection to the application's database, {ours}, not to {theirs}")
    return connection
