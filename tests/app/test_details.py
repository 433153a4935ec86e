"""What handlers tell of their attempts, on each back end: kept whatever ends them, and shown."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from oncue import Cancel, Fail, Job, Ladder, Oncue, Retry, Skip, Snooze, current_job
from tests.app.conftest import MakeApp
from tests.app.watching import Watcher


@pytest.fixture
def app(make_app: MakeApp, database_url: str) -> Oncue:
    return make_app(database_url, lease="1s")


async def attempts(app: Oncue, job_id: int) -> list[tuple[str, dict[str, Any] | None]]:
    return [(attempt.outcome, attempt.details) for attempt in await app.jobs.attempts(job_id)]


async def shown(app: Oncue, job_id: int) -> Job:
    """The job, once its row has details."""
    async with asyncio.timeout(60):
        while (job := await app.jobs.get(job_id)).details is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return job


async def test_every_attempt_keeps_its_details(app: Oncue) -> None:
    endings = [ValueError("no"), Retry("busy", after=0.01), Snooze(0.01), None]

    @app.task(retry=Ladder(0.01, 0.01, 0.01))
    async def deliver() -> None:
        job = current_job()
        job.details(status=500 + job.attempt)
        if (error := endings[job.attempt - 1]) is not None:
            raise error
        job.details(status=200, ms=12)

    @app.task
    def silent() -> None: ...

    watcher = Watcher(app)
    async with app.worker():
        delivery, other = await deliver.aenqueue(), await silent.aenqueue()
        done, quiet = await watcher.ended([delivery.id, other.id])
    assert await attempts(app, done.id) == [
        ("failed", {"status": 501}),
        ("failed", {"status": 502}),
        ("snoozed", {"status": 503}),
        ("succeeded", {"status": 200, "ms": 12}),
    ]
    assert (done.details, quiet.details) == ({"status": 200, "ms": 12}, None)


@pytest.mark.parametrize("decision", [Fail("never"), Skip("nothing"), Cancel("no more")])
async def test_whatever_a_handler_decides(app: Oncue, decision: Exception) -> None:
    @app.task
    def decide() -> None:
        current_job().details(seen=1)
        raise decision

    watcher = Watcher(app)
    async with app.worker():
        (job,) = await watcher.ended([(await decide.aenqueue()).id])
    assert job.details == {"seen": 1}


async def test_details_are_shown_while_a_job_runs_and_kept_when_it_is_cut_off(app: Oncue) -> None:
    over = threading.Event()

    @app.task(timeout=1.5, max_retries=0)
    async def hang() -> None:
        current_job().details(page=1)
        await asyncio.sleep(60)

    @app.task
    def stuck() -> None:
        current_job().details(page=2)
        over.wait(60)

    watcher = Watcher(app)
    async with app.worker():
        hanging, cancelled = await hang.aenqueue(), await stuck.aenqueue()
        assert (await shown(app, hanging.id)).state == "running"
        assert (await shown(app, cancelled.id)).state == "running"
        await app.jobs.cancel(cancelled.id)
        over.set()
        timed_out, stopped = await watcher.ended([hanging.id, cancelled.id])
    assert (timed_out.state, timed_out.details) == ("failed", {"page": 1})
    assert stopped.details == {"page": 2}


async def test_a_value_that_json_does_not_have_is_the_handlers_mistake(app: Oncue) -> None:
    @app.task(max_retries=0)
    def careless() -> None:
        current_job().details(status=200)
        current_job().details(connection=object())

    watcher = Watcher(app)
    async with app.worker():
        (job,) = await watcher.ended([(await careless.aenqueue()).id])
    assert job.state == "failed"
    assert "details: expected 'connection' to be a value that JSON has" in (job.error or "")
    assert job.details == {"status": 200}
