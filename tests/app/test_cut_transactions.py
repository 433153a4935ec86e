"""A caller's connection is cut in the middle: its job is there once or not at all, as its own rows are."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from tests.app.conftest import MakeApp
from tests.app.drivers import DRIVERS, Driver, Held
from tests.app.proxy import Proxy
from tests.app.shop import declare, rows

ON_POSTGRES = [driver for driver in DRIVERS if driver.back_end == "postgres"]

CUT = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
 where datname = current_database() and state = 'idle in transaction'
"""


async def commit_that_fails(held: Held) -> None:
    """Each driver has its own error for it; what they share is that they raise one."""
    try:
        await held.commit()
    except Exception:
        return
    raise AssertionError("the commit was acknowledged")


@pytest.mark.parametrize("driver", ON_POSTGRES, ids=lambda driver: driver.name)
async def test_a_connection_that_is_cut_before_the_commit_leaves_nothing(
    make_app: MakeApp, postgres_url: str, driver: Driver
) -> None:
    app = make_app(postgres_url)
    send = declare(app)
    async with driver.hold(postgres_url) as held:
        await driver.enqueue(send.using(on=held.on, key="order"), 1)
        assert await rows(postgres_url, CUT) == [(True,)]
        await commit_that_fails(held)
    assert await app.jobs.list() == []
    async with driver.hold(postgres_url) as held:
        assert (await driver.enqueue(send.using(on=held.on, key="order"), 1)).created
        await held.commit()
    assert len(await app.jobs.list()) == 1


@pytest.mark.parametrize("driver", ON_POSTGRES, ids=lambda driver: driver.name)
async def test_a_commit_whose_reply_is_lost_is_not_doubled_by_a_second_try(
    make_app: MakeApp, postgres_url: str, driver: Driver
) -> None:
    app = make_app(postgres_url)
    send = declare(app)
    async with Proxy(postgres_url) as proxy:

        async def try_once() -> None:
            async with driver.hold(proxy.url) as held:
                await driver.enqueue(send.using(on=held.on, key="order"), 1)
                proxy.doomed = b"COMMIT"
                await commit_that_fails(held)

        # In a thread of its own, since a plain driver would keep the proxy from its work.
        trying = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(try_once())))
        await proxy.swallowed.wait()
        (job,) = await app.jobs.list()  # it is there; only the caller does not know
        proxy.cut.set()
        await trying
    async with driver.hold(postgres_url) as held:
        receipt = await driver.enqueue(send.using(on=held.on, key="order"), 1)
        await held.commit()
    assert (receipt.id, receipt.created) == (job.id, False)
    assert [found.id for found in await app.jobs.list()] == [job.id]


DIES = """
import sqlite3, sys
from oncue import Oncue

app = Oncue(sys.argv[1])

@app.task
def send(order_id: int) -> None: ...

connection = sqlite3.connect(sys.argv[1].removeprefix("sqlite:///"))
connection.execute("insert into orders values (1)")
send.using(on=connection, key="order").enqueue(1)
if sys.argv[2] == "commit":
    connection.commit()
assert not {"aiosqlite", "psycopg", "sqlalchemy"} & set(sys.modules), "a driver was imported that nobody asked for"
print("done", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("last", ["enqueue", "commit"])
async def test_a_process_that_is_killed_leaves_what_it_has_committed(
    make_app: MakeApp, sqlite_url: str, last: str
) -> None:
    app = make_app(sqlite_url)
    send = declare(app)
    await app.internals.connected()
    await rows(sqlite_url, "create table orders (id integer primary key)")
    command = [sys.executable, "-c", DIES, sqlite_url, last]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"done\n"
    process.kill()
    assert await process.wait() == -signal.SIGKILL
    there = 1 if last == "commit" else 0
    assert len(await app.jobs.list()) == len(await rows(sqlite_url, "select id from orders")) == there
    assert (await send.using(key="order").aenqueue(1)).created != bool(there)
    assert len(await app.jobs.list()) == 1
