"""A real worker inside the test, on each back end."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

from oncue import Cancel, Ladder, Oncue, Retry, Skip, Snooze, current_job
from oncue.errors import StoreUnavailable
from tests.app.conftest import MakeApp
from tests.app.watching import Watcher


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Order(BaseModel):
    number: int
    size: Size
    placed_at: datetime


@pytest.fixture
def app(make_app: MakeApp, database_url: str) -> Oncue:
    return make_app(database_url, lease="1s")


@pytest.mark.contract("QUE-8")
async def test_jobs_of_each_kind_run_to_their_end(app: Oncue) -> None:
    @app.task
    def plain(n: int) -> int:
        return 2 * n

    @app.task
    async def coroutine(n: int) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"n": n}

    @app.task(retry=Ladder(0.01, 0.01))
    async def flaky() -> int:
        attempt = current_job().attempt
        if attempt < 3:
            raise ValueError(f"attempt {attempt}")
        return attempt

    @app.task(max_retries=0)
    def broken() -> None:
        raise ValueError("it broke")

    @app.task
    async def sleepy() -> int:
        if current_job().attempt == 1:
            raise Snooze(0.01)
        return current_job().attempt

    @app.task
    async def pointless() -> None:
        raise Skip("nothing to do")

    @app.task
    def hopeless() -> None:
        raise Cancel("no such order")

    @app.task(max_retries=1)
    async def again() -> None:
        raise Retry("not yet", after=0.01)

    @app.task(timeout=0.05, max_retries=0)
    async def slow() -> None:
        await asyncio.Event().wait()

    @app.task(delivery="at_most_once", timeout=0.05)
    async def once() -> None:
        await asyncio.Event().wait()

    watcher = Watcher(app)
    async with app.worker():
        receipts = [
            *await plain.aenqueue_many([1, 2, 3]),
            *await coroutine.using(priority=60).aenqueue_many([4, 5]),
            *[await task.aenqueue() for task in (flaky, broken, sleepy, pointless, hopeless, again, slow, once)],
            await plain.using(delay=0.05).aenqueue(6),
            await plain.using(deadline=0).aenqueue(7),
        ]
        jobs = await watcher.ended(receipt.id for receipt in receipts)
    assert [(job.task, job.state, job.result, job.reason) for job in jobs] == [
        ("plain", "succeeded", 2, None),
        ("plain", "succeeded", 4, None),
        ("plain", "succeeded", 6, None),
        ("coroutine", "succeeded", {"n": 4}, None),
        ("coroutine", "succeeded", {"n": 5}, None),
        ("flaky", "succeeded", 3, None),
        ("broken", "failed", None, None),
        ("sleepy", "succeeded", 2, None),
        ("pointless", "skipped", None, "nothing to do"),
        ("hopeless", "cancelled", None, "no such order"),
        ("again", "failed", None, None),
        ("slow", "failed", None, None),
        ("once", "skipped", None, "skipped_timeout"),
        ("plain", "succeeded", 12, None),
        ("plain", "skipped", None, "deadline"),
    ]
    assert "ValueError: it broke" in str(jobs[6].error)
    assert (jobs[10].error, jobs[10].attempt) == ("not yet", 2)
    assert "timed out" in str(jobs[11].error)


@pytest.mark.contract("QUE-8")
async def test_every_attempt_is_on_record(app: Oncue) -> None:
    @app.task(retry=Ladder(0, 0))
    async def flaky() -> None:
        if current_job().attempt < 3:
            raise ValueError(f"attempt {current_job().attempt}")

    watcher = Watcher(app)
    async with app.worker():
        receipt = await flaky.aenqueue()
        await watcher.ended([receipt.id])
    attempts = await app.jobs.attempts(receipt.id)
    assert [(attempt.attempt, attempt.outcome) for attempt in attempts] == [
        (1, "failed"),
        (2, "failed"),
        (3, "succeeded"),
    ]
    assert "ValueError: attempt 2" in str(attempts[1].error)


async def test_arguments_and_results_of_every_kind_come_through(app: Oncue) -> None:
    got: list[Any] = []
    order = Order(number=7, size=Size.LARGE, placed_at=datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=UTC))

    @app.task
    async def take(order: Order, sizes: list[Size], note: str | None = None, *, tags: set[str] = frozenset()) -> Order:  # type: ignore[assignment]
        got.append((order, sizes, note, tags))
        return order

    watcher = Watcher(app)
    async with app.worker():
        receipt = await take.aenqueue(order, [Size.SMALL], "žluťoučký \x00 🐎", tags={"a"})
        (job,) = await watcher.ended([receipt.id])
    assert got == [(order, [Size.SMALL], "žluťoučký \x00 🐎", {"a"})]
    assert job.result == {"number": 7, "size": "l", "placed_at": "2030-01-01T12:00:00.123456Z"}


async def test_a_result_that_cannot_be_kept_does_not_fail_the_job(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database_url, max_result_bytes=100)

    @app.task
    async def large() -> str:
        return "x" * 200

    @app.task
    async def strange() -> object:
        return object()

    watcher = Watcher(app)
    async with app.worker():
        receipts = [await large.aenqueue(), await strange.aenqueue()]
        jobs = await watcher.ended(receipt.id for receipt in receipts)
    assert [(job.state, job.result, job.reason) for job in jobs] == [
        ("succeeded", None, "result_too_large"),
        ("succeeded", None, "result_not_json"),
    ]


async def test_a_running_coroutine_is_cancelled(app: Oncue) -> None:
    undone: list[str] = []

    @app.task
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            undone.append("it could clean up")

    watcher = Watcher(app)
    async with app.worker():
        receipt = await endless.aenqueue()
        await watcher.begun(receipt.id)
        asked = await app.jobs.cancel(receipt.id)
        assert asked.state == "running"
        assert asked.cancel_requested_at is not None
        (job,) = await watcher.ended([receipt.id])
    assert (job.state, undone) == ("cancelled", ["it could clean up"])


async def test_a_running_thread_is_asked_to_stop(app: Oncue) -> None:
    @app.task
    def endless() -> None:
        job = current_job()
        while not job.cancel_requested:
            threading.Event().wait(0.005)
        raise RuntimeError("stopped in the middle")

    watcher = Watcher(app)
    async with app.worker():
        receipt = await endless.aenqueue()
        await watcher.begun(receipt.id)
        await app.jobs.cancel(receipt.uid)
        (job,) = await watcher.ended([receipt.id])
    assert job.state == "cancelled"


async def test_a_handler_may_enqueue(app: Oncue) -> None:
    made: list[int] = []

    @app.task
    async def child(n: int) -> int:
        return n

    @app.task
    def plain_parent() -> None:
        made.append(child.enqueue(1).id)

    @app.task
    async def parent() -> None:
        made.append((await child.aenqueue(2)).id)

    watcher = Watcher(app)
    async with app.worker():
        receipts = [await plain_parent.aenqueue(), await parent.aenqueue()]
        await watcher.ended(receipt.id for receipt in receipts)
        children = await watcher.ended(made)
    assert sorted(job.result for job in children) == [1, 2]


async def test_a_paused_queue_starts_nothing_until_it_is_resumed(app: Oncue) -> None:
    ran: list[int] = []

    @app.task
    async def work(n: int) -> None:
        ran.append(n)

    @app.task(queue="other")
    async def witness() -> None: ...

    app.override({"queues": ("default", "other")})
    await app.queues.pause("default")
    watcher = Watcher(app)
    async with app.worker():
        held = await work.aenqueue(1)
        await watcher.ended([(await witness.aenqueue()).id])
        assert ran == []
        await app.queues.resume("default")
        await watcher.ended([held.id])
    assert ran == [1]


@pytest.mark.contract("QUE-1")
async def test_the_urgent_ones_run_first(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database_url, concurrency=1, buffer=0)
    order: list[str] = []

    @app.task
    async def note(name: str) -> None:
        order.append(name)

    receipts = [
        await note.using(priority=priority).aenqueue(name)
        for name, priority in (("background", 0), ("scheduled", 20), ("user", 60), ("user too", 60), ("top", 100))
    ]
    watcher = Watcher(app)
    async with app.worker():
        await watcher.ended(receipt.id for receipt in receipts)
    assert order == ["top", "user", "user too", "scheduled", "background"]


@pytest.mark.contract("HOOK-7")
async def test_leaving_the_block_lets_running_jobs_finish_and_ends_the_lease(app: Oncue) -> None:
    finish = asyncio.Event()

    @app.task
    async def work() -> str:
        await finish.wait()
        return "done"

    watcher = Watcher(app)
    async with app.worker() as node:
        receipt = await work.aenqueue()
        await watcher.begun(receipt.id)
        assert [other.id for other in await app.nodes.list()] == [node.node.id]
        asyncio.get_running_loop().call_later(0.05, finish.set)
    job = await app.jobs.get(receipt.id)
    assert (job.state, job.result) == ("succeeded", "done")
    assert await app.nodes.list() == []


@pytest.mark.contract("HOOK-7")
async def test_what_does_not_finish_in_time_is_given_back_uncharged(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database_url, drain_timeout="50ms", concurrency=1)

    @app.task
    async def endless() -> None:
        await asyncio.Event().wait()

    watcher = Watcher(app)
    async with app.worker():
        receipts = await endless.aenqueue_many([()] * 3)
        await watcher.begun(receipts[0].id)
    jobs = [await app.jobs.get(receipt.id) for receipt in receipts]
    assert [(job.state, job.retry_count, job.crashes) for job in jobs] == [("queued", 0, 0)] * 3


@pytest.mark.contract("HOOK-12")
async def test_a_worker_that_cannot_reach_its_database_says_so_and_leaves_nothing(make_app: MakeApp) -> None:
    app = make_app("postgresql://postgres@127.0.0.1:1/nothing", start_timeout=0)
    threads = set(threading.enumerate())
    with pytest.raises(StoreUnavailable, match="PostgreSQL does not answer"):
        async with app.worker():
            pytest.fail("it must not start")
    assert set(threading.enumerate()) == threads
