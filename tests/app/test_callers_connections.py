"""Whatever a caller has set on its connection, a job goes through; what is no such connection is refused by name."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row, namedtuple_row
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from oncue import InvalidJob, Oncue, Task
from oncue.errors import SchemaMismatch
from oncue.store import SqliteStore
from tests.app.conftest import MakeApp
from tests.app.drivers import DRIVERS, Driver, over, path_of
from tests.app.shop import declare, rows
from tests.conftest import BACK_ENDS

Send = Task[[int], None]

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"


@asynccontextmanager
async def _sqlite3(url: str, **options: Any) -> AsyncIterator[sqlite3.Connection]:
    connection = sqlite3.connect(path_of(url), **options)
    yield connection
    connection.commit()
    connection.close()


@asynccontextmanager
async def _psycopg(url: str, **options: Any) -> AsyncIterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, **options) as connection:
        yield connection


@asynccontextmanager
async def _engine(driver: str, url: str) -> AsyncIterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(over(driver, url), poolclass=sqlalchemy.NullPool)
    yield engine
    engine.dispose()


# --- what callers set ---------------------------------------------------------------------------------------------


async def a_row_factory(send: Send, url: str) -> None:
    async with _sqlite3(url) as connection:
        connection.row_factory = sqlite3.Row
        twice(send, connection)
        connection.row_factory = lambda cursor, row: {"row": row}
        connection.text_factory = bytes
        twice(send, connection)


async def sqlite_without_transactions(send: Send, url: str) -> None:
    async with _sqlite3(url, isolation_level=None) as connection:
        twice(send, connection)
        assert not connection.in_transaction


async def sqlite_always_in_a_transaction(send: Send, url: str) -> None:
    async with _sqlite3(url, autocommit=False) as connection:
        twice(send, connection)
        assert connection.in_transaction


async def an_aiosqlite_row_factory(send: Send, url: str) -> None:
    async with aiosqlite.connect(path_of(url)) as connection:
        connection.row_factory = aiosqlite.Row
        await atwice(send, connection)
        await connection.commit()


async def other_rows_and_cursors(send: Send, url: str) -> None:
    async with _psycopg(url, row_factory=dict_row, cursor_factory=psycopg.RawCursor) as connection:
        twice(send, connection)
        connection.row_factory = namedtuple_row
        connection.cursor_factory = psycopg.ClientCursor
        twice(send, connection)


async def autocommit(send: Send, url: str) -> None:
    async with _psycopg(url, autocommit=True) as connection:
        twice(send, connection)
        connection.close()


async def a_pipeline(send: Send, url: str) -> None:
    async with _psycopg(url) as connection:
        with connection.pipeline():
            connection.execute("select 1")
            twice(send, connection)
            connection.execute("select 1")


async def another_time_zone(send: Send, url: str) -> None:
    async with _psycopg(url, options="-c timezone=America/New_York") as connection:
        twice(send, connection)


async def codecs_and_records(send: Send, url: str) -> None:
    class Row(asyncpg.Record):
        def __getattr__(self, name: str) -> Any:
            return self[name]

    connection = await asyncpg.connect(url, record_class=Row, statement_cache_size=0)
    await connection.set_type_codec("json", encoder=repr, decoder=repr, schema="pg_catalog")
    async with connection.transaction():
        await atwice(send, connection)
    await connection.close()


async def a_stream(send: Send, url: str) -> None:
    async with _engine("psycopg", url) as engine:
        with engine.connect().execution_options(stream_results=True, yield_per=10) as connection:
            twice(send, connection)
            connection.commit()


async def an_engine_without_transactions(send: Send, url: str) -> None:
    async with _engine("psycopg", url) as engine:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            twice(send, connection)


async def a_scoped_session(send: Send, url: str) -> None:
    async with _engine("pysqlite", url) as engine:
        sessions = scoped_session(sessionmaker(engine))
        twice(send, sessions)
        sessions.commit()
        sessions.remove()


async def an_async_scoped_session(send: Send, url: str) -> None:
    engine = create_async_engine(over("asyncpg", url), poolclass=sqlalchemy.NullPool)
    sessions = async_scoped_session(sessionmaker(engine, class_=AsyncSession), scopefunc=asyncio.current_task)
    await atwice(send, sessions)
    await sessions.commit()
    await sessions.remove()
    await engine.dispose()


async def plain_code_inside_an_async_session(send: Send, url: str) -> None:
    engine = create_async_engine(over("asyncpg", url), poolclass=sqlalchemy.NullPool)
    async with AsyncSession(engine) as session:
        await session.run_sync(lambda plain: twice(send, plain))
        await session.commit()
    await engine.dispose()


def twice(send: Send, on: Any) -> None:
    receipts = send.using(on=on, key=str).enqueue_many([1, 1])
    assert receipts[0].id == receipts[1].id == send.using(on=on, key="1").enqueue(1).id
    assert receipts[0].uid == receipts[1].uid


async def atwice(send: Send, on: Any) -> None:
    receipts = await send.using(on=on, key=str).aenqueue_many([1, 1])
    assert receipts[0].id == receipts[1].id == (await send.using(on=on, key="1").aenqueue(1)).id


FROM_PYTHON_3_12 = pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has no autocommit= yet")
SQLITE_WAYS = [
    a_row_factory, sqlite_without_transactions, an_aiosqlite_row_factory, a_scoped_session,
    pytest.param(sqlite_always_in_a_transaction, marks=FROM_PYTHON_3_12),
]  # fmt: skip
POSTGRES_WAYS = [
    other_rows_and_cursors, autocommit, a_pipeline, another_time_zone, codecs_and_records, a_stream,
    an_engine_without_transactions, an_async_scoped_session, plain_code_inside_an_async_session,
]  # fmt: skip


@pytest.mark.parametrize("way", SQLITE_WAYS, ids=lambda way: way.__name__)
async def test_a_job_goes_through_on_sqlite_with(make_app: MakeApp, sqlite_url: str, way: Any) -> None:
    await goes_through(make_app(sqlite_url), sqlite_url, way)


@pytest.mark.parametrize("way", POSTGRES_WAYS, ids=lambda way: way.__name__)
async def test_a_job_goes_through_on_postgresql_with(make_app: MakeApp, postgres_url: str, way: Any) -> None:
    await goes_through(make_app(postgres_url), postgres_url, way)


async def goes_through(app: Oncue, url: str, way: Any) -> None:
    send = declare(app)
    await app.internals.connected()
    await way(send, url)
    assert [job.args for job in await app.jobs.list()] == [{"order_id": 1}]


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


async def test_a_sessions_objects_are_not_flushed_by_an_enqueue(app_on_file: Oncue, sqlite_url: str) -> None:
    send = declare(app_on_file)
    async with _engine("pysqlite", sqlite_url) as engine:
        Base.metadata.create_all(engine)
        with Session(engine) as session:
            order = Order()
            session.add(order)
            with pytest.raises(InvalidJob, match="order_id"):
                send.using(on=session).enqueue(order.id)
            send.using(on=session).enqueue(7)
            assert order in session.new
            session.flush()
            send.using(on=session).enqueue(order.id)
            session.commit()
    assert sorted(job.args["order_id"] for job in await app_on_file.jobs.list()) == [1, 7]


async def test_the_guides_example_works_as_it_stands(app_on_file: Oncue, sqlite_url: str) -> None:
    chapter = GUIDE.read_text("utf-8").split("\n### In your own transaction\n")[1].split("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", chapter, re.DOTALL)
    async with _engine("pysqlite", sqlite_url) as engine:
        Base.metadata.create_all(engine)
        exec(example, {"Session": Session, "engine": engine, "Order": Order, "send_invoice": declare(app_on_file)})
    assert await rows(sqlite_url, "select id from orders") == [(1,)]
    assert [job.args for job in await app_on_file.jobs.list()] == [{"order_id": 1}]


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.fixture
def app_on_file(make_app: MakeApp, sqlite_url: str, runner: asyncio.Runner) -> Oncue:
    app = make_app(sqlite_url)
    runner.run(app.internals.connected())
    return app


@pytest.fixture
def other_file(tmp_path: Path, runner: asyncio.Runner) -> str:
    """Another application's database."""
    store = SqliteStore(str(tmp_path / "other.db"))
    runner.run(store.open())
    runner.run(store.close())
    return str(tmp_path / "other.db")


