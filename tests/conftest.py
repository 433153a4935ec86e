"""What every test may ask for: a database of its own, on each back end, and a loop to run coroutines in.

A test that takes `store` or `database_url` runs twice, on SQLite and on PostgreSQL, on an empty database that nobody
else uses. An `async def` test runs in the same loop as its fixtures.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import shutil
from collections.abc import Awaitable, Callable, Hashable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from hypothesis import HealthCheck, settings

from oncue.store import PostgresStore, SqliteStore, Store, connect
from tests import postgres
from tests.dealing import dealt

BACK_ENDS = ("sqlite", "postgres")
LONG = (
    "tests/process/", "tests/sim/", "tests/examples/", "tests/cli/", "tests/engine/test_processes",
    "tests/figures/", "tests/server/test_fuzz", "tests/server/test_processes", "tests/store/test_faults",
    "tests/store/test_model_machine",
)  # fmt: skip
"""Where the tests are that take long: they start processes, wait for leases, or run simulations."""
TEMPLATE = "oncue_template"

# To truncate a table with its indexes takes as long as most tests take, so the few rows of a small one are deleted.
# The planner must not notice: it takes any table that was never analysed for one of ten pages or more, and what an
# earlier test's ANALYZE found out about the columns outlives a truncation.
# The locks wait for whoever was shown out in the middle of a write.
EMPTY_TABLES = """
do $$ declare
    ours regclass[] := (select array_agg(oid) from pg_class
                         where relkind = 'r' and relnamespace = 'public'::regnamespace
                           and relname like 'oncue\\_%' and relname <> 'oncue_migrations');
    one record;
begin
    execute 'lock ' || array_to_string(ours, ', ') || ' in exclusive mode';
    for one in select oid::regclass as name, reltuples >= 0 as analysed, pg_relation_size(oid) as size,
                      10 * current_setting('block_size')::int as small
                 from pg_class where oid = any (ours)
    loop
        if one.analysed or one.size > one.small then
            execute format('truncate %s cascade', one.name);
            delete from pg_statistic where starelid = one.name;
        elsif one.size > 0 then
            execute format('delete from %s', one.name);
        end if;
    end loop;
    perform setval(seqrelid, seqstart, false) from pg_sequence where pg_sequence_last_value(seqrelid) is not null;
end $$
"""
# Whoever is left over from the last test is shown out first, lest it holds a lock or writes into the next one.
SHOW_OUT = """
select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
"""

# The same examples everywhere and every time, however slow a machine is; `ONCUE_EXAMPLES=1000` tries so many others.
EXAMPLES = int(os.environ.get("ONCUE_EXAMPLES", "0"))
settings.register_profile(
    "oncue",
    derandomize=not EXAMPLES,
    max_examples=EXAMPLES or settings.default.max_examples,  # type: ignore[union-attr]
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("oncue")

_numbers = count(1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each of several workers begins with what takes long, so that none is alone with it in the end."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = dealt(items, workers, lambda item: item.nodeid.startswith(LONG), shared_run)


def shared_run(item: pytest.Item) -> Hashable:
    """The bugs of a simulated run are tried one after another in one process, which makes the run without them once."""
    bug = item.callspec.params.get("bug") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    return item.nodeid if bug is None else bug.run


def pytest_collection_finish() -> None:
    """The tests themselves are no garbage, and there are many. Looking through them each time costs a tenth."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    """The test's event loop; it exists only once somebody uses it."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(pyfuncitem.obj(**wanted))
    return True


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> postgres.Server:
    """The session's PostgreSQL, with a migrated template to clone databases from."""
    base = tmp_path_factory.getbasetemp()
    folder = base if worker_id == "master" else base.parent
    with postgres.alone(folder / "postgres.lock"):
        server, started = postgres.shared(folder, postgres.session_process())
        if started:
            asyncio.run(_make_template(server))
    return server


async def _make_template(server: postgres.Server) -> None:
    await _execute(server.url(), f"create database {TEMPLATE}")
    store = PostgresStore(server.url(TEMPLATE))
    await store.migrate()
    await store.close()


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


