"""Claims are woken at once; the interval is only the fallback."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable

import pytest

from oncue import Job, Oncue
from oncue.settings import Settings
from tests.app.conftest import MakeApp
from tests.app.watching import Watcher

ENQUEUE = """
import sys
from oncue import Oncue

app = Oncue(sys.argv[1])

@app.task
def ping(n: int) -> None: ...

ping.enqueue(1)
app.close()
"""

# Far longer than anybody here waits: whatever starts at all was woken.
NEVER = "1h"


def declare(app: Oncue) -> None:
    @app.task
    async def ping(n: int) -> None: ...


def waited(job: Job) -> float:
    """Seconds from when it was due until it started."""
    assert job.started_at is not None
    return (job.started_at - max(job.created_at, job.visible_at)).total_seconds()


async def within(timeout: float, awaitable: Awaitable[None]) -> bool:
    try:
        await asyncio.wait_for(awaitable, timeout)
    except TimeoutError:
        return False
    return True


async def enqueue_elsewhere(url: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ENQUEUE, url)
    assert await process.wait() == 0


@pytest.mark.contract("QUE-18")
async def test_a_job_of_this_process_is_claimed_at_once(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database_url, poll_interval=NEVER)
    declare(app)
    watcher = Watcher(app)
    async with app.worker():
        for n in range(3):
            receipt = await app.find("ping").aenqueue(n)
            await watcher.ended([receipt.id])


@pytest.mark.contract("QUE-18")
async def test_a_job_of_another_process_is_claimed_at_once(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database_url, poll_interval=NEVER)
    declare(app)
    watcher = Watcher(app)
    async with app.worker():
        await watcher.ended([(await app.find("ping").aenqueue(0)).id])  # it is up, and idle again
        await enqueue_elsewhere(database_url)
        await watcher.ended([(await app.jobs.list(limit=1))[0].id])


@pytest.mark.contract("QUE-18")
async def test_the_interval_is_the_fallback_when_nothing_wakes(
    make_app: MakeApp, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.store.sqlite.database.NOTICE_SECONDS", 3600.0)
    app = make_app(database_url, poll_interval="100ms", pg_listen=False)
    declare(app)
    watcher = Watcher(app)
    async with app.worker():
        await watcher.ended([(await app.find("ping").aenqueue(0)).id])
        await watcher.ended([(await app.find("ping").aenqueue(1)).id])


@pytest.mark.contract("QUE-18")
async def test_without_a_wake_up_an_idle_worker_waits_for_its_interval(
    make_app: MakeApp, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other tests of this file would pass without waking if this one did not hold."""
    monkeypatch.setattr("oncue.store.sqlite.database.NOTICE_SECONDS", 3600.0)
    app = make_app(database_url, poll_interval=NEVER, pg_listen=False)
    declare(app)
    watcher = Watcher(app)
    first = await app.find("ping").aenqueue(0)
    async with app.worker() as node:
        await watcher.ended([first.id])
        asked = -1
        while asked != node.claimer.asked:  # the election, and a look at groups that came too soon, make it look again
            asked = node.claimer.asked
            await asyncio.sleep(0.3)
        second = await app.find("ping").aenqueue(1)
        assert not await within(0.3, watcher.begun(second.id))
        node.wake()
        await watcher.ended([second.id])


@pytest.mark.contract("QUE-18")
async def test_a_job_that_was_due_later_before_the_worker_looked_starts_when_it_is_due(
    make_app: MakeApp, database_url: str
) -> None:
    app = make_app(database_url, poll_interval=NEVER)
    declare(app)
    watcher = Watcher(app)
    receipt = await app.find("ping").using(delay="300ms").aenqueue(1)
    async with app.worker():
        (job,) = await watcher.ended([receipt.id])
    assert waited(job) >= 0


async def test_a_job_that_becomes_due_while_the_worker_is_idle_starts_when_it_is_due(
    make_app: MakeApp, database_url: str
) -> None:
    app = make_app(database_url, poll_interval=NEVER)
    declare(app)
    watcher = Watcher(app)
    async with app.worker():
        await watcher.ended([(await app.find("ping").aenqueue(0)).id])
        receipt = await app.find("ping").using(delay="300ms").aenqueue(1)
        (job,) = await watcher.ended([receipt.id])
    assert waited(job) >= 0


@pytest.mark.contract("QUE-18")
def test_the_intervals_are_shorter_than_the_origins_and_configurable(make_app: MakeApp, sqlite_url: str) -> None:
    assert Settings().pace.poll <= 5
    assert Settings().pace.aging.every <= 300
    assert make_app(sqlite_url, poll_interval="5s").settings.pace.poll == 5
