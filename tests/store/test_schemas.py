"""Tables of several applications in one PostgreSQL database, each in a schema of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import asyncpg
import pytest

from oncue.errors import ConfigError, NameClash, StoreError
from oncue.store import PostgresStore, connect
from oncue.store import statements as sql_files
from oncue.store.addresses import LONGEST_SCHEMA, checked_schema
from tests.store.scene import NOW, after, enter, plan, put, settle, take
from tests.store.test_watch import watched

ORDERS, BLOG = "orders", "user"
"""The second is a reserved word of SQL."""


async def made(url: str, schema: str) -> PostgresStore:
    store = PostgresStore(url, schema=schema)
    await store.migrate()
    await store.open()
    return store


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def value(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


@pytest.fixture
def stores(empty_postgres: str, runner: asyncio.Runner) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two stores in one database. No session finds either of them by its search_path."""
    runner.run(execute(empty_postgres, f"alter database {database_of(empty_postgres)} set search_path = 'nowhere'"))
    both = runner.run(made(empty_postgres, ORDERS)), runner.run(made(empty_postgres, BLOG))
    yield both
    for store in both:
        runner.run(store.close())


def database_of(url: str) -> str:
    return url.split("/")[3].split("?")[0]


def relations() -> set[str]:
    """What the migrations make and statements may name."""
    made = "".join(step.script for step in sql_files.migrations("postgres"))
    return set(re.findall(r"create (?:table|sequence|function|view) (oncue_\w+)", made)) | {"oncue_migrations"}


def test_every_name_in_a_statement_is_qualified() -> None:
    plain = {name: re.sub(r"--.*", "", text) for name, text in sql_files._unqualified("postgres").items()}
    named = {word for text in plain.values() for word in re.findall(r"\boncue_\w+", text)}
    assert named <= relations(), "a statement names something that no migration makes"
    for name, text in sql_files.load("postgres", ORDERS).items():
        bare = re.sub(r"--.*", "", text)
        assert not re.search(r'(?<!["\w.])"?oncue_\w+(?![\w.])', bare), name
        assert "'oncue'" not in bare, name


async def test_every_statement_holds_whatever_the_search_path(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url, server_settings={"search_path": "nowhere"})
    try:
        for statement in sql_files.load("postgres").values():
            await connection.prepare(statement)
    finally:
        await connection.close()


async def test_two_applications_in_one_database_see_nothing_of_each_other(
    stores: tuple[PostgresStore, PostgresStore],
) -> None:
    orders, blog = stores
    await put(orders, 3)
    await put(blog, 1)
    node = await enter(orders)
    assert await blog.nodes.alive() == []
    claims = await take(orders, node)
    assert len(claims) == 3
    assert await settle(orders, claims) == [True] * 3
    await orders.queues.pause("default", NOW)
    (queue,) = await blog.queues.all()
    assert (queue.queued, queue.paused_at) == (1, None)
    assert len(await take(blog, await enter(blog))) == 1
    await plan(orders)
    assert await blog.schedules.page(limit=10) == []
    assert await orders.jobs.prune(after(days=1), 10) == 3


async def test_an_applications_wake_ups_are_its_own(stores: tuple[PostgresStore, PostgresStore]) -> None:
    orders, blog = stores
    bell, other_bell = await watched(orders), await watched(blog)
    await put(orders)
    await bell.heard()
    await orders.queues.pause("default", NOW)
    await orders.queues.resume("default", NOW)
    await bell.heard()
    assert await other_bell.quiet(0.2)
    await put(blog)
    await other_bell.heard()


async def test_views_are_made_in_the_schema_of_their_tables(
    stores: tuple[PostgresStore, PostgresStore], empty_postgres: str
) -> None:
    orders, blog = stores
    views = list(sql_files.views("postgres"))
    assert await orders.create_views() == await orders.create_views() == views
    assert await value(empty_postgres, f'select count(*) from "{ORDERS}".job_runs') == 0
    assert await value(empty_postgres, f"select to_regclass('\"{BLOG}\".job_runs')") is None
    await execute(empty_postgres, f'create table "{BLOG}".job_runs (id integer)')
    with pytest.raises(NameClash, match="job_runs"):
        await blog.create_views()
    assert await orders.create_views() == views


