from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import pytest

from oncue import Cancel, Ladder, Oncue, Retry, Skip, Snooze, current_job
from oncue.testing import Kit


def declared(app: Oncue, kind: str, name: str, body: Callable[..., Any], **options: Any) -> Any:
    """The same handler as a plain function or as a coroutine."""

    def plain(n: int = 0) -> Any:
        return body(n)

    async def coroutine(n: int = 0) -> Any:
        await asyncio.sleep(0)
        return body(n)

    return app.task(name=name, **options)(plain if kind == "def" else coroutine)


@pytest.fixture(params=["def", "async def"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_everything_that_is_due_runs(app: Oncue, kit: Kit, kind: str) -> None:
    double = declared(app, kind, "double", lambda n: 2 * n)
    double.enqueue_many(range(5))
    assert kit.drain() == {"succeeded": 5}
    assert [job.result for job in kit.jobs(double)] == [0, 2, 4, 6, 8]


async def test_it_works_inside_a_loop_too(app: Oncue, kit: Kit, kind: str) -> None:
    double = declared(app, kind, "double", lambda n: 2 * n)
    await double.aenqueue_many(range(5))
    assert await kit.adrain() == {"succeeded": 5}


def test_a_drain_with_nothing_to_do_is_empty(kit: Kit) -> None:
    assert kit.drain() == {}


def test_what_a_job_enqueues_runs_as_well(app: Oncue, kit: Kit) -> None:
    @app.task
    def count_down(n: int) -> None:
        if n:
            count_down_async.enqueue(n - 1)

    @app.task
    async def count_down_async(n: int) -> None:
        if n:
            await count_down.aenqueue(n - 1)

    count_down.enqueue(6)
    assert kit.drain() == {"succeeded": 7}


def test_a_failure_waits_for_its_retry(app: Oncue, kit: Kit, kind: str) -> None:
    def body(n: int) -> int:
        if current_job().attempt < 3:
            raise ValueError(f"attempt {current_job().attempt}")
        return current_job().attempt

    flaky = declared(app, kind, "flaky", body, retry=Ladder("1m", "10m"))
    receipt = flaky.enqueue()
    assert kit.drain() == {"retrying": 1}
    assert "ValueError: attempt 1" in str(kit.job(receipt).error)
    assert kit.drain() == {}, "it is not due yet"
    kit.clock.advance("1m")
    assert kit.drain() == {"retrying": 1}
    kit.clock.advance("9m59s")
    assert kit.drain() == {}
    kit.clock.advance("1s")
    assert kit.drain() == {"succeeded": 1}
    assert kit.job(receipt).result == 3


def test_retries_run_out(app: Oncue, kit: Kit, kind: str) -> None:
    def body(n: int) -> None:
        raise ValueError("always")

    broken = declared(app, kind, "broken", body, max_retries=2)
    receipt = broken.enqueue()
    for _ in range(3):
        kit.drain()
        kit.clock.advance("1h")
    assert kit.job(receipt).state == "failed"
    assert kit.job(receipt).attempt == 3


def test_the_jitter_of_a_retry_is_the_same_in_every_run(app: Oncue) -> None:
    from oncue.testing import use

    @app.task
    def broken() -> None:
        raise ValueError

    def delay() -> float:
        with use(app) as kit:
            job = kit.perform(broken)
            return (job.visible_at - kit.clock.now()).total_seconds()

    assert delay() == delay()
    assert 48 <= delay() <= 72


@pytest.mark.parametrize(
    ("signal", "state", "reason"),
    [
        (Skip("nothing to do"), "skipped", "nothing to do"),
        (Cancel("hopeless"), "cancelled", "hopeless"),
        (Snooze("5m"), "scheduled", None),
        (Retry("later", after="5m"), "retrying", None),
    ],
)
def test_signals_mean_what_they_mean_in_production(
    app: Oncue, kit: Kit, kind: str, signal: Exception, state: str, reason: str | None
) -> None:
    def body(n: int) -> None:
        raise signal

    task = declared(app, kind, "signals", body)
    receipt = task.enqueue()
    assert kit.drain() == {state: 1}
    assert kit.job(receipt).reason == reason


def test_jobs_run_in_the_order_of_a_worker_whatever_their_queue(app: Oncue, kit: Kit) -> None:
    order: list[str] = []

    @app.task
    def note(name: str) -> None:
        order.append(name)
        if name == "first":
            note.using(queue="new", priority=90).enqueue("urgent")

    note.enqueue("third")
    note.enqueue("fourth")
    note.using(queue="mail", priority=50).enqueue("first")
    note.using(queue="mail", priority=50).enqueue("second")
    kit.drain()
    assert order == ["first", "urgent", "second", "third", "fourth"]


def test_one_queue_alone_can_be_drained(app: Oncue, kit: Kit) -> None:
    @app.task
    def work() -> None: ...

    work.enqueue()
    work.using(queue="mail").enqueue()
    assert kit.drain(queue="mail") == {"succeeded": 1}
    assert [job.queue for job in kit.jobs(state="queued")] == ["default"]


def test_a_job_that_ran_twice_is_counted_once(app: Oncue, kit: Kit) -> None:
    @app.task
    def twice() -> None:
        if current_job().attempt == 1:
            raise Retry(after=0)

    twice.enqueue()
    assert kit.drain() == {"succeeded": 1}


def test_jobs_that_enqueue_each_other_without_end_are_stopped(app: Oncue, kit: Kit) -> None:
    @app.task
    def ping() -> None:
        pong.enqueue()

    @app.task
    def pong() -> None:
        ping.enqueue()

    ping.enqueue()
    with pytest.raises(AssertionError, match=r"50 attempts and still something is due.*ping \(\d+ times\)"):
        kit.drain(limit=50)


def test_exactly_as_many_as_the_limit_are_fine(app: Oncue, kit: Kit) -> None:
    @app.task
    def work(n: int) -> None: ...

    work.enqueue_many(range(50))
    assert kit.drain(limit=50) == {"succeeded": 50}


def test_a_plain_handler_sees_no_running_loop(app: Oncue, kit: Kit, runner: asyncio.Runner) -> None:
    @app.task
    def work() -> str:
        async def inner() -> str:
            return "from a loop of its own"

        return asyncio.run(inner())

    work.enqueue()
    assert kit.drain() == {"succeeded": 1}

    async def inside() -> str:
        job = await kit.aperform(work)
        assert asyncio.current_task() is not None
        return str(job.result)

    assert runner.run(inside()) == "from a loop of its own"


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="nothing")


def test_nothing_of_the_test_or_of_another_job_reaches_a_job(app: Oncue, kit: Kit, kind: str) -> None:
    def body(n: int) -> str:
        seen = VARIABLE.get()
        VARIABLE.set(f"job {n}")
        return seen

    peek = declared(app, kind, "peek", body)
    VARIABLE.set("the test")
    peek.enqueue_many([1, 2])
    kit.drain()
    assert [job.result for job in kit.jobs()] == ["nothing", "nothing"]
    assert VARIABLE.get() == "the test"


def test_a_handler_that_takes_longer_than_it_may_has_timed_out(app: Oncue, kit: Kit, kind: str) -> None:
    slow = declared(app, kind, "slow", lambda n: kit.clock.advance("31s"), timeout="30s", max_retries=0)
    job = kit.perform(slow)
    assert job.state == "failed"
    assert job.error == "timed out: cut off after 30 s"
    assert job.duration == 31.0


def test_a_job_past_its_deadline_is_skipped(app: Oncue, kit: Kit) -> None:
    @app.task(deadline="1h")
    def work() -> None: ...

    receipt = work.enqueue()
    kit.clock.advance("2h")
    assert kit.drain() == {"skipped": 1}
    assert kit.job(receipt).reason == "deadline"


def test_a_cancelled_job_does_not_run_and_a_revived_one_does(app: Oncue, kit: Kit) -> None:
    @app.task
    def work() -> None: ...

    receipt = work.enqueue()
    app.wait(app.jobs.cancel(receipt.id))
    assert kit.drain() == {}
    app.wait(app.jobs.retry(receipt.id))
    assert kit.drain() == {"succeeded": 1}


def test_a_paused_queue_stays_where_it_is(app: Oncue, kit: Kit) -> None:
    @app.task
    def work() -> None: ...

    work.enqueue()
    app.wait(app.queues.pause("default"))
    assert kit.drain() == {}
    with pytest.raises(AssertionError, match=r"job work\(\) cannot run now: its queue is paused"):
        kit.perform(work)
    app.wait(app.queues.resume("default"))
    assert kit.drain() == {"succeeded": 2}


def test_a_custom_policy_is_asked(app: Oncue, kit: Kit) -> None:
    @app.task(retry=lambda retries, error: "7s" if retries == 0 else None)
    def broken() -> None:
        raise ValueError

    job = kit.perform(broken)
    assert (job.visible_at - kit.clock.now()).total_seconds() == 7
    kit.clock.advance("7s")
    assert kit.drain() == {"failed": 1}


def test_ctrl_c_in_a_handler_ends_the_test(app: Oncue, kit: Kit, kind: str) -> None:
    def body(n: int) -> None:
        raise KeyboardInterrupt

    task = declared(app, kind, "interrupted", body)
    task.enqueue()
    with pytest.raises(KeyboardInterrupt):
        kit.drain()


def test_a_handler_that_exits_has_failed(app: Oncue, kit: Kit, kind: str) -> None:
    def body(n: int) -> None:
        raise SystemExit(3)

    assert kit.perform(declared(app, kind, "exits", body, max_retries=0)).state == "failed"


def test_the_kit_says_how_to_drain_inside_a_loop(kit: Kit, runner: asyncio.Runner) -> None:
    async def inside() -> None:
        kit.drain()

    with pytest.raises(RuntimeError, match=r"an event loop is running: use `await adrain\(…\)`"):
        runner.run(inside())


def test_tasks_that_a_handler_leaves_behind_are_stopped_at_the_end(app: Oncue) -> None:
    from oncue.testing import use

    left: list[asyncio.Task[None]] = []

    @app.task
    async def careless() -> None:
        async def linger() -> None:
            await asyncio.Event().wait()

        left.append(asyncio.create_task(linger()))

    with use(app) as kit:
        assert kit.perform(careless).state == "succeeded"
    assert left[0].cancelled()


def test_telemetry_tells_of_attempts(app: Oncue, kit: Kit) -> None:
    heard: list[str] = []
    app.internals.telemetry.subscribe(lambda event, *_: heard.append(event), "job.start", "job.stop", "job.retry")

    @app.task
    def broken() -> None:
        raise ValueError

    kit.perform(broken)
    assert heard == ["job.start", "job.stop", "job.retry"]