async def test_what_is_no_connection_is_refused(app_on_file: Oncue, sqlite_url: str) -> None:
    send = declare(app_on_file)
    async with _engine("pysqlite", sqlite_url) as engine:
        for wrong in (object(), "session", engine, sessionmaker(engine), Session):
            with pytest.raises(InvalidJob, match=r"on: expected a connection of sqlite3, .*, not \w+") as refused:
                send.using(on=wrong).enqueue(1)
            assert refused.value.field == "on"
            with pytest.raises(InvalidJob, match=r"on: expected a connection of sqlite3, .*, not \w+"):
                await send.using(on=wrong).aenqueue_many([1])
    assert await app_on_file.jobs.list() == []


async def test_plain_enqueue_with_an_asynchronous_connection_says_what_to_do(
    app_on_file: Oncue, sqlite_url: str, postgres_url: str
) -> None:
    send = declare(app_on_file)
    for driver in DRIVERS:
        if driver.asynchronous:
            async with driver.hold(sqlite_url if driver.back_end == "sqlite" else postgres_url) as held:
                with pytest.raises(InvalidJob, match=r"on: .* is asynchronous: use `await` and `aenqueue`"):
                    send.using(on=held.on).enqueue(1)
                with pytest.raises(InvalidJob, match="is asynchronous"):
                    send.using(on=held.on).enqueue_many([1])


