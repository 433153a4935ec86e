"""Follows the transactions of the code under test: what was written in one that is rolled back is gone.

The kit's jobs are in a database of its own, so that a caller's rollback does not reach them. The kit listens to the
caller's connection instead: SQLite tells of every statement, and so does SQLAlchemy. The drivers of
PostgreSQL tell nothing: there the database is asked what has become of the transaction. Until it has ended its jobs are
there as if it were committed: many tests wrap everything in a transaction that is never committed.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

from oncue.errors import InvalidJob
from oncue.store.callers import connections, is_asynchronous
from oncue.store.callers.connections import CallerConnection
from oncue.store.callers.finding import connection_to

Undo: TypeAlias = Callable[[], None]
Written: TypeAlias = int | Undo
"""What a transaction has written: a job, by its id, or something that says how it is taken back."""
Forget: TypeAlias = Callable[[Collection[Written]], None]

XID = "select pg_current_xact_id()::text"
STATUS = "select pg_xact_status($1::text::xid8)"

_NAME = r"""["'`\[]?([^"'`\]\s;]+)"""
_STEPS = [
    ("begin", re.compile(r"begin\b", re.IGNORECASE)),
    ("commit", re.compile(r"(?:commit|end)\b", re.IGNORECASE)),
    ("rollback_savepoint", re.compile(rf"rollback\s+(?:transaction\s+)?to\s+(?:savepoint\s+)?{_NAME}", re.IGNORECASE)),
    ("rollback", re.compile(r"rollback\b", re.IGNORECASE)),
    ("savepoint", re.compile(rf"savepoint\s+{_NAME}", re.IGNORECASE)),
    ("release_savepoint", re.compile(rf"release\s+(?:savepoint\s+)?{_NAME}", re.IGNORECASE)),
]


class Transaction:
    """What was written on one connection since its transaction began, and the savepoints in between."""

    def __init__(self, connection: object, forget: Forget) -> None:
        self.connection = connection
        self._forget = forget
        self._steps: list[Written | str] = []
        self._is_over = False

    def add(self, ids: Sequence[Written]) -> None:
        self._begin_anew()
        self._steps += ids

    def begin(self, *_: object) -> None:
        self._begin_anew()

    def commit(self, *_: object) -> None:
        """It may still fail: then a rollback follows, before anything begins."""
        self._is_over = True

    def rollback(self, *_: object) -> None:
        self._undo(0)
        self._is_over = True

    def savepoint(self, name: str) -> None:
        self._begin_anew()
        self._steps.append(name)

    def rollback_savepoint(self, name: str) -> None:
        """One that is not known is older than all that is."""
        place = self._place(name)
        self._undo(0 if place is None else place + 1)

    def release_savepoint(self, name: str) -> None:
        place = self._place(name)
        if place is not None:
            self._steps[place:] = [step for step in self._steps[place:] if not isinstance(step, str)]

    def _begin_anew(self) -> None:
        if self._is_over:
            self._steps, self._is_over = [], False

    def _place(self, name: str) -> int | None:
        return next((place for place in reversed(range(len(self._steps))) if self._steps[place] == name), None)

    def _undo(self, since: int) -> None:
        gone = [step for step in self._steps[since:] if not isinstance(step, str)]
        del self._steps[since:]
        if gone:
            self._forget(gone)

    # --- connections of SQLite ----------------------------------------------------------------------------------

    def hear(self, statement: str) -> None:
        """The database is about to carry out this statement."""
        for name, pattern in _STEPS:
            if (found := pattern.match(statement.lstrip())) is not None:
                getattr(self, name)(*found.groups())
                return

    def look(self) -> None:
        """A connection that is closed in the middle of a transaction has rolled it back, and says nothing."""
        try:
            self.connection.in_transaction  # type: ignore[attr-defined]  # noqa: B018
        except (sqlite3.ProgrammingError, ValueError):
            if not self._is_over:
                self.rollback()
        except AttributeError:
            return


class Transactions:
    def __init__(self, forget: Forget) -> None:
        self._forget = forget
        self._followed: dict[int, Transaction] = {}
        self._asked: list[tuple[CallerConnection, bool, str, Sequence[Written]]] = []

    async def follow(self, on: object, ids: Sequence[Written]) -> None:
        """These jobs belong to the transaction of this connection. What is no connection is none to follow."""
        try:
            caller: Any = await connection_to(on)
        except InvalidJob:
            return
        if isinstance(caller, connections.SqliteConnection | connections.AiosqliteConnection):
            await self._follow_sqlite(caller, ids)
        elif isinstance(caller, connections.AlchemyConnection | connections.AsyncAlchemyConnection):
            await self._follow_alchemy(caller, ids)
        else:
            ((xid,),) = await caller.fetch(XID)
            self._asked.append((caller, is_asynchronous(on), xid, ids))

    async def _follow_sqlite(self, caller: Any, ids: Sequence[Written]) -> None:
        connection = caller.connection
        if id(connection) not in self._followed:
            followed = self._followed[id(connection)] = Transaction(connection, self._forget)
            listening = connection.set_trace_callback(followed.hear)
            if isinstance(caller, connections.AiosqliteConnection):
                await listening
        if not connection.in_transaction and _begins_by_itself(connection):
            await caller.fetch("begin")  # as an insert would
        if connection.in_transaction:
            self._followed[id(connection)].add(ids)

    async def _follow_alchemy(self, caller: Any, ids: Sequence[Written]) -> None:
        connection = caller.connection
        if isinstance(caller, connections.AsyncAlchemyConnection):
            connection = connection.sync_connection
        if _commits_each_statement(connection):
            return
        await caller.fetch("select 1")  # as an insert would, it begins a transaction
        if id(connection) not in self._followed:
            followed = self._followed[id(connection)] = Transaction(connection, self._forget)
            event: Any = sys.modules["sqlalchemy"].event
            for name in ("begin", "commit", "rollback"):
                event.listen(connection, name, getattr(followed, name))
            event.listen(connection, "before_cursor_execute", lambda _, __, statement, *___: followed.hear(statement))
        self._followed[id(connection)].add(ids)

    async def look(self, *, plain: bool) -> None:
        """See what has become of the transactions that nobody tells of. Plain code cannot ask asynchronous drivers."""
        for transaction in self._followed.values():
            transaction.look()
        still_open = []
        for caller, asynchronous, xid, ids in self._asked:
            status = "in progress" if plain and asynchronous else await _status(caller, xid)
            if status == "aborted":
                self._forget(ids)
            elif status == "in progress":
                still_open.append((caller, asynchronous, xid, ids))
        self._asked = still_open


def _begins_by_itself(connection: Any) -> bool:
    """Whether the driver begins a transaction before the first change."""
    return connection.isolation_level is not None and getattr(connection, "autocommit", None) is not True


def _commits_each_statement(connection: Any) -> bool:
    engines = getattr(connection.dialect, "_on_connect_isolation_level", None)
    return (connection.get_execution_options().get("isolation_level") or engines) == "AUTOCOMMIT"


async def _status(caller: CallerConnection, xid: str) -> str:
    try:
        ((status,),) = await caller.fetch(STATUS, xid)
    except Exception:  # a driver's own: its connection is closed, or its transaction has failed and is still open
        return "in progress"
    return str(status)
