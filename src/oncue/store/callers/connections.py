"""How a caller's connection is asked: one verb, whatever its driver.

Nothing is imported here that the caller has not imported. The verb is a coroutine also where there is nothing to wait
for, so that the steps of an enqueue are written once; plain code runs them with `portal.at_once`. Callers may have set
what their own rows look like (row factories, other cursors, streaming): each class asks for plain tuples all the same,
and leaves no cursor open.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, TypeAlias

from oncue.errors import InvalidJob

Rows: TypeAlias = Sequence[Sequence[Any]]
Translate: TypeAlias = Callable[[str, tuple[Any, ...]], tuple[str, Any]]


class CallerConnection(Protocol):
    """The way to a caller's database. PostgreSQL's parameters are numbered ($1, …), SQLite's one is a mapping."""

    dialect: str

    async def fetch(self, query: str, /, *args: Any) -> Rows: ...


# --- parameters -------------------------------------------------------------------------------------------------


def numbered(sql: str, parameters: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """As our statements for PostgreSQL are written."""
    return sql, parameters


def named(sql: str, parameters: tuple[Any, ...]) -> tuple[str, Mapping[str, Any]]:
    """As our statements for SQLite are written."""
    return sql, parameters[0] if parameters else {}


def pyformat(sql: str, parameters: tuple[Any, ...]) -> tuple[str, Mapping[str, Any]]:
    """For drivers that know `%(name)s` only."""
    return _in_pyformat(sql), {f"p{number}": value for number, value in enumerate(parameters, 1)}


@cache
def _in_pyformat(sql: str) -> str:
    bare = re.sub(r"--[^\n]*", "", sql)  # a comment that speaks of $1 would have a parameter written into it
    return re.sub(r"\$(\d+)", r"%(p\1)s", bare.replace("%", "%%"))


# --- drivers ----------------------------------------------------------------------------------------------------


class SqliteConnection:
    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    async def fetch(self, query: str, /, *args: Any) -> Rows:
        cursor = self.connection.cursor()
        try:
            cursor.row_factory = None
            return cursor.execute(*named(query, args)).fetchall()
        finally:
            cursor.close()


class AiosqliteConnection:
    dialect = "sqlite"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def fetch(self, query: str, /, *args: Any) -> Rows:
        cursor = await self.connection.cursor()
        try:
            cursor.row_factory = None
            await cursor.execute(*named(query, args))
            rows: Rows = await cursor.fetchall()
            return rows
        finally:
            await cursor.close()


class AsyncpgConnection:
    dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def fetch(self, query: str, /, *args: Any) -> Rows:
        rows: Rows = await self.connection.fetch(query, *args)
        return rows


def _with_plain_instants(cursor: Any) -> Any:
    """Django without `USE_TZ` has instants come without a zone: ours have theirs."""
    datetimes: Any = sys.modules["psycopg.types.datetime"]
    cursor.adapters.register_loader("timestamptz", datetimes.TimestamptzLoader)
    return cursor


class PsycopgConnection:
    """The cursor is of the plain kind, whatever the connection makes by itself: others bind or return otherwise."""

    dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def fetch(self, query: str, /, *args: Any) -> Rows:
        psycopg: Any = sys.modules["psycopg"]
        with psycopg.Cursor(self.connection, row_factory=psycopg.rows.tuple_row) as cursor:
            _with_plain_instants(cursor).execute(*pyformat(query, args))
            rows: Rows = cursor.fetchall()
        return rows


class AsyncPsycopgConnection:
    dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def fetch(self, query: str, /, *args: Any) -> Rows:
        psycopg: Any = sys.modules["psycopg"]
        async with psycopg.AsyncCursor(self.connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(*pyformat(query, args))
            rows: Rows = await cursor.fetchall()
        return rows


class Psycopg2Connection:
    dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def fetch(self, query: str, /, *args: Any) -> Rows:
        extensions: Any = sys.modules["psycopg2.extensions"]
        with self.connection.cursor(cursor_factory=extensions.cursor) as cursor:
            cursor.execute(*pyformat(query, args))
            rows: Rows = cursor.fetchall()
        return rows


# --- SQLAlchemy -------------------------------------------------------------------------------------------------

_DRIVERS: Mapping[str, tuple[str, Translate]] = {
    "pysqlite": ("sqlite", named),
    "aiosqlite": ("sqlite", named),
    "psycopg": ("postgres", pyformat),
    "psycopg2": ("postgres", pyformat),
    "asyncpg": ("postgres", numbered),
}
_ALL_AT_ONCE = {"stream_results": False, "yield_per": None}


def _spoken(dialect: Any) -> tuple[str, Translate]:
    """The database behind an SQLAlchemy dialect, and how its driver wants its parameters."""
    try:
        return _DRIVERS[dialect.driver]
    except KeyError:
        known = ", ".join(_DRIVERS)
        raise InvalidJob(
            "on", f"expected SQLAlchemy on one of the drivers {known}, not {dialect.name}+{dialect.driver}"
        ) from None


class AlchemyConnection:
    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.dialect, self._translate = _spoken(connection.dialect)

    async def fetch(self, query: str, /, *args: Any) -> Rows:
        result = self.connection.exec_driver_sql(*self._translate(query, args), _ALL_AT_ONCE)
        return _rows_of(result)


class AsyncAlchemyConnection:
    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.dialect, self._translate = _spoken(connection.dialect)

    async def fetch(self, query: str, /, *args: Any) -> Rows:
        result = await self.connection.exec_driver_sql(*self._translate(query, args), _ALL_AT_ONCE)
        return _rows_of(result)


def _rows_of(result: Any) -> Rows:
    if not result.returns_rows:
        result.close()
        return []
    rows: Rows = result.fetchall()
    return rows
