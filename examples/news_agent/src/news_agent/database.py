"""The database: the one that oncue's tables are in too, an SQLite file or PostgreSQL."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url, text
from sqlalchemy.dialects import postgresql, sqlite

from news_agent.tables import metadata
from oncue import ConfigError

BUSY_SECONDS = 30.0
BUSY_PAUSE = 0.02
CREATING = 0x4E45_5753  # any number will do, as long as every process asks for the same lock
MOST_CONNECTIONS = 16

_lanes: WeakKeyDictionary[Engine, Lock] = WeakKeyDictionary()


def connect(database_url: str) -> Engine:
    """An engine for an address as oncue takes it. Nothing is opened yet."""
    url = _driver_url(database_url)
    if url.get_backend_name() == "postgresql":
        return create_engine(url, pool_pre_ping=True, pool_size=4, max_overflow=MOST_CONNECTIONS - 4)
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, max_overflow=MOST_CONNECTIONS - 5)
    event.listen(engine, "connect", _prepare_file)
    event.listen(engine, "begin", _begin)
    return engine


def _driver_url(database_url: str) -> URL:
    url = make_url(database_url)
    if url.get_backend_name() in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite":
        return url.set(drivername="sqlite")
    raise ConfigError("DATABASE_URL: expected postgresql://… or sqlite:///…")


def _prepare_file(connection: sqlite3.Connection, record: Any) -> None:
    """Transactions begin when we say so, and readers never wait for a writer."""
    connection.isolation_level = None
    connection.execute("pragma foreign_keys = on")
    _switch_to_wal(connection)


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Two processes that open a new file at once collide here, and SQLite's own patience does not cover it."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(BUSY_PAUSE)


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("begin immediate" if writes else "begin")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One consistent look at the database."""
    with engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One transaction that may write: all of it happens, or nothing."""
    with _lane(engine), engine.connect().execution_options(writes=True) as connection, connection.begin():
        yield connection


def _lane(engine: Engine) -> AbstractContextManager[Any]:
    """An SQLite file has one writer at a time. Threads that wait for each other here do so without polling it."""
    return _lanes.setdefault(engine, Lock()) if engine.dialect.name == "sqlite" else nullcontext()


def create_tables(engine: Engine) -> None:
    """Make the tables that are missing. Safe to repeat, and from several processes at once."""
    with writing(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("select pg_advisory_xact_lock(:number)"), {"number": CREATING})
        metadata.create_all(connection)


def insert_new(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row unless it is there already (`on conflict do nothing`); whether it was really inserted."""
    statement = dialect_of(connection).insert(table).values(row).on_conflict_do_nothing().returning(table.c.id)
    return connection.execute(statement).first() is not None


def dialect_of(connection: Connection) -> Any:
    """Where SQLAlchemy keeps the `insert` that knows `on conflict`."""
    return postgresql if connection.dialect.name == "postgresql" else sqlite
