"""Schedules for the shell's tests: made in the past, worked off, and tampered with behind oncue's back."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from oncue import Oncue
from oncue.model import TERMINAL, Outcome
from oncue.verbs.schedules.declaring import Declaring
from tests.store.scene import a_node, settle


def on_diary(url: str, work: Callable[[Oncue], Awaitable[Any]]) -> Any:
    """Do something to the application in plain Python."""
    sys.modules.pop("tests.cli.diary", None)
    from tests.cli.diary import app

    app.override({"database_url": url})

    async def done() -> Any:
        try:
            return await work(app)
        finally:
            await app.aclose()

    return asyncio.run(done())


def synchronised(url: str) -> None:
    """Tell the database what the code declares, as a worker does when it starts."""
    on_diary(url, lambda app: Declaring(app.internals).synchronise())


def made_ago(url: str, ago: timedelta, name: str, expression: str, task: str, **options: Any) -> None:
    """A schedule that somebody made a while ago, and that no leader has looked at since."""

    async def work(app: Oncue) -> None:
        connection = await app.internals.connected()
        then = connection.now() - ago
        connection.now = lambda: then  # type: ignore[method-assign]
        await app.schedules.create(name, expression, task, **options)

    on_diary(url, work)


def worked_off(url: str) -> None:
    """Let a worker decide what is due, and run it."""

    async def work(app: Oncue) -> None:
        async with app.worker():
            while not await _is_idle(app):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    on_diary(url, work)


def a_single_run(url: str) -> int:
    """The job of a slot that may run at most once; it waits."""

    async def work(app: Oncue) -> int:
        @app.task(delivery="at_most_once", max_retries=0, queue="till")
        async def charge() -> None: ...

        await app.schedules.create("yearly", "0 0 1 1 *", charge)
        job_id = (await app.schedules.run_now("yearly")).job_id
        assert job_id is not None
        return job_id

    job_id: int = on_diary(url, work)
    return job_id


def taken_by(url: str, worker: str, outcome: Outcome) -> None:
    """Let a worker of this name take that run, end it like this, and die."""

    async def work(app: Oncue) -> None:
        connection = await app.internals.connected()
        store, now = connection.store, connection.now()
        node = a_node(worker, started_at=now, expires_at=now + timedelta(minutes=1))
        await store.nodes.register(node)
        claims = await store.jobs.claim(node.id, ["till"], ["charge"], 1, now)
        assert await settle(store, claims, outcome, at=now) == [True]
        assert await store.nodes.declare_lost(node.id, now)

    on_diary(url, work)


async def _is_idle(app: Oncue) -> bool:
    now = await app.now()
    decided = all(s.next_run_at is None or s.next_run_at > now for s in await app.schedules.list())
    return decided and all(job.state in TERMINAL for job in await app.jobs.list())


def execute(url: str, statement: str) -> None:
    """Do what nobody should: change oncue's tables by hand. The statement is one that both back ends understand."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute(statement)
        connection.close()
        return

    async def work() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(work())


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """What a query answers, on either back end."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        found = connection.execute(query).fetchall()
        connection.close()
        return found

    async def work() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(url)
        answer = [tuple(row) for row in await connection.fetch(query)]
        await connection.close()
        return answer

    return asyncio.run(work())


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)
