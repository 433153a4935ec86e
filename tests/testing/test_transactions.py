"""A job that is enqueued on a caller's own connection shares the fate of its transaction, in the kit too."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import aiosqlite
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from oncue import InvalidJob, JobNotFound, Oncue, Task
from oncue.testing import Kit
from tests.app.drivers import DRIVERS, Driver

SILENT = ("asyncpg", "asyncpg-pool", "psycopg", "psycopg-async")
"""Drivers that tell nobody of a commit or a rollback: the database is asked, as long as they are open."""

Work = Task[[int], int]


@pytest.fixture
def work(app: Oncue) -> Work:
    @app.task
    def work(n: int) -> int:
        return n

    return work


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("create table orders (n integer)")
    yield connection
    connection.close()


def numbers(kit: Kit) -> list[int]:
    return [job.args["n"] for job in kit.jobs()]


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def driver(request: pytest.FixtureRequest) -> Driver:
    chosen: Driver = request.param
    return chosen


@pytest.fixture
def url(driver: Driver, request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{driver.back_end}_url")
    return address


async def test_rolled_back_means_never_there(kit: Kit, work: Work, driver: Driver, url: str) -> None:
    async with driver.hold(url) as held:
        receipt = await driver.enqueue(work.using(on=held.on, key="k"), 1)
        assert numbers(kit) == [1], "until then it is there"
        await held.rollback()
        assert await kit.adrain() == {}
        assert kit.jobs() == []
        with pytest.raises(JobNotFound):
            kit.job(receipt)
    assert (await work.using(key="k").aenqueue(2)).created, "nor does its key stay behind"
    assert await kit.adrain() == {"succeeded": 1}


async def test_committed_means_there(kit: Kit, work: Work, driver: Driver, url: str) -> None:
    async with driver.hold(url) as held:
        await driver.enqueue(work.using(on=held.on), 1)
        await driver.enqueue_many(work.using(on=held.on), [2, 3])
        await held.commit()
        assert await kit.adrain() == {"succeeded": 3}
    assert numbers(kit) == [1, 2, 3]


@pytest.mark.parametrize("driver", [one for one in DRIVERS if one.name not in SILENT], ids=lambda one: one.name)
async def test_a_connection_that_is_closed_without_a_word_has_rolled_back(
    kit: Kit, work: Work, driver: Driver, url: str
) -> None:
    async with driver.hold(url) as held:
        await driver.enqueue(work.using(on=held.on), 1)
        await held.commit()
        await driver.enqueue(work.using(on=held.on), 2)
    assert numbers(kit) == [1]
    assert await kit.adrain() == {"succeeded": 1}


def test_one_transaction_after_the_other(kit: Kit, work: Work, connection: sqlite3.Connection) -> None:
    for n in range(6):
        connection.execute("insert into orders values (?)", (n,))
        work.using(on=connection).enqueue(n)
        (connection.commit if n % 2 else connection.rollback)()
    assert numbers(kit) == [1, 3, 5]
    with connection:
        work.using(on=connection).enqueue(6)
    with contextlib.suppress(ValueError), connection:
        work.using(on=connection).enqueue(7)
        raise ValueError
    assert numbers(kit) == [1, 3, 5, 6]


def test_a_savepoint_takes_back_what_came_after_it(kit: Kit, work: Work, connection: sqlite3.Connection) -> None:
    work.using(on=connection).enqueue(1)
    connection.execute("savepoint one")
    work.using(on=connection).enqueue(2)
    connection.execute("Savepoint two")
    work.using(on=connection).enqueue(3)
    connection.execute("rollback to savepoint two")
    assert numbers(kit) == [1, 2]
    connection.execute("release savepoint two")
    work.using(on=connection).enqueue(4)
    connection.execute("rollback to one")
    assert numbers(kit) == [1]
    connection.commit()
    connection.rollback()
    assert numbers(kit) == [1]


def test_a_connection_that_commits_every_statement_does_so_here(kit: Kit, work: Work, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    work.using(on=connection).enqueue(1)
    connection.execute("begin")
    work.using(on=connection).enqueue(2)
    connection.execute("rollback")
    assert numbers(kit) == [1]
    connection.close()
    assert numbers(kit) == [1]


def test_a_commit_that_fails_is_followed_by_a_rollback(kit: Kit, work: Work, connection: sqlite3.Connection) -> None:
    connection.executescript(
        "pragma foreign_keys = on; create table users (id integer primary key);"
        "create table posts (author integer references users deferrable initially deferred)"
    )
    connection.execute("insert into posts values (1)")
    work.using(on=connection).enqueue(1)
    with pytest.raises(sqlite3.IntegrityError):
        connection.commit()
    assert numbers(kit) == [1]
    connection.rollback()
    assert numbers(kit) == []


def test_nested_transactions_of_sqlalchemy(kit: Kit, work: Work, tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with Session(engine) as session:
        work.using(on=session).enqueue(1)
        with session.begin_nested():
            work.using(on=session).enqueue(2)
        nested = session.begin_nested()
        work.using(on=session).enqueue(3)
        nested.rollback()
        session.commit()
        work.using(on=session).enqueue(4)
    assert numbers(kit) == [1, 2]
    engine.dispose()


def test_a_test_that_rolls_everything_back_at_its_end_sees_its_jobs(kit: Kit, work: Work, tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with engine.connect() as outer:
        transaction = outer.begin()
        with Session(outer, join_transaction_mode="create_savepoint") as session:
            work.using(on=session).enqueue(1)
            session.commit()
            work.using(on=session).enqueue(2)
            session.rollback()
        assert kit.drain() == {"succeeded": 1}
        transaction.rollback()
    assert numbers(kit) == [1], "what has run stays"
    engine.dispose()


async def test_an_engine_that_commits_every_statement(kit: Kit, work: Work, tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}", isolation_level="AUTOCOMMIT")
    async with AsyncSession(engine) as session:
        await work.using(on=session).aenqueue(1)
        await session.rollback()
    assert numbers(kit) == [1]
    await engine.dispose()


def test_a_stand_in_will_do_for_a_connection(kit: Kit, work: Work) -> None:
    assert kit.perform(work.using(on=object()), 7).result == 7


def test_plain_and_async_code_enqueue_as_they_do_in_production(kit: Kit, work: Work, runner: asyncio.Runner) -> None:
    async def inside() -> None:
        async with aiosqlite.connect(":memory:") as connection:
            await work.using(on=connection).aenqueue(1)
            work.using(on=object()).enqueue(2)  # in a running loop too
            with pytest.raises(InvalidJob, match=r"on: .* is asynchronous"):
                work.using(on=connection).enqueue(3)
            await connection.commit()

    runner.run(inside())
    assert numbers(kit) == [1, 2]
