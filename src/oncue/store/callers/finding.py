"""Which kind of connection a caller has handed over. Only modules that the caller has imported already are asked."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from oncue.errors import InvalidJob
from oncue.store.callers import connections
from oncue.store.callers.connections import CallerConnection

EXPECTED = (
    "expected a connection of sqlite3, aiosqlite, asyncpg or psycopg, a Session, Connection, AsyncSession or "
    "AsyncConnection of SQLAlchemy, or Django's connection"
)

Opens: TypeAlias = Callable[[Any], Awaitable[CallerConnection]]


class ConnectionKind(NamedTuple):
    module: str
    name: str
    asynchronous: bool
    connection: Opens

    def fits(self, on: object) -> bool:
        known = getattr(sys.modules.get(self.module), self.name, None)
        return known is not None and isinstance(on, known)


def _as_is(make: Callable[[Any], CallerConnection]) -> Opens:
    async def connection(on: Any) -> CallerConnection:
        return make(on)

    return connection


async def _of_session(session: Any) -> CallerConnection:
    # It takes part in the session's transaction, which begins here if it has not; it flushes nothing.
    return connections.AlchemyConnection(session.connection())


async def _of_async_session(session: Any) -> CallerConnection:
    return connections.AsyncAlchemyConnection(await session.connection())


async def _of_django(wrapper: Any) -> CallerConnection:
    wrapper.ensure_connection()
    return await connection_to(wrapper.connection)


_KINDS = (
    ConnectionKind("sqlite3", "Connection", False, _as_is(connections.SqliteConnection)),
    ConnectionKind("aiosqlite", "Connection", True, _as_is(connections.AiosqliteConnection)),
    ConnectionKind("asyncpg", "Connection", True, _as_is(connections.AsyncpgConnection)),
    ConnectionKind("asyncpg.pool", "PoolConnectionProxy", True, _as_is(connections.AsyncpgConnection)),
    ConnectionKind("psycopg", "Connection", False, _as_is(connections.PsycopgConnection)),
    ConnectionKind("psycopg", "AsyncConnection", True, _as_is(connections.AsyncPsycopgConnection)),
    ConnectionKind("psycopg2.extensions", "connection", False, _as_is(connections.Psycopg2Connection)),
    ConnectionKind("sqlalchemy.engine", "Connection", False, _as_is(connections.AlchemyConnection)),
    ConnectionKind("sqlalchemy.orm", "Session", False, _of_session),
    ConnectionKind("sqlalchemy.orm", "scoped_session", False, _of_session),
    ConnectionKind("sqlalchemy.ext.asyncio", "AsyncConnection", True, _as_is(connections.AsyncAlchemyConnection)),
    ConnectionKind("sqlalchemy.ext.asyncio", "AsyncSession", True, _of_async_session),
    ConnectionKind("sqlalchemy.ext.asyncio", "async_scoped_session", True, _of_async_session),
    ConnectionKind("django.utils.connection", "ConnectionProxy", False, _of_django),
    ConnectionKind("django.db.backends.base.base", "BaseDatabaseWrapper", False, _of_django),
)


def is_asynchronous(on: object) -> bool:
    """Whether this is a connection that only a coroutine can ask."""
    kind = _kind_of(on)
    return kind is not None and kind.asynchronous


async def connection_to(on: object) -> CallerConnection:
    """How to ask this connection. Raises InvalidJob if it is none that oncue knows."""
    kind = _kind_of(on)
    if kind is None:
        raise InvalidJob("on", f"{EXPECTED}, not {type(on).__module__}.{type(on).__qualname__}")
    return await kind.connection(on)


def _kind_of(on: object) -> ConnectionKind | None:
    return next((kind for kind in _KINDS if kind.fits(on)), None)
