"""Enqueueing in the caller's own transaction: rolled back means never there, committed means there once."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from oncue import Oncue, Receipt
from oncue.application.connecting import DatabaseConnector
from oncue.store import Store
from tests.app.conftest import MakeApp
from tests.app.drivers import DRIVERS, Driver, Held, path_of
from tests.app.shop import Shop, declare, rows
from tests.app.watching import Watcher


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def driver(request: pytest.FixtureRequest) -> Driver:
    chosen: Driver = request.param
    return chosen


@pytest.fixture
def url(driver: Driver, request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{driver.back_end}_url")
    return address


@pytest.fixture
def shop(make_app: MakeApp, url: str, runner: asyncio.Runner) -> Iterator[Shop]:
    shop = Shop(make_app(url), url)
    runner.run(shop.open())
    yield shop
    runner.run(shop.close())


async def order(driver: Driver, shop: Shop, held: Held, number: int, **options: Any) -> Receipt:
    """What a program does: a row of its own, and the job that goes with it."""
    await held.execute(f"insert into orders values ({number})")
    return await driver.enqueue(shop.send.using(on=held.on, **options), number)


async def test_a_job_shares_the_fate_of_its_transaction(driver: Driver, shop: Shop) -> None:
    async with driver.hold(shop.url) as held:
        assert (await order(driver, shop, held, 1)).created
        assert await shop.sent() == [], "nobody sees it before the commit"
        await held.rollback()
    async with driver.hold(shop.url) as held:
        await order(driver, shop, held, 2)  # and the connection is closed without a word
    assert (await shop.orders(), await shop.sent()) == ([], [])
    async with driver.hold(shop.url) as held:
        receipt = await order(driver, shop, held, 3)
        await held.commit()
    assert (await shop.orders(), await shop.sent()) == ([3], [3])
    job = await shop.app.jobs.get(receipt.uid)
    assert (job.id, job.queue, job.priority, job.state, job.attempt) == (receipt.id, "mail", 20, "queued", 0)
    assert job.created_at == job.visible_at == receipt.created_at
    other = await shop.send.aenqueue(4)
    assert other.id > receipt.id, "the ordinary way goes on from there"


async def test_what_a_savepoint_takes_back_was_never_there(driver: Driver, shop: Shop) -> None:
    options = {
        "delay": "10m",
        "queue": "slow",
        "priority": 60,
        "deadline": "1h",
        "max_retries": 9,
        "enqueued_by": "ada",
    }
    async with driver.hold(shop.url) as held:
        await held.execute("insert into orders values (1)")
        await held.execute("savepoint one")
        await order(driver, shop, held, 2)
        await held.execute("rollback to savepoint one")
        receipt = await order(driver, shop, held, 3, **options)
        await held.commit()
    assert (await shop.orders(), await shop.sent()) == ([1, 3], [3])
    job = await shop.app.jobs.get(receipt.id)
    assert (job.state, job.queue, job.priority, job.max_retries) == ("scheduled", "slow", 60, 9)
    assert (job.enqueued_by, job.visible_at - job.created_at) == ("ada", timedelta(minutes=10))
    assert job.deadline_at == job.created_at + timedelta(hours=1)


@pytest.mark.contract("QUE-3")
async def test_keys_are_minded_in_and_between_transactions(driver: Driver, shop: Shop) -> None:
    heard: list[Mapping[str, float]] = []
    shop.app.internals.telemetry.subscribe(lambda event, measurements, metadata: heard.append(measurements), "enqueue")
    async with driver.hold(shop.url) as held:
        first = await driver.enqueue_many(shop.send.using(on=held.on, key=str), [1, 2, 1, 3])
        assert await driver.enqueue_many(shop.send.using(on=held.on), []) == []
        await held.commit()
    assert [receipt.created for receipt in first] == [True, True, False, True]
    assert first[2].id == first[0].id
    async with driver.hold(shop.url) as held:
        second = await driver.enqueue_many(shop.send.using(on=held.on, key=str), [4, 3])
        await held.commit()
    assert [receipt.created for receipt in second] == [True, False]
    assert (second[1].id, second[1].uid) == (first[3].id, first[3].uid)
    assert await shop.sent() == [1, 2, 3, 4]
    assert heard == [{"jobs": 3, "duplicates": 1}, {"jobs": 1, "duplicates": 1}]


ONE_OF_EACH = [driver for driver in DRIVERS if driver.name in ("sqlite3", "psycopg")]


@pytest.mark.parametrize("driver", ONE_OF_EACH, ids=lambda driver: driver.name, indirect=True)
@pytest.mark.contract("QUE-18")
async def test_a_worker_is_woken_by_the_commit(driver: Driver, shop: Shop, make_app: MakeApp) -> None:
    app = make_app(shop.url, poll_interval="30s", queues="mail")
    send, watcher = declare(app), Watcher(app)
    async with app.worker():
        await watcher.ended([(await send.aenqueue(0)).id])  # it is up, and idle again
        for delay in ("0s", "200ms"):
            async with driver.hold(shop.url) as held:
                receipt = await driver.enqueue(send.using(on=held.on, delay=delay), 1)
                await held.commit()
            (job,) = await watcher.ended([receipt.id])
            assert job.started_at is not None
            assert (job.started_at - job.visible_at).total_seconds() < 10


@pytest.mark.parametrize("driver", ONE_OF_EACH, ids=lambda driver: driver.name, indirect=True)
async def test_a_synchronous_connection_needs_no_other(driver: Driver, shop: Shop, make_app: MakeApp) -> None:
    """Not even in a running loop, and not in another thread: all is done here, on the caller's connection."""
    app = make_app(shop.url)
    send, threads = declare(app), set(threading.enumerate())
    async with driver.hold(shop.url) as held:
        with app.internals.connecting_through(Nowhere()):
            send.using(on=held.on).enqueue(1)
            send.using(on=held.on).enqueue_many([2, 3])
            await send.using(on=held.on).aenqueue(4)
        assert set(threading.enumerate()) == threads
        await held.commit()
    assert await shop.sent() == [1, 2, 3, 4]


