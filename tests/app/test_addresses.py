"""Jobs with an address: for a worker by its name, or for the leader, by every way in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncue import InvalidJob, Oncue, Task, current_job
from tests.app.conftest import MakeApp
from tests.app.watching import Watcher


@pytest.fixture
def app(make_app: MakeApp, database_url: str) -> Oncue:
    return make_app(database_url, lease="1s", node_name="web-1")


@pytest.fixture
def where(app: Oncue) -> Task[[], str | None]:
    @app.task(max_retries=0)
    async def where() -> str | None:
        return None

    return where


async def test_a_job_for_a_worker_and_one_for_the_leader_run_there(app: Oncue, where: Task[[], str | None]) -> None:
    watcher = Watcher(app)
    ids = [(await where.using(address=address).aenqueue()).id for address in ("node:web-1", "role:leader")]
    absent = await where.using(address="node:web-2").aenqueue()
    pointless = await where.using(address="node:web-2", deadline="1s").aenqueue()
    async with app.worker() as node:
        jobs = await watcher.ended([*ids, pointless.id])
    assert [(job.state, job.reason, job.address) for job in jobs] == [
        ("succeeded", None, "node:web-1"),
        ("succeeded", None, "role:leader"),
        ("skipped", "deadline", "node:web-2"),
    ]
    assert {job.node_id for job in jobs[:2]} == {node.node.id}
    waits = await app.jobs.get(absent.id)
    assert (waits.state, waits.claim_no) == ("queued", 0), "a job for a name that is absent waits"


async def test_a_job_that_follows_may_have_an_address(app: Oncue, where: Task[[], str | None]) -> None:
    watcher = Watcher(app)

    @app.task
    async def ask() -> None:
        current_job().then(where.using(address="node:elsewhere"))

    async with app.worker():
        await watcher.ended([(await ask.aenqueue()).id])
    (follower,) = await app.jobs.list(task="where")
    assert (follower.address, follower.state) == ("node:elsewhere", "queued")


async def test_a_retried_job_keeps_its_address(app: Oncue, where: Task[[], str | None]) -> None:
    receipt = await where.using(address="role:leader").aenqueue()
    await app.jobs.cancel(receipt.id)
    assert (await app.jobs.retry(receipt.id)).address == "role:leader"


@pytest.mark.parametrize(
    "wrong",
    ["", "web-1", "node:", "node: x", "role:follower", "leader", "node:a\n", "node:" + "x" * 129, 7],
    ids=range(9),
)
async def test_what_is_no_address_is_refused(where: Task[[], str | None], wrong: Any) -> None:
    with pytest.raises(InvalidJob, match="address: expected node:NAME, with the name of a node, or role:leader"):
        where.using(address=wrong)


async def test_a_job_has_a_group_or_an_address(where: Task[[], str | None]) -> None:
    with pytest.raises(InvalidJob, match="address: give either `group` or `address`, not both"):
        where.using(address="role:leader", group="tenant:7")


async def test_a_job_for_the_leader_is_given_back_when_its_node_stops_leading(app: Oncue) -> None:
    began = asyncio.Event()

    @app.task(max_retries=0)
    async def publish() -> None:
        began.set()
        await asyncio.Event().wait()

    receipt = await publish.using(address="role:leader").aenqueue()
    async with app.worker() as node:
        await asyncio.wait_for(began.wait(), 60)
        began.clear()
        await node.leadership.resign()
        await asyncio.wait_for(began.wait(), 60)  # it leads again, and takes the job up
        job = await app.jobs.get(receipt.id)
        assert (job.state, job.retry_count, job.claim_no) == ("running", 0, 2)
        (attempt,) = await app.jobs.attempts(receipt.id)
        assert (attempt.outcome, attempt.claim_no) == ("deposed", 1)
        await app.jobs.cancel(receipt.id)