async def test_a_connection_to_another_database_is_refused(
    app_on_file: Oncue, make_app: MakeApp, postgres_url: str, sqlite_url: str
) -> None:
    on_postgres = declare(make_app(postgres_url))
    async with _sqlite3(sqlite_url) as connection, _psycopg(postgres_url) as other:
        with pytest.raises(InvalidJob, match=r"on: .* the application's database, SQLite, not to PostgreSQL"):
            declare(app_on_file).using(on=other).enqueue(1)
        with pytest.raises(InvalidJob, match=r"on: .* the application's database, PostgreSQL, not to SQLite"):
            on_postgres.using(on=connection).enqueue(1)
        assert not connection.in_transaction


async def test_another_file_is_refused_and_both_are_named(
    app_on_file: Oncue, sqlite_url: str, other_file: str, tmp_path: Path
) -> None:
    send = declare(app_on_file)
    async with _sqlite3(f"sqlite:///{other_file}") as connection:
        with pytest.raises(InvalidJob, match=rf"on: .*{path_of(sqlite_url)}, not .*other\.db"):
            send.using(on=connection).enqueue(1)
    async with _sqlite3("sqlite:///:memory:") as connection:
        connection.execute("attach ? as jobs", [path_of(sqlite_url)])
        with pytest.raises(InvalidJob, match=rf"on: .*{path_of(sqlite_url)}, not one in memory"):
            send.using(on=connection).enqueue(1)
    (tmp_path / "link.db").symlink_to(path_of(sqlite_url))
    async with _sqlite3(f"sqlite:///{tmp_path / 'link.db'}") as connection:
        assert send.using(on=connection).enqueue(1).created, "it is the same file by another name"


async def test_an_unknown_driver_of_sqlalchemy_is_refused_by_name(app_on_file: Oncue, sqlite_url: str) -> None:
    async with _engine("pysqlite", sqlite_url) as engine:
        engine.dialect.driver = "pysqlcipher"
        with engine.connect() as connection, pytest.raises(InvalidJob, match=r"not sqlite\+pysqlcipher"):
            declare(app_on_file).using(on=connection).enqueue(1)


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_a_database_without_oncue_is_told_and_the_transaction_goes_on(
    make_app: MakeApp, request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path, back_end: str
) -> None:
    empty = f"sqlite:///{tmp_path / 'empty.db'}"
    if back_end == "postgres":
        empty = request.getfixturevalue("empty_postgres")
    runner.run(refused_by(make_app(empty), empty, [driver for driver in DRIVERS if driver.back_end == back_end]))


async def refused_by(app: Oncue, empty: str, drivers: list[Driver]) -> None:
    send = declare(app)
    await rows(empty, "create table orders (id integer primary key)")
    for number, driver in enumerate(drivers):
        async with driver.hold(empty) as held:
            with pytest.raises(SchemaMismatch, match=r"no oncue tables.*: run `oncue migrate`"):
                await driver.enqueue(send.using(on=held.on), 1)
            await held.execute(f"insert into orders values ({number})")
            await held.commit()
    assert len(await rows(empty, "select id from orders")) == len(drivers)


async def test_tables_of_another_version_are_told(app_on_file: Oncue, sqlite_url: str) -> None:
    async with _sqlite3(sqlite_url) as connection:
        connection.execute("pragma user_version = 999")
        with pytest.raises(SchemaMismatch, match="schema version 999, newer than this oncue knows"):
            declare(app_on_file).using(on=connection).enqueue(1)
        connection.rollback()


async def test_bad_arguments_are_refused_before_anything_is_asked(app_on_file: Oncue, sqlite_url: str) -> None:
    send: Any = declare(app_on_file)
    async with _sqlite3(sqlite_url) as connection:
        with pytest.raises(InvalidJob, match="order_id"):
            send.using(on=connection).enqueue_many([1, "two"])
        assert not connection.in_transaction
