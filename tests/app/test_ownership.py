"""One application, one set of tables: a worker of another one is refused, before it has changed anything."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import asyncpg
import pytest

from oncue import ConfigError, Oncue, StoreUnavailable, WrongApplication, cron
from oncue.application.naming import Place
from oncue.application.ownership import take_tables
from oncue.model import Owner
from oncue.policy.ownership import ApplicationName
from tests.answering import Answering
from tests.app.conftest import MakeApp
from tests.app.drivers import path_of
from tests.app.shop import declare

Make = Callable[..., Oncue]


@pytest.fixture
def make(make_app: MakeApp, database_url: str) -> Make:
    """Makes applications on one set of tables: with a name, or only with a place."""

    def made(name: str | None = None, *, place: str = "shop", **settings: Any) -> Oncue:
        app = make_app(database_url, name=name, **settings)
        app.internals._place = Place(place, place != "app")
        return app

    return made


async def started(app: Oncue) -> Oncue:
    """Its worker has been there."""
    async with app.worker():
        pass
    return app


async def owner(app: Oncue) -> Owner:
    found = await (await app.internals.connected()).store.application.owner()
    assert found is not None
    return found


async def test_the_first_worker_takes_the_tables(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "oncue"):
        app = await started(make("orders"))
        await started(make("orders"))
    assert (await owner(app))[:2] == ("orders", True)
    assert caplog.text.count("the tables belong to the application 'orders' from now on") == 1


async def test_a_worker_of_another_name_is_refused_and_changes_nothing(make: Make) -> None:
    """Else it runs the first application's jobs by its own code of the same name, and uses up their retries."""
    orders = make("orders")
    send = declare(orders)

    @orders.task(schedule=cron("0 3 * * *"))
    def nightly() -> None: ...

    await started(orders)
    await send.aenqueue(1)
    blog = make("blog")
    declare(blog)
    with pytest.raises(WrongApplication) as refused:
        await started(blog)
    assert "belong to the application 'orders', and this application is called 'blog'" in str(refused.value)
    assert "ONCUE_NAME=orders" in str(refused.value)
    (job,) = await orders.jobs.list()
    assert (job.state, job.claim_no, job.retry_count) == ("queued", 0, 0)
    assert [schedule.enabled for schedule in await orders.schedules.list()] == [True]
    assert await orders.nodes.list() == []


async def test_the_refusal_names_what_its_back_end_has(make: Make, database_url: str) -> None:
    await started(make("orders"))
    with pytest.raises(WrongApplication, match="DATABASE_URL=sqlite" if "sqlite" in database_url else "ONCUE_SCHEMA"):
        await started(make("blog"))


async def test_two_projects_without_names_are_told_apart_by_the_places_of_their_code(make: Make) -> None:
    shop = await started(make(place="shop"))
    await started(make(place="shop"))
    with pytest.raises(WrongApplication, match=r"has no name, and is called after the place of its code 'blog'"):
        await started(make(place="blog"))
    assert (await owner(shop))[:2] == ("shop", False)


async def test_in_a_place_that_says_nothing_a_name_is_asked_for(
    make: Make, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Two containers have their code in /app."""
    shared = not database_url.startswith("sqlite")
    await started(make(place="app"))
    assert ("ONCUE_NAME: this application has no name" in caplog.text) is shared
    production = make(place="app", env="production")
    if shared:
        with pytest.raises(ConfigError, match=r"called 'app'.* A name must be set in production"):
            await started(production)
    else:
        await started(production)
    caplog.clear()
    await started(make("orders", place="app", env="production"))
    assert "ONCUE_NAME" not in caplog.text


async def test_an_application_that_gets_a_name_keeps_its_tables(make: Make) -> None:
    await started(make(place="shop"))
    app = await started(make("orders", place="shop"))
    assert (await owner(app))[:2] == ("orders", True)
    await started(make("orders", place="elsewhere"))
    with pytest.raises(WrongApplication, match="belong to the application 'orders'"):
        await started(make(place="shop"))


async def test_a_named_application_enqueues_nothing_into_the_tables_of_another(make: Make) -> None:
    orders, blog = make("orders"), make("blog")
    send = declare(blog)
    await send.aenqueue(1)  # the tables belong to no application yet
    await blog.jobs.cancel((await blog.jobs.list())[0].id)
    await blog.aclose()
    await started(orders)
    with pytest.raises(WrongApplication, match="belong to the application 'orders'"):
        await send.aenqueue(2)
    with pytest.raises(WrongApplication):
        await send.aenqueue_many([(3,), (4,)])
    with pytest.raises(WrongApplication):
        await blog.schedules.create("daily", "@daily", "send", {"order_id": 1})
    assert len(await blog.jobs.list()) == 1, "it may look all the same"


async def test_an_application_without_a_name_enqueues_from_any_place(make: Make) -> None:
    """A web process may be installed somewhere else than the workers."""
    await started(make("orders", place="worker"))
    await declare(make(place="frontend")).aenqueue(1)


async def test_a_callers_connection_is_checked_too(make: Make, database_url: str) -> None:
    orders, blog = make("orders"), make("blog")
    await started(orders)
    if database_url.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(database_url))) as connection:
            with pytest.raises(WrongApplication):
                declare(blog).using(on=connection).enqueue(1)
            assert declare(orders).using(on=connection).enqueue(1).created
        return
    other = await asyncpg.connect(database_url)
    async with other.transaction():
        with pytest.raises(WrongApplication, match="ONCUE_SCHEMA"):
            await declare(blog).using(on=other).aenqueue(1)
        assert (await declare(orders).using(on=other).aenqueue(2)).created, "the caller's transaction goes on"
    await other.close()
    assert [job.args["order_id"] for job in await orders.jobs.list()] == [2]


async def test_of_two_that_start_at_once_one_is_refused(make: Make) -> None:
    """Both saw that the tables were nobody's: the second one's write does not take, and it looks again."""
    app = make("orders")
    connection = await app.internals.connected()
    real, seen = connection.store, [None]

    async def owner() -> Owner | None:
        return seen.pop() if seen else await real.application.owner()

    slow: Any = Answering(real, application=Answering(real.application, owner=owner))
    await take_tables(real, app.internals.identity, connection.now())
    with pytest.raises(WrongApplication):
        await take_tables(slow, ApplicationName("blog", True, "blog"), connection.now())
    seen.append(None)
    await take_tables(slow, app.internals.identity, connection.now())


async def test_a_worker_whose_reply_was_lost_has_its_tables_all_the_same(make: Make) -> None:
    app = make("orders")
    connection = await app.internals.connected()
    real = connection.store

    async def own(*arguments: Any) -> bool:
        await real.application.own(*arguments)
        raise StoreUnavailable("the reply was lost")

    deaf: Any = Answering(real, application=Answering(real.application, own=own))
    with pytest.raises(StoreUnavailable):
        await take_tables(deaf, app.internals.identity, connection.now())
    await take_tables(deaf, app.internals.identity, connection.now())
    assert (await owner(app)).name == "orders"


async def test_on_postgresql_each_has_tables_in_its_own_schema(make_app: MakeApp, empty_postgres: str) -> None:
    apps = [make_app(empty_postgres, name=name, schema=name) for name in ("orders", "blog")]
    for app in apps:
        store = app.internals.make_store()
        await store.migrate()
        await store.close()
        await started(app)
        assert (await owner(app)).name == app.name
