"""Tasks that oncue brings: every worker runs them, without code of the application's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncue import Oncue, UnknownTask
from oncue.verbs.jobs import Jobs
from tests.app.conftest import MakeApp


async def test_a_worker_without_tasks_of_its_own_answers_a_ping(make_app: MakeApp, database_url: str) -> None:
    app, other = make_app(database_url, lease="1s", node_name="web-1"), make_app(database_url, lease="1s")
    assert dict(app.tasks) == {}
    async with app.worker() as node:
        for address in (None, "node:web-1", "role:leader"):
            told = await other.nodes.ping(address=address, timeout="60s")
            assert (told.job.state, told.job.node_id, told.node) == ("succeeded", node.node.id, "web-1")
            assert told.seconds is not None
            assert told.explanation is None


async def test_pings_wait_for_nobody_else(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database_url, lease="1s", concurrency=1)

    @app.task
    async def idle() -> None:
        await asyncio.sleep(0)

    await idle.using(priority=99).aenqueue_many([()] * 300)
    async with app.worker():
        assert (await app.nodes.ping(timeout="60s")).job.state == "succeeded"


async def test_a_queue_that_nobody_serves(app: Oncue) -> None:
    told = await app.nodes.ping("mail", timeout=0.02)
    assert (told.node, told.seconds) == (None, None)
    assert told.explanation is not None
    assert (await app.jobs.get(told.job.id)).state == "cancelled", "nothing is left behind"


async def test_a_ping_that_ends_at_the_last_moment_has_ended(app: Oncue, monkeypatch: pytest.MonkeyPatch) -> None:
    explain = Jobs.explain

    async def slowly(jobs: Jobs, ref: int) -> Any:
        await app.jobs.set_status(ref, "succeeded")
        return await explain(jobs, ref)

    monkeypatch.setattr(Jobs, "explain", slowly)
    told = await app.nodes.ping("mail", timeout=0.02)
    assert (told.job.state, told.explanation) == ("succeeded", None)


def test_the_names_of_such_tasks_are_reserved(app: Oncue) -> None:
    with pytest.raises(ValueError, match=r"name: expected one that does not begin with oncue\., as oncue's own do"):
        app.task(lambda: None, name="oncue.mine")
    assert app.find("oncue.ping").name == "oncue.ping"
    with pytest.raises(UnknownTask):
        app.find("oncue.pong")
