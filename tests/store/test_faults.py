"""Full disks, held locks, killed servers: what the caller is told, and that it works again afterwards."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncue.errors import StoreBusy, StoreFull, StoreUnavailable
from oncue.model import JobFilter
from oncue.store import PostgresStore, SqliteStore
from tests import postgres
from tests.store.scene import NOW, a_batch, enter, put, settle, take
from tests.store.test_watch import watched

# Four processes of eight threads each: enqueue, claim and settle on one file, as fast as they can.
CROWD = """
import asyncio, sys, threading
from oncue.store import SqliteStore
from tests.store.scene import enter, put, settle, take

errors, done = [], []

async def work(path, number):
    store = SqliteStore(path)
    await store.open()
    try:
        node = await enter(store, f"thread-{number}")
        for _ in range(6):
            await put(store, 5)
            claims = await take(store, node, 5)
            done.append(sum(await settle(store, claims)))
    finally:
        await store.close()

def thread(path, number):
    try:
        asyncio.run(work(path, number))
    except BaseException as error:
        errors.append(repr(error))

threads = [threading.Thread(target=thread, args=(sys.argv[1], number)) for number in range(8)]
for one in threads: one.start()
for one in threads: one.join()
assert not errors, errors
print(sum(done))
"""


def test_a_crowd_on_one_sqlite_file_never_sees_a_locked_database(tmp_path: Path, runner: asyncio.Runner) -> None:
    path = tmp_path / "crowd.db"
    places = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CROWD, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(4)
    ]
    answers = [process.communicate(timeout=100) for process in processes]
    assert [error for _, error in answers] == [""] * 4

    async def check() -> int:
        store = SqliteStore(str(path))
        await store.open()
        try:
            (queue,) = await store.queues.all()
            assert (queue.running, queue.queued + queue.succeeded) == (0, 4 * 8 * 6 * 5)
            return queue.succeeded
        finally:
            await store.close()

    assert runner.run(check()) == sum(int(told) for told, _ in answers)


async def test_a_foreign_write_transaction_gives_store_busy_and_ends_with_it(tmp_path: Path) -> None:
    path = str(tmp_path / "oncue.db")
    store = SqliteStore(path, busy_seconds=0.05)
    await store.open()
    foreign = sqlite3.connect(path, isolation_level=None)
    try:
        foreign.execute("begin immediate")
        with pytest.raises(StoreBusy, match="write transaction is held open"):
            await put(store)
        assert await store.jobs.find(JobFilter()) == []
        foreign.execute("rollback")
        await put(store)
        assert len(await store.jobs.find(JobFilter())) == 1
    finally:
        foreign.close()
        await store.close()


async def test_a_full_disk_refuses_all_of_a_write_and_works_again_with_room(sqlite_store: SqliteStore) -> None:
    node = await enter(sqlite_store)
    (before,) = await put(sqlite_store)

    def room(pages: int) -> object:
        def work(connection: sqlite3.Connection) -> None:
            used = connection.execute("pragma page_count").fetchone()[0]
            connection.execute(f"pragma max_page_count = {used + pages}")

        return sqlite_store.database._writer.read(work)

    await room(2)  # type: ignore[misc]
    with pytest.raises(StoreFull, match="no room left"):
        await put(sqlite_store, 5000)
    assert [job.id for job in await sqlite_store.jobs.find(JobFilter())] == [before]
    assert await settle(sqlite_store, await take(sqlite_store, node)) == [True]

    await room(1_000_000)  # type: ignore[misc]
    assert len(await put(sqlite_store, 5000)) == 5000


async def test_a_full_disk_spares_the_small_writes_of_the_same_group_or_refuses_them_clearly(
    sqlite_store: SqliteStore,
) -> None:
    await sqlite_store.database._writer.read(
        lambda connection: connection.execute("pragma max_page_count = 60").fetchall()
    )
    asks = [sqlite_store.jobs.enqueue([a_batch(size)]) for size in (1, 1, 5000, 1)]
    answers = await asyncio.gather(*asks, return_exceptions=True)
    written = [answer for answer in answers if not isinstance(answer, BaseException)]
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert refused
    assert all(isinstance(error, StoreFull) for error in refused)
    assert len(await sqlite_store.jobs.find(JobFilter())) == sum(map(len, written))


@pytest.fixture
def own_server() -> Iterator[postgres.Server]:
    """A PostgreSQL that a test may kill."""
    server = postgres.start(os.getpid())
    yield server
    server.control("stop", "-m", "immediate")


async def eventually_put(store: PostgresStore) -> int:
    """Enqueue as the engine does: again under the same uids, in doubt, until there is an answer."""
    batch, in_doubt = a_batch(), False
    async with asyncio.timeout(60):
        while True:
            try:
                return (await store.jobs.enqueue([batch], in_doubt=in_doubt))[0].id
            except StoreUnavailable:
                in_doubt = True
                await asyncio.sleep(0.01)


async def test_a_killed_postgresql_is_unavailable_and_then_works_again_by_itself(own_server: postgres.Server) -> None:
    store = PostgresStore(own_server.url())
    try:
        await store.migrate()
        await store.open()
        await asyncio.gather(*(put(store) for _ in range(6)))
        bell = await watched(store)

        await asyncio.to_thread(own_server.control, "stop", "-m", "immediate")
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await store.time()
        await asyncio.to_thread(own_server.control, "start")

        assert await store.time()
        assert len(await store.jobs.find(JobFilter())) == 6
        await bell.heard()
        await put(store)
        await bell.heard()
    finally:
        await store.close()


async def test_what_was_acknowledged_outlives_restarts_and_nothing_is_doubled(own_server: postgres.Server) -> None:
    store = PostgresStore(own_server.url())
    try:
        await store.migrate()
        acknowledged: list[int] = []
        answered, enough = asyncio.Semaphore(0), asyncio.Event()

        async def write() -> None:
            while not enough.is_set():
                acknowledged.append(await eventually_put(store))
                answered.release()

        writers = [asyncio.ensure_future(write()) for _ in range(4)]
        for _ in range(2):
            for _ in range(50):
                await answered.acquire()
            await asyncio.to_thread(own_server.control, "restart", "-m", "immediate")
        for _ in range(50):
            await answered.acquire()
        enough.set()
        await asyncio.gather(*writers)
        stored = [job.id for job in await store.jobs.find(JobFilter(limit=1_000_000))]
        assert sorted(stored) == sorted(acknowledged)
    finally:
        await store.close()


async def test_idle_connections_that_the_server_cut_are_replaced_unnoticed(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    await asyncio.gather(*(put(postgres_store) for _ in range(6)))
    cut = asyncio.Semaphore(0)
    idle = list(postgres_store.database.connections._idle)
    for connection in idle:
        connection.add_termination_listener(lambda _: cut.release())
    other = PostgresStore(postgres_url)
    try:
        async with other.database.connections.use() as connection:
            await connection.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
    finally:
        await other.close()
    for _ in idle:
        await cut.acquire()
    assert len(await postgres_store.jobs.find(JobFilter())) == 6


async def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    store = PostgresStore(f"postgresql://postgres@/oncue?host={tmp_path}")
    with pytest.raises(StoreUnavailable):
        await store.open()
    await store.close()


async def test_a_cancelled_caller_leaves_a_usable_store(postgres_store: PostgresStore) -> None:
    async def pause_for_long() -> None:
        async with postgres_store.database.connections.use() as connection:
            await connection.execute("select pg_sleep(60)")

    waiting = [asyncio.ensure_future(pause_for_long()) for _ in range(6)]
    await asyncio.sleep(0.05)
    for one in waiting:
        one.cancel()
    assert all(
        isinstance(error, asyncio.CancelledError) for error in await asyncio.gather(*waiting, return_exceptions=True)
    )
    assert await put(postgres_store, created_at=NOW)
