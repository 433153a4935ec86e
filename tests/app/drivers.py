"""Every way in which a caller may hold a transaction of its own, behind one face: `on`, execute, commit, roll back."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import aiosqlite
import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from oncue import Receipt
from oncue.task import Call


class Held:
    """A transaction that has begun, or begins with the first statement. Left alone, it is rolled back."""

    def __init__(self, on: Any, owner: Any = None, execute: Callable[[str], Any] | None = None) -> None:
        self.on = on
        self._owner = on if owner is None else owner
        self._execute = on.execute if execute is None else execute

    async def execute(self, statement: str) -> None:
        await settled(self._execute(statement))

    async def commit(self) -> None:
        await settled(self._owner.commit())

    async def rollback(self) -> None:
        await settled(self._owner.rollback())


async def settled(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


Opens = Callable[[str], AbstractAsyncContextManager[Held]]


class Driver(NamedTuple):
    name: str
    back_end: str
    asynchronous: bool
    hold: Opens

    async def enqueue(self, call: Call[Any], *args: Any) -> Receipt:
        return await call.aenqueue(*args) if self.asynchronous else call.enqueue(*args)

    async def enqueue_many(self, call: Call[Any], rows: Any) -> list[Receipt]:
        return await call.aenqueue_many(rows) if self.asynchronous else call.enqueue_many(rows)


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


def over(driver: str, url: str) -> str:
    """The same address, as SQLAlchemy wants it."""
    scheme, rest = url.split("://", 1)
    return f"{scheme}+{driver}://{rest}"


@asynccontextmanager
async def _sqlite3(url: str) -> AsyncIterator[Held]:
    connection = sqlite3.connect(path_of(url))
    yield Held(connection)
    connection.close()


@asynccontextmanager
async def _aiosqlite(url: str) -> AsyncIterator[Held]:
    async with aiosqlite.connect(path_of(url)) as connection:
        yield Held(connection)


@asynccontextmanager
async def _asyncpg(url: str) -> AsyncIterator[Held]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield Held(connection, transaction)
    await connection.close()


@asynccontextmanager
async def _asyncpg_pool(url: str) -> AsyncIterator[Held]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
        async with pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            yield Held(connection, transaction)
        await pool.expire_connections()


@asynccontextmanager
async def _psycopg(url: str) -> AsyncIterator[Held]:
    connection = psycopg.connect(url)
    yield Held(connection)
    connection.close()


@asynccontextmanager
async def _psycopg_async(url: str) -> AsyncIterator[Held]:
    connection = await psycopg.AsyncConnection.connect(url)
    yield Held(connection)
    await connection.close()


def _connection(driver: str) -> Opens:
    @asynccontextmanager
    async def hold(url: str) -> AsyncIterator[Held]:
        engine = sqlalchemy.create_engine(over(driver, url), poolclass=sqlalchemy.NullPool)
        with engine.connect() as connection:
            yield Held(connection, execute=connection.exec_driver_sql)
        engine.dispose()

    return hold


def _session(driver: str) -> Opens:
    @asynccontextmanager
    async def hold(url: str) -> AsyncIterator[Held]:
        engine = sqlalchemy.create_engine(over(driver, url), poolclass=sqlalchemy.NullPool)
        with Session(engine) as session:
            yield Held(session, execute=lambda statement: session.execute(sqlalchemy.text(statement)))
        engine.dispose()

    return hold


def _async_connection(driver: str) -> Opens:
    @asynccontextmanager
    async def hold(url: str) -> AsyncIterator[Held]:
        engine = create_async_engine(over(driver, url), poolclass=sqlalchemy.NullPool)
        async with engine.connect() as connection:
            yield Held(connection, execute=connection.exec_driver_sql)
        await engine.dispose()

    return hold


def _async_session(driver: str) -> Opens:
    @asynccontextmanager
    async def hold(url: str) -> AsyncIterator[Held]:
        engine = create_async_engine(over(driver, url), poolclass=sqlalchemy.NullPool)
        async with AsyncSession(engine) as session:
            yield Held(session, execute=lambda statement: session.execute(sqlalchemy.text(statement)))
        await engine.dispose()

    return hold


DRIVERS = (
    Driver("sqlite3", "sqlite", False, _sqlite3),
    Driver("aiosqlite", "sqlite", True, _aiosqlite),
    Driver("Connection-pysqlite", "sqlite", False, _connection("pysqlite")),
    Driver("Session-pysqlite", "sqlite", False, _session("pysqlite")),
    Driver("AsyncConnection-aiosqlite", "sqlite", True, _async_connection("aiosqlite")),
    Driver("AsyncSession-aiosqlite", "sqlite", True, _async_session("aiosqlite")),
    Driver("asyncpg", "postgres", True, _asyncpg),
    Driver("asyncpg-pool", "postgres", True, _asyncpg_pool),
    Driver("psycopg", "postgres", False, _psycopg),
    Driver("psycopg-async", "postgres", True, _psycopg_async),
    Driver("Connection-psycopg", "postgres", False, _connection("psycopg")),
    Driver("Session-psycopg", "postgres", False, _session("psycopg")),
    Driver("AsyncConnection-asyncpg", "postgres", True, _async_connection("asyncpg")),
    Driver("AsyncSession-asyncpg", "postgres", True, _async_session("asyncpg")),
    Driver("AsyncSession-psycopg", "postgres", True, _async_session("psycopg")),
)
