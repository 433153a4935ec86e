"""A user that signs up and its window are one commit, on every kind of connection that a caller may hold."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import NullPool, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from oncue import InvalidSubject, Oncue, SubjectNotFound, Task, daily
from oncue.policy.lifecycle import close_day
from oncue.store import Store
from oncue.verbs.schedules.declaring import Declaring
from tests.app.conftest import MakeApp
from tests.app.drivers import DRIVERS, Driver, Held, over
from tests.app.shop import rows
from tests.app.test_transactions import Nowhere

T = TypeVar("T")

ONE_OF_EACH = [driver for driver in DRIVERS if driver.name in ("sqlite3", "psycopg")]
ASYNCHRONOUS = [driver for driver in DRIVERS if driver.name in ("aiosqlite", "asyncpg", "AsyncSession-psycopg")]


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def driver(request: pytest.FixtureRequest) -> Driver:
    chosen: Driver = request.param
    return chosen


@pytest.fixture
def url(driver: Driver, request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{driver.back_end}_url")
    return address


def news(app: Oncue) -> Task[..., None]:
    @app.task(schedule=daily())
    async def digest(user: str, day: date, language: str = "en") -> None: ...

    return digest


@pytest.fixture
def app(make_app: MakeApp, url: str, runner: asyncio.Runner) -> Iterator[Oncue]:
    app = make_app(url)
    news(app)

    async def open() -> None:
        await Declaring(app.internals).synchronise()
        await rows(url, "create table if not exists orders (id integer primary key)")

    runner.run(open())
    yield app
    runner.run(rows(url, "drop table orders"))


async def said(app: Oncue, driver: Driver, verb: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """As the code of an application says it: plain code by `app.wait`, in its own thread."""
    return await verb() if driver.asynchronous else app.wait(verb())


async def sign_up(app: Oncue, driver: Driver, held: Held, number: int, **terms: Any) -> None:
    await held.execute(f"insert into orders values ({number})")
    await said(app, driver, lambda: app.windows.add("digest", f"user{number}", at="09:00", on=held.on, **terms))


async def names(app: Oncue) -> list[str]:
    return [one.name for one in await app.windows.subjects("digest")]


async def users(url: str) -> list[int]:
    return [row[0] for row in await rows(url, "select id from orders order by id")]


async def test_a_subject_shares_the_fate_of_its_transaction(driver: Driver, app: Oncue, url: str) -> None:
    async with driver.hold(url) as held:
        await sign_up(app, driver, held, 1)
        assert await names(app) == [], "nobody else sees it before the commit"
        await held.rollback()
    assert (await users(url), await names(app)) == ([], [])
    async with driver.hold(url) as held:
        await sign_up(app, driver, held, 2, tz="Europe/Berlin", weekdays="MON-FRI", days_off=["2030-12-24"],
                      args={"language": "dé"}, by="web")  # fmt: skip
        await held.commit()
    assert (await users(url), await names(app)) == ([2], ["user2"])
    ours = await app.windows.add("digest", "other", at="09:00", tz="Europe/Berlin", weekdays="MON-FRI",
                                 days_off=["2030-12-24"], args={"language": "dé"})  # fmt: skip
    stored = await app.windows.subject("digest", "user2")
    for field in ("due", "tz", "weekdays", "days_off", "args", "version", "day", "opens_at", "cutoff_at", "next_at"):
        if field != "next_at" or stored.opens_at > ours.since:
            assert getattr(stored, field) == getattr(ours, field), field
    (entry,) = await app.audit_log.list(subject="subject:digest/user2")
    assert (entry.actor, entry.action) == ("web", "subject.add")


async def test_the_same_terms_again_write_nothing(driver: Driver, app: Oncue, url: str) -> None:
    for _ in range(2):
        async with driver.hold(url) as held:
            row = {"subject": "ann", "at": "9:00", "args": {"language": "ß"}}
            await said(app, driver, lambda held=held, row=row: app.windows.add_many("digest", [row], on=held.on))
            await held.commit()
    assert (await app.windows.subject("digest", "ann")).version == 1
    assert await app.windows.add_many("digest", [{"subject": "ann", "at": "09:00", "args": {"language": "ß"}}]) == 0


async def test_a_subject_is_changed_and_removed_there_too(driver: Driver, app: Oncue, url: str) -> None:
    await app.windows.add("digest", "ann", at="09:00", tz="Asia/Tokyo")
    async with driver.hold(url) as held:
        changed = await said(app, driver, lambda: app.windows.change("digest", "ann", at="10:00", on=held.on))
        assert (changed.due, changed.tz, changed.version) == (600, "Asia/Tokyo", 2), "it sees its own writes"
        await said(app, driver, lambda: app.windows.remove("digest", "ann", on=held.on))
        with pytest.raises(SubjectNotFound):
            await said(app, driver, lambda: app.windows.remove("digest", "ann", on=held.on))
        assert await names(app) == ["ann"]
        await held.commit()
    assert await names(app) == []


async def test_many_are_one_commit(driver: Driver, app: Oncue, url: str) -> None:
    many = [{"subject": f"user{number:04}", "at": "09:00"} for number in range(1500)]
    async with driver.hold(url) as held:
        assert await said(app, driver, lambda: app.windows.add_many("digest", many, on=held.on)) == 1500
        assert await names(app) == []
        await held.commit()
    assert len(await app.windows.subjects("digest", limit=1000)) == 1000


async def test_no_attempt_starts_after_the_commit_that_removes_a_subject(
    driver: Driver, app: Oncue, url: str, store: Store
) -> None:
    job_id = await opened(app, "ann")
    async with driver.hold(url) as held:
        await said(app, driver, lambda: app.windows.remove("digest", "ann", on=held.on))
        await held.rollback()
    assert (await app.jobs.get(job_id)).cancel_requested_at is None
    async with driver.hold(url) as held:
        await said(app, driver, lambda: app.windows.remove("digest", "ann", on=held.on))
        await held.commit()
    job = await app.jobs.get(job_id)
    assert (job.state, job.cancel_requested_at is not None) == ("queued", True), "the next claim refuses it"


@pytest.fixture
def store(app: Oncue, runner: asyncio.Runner) -> Store:
    return runner.run(_store(app))


async def _store(app: Oncue) -> Store:
    return (await app.internals.connected()).store


async def opened(app: Oncue, name: str) -> int:
    """A subject whose day is open: it is due in the last minute of the day, in a zone where that is far off."""
    tz = "UTC" if (await app.now()).hour < 12 else "Etc/GMT+12"
    await app.windows.add("digest", name, at="23:59", tz=tz)
    job_id = (await app.windows.run_now("digest", name)).job_id
    assert job_id is not None
    return job_id


@pytest.mark.parametrize("driver", ONE_OF_EACH, ids=lambda driver: driver.name, indirect=True)
async def test_a_synchronous_connection_needs_no_other(driver: Driver, app: Oncue, url: str, make_app: MakeApp) -> None:
    """Neither a thread nor a connection of the application's own, and a running event loop does not matter."""
    other = make_app(url)
    news(other)
    threads = set(threading.enumerate())
    async with driver.hold(url) as held:
        with other.internals.connecting_through(Nowhere()):
            other.wait(other.windows.add("digest", "ann", at="09:00", on=held.on))
            await other.windows.add("digest", "bob", at="09:00", on=held.on)
        assert set(threading.enumerate()) == threads
        await held.commit()
    assert await names(app) == ["ann", "bob"]