class Sweeper:
    """Empties a database, on a connection that is kept: a new one for each test costs ten times as much."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None

    def sweep(self) -> None:
        try:
            self._swept()
        except psycopg.OperationalError:  # a test has shown out everybody
            self.close()
            self._swept()

    def _swept(self) -> None:
        if self._connection is None:
            self._connection = psycopg.connect(self._url, autocommit=True)
        self._connection.execute(SHOW_OUT)
        self._connection.execute(EMPTY_TABLES)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@pytest.fixture(scope="session")
def worker_database(postgres_server: postgres.Server, worker_id: str) -> str:
    """The address of this worker's database. A clone for each test is 20 times slower than emptying this one."""
    name = f"oncue_{worker_id}"
    asyncio.run(_execute(postgres_server.url(), f"create database {name} template {TEMPLATE}"))
    return postgres_server.url(name)


@pytest.fixture(scope="session")
def sweeper(worker_database: str) -> Iterator[Sweeper]:
    sweeper = Sweeper(worker_database)
    yield sweeper
    sweeper.close()


@pytest.fixture
def postgres_url(worker_database: str, sweeper: Sweeper) -> str:
    """The address of a migrated, empty PostgreSQL database."""
    sweeper.sweep()
    return worker_database


@pytest.fixture
def empty_postgres(postgres_server: postgres.Server, worker_id: str, runner: asyncio.Runner) -> Iterator[str]:
    """The address of a PostgreSQL database without any tables."""
    name = f"oncue_{worker_id}_{next(_numbers)}"
    runner.run(_execute(postgres_server.url(), f"create database {name}"))
    yield postgres_server.url(name)
    runner.run(_execute(postgres_server.url(), f"drop database {name} with (force)"))


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file. To copy it takes a tenth of the time that the migrations take."""
    template = tmp_path_factory.mktemp("template") / "oncue.db"

    async def make() -> None:
        store = SqliteStore(str(template))
        await store.open()
        await store.close()

    asyncio.run(make())
    return template


@pytest.fixture
def sqlite_file(tmp_path: Path, sqlite_template: Path) -> Path:
    """A migrated, empty SQLite file."""
    file = tmp_path / "oncue.db"
    shutil.copyfile(sqlite_template, file)
    return file


@pytest.fixture
def sqlite_url(sqlite_file: Path) -> str:
    """The address of a migrated, empty SQLite file."""
    return f"sqlite:///{sqlite_file}"


@pytest.fixture
def no_sqlite_file(sqlite_file: Path) -> None:
    """Nothing is at the address `sqlite_url` yet."""
    sqlite_file.unlink()


@pytest.fixture(params=BACK_ENDS)
def database_url(request: pytest.FixtureRequest) -> str:
    """The address of a database that is ready to use, on each back end."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


MakeStore = Callable[[], Awaitable[Store]]


@pytest.fixture
def make_store(database_url: str, runner: asyncio.Runner) -> Iterator[MakeStore]:
    """Opens further stores on the same database, as other processes would."""
    opened: list[Store] = []

    async def make() -> Store:
        store = connect(database_url)
        opened.append(store)
        await store.open()
        return store

    yield make
    for store in opened:
        runner.run(store.close())


@pytest.fixture
def store(make_store: MakeStore, runner: asyncio.Runner) -> Store:
    async def made() -> Store:
        return await make_store()

    return runner.run(made())


@pytest.fixture
def postgres_store(postgres_url: str, runner: asyncio.Runner) -> Iterator[PostgresStore]:
    """For what is about this dialect only."""
    store = PostgresStore(postgres_url)
    runner.run(store.open())
    yield store
    runner.run(store.close())


@pytest.fixture
def sqlite_store(sqlite_file: Path, runner: asyncio.Runner) -> Iterator[SqliteStore]:
    """For what is about this dialect only."""
    store = SqliteStore(str(sqlite_file))
    runner.run(store.open())
    yield store
    runner.run(store.close())