async def test_the_tables_of_a_schema_are_of_its_own_version(empty_postgres: str) -> None:
    orders, blog = await made(empty_postgres, ORDERS), PostgresStore(empty_postgres, schema=BLOG)
    public = PostgresStore(empty_postgres)
    try:
        assert await blog.version() == await public.version() == 0
        with pytest.raises(StoreError, match="no oncue tables"):
            await public.open()
        assert await orders.migrate() == []
        assert len(await blog.migrate()) == len(sql_files.migrations("postgres"))
        assert await value(empty_postgres, "select to_regclass('public.oncue_migrations')") is None
    finally:
        for store in (orders, blog, public):
            await store.close()


async def test_schemas_are_migrated_side_by_side(empty_postgres: str) -> None:
    """A migration waits for another one of the same schema only."""
    names = [ORDERS, ORDERS, BLOG, BLOG]
    stores = [PostgresStore(empty_postgres, schema=name) for name in names]
    try:
        steps = await asyncio.gather(*(store.migrate() for store in stores))
    finally:
        for store in stores:
            await store.close()
    assert sum(map(len, steps)) == 2 * len(sql_files.migrations("postgres"))


async def test_all_schemas_have_the_same_tables(
    stores: tuple[PostgresStore, PostgresStore], empty_postgres: str
) -> None:
    look = """
    select coalesce(string_agg(line, chr(10) order by line), '') from (
        select c.relname || ' ' || coalesce(replace(pg_get_indexdef(i.indexrelid), '{0}.', ''), '') as line
          from pg_class c left join pg_index i on i.indexrelid = c.oid
         where c.relnamespace = '{0}'::regnamespace) as lines
    """
    one, other = await value(empty_postgres, look.format(ORDERS)), await value(empty_postgres, look.format(f'"{BLOG}"'))
    assert one == other
    assert "oncue_jobs_claimable" in str(one)


async def test_a_role_that_may_not_make_the_schema_is_told_what_to_ask_for(empty_postgres: str) -> None:
    role = f"clerk_{database_of(empty_postgres)}"
    await execute(empty_postgres, f"create role {role} login")
    url = empty_postgres.replace("postgres@", f"{role}@")
    store = PostgresStore(url, schema=ORDERS)
    try:
        with pytest.raises(StoreError, match=rf"no schema 'orders'.*create schema \"orders\" authorization \"{role}\""):
            await store.migrate()
        await execute(empty_postgres, f"create schema {ORDERS} authorization {role}")
        assert len(await store.migrate()) == len(sql_files.migrations("postgres"))
        await store.open()
        await put(store)
    finally:
        await store.close()
        await execute(empty_postgres, f"drop owned by {role}", f"drop role {role}")


GRANTS = (
    'grant usage on schema "{schema}" to {role}',
    'grant select, insert, update, delete on all tables in schema "{schema}" to {role}',
    'grant usage, select, update on all sequences in schema "{schema}" to {role}',
)


async def test_these_rights_are_enough_to_work(empty_postgres: str) -> None:
    """Those that the page on operations names: one role migrates, another one works."""
    role = f"worker_{database_of(empty_postgres)}"
    await execute(empty_postgres, f"create role {role} login")
    await (await made(empty_postgres, ORDERS)).close()
    await execute(empty_postgres, *(grant.format(schema=ORDERS, role=role) for grant in GRANTS))
    store = PostgresStore(empty_postgres.replace("postgres@", f"{role}@"), schema=ORDERS)
    try:
        await store.open()
        await put(store)
        claims = await take(store, await enter(store))
        assert await settle(store, claims) == [True]
        await plan(store)
        assert await store.jobs.prune(after(days=1), 10) == 1
    finally:
        await store.close()
        await execute(empty_postgres, f"drop owned by {role}", f"drop role {role}")


@pytest.mark.parametrize(
    "name", ["", "Orders", "my shop", "7up", "pg_orders", "information_schema", 'a"b', "x" * 41, 7]
)
def test_what_is_no_name_of_a_schema_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match=rf"^schema: expected 1 to {LONGEST_SCHEMA} lower-case letters"):
        checked_schema(name)  # type: ignore[arg-type]


def test_a_channel_has_room_for_the_longest_name() -> None:
    assert len(sql_files.channel(checked_schema("x" * LONGEST_SCHEMA))) < 64


def test_a_file_has_no_schemas() -> None:
    with pytest.raises(ConfigError, match=r"^schema: .* on SQLite an application has a file of its own"):
        connect("sqlite:///oncue.db", schema=ORDERS)
