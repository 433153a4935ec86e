"""Progress on the job's row, while it runs, on each back end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from oncue import Job, Ladder, Oncue, current_job
from tests.app.conftest import MakeApp
from tests.app.watching import Watcher


@pytest.fixture
def app(make_app: MakeApp, database_url: str) -> Oncue:
    return make_app(database_url, lease="1s")


async def shown(app: Oncue, job_id: int, fraction: float) -> Job:
    """The job, once its row shows this."""
    async with asyncio.timeout(60):
        while (job := await app.jobs.get(job_id)).progress != fraction:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return job


async def test_progress_is_shown_while_a_job_runs_and_belongs_to_its_attempt(app: Oncue) -> None:
    finish, over = asyncio.Event(), threading.Event()

    @app.task(retry=Ladder(0.01))
    async def crawl() -> None:
        if current_job().attempt == 1:
            current_job().progress(0.4, "page 4 of 10")
            await finish.wait()
            raise RuntimeError("the first attempt fails")

    @app.task
    def count() -> None:
        current_job().progress(0.25)
        over.wait(60)

    watcher = Watcher(app)
    async with app.worker():
        crawling, counting = await crawl.aenqueue(), await count.aenqueue()
        job = await shown(app, crawling.id, 0.4)
        assert (job.state, job.progress_note) == ("running", "page 4 of 10")
        assert (await shown(app, counting.id, 0.25)).progress_note is None
        finish.set()
        over.set()
        again, counted = await watcher.ended([crawling.id, counting.id])
    assert (again.attempt, again.progress, again.progress_note) == (2, None, None), "the second one has said nothing"
    assert (counted.state, counted.progress) == ("succeeded", 0.25)
