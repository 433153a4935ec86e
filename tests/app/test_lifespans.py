"""What a worker opens before its first job and closes after its last."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from oncue import Oncue, testing
from oncue.application import lifespans
from oncue.errors import LifespanFailed
from tests.app.conftest import MakeApp
from tests.app.watching import Watcher


@pytest.fixture
def app(make_app: MakeApp, database_url: str) -> Oncue:
    return make_app(database_url, lease="1s")


@pytest.fixture
def told() -> list[str]:
    return []


async def test_a_worker_opens_it_before_its_first_job_and_closes_it_after_its_last(app: Oncue, told: list[str]) -> None:
    @app.lifespan
    async def pool() -> AsyncIterator[str]:
        told.append("pool opens")
        yield "a pool"
        told.append("pool closes")

    @app.lifespan
    def session() -> Iterator[str]:
        told.append(f"session opens on {pool()}")
        yield "a session"
        told.append("session closes")

    @app.task
    async def coroutine() -> str:
        told.append("job")
        return session()

    @app.task
    def thread() -> tuple[str, bool]:
        told.append("job")
        return pool(), threading.current_thread() is threading.main_thread()

    ids = [(await task.aenqueue()).id for task in (coroutine, thread)]
    watcher = Watcher(app)
    async with app.worker():
        first, second = await watcher.ended(ids)
    assert (first.result, second.result) == ("a session", ["a pool", False])
    assert told == ["pool opens", "session opens on a pool", "job", "job", "session closes", "pool closes"]
    with pytest.raises(RuntimeError, match=r"^lifespan 'pool' is not open: it is open inside handlers"):
        pool()


async def test_one_that_does_not_open_ends_the_worker_with_nothing_claimed(app: Oncue, told: list[str]) -> None:
    @app.lifespan
    async def first() -> AsyncIterator[None]:
        yield
        told.append("first closes")

    @app.lifespan
    async def second() -> AsyncIterator[None]:
        raise OSError("no route to host")
        yield

    @app.task
    def work() -> None: ...

    job = (await work.aenqueue()).id
    with pytest.raises(LifespanFailed, match=r"^lifespan 'second' did not open: OSError: no route to host$"):
        async with app.worker():
            pytest.fail("it works all the same")
    found = await app.jobs.get(job)
    assert (found.state, found.claim_no, told) == ("queued", 0, ["first closes"])


async def test_one_that_does_not_close_keeps_nothing_open(
    app: Oncue, told: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lifespans, "CLOSE_SECONDS", 0.05)

    @app.lifespan
    async def good() -> AsyncIterator[None]:
        yield
        told.append("good closes")

    @app.lifespan
    async def broken() -> AsyncIterator[None]:
        yield
        raise OSError("it broke")

    @app.lifespan
    async def endless() -> AsyncIterator[None]:
        yield
        await asyncio.Event().wait()

    with caplog.at_level(logging.ERROR, "oncue.lifespan"):
        async with app.worker():
            pass
    assert told == ["good closes"]
    assert [record.getMessage() for record in caplog.records if record.name == "oncue.lifespan"] == [
        "lifespan endless did not close within 0.05 seconds: it is left behind",
        "lifespan broken failed when it was closed",
    ]


async def test_two_workers_in_one_process_do_not_share_it(app: Oncue) -> None:
    @app.lifespan
    async def pool() -> AsyncIterator[int]:
        yield 1

    async with app.worker():
        with pytest.raises(LifespanFailed, match="open already: a process runs one worker at a time"):
            async with app.worker():
                pytest.fail("it works all the same")
        assert pool() == 1


@pytest.mark.parametrize("function", [lambda: 1, 7, dict])
def test_what_yields_nothing_is_refused(app: Oncue, function: Any) -> None:
    with pytest.raises(TypeError, match=r"^lifespan: expected a function with one `yield`, plain or `async`, not "):
        app.lifespan(function)


def test_the_test_kit_opens_it_for_every_run_unless_it_is_replaced(app: Oncue, told: list[str]) -> None:
    @app.lifespan
    async def pool() -> AsyncIterator[str]:
        told.append(f"opens on {id(asyncio.get_running_loop())}")
        yield "a pool"
        told.append("closes")

    @app.task
    async def work() -> str:
        told.append(f"job on {id(asyncio.get_running_loop())}")
        return pool()

    with testing.use(app) as kit:
        assert kit.perform(work).result == "a pool"
        opened, ran, closed = told
        assert (opened.replace("opens", "job"), closed) == (ran, "closes")
        told.clear()
        with pool.replaced("a fake"):
            assert kit.perform(work).result == "a fake"
        assert len(told) == 1
        work.enqueue()
        assert kit.drain() == {"succeeded": 1}
    assert [line.split()[0] for line in told] == ["job", "opens", "job", "closes"]
