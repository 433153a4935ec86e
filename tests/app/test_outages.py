"""Enqueueing while the database is away, comes back, or leaves the answer unknown."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from oncue import Oncue, StoreUnavailable, Task
from oncue.model import JobFilter
from oncue.store import PostgresStore
from tests.app.conftest import MakeApp
from tests.app.proxy import Proxy


async def ready(app: Oncue) -> Task[[int], None]:
    """A task two of whose jobs are there. The next enqueue has its number already: all that it asks is the insert."""
    work = declare(app)
    await work.using(key="1").aenqueue(1)
    await work.using(key="2").aenqueue(2)
    return work


def declare(app: Oncue) -> Task[[int], None]:
    @app.task
    def work(n: int) -> None: ...

    return work


async def test_a_job_whose_reply_was_lost_is_written_once(
    make_app: MakeApp, postgres_url: str, postgres_store: PostgresStore
) -> None:
    async with Proxy(postgres_url) as proxy:
        app = make_app(proxy.url)
        work = await ready(app)
        proxy.doomed = b'{"n":3}'
        asking = asyncio.create_task(work.aenqueue(3))
        await proxy.swallowed.wait()
        written = await postgres_store.jobs.find(JobFilter())
        assert written[0].args == {"n": 3}, "it is there; only the caller does not know"
        proxy.cut.set()
        receipt = await asking
        assert (receipt.created, receipt.uid) == (True, written[0].uid)
        assert len(await postgres_store.jobs.find(JobFilter())) == 3
        await app.aclose()


async def test_a_keyed_job_whose_reply_was_lost_is_not_its_own_duplicate(make_app: MakeApp, postgres_url: str) -> None:
    async with Proxy(postgres_url) as proxy:
        app = make_app(proxy.url)
        work = await ready(app)
        proxy.doomed = b'{"n":3}'
        asking = asyncio.create_task(work.using(key="3").aenqueue(3))
        await proxy.swallowed.wait()
        proxy.cut.set()
        assert (await asking).created
        await app.aclose()


async def test_an_enqueue_waits_for_a_database_that_comes_back(make_app: MakeApp, postgres_url: str) -> None:
    async with Proxy(postgres_url) as proxy:
        app = make_app(proxy.url)
        work = declare(app)
        await work.aenqueue(1)
        proxy.away = True
        proxy.hang_up()
        asking = asyncio.create_task(work.aenqueue(2))
        await proxy.refused.wait()
        proxy.away = False
        assert (await asking).created
        assert len(await app.jobs.list()) == 2
        await app.aclose()


@pytest.mark.parametrize(
    ("numbers", "told"),
    [([3], r"it is unknown whether the 1 jobs of work were written \(id \d+\)"), ([3, 4, 5], "nothing was written")],
    ids=["the insert was sent", "no numbers could be had"],
)
async def test_an_outage_that_lasts_is_told_with_what_is_known(
    make_app: MakeApp, postgres_url: str, monkeypatch: pytest.MonkeyPatch, numbers: list[int], told: str
) -> None:
    monkeypatch.setattr("oncue.application.enqueueing.ENQUEUE_PATIENCE_SECONDS", 0.1)
    async with Proxy(postgres_url) as proxy:
        app = make_app(proxy.url)
        work = await ready(app)
        proxy.away = True
        proxy.hang_up()
        with pytest.raises(StoreUnavailable, match=told):
            await work.aenqueue_many(numbers)
        proxy.away = False
        assert len(await app.jobs.list()) == 2
        await app.aclose()


async def test_the_clock_goes_on_while_the_database_is_away(
    make_app: MakeApp, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An enqueue that wants to learn the time again is as patient as any other."""
    monkeypatch.setattr("oncue.application.connecting.CLOCK_REFRESH_SECONDS", 0.0)
    async with Proxy(postgres_url) as proxy:
        app = make_app(proxy.url)
        work = declare(app)
        await work.aenqueue(1)
        proxy.away = True
        proxy.hang_up()
        asking = asyncio.create_task(work.aenqueue(2))
        await proxy.refused.wait()
        proxy.refused.clear()
        await proxy.refused.wait()
        proxy.away = False
        assert (await asking).created
        await app.aclose()


def test_a_database_that_was_never_there_is_told_at_once(make_app: MakeApp) -> None:
    work = declare(make_app("postgresql://postgres@127.0.0.1:1/nothing"))
    with pytest.raises(StoreUnavailable, match="PostgreSQL does not answer"):
        work.enqueue(1)


async def test_an_enqueue_waits_for_whoever_holds_the_file(make_app: MakeApp, sqlite_url: str) -> None:
    app = make_app(sqlite_url)
    work = declare(app)
    await work.aenqueue(1)
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("begin immediate")
    asking = asyncio.create_task(work.aenqueue(2))
    done, _ = await asyncio.wait([asking], timeout=0.1)
    assert not done
    other.execute("commit")
    other.close()
    assert (await asking).created
