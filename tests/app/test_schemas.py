"""An application in a schema of its own, and callers whose connections know nothing of that schema."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from oncue import Oncue
from oncue.errors import ConfigError, SchemaMismatch
from oncue.settings import load
from oncue.store import PostgresStore
from tests.app.conftest import MakeApp
from tests.app.drivers import DRIVERS, Driver
from tests.app.shop import declare
from tests.store.test_watch import watched

ON_POSTGRES = [driver for driver in DRIVERS if driver.back_end == "postgres"]


@pytest.fixture
def two_schemas(empty_postgres: str, runner: asyncio.Runner) -> str:
    """A database with the tables of two applications. A session that says nothing finds those of the blog."""

    async def prepare() -> None:
        for schema in ("orders", "blog"):
            store = PostgresStore(empty_postgres, schema=schema)
            await store.migrate()
            await store.close()
        connection = await asyncpg.connect(empty_postgres)
        database = await connection.fetchval("select current_database()")
        await connection.execute(f"alter database {database} set search_path = blog")
        await connection.close()

    runner.run(prepare())
    return empty_postgres


async def sent(app: Oncue) -> list[int]:
    return [job.args["order_id"] for job in reversed(await app.jobs.list())]


@pytest.mark.parametrize("driver", ON_POSTGRES, ids=lambda driver: driver.name)
async def test_a_callers_connection_writes_into_the_applications_own_schema(
    make_app: MakeApp, two_schemas: str, driver: Driver
) -> None:
    """The tables that its search_path leads to are another application's."""
    orders, blog = make_app(two_schemas, schema="orders"), make_app(two_schemas, schema="blog")
    send = declare(orders)
    async with driver.hold(two_schemas) as held:
        await driver.enqueue(send.using(on=held.on), 1)
        await driver.enqueue(send.using(on=held.on, key="two", delay="1h"), 2)
        assert not (await driver.enqueue(send.using(on=held.on, key="two", delay="1h"), 2)).created
        await driver.enqueue_many(send.using(on=held.on), [(3,), (4,)])
        await held.commit()
    assert await sent(orders) == [1, 2, 3, 4]
    assert await sent(blog) == []


@pytest.mark.parametrize("delay", [None, "1h"])
async def test_a_caller_wakes_the_workers_of_its_own_schema(
    make_app: MakeApp, two_schemas: str, delay: str | None
) -> None:
    send = declare(make_app(two_schemas, schema="orders"))
    stores = [PostgresStore(two_schemas, schema=schema) for schema in ("orders", "blog")]
    heard, overheard = [await watched(store) for store in stores]
    connection = await asyncpg.connect(two_schemas)
    async with connection.transaction():
        await send.using(on=connection, delay=delay).aenqueue(1)
    await heard.heard()
    assert await overheard.quiet(0.2)
    await connection.close()
    for store in stores:
        await store.close()


async def test_workers_of_two_schemas_run_their_own_jobs(make_app: MakeApp, two_schemas: str) -> None:
    ran: dict[str, list[int]] = {"orders": [], "blog": []}
    apps = {name: make_app(two_schemas, schema=name, poll_interval="50ms") for name in ran}
    tasks = {}
    for name, app in apps.items():

        @app.task(name="send")
        async def send(number: int, to: str = name) -> None:
            ran[to].append(number)

        tasks[name] = send
    async with apps["orders"].worker(), apps["blog"].worker():
        for number in range(10):
            await tasks["orders"].aenqueue(number)
            await tasks["blog"].aenqueue(100 + number)
        async with asyncio.timeout(30):
            while sum(map(len, ran.values())) < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert sorted(ran["orders"]) == list(range(10))
    assert sorted(ran["blog"]) == list(range(100, 110))


async def test_without_tables_in_its_schema_a_caller_is_told_and_its_transaction_goes_on(
    make_app: MakeApp, two_schemas: str
) -> None:
    send = declare(make_app(two_schemas, schema="reports"))
    connection = await asyncpg.connect(two_schemas)
    async with connection.transaction():
        with pytest.raises(SchemaMismatch, match="no oncue tables in its schema 'reports'"):
            await send.using(on=connection).aenqueue(1)
        assert await connection.fetchval("select 1") == 1
    await connection.close()


def test_where_the_schema_comes_from(tmp_path: Path) -> None:
    (tmp_path / "oncue.toml").write_text("schema = 'file'")
    assert load(environment={}, folder=tmp_path).schema == "file"
    assert load(environment={"ONCUE_SCHEMA": "outside"}, folder=tmp_path).schema == "outside"
    app = Oncue(schema="code", settings=load(environment={"ONCUE_SCHEMA": "outside"}, folder=tmp_path))
    assert (app.settings.schema, app.settings.origin("schema")) == ("code", "Oncue(schema=...)")
    assert app.override({"schema": "flag"}).schema == "flag"


def test_what_is_no_schema_is_refused_and_the_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^ONCUE_SCHEMA: expected 1 to 40 lower-case letters.*, not 'My Shop'$"):
        load(environment={"ONCUE_SCHEMA": "My Shop"}, folder=tmp_path)


def test_on_sqlite_a_schema_is_refused(tmp_path: Path) -> None:
    app = Oncue(f"sqlite:///{tmp_path}/oncue.db", schema="orders")
    with pytest.raises(ConfigError, match="on SQLite an application has a file of its own"):
        declare(app).enqueue(1)