@pytest.mark.parametrize("driver", ONE_OF_EACH, ids=lambda driver: driver.name, indirect=True)
async def test_what_is_wrong_is_named(driver: Driver, app: Oncue, url: str, make_app: MakeApp) -> None:
    async with driver.hold(url) as held:
        with pytest.raises(InvalidSubject, match="at: expected a time of day") as caught:
            app.wait(app.windows.add("digest", "ann", at="25:00", on=held.on))
        assert caught.value.field == "at"
        with pytest.raises(SubjectNotFound, match="no window 'other'"):
            app.wait(app.windows.add("other", "ann", at="09:00", on=held.on))
        await held.execute("insert into orders values (7)")
        await held.commit()
    assert await users(url) == [7], "the transaction was not harmed"
    with pytest.raises(InvalidSubject, match="on: expected a connection of sqlite3"):
        await app.windows.add("digest", "ann", at="09:00", on=object())


@pytest.mark.parametrize("driver", ONE_OF_EACH[1:], ids=lambda driver: driver.name, indirect=True)
async def test_a_subject_that_an_open_transaction_holds_keeps_no_other_job_from_its_end(
    driver: Driver, app: Oncue, url: str, store: Store
) -> None:
    """On PostgreSQL: an open transaction on SQLite holds the whole file."""
    ids = [await opened(app, name) for name in ("ann", "bob")]
    jobs, now = await store.windows.unfinished(ids), await app.now()
    ends = [close_day(job, now, "success", "by a test")._replace(state="succeeded", reason=None) for job in jobs]
    async with driver.hold(url) as held:
        await said(app, driver, lambda: app.windows.change("digest", "ann", at="10:00", on=held.on))
        assert await store.jobs.apply(ends, now) == [None, True]
        await held.commit()
    assert await store.jobs.apply(ends, now) == [True, False]
    found = [await app.windows.subject("digest", name) for name in ("ann", "bob")]
    assert [(one.status, one.due) for one in found] == [("success", 600), ("success", 1439)]


@pytest.mark.parametrize("driver", ASYNCHRONOUS, ids=lambda driver: driver.name, indirect=True)
async def test_an_asynchronous_connection_is_awaited(driver: Driver, app: Oncue, url: str) -> None:
    async with driver.hold(url) as held:
        with pytest.raises(InvalidSubject, match=r"on: .* is asynchronous: use `await` with it"):
            app.wait(app.windows.add("digest", "ann", at="09:00", on=held.on))


# --- the guide ------------------------------------------------------------------------------------------------------

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"

    name: Mapped[str] = mapped_column(primary_key=True)


SESSIONS = [driver for driver in DRIVERS if driver.name in ("Session-pysqlite", "Session-psycopg")]


@pytest.mark.parametrize("driver", SESSIONS, ids=lambda driver: driver.name, indirect=True)
async def test_the_guides_example_works_as_it_stands(driver: Driver, url: str, make_app: MakeApp) -> None:
    chapter = GUIDE.read_text("utf-8").split("\n### A user that signs up\n")[1].split("\n## ")[0]
    (example,) = [text for text in re.findall(r"```python\n(.*?)```", chapter, re.DOTALL) if "session" in text]
    app = make_app(url)

    @app.task(schedule=daily())
    async def morning_digest(user: str, day: date) -> None: ...

    await Declaring(app.internals).synchronise()
    engine = create_engine(over(driver.name.partition("-")[2], url), poolclass=NullPool)
    Base.metadata.create_all(engine)
    exec(example, {"Session": Session, "engine": engine, "User": User, "app": app})
    with Session(engine) as session:
        assert list(session.scalars(select(User.name))) == ["eve"]
    assert [one.name for one in await app.windows.subjects("morning_digest")] == ["eve"]
    Base.metadata.drop_all(engine)
    engine.dispose()