class Nowhere(DatabaseConnector):
    """There is no way to the database but the caller's."""

    def __init__(self) -> None:
        super().__init__(self._refuse)

    def _refuse(self) -> Store:
        raise AssertionError("a connection of its own was wanted")


async def test_a_large_call_is_one_transaction_too(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database_url)
    send = declare(app)
    await app.internals.connected()
    driver = next(d for d in DRIVERS if database_url.startswith(d.back_end) and d.name in ("sqlite3", "asyncpg"))
    async with driver.hold(database_url) as held:
        receipts = await driver.enqueue_many(send.using(on=held.on), range(25_000))
        await held.commit()
    assert len({receipt.id for receipt in receipts}) == 25_000
    assert await rows(database_url, "select count(*) from oncue_jobs where state = 'queued'") == [(25_000,)]


# --- PostgreSQL: keys, isolation ----------------------------------------------------------------------------------

WAITING = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.mark.contract("QUE-3")
@pytest.mark.parametrize("fate", ["commit", "rollback"])
async def test_who_comes_second_with_a_key_waits_for_the_first(make_app: MakeApp, postgres_url: str, fate: str) -> None:
    app = make_app(postgres_url)
    send = declare(app)
    (asyncpg_,) = (driver for driver in DRIVERS if driver.name == "asyncpg")
    async with asyncpg_.hold(postgres_url) as first, asyncpg_.hold(postgres_url) as second:
        made = await send.using(on=first.on, key="order").aenqueue(1)
        asking = asyncio.create_task(send.using(on=second.on, key="order").aenqueue(2))
        await waiting_for_a_lock(postgres_url)
        assert not asking.done()
        await getattr(first, fate)()
        receipt = await asking
        await second.commit()
    (job,) = await app.jobs.list()
    assert (receipt.id, receipt.created) == ((made.id, False) if fate == "commit" else (job.id, True))
    assert job.args == {"order_id": 1 if fate == "commit" else 2}


async def waiting_for_a_lock(url: str) -> None:
    """Until somebody waits: each look is a trip to the database, which lets the others get on."""
    while not await rows(url, WAITING):
        pass


async def test_a_serialization_failure_is_the_callers_own(make_app: MakeApp, postgres_url: str) -> None:
    send = declare(make_app(postgres_url))
    connection = await asyncpg.connect(postgres_url)
    async with connection.transaction(isolation="repeatable_read"):
        await connection.execute("select 1 from oncue_jobs")
        standing = await send.using(key="order").aenqueue(1)
        with pytest.raises(asyncpg.SerializationError):
            async with connection.transaction():
                await send.using(on=connection, key="order").aenqueue(2)
    receipt = await send.using(on=connection, key="order").aenqueue(2)
    assert (receipt.id, receipt.created) == (standing.id, False)
    await connection.close()


# --- SQLite: the clock, and the right to write --------------------------------------------------------------------


async def test_sqlites_time_is_never_before_its_mark(make_app: MakeApp, sqlite_url: str) -> None:
    app = make_app(sqlite_url)
    send = declare(app)
    await app.internals.connected()
    connection = sqlite3.connect(path_of(sqlite_url))
    mark = 4_102_444_800_000_000
    connection.execute("update oncue_clock set high_water = ?", [mark])
    receipt = send.using(on=connection).enqueue(1)
    connection.commit()
    connection.close()
    assert receipt.created_at.timestamp() * 1_000_000 == mark


def test_an_enqueue_that_begins_a_transaction_waits_for_its_turn_to_write(app_on_file: Oncue, sqlite_url: str) -> None:
    """Had it read first, it could not write any more: SQLite refuses at once if others have written since."""
    send = declare(app_on_file)
    other = sqlite3.connect(path_of(sqlite_url), isolation_level=None, timeout=0)
    other.execute("create table notes (text)")
    connection = sqlite3.connect(path_of(sqlite_url), isolation_level=None)
    met: list[str] = []

    def meddle(statement: str) -> None:
        try:
            other.execute("insert into notes values ('x')")
            met.append("written")
        except sqlite3.OperationalError as error:
            met.append(str(error))

    connection.execute("begin")
    connection.set_trace_callback(meddle)
    send.using(on=connection, key="order").enqueue(1)
    connection.set_trace_callback(None)
    connection.execute("commit")
    connection.close()
    other.close()
    assert "written" in met, "somebody else did write meanwhile"
    assert met[-1] == "database is locked", "until it was our turn"


@pytest.fixture
def app_on_file(make_app: MakeApp, sqlite_url: str, runner: asyncio.Runner) -> Oncue:
    app = make_app(sqlite_url)
    runner.run(app.internals.connected())
    return app
