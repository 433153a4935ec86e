"""Seats: how many run at once, in which order they start, and that nothing leaks from one job into the next."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from oncue.engine.context import current
from oncue.model import Failed, Released, Succeeded, TimedOut
from oncue.policy.options import Options
from tests.engine.stage import Stage, settle

marker: ContextVar[str] = ContextVar("marker", default="clean")


@pytest.mark.parametrize("concurrency", [1, 3, 8])
async def test_no_more_coroutines_run_than_there_are_seats(concurrency: int) -> None:
    running, most = 0, 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1

    stage = Stage(work, concurrency=concurrency)
    stage.submit(*(stage.claim("work") for _ in range(50)))
    await stage.quiet()
    assert len(stage.ended) == 50
    assert most == concurrency


async def test_no_more_threads_run_than_there_are_seats() -> None:
    lock, counts, together = threading.Lock(), {"now": 0, "most": 0}, threading.Barrier(3)

    def work() -> None:
        with lock:
            counts["now"] += 1
            counts["most"] = max(counts["most"], counts["now"])
        together.wait(60)
        with lock:
            counts["now"] -= 1

    stage = Stage(work, concurrency=3)
    stage.submit(*(stage.claim("work") for _ in range(9)))
    await stage.quiet()
    assert counts["most"] == 3
    assert all(ended.outcome == Succeeded() for ended in stage.ended.values())


async def test_jobs_that_wait_for_each_other_get_their_seats() -> None:
    """A job that suspends must not keep those behind it from starting."""
    everyone = asyncio.Barrier(20)

    async def work() -> None:
        await everyone.wait()

    stage = Stage(work, concurrency=20)
    stage.submit(*(stage.claim("work") for _ in range(20)))
    await stage.quiet()
    assert len(stage.ended) == 20


@pytest.mark.contract("QUE-1")
async def test_jobs_start_in_the_order_of_their_claims() -> None:
    begun = []

    async def work(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(0)

    stage = Stage(work, concurrency=2)
    stage.submit(*(stage.claim("work", args={"number": number}) for number in range(10)))
    await stage.quiet()
    assert begun == list(range(10))


async def test_context_variables_do_not_leak() -> None:
    seen = []

    async def work() -> None:
        seen.append(marker.get())
        marker.set("dirty")

    async def later() -> None:
        await asyncio.sleep(0)
        marker.set("dirty too")

    def thread() -> None:
        seen.append(marker.get())
        marker.set("dirty")

    marker.set("of the caller")
    stage = Stage(work, later, thread, concurrency=1)
    for task in ("work", "later", "work", "thread", "thread", "work"):
        stage.submit(stage.claim(task))
    await stage.quiet()
    assert seen == ["clean"] * 5
    marker.set("clean")


async def test_a_time_limit_inside_a_handler_works() -> None:
    async def limited() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "in time"
        return "never"

    stage = Stage(limited, concurrency=1)
    stage.submit(*(stage.claim("limited") for _ in range(3)))
    await stage.quiet()
    assert {ended.outcome for ended in stage.ended.values()} == {Succeeded('"in time"')}


async def test_a_group_of_tasks_inside_a_handler_works() -> None:
    async def broken() -> None:
        await asyncio.sleep(0)
        raise ValueError("a child broke")

    async def group() -> None:
        async with asyncio.TaskGroup() as children:
            children.create_task(broken())
            await asyncio.Event().wait()

    async def fine() -> int:
        async with asyncio.TaskGroup() as children:
            tasks = [children.create_task(asyncio.sleep(0, number)) for number in range(3)]
        return sum(task.result() for task in tasks)

    stage = Stage(group, fine, concurrency=1)
    stage.submit(stage.claim("group"), stage.claim("fine"))
    await stage.quiet()
    assert isinstance(stage.ended[1].outcome, Failed)
    assert "a child broke" in stage.ended[1].outcome.error
    assert stage.ended[2].outcome == Succeeded("3")


async def test_a_flood_of_short_jobs_lets_others_have_a_turn() -> None:
    turns = 0

    async def work() -> None:
        stage.clock.advance_to(stage.clock.now().replace(microsecond=(stage.clock.now().microsecond + 1000) % 10**6))

    async def bystander() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    stage = Stage(work, concurrency=1)
    stage.submit(*(stage.claim("work") for _ in range(100)))
    watching = asyncio.ensure_future(bystander())
    await stage.quiet()
    watching.cancel()
    assert turns >= 10


async def test_seats_are_given_back() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    stage = Stage(work, concurrency=2)
    for _ in range(5):
        stage.submit(*(stage.claim("work") for _ in range(7)))
        await stage.quiet()
        await settle()
    assert stage.executor.busy == 0
    assert stage.executor.started_total == 35


class Waiting:
    """A coroutine that leaves its seat and then waits for an answer."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.answer = asyncio.Event()

    async def work(self, number: int) -> None:
        self.begun.append(number)
        current.get().leave_seat()
        await self.answer.wait()


@pytest.mark.contract("HOOK-5")
async def test_a_job_that_has_left_its_seat_goes_on_and_the_next_has_the_seat() -> None:
    waiting = Waiting()
    stage = Stage(waiting.work, concurrency=2)
    stage.submit(*(stage.claim("work", args={"number": number}) for number in range(10)))
    await settle()
    executor = stage.executor
    assert waiting.begun == list(range(10))
    assert (executor.running, executor.aside, executor.busy, executor.taken) == (10, 10, 10, 0)
    waiting.answer.set()
    await stage.quiet()
    assert {ended.outcome for ended in stage.ended.values()} == {Succeeded()}
    assert (executor.running, executor.aside) == (0, 0)


async def test_a_seat_that_was_left_is_told_of() -> None:
    waiting, told = Waiting(), []
    stage = Stage(waiting.work, concurrency=1)
    stage.executor.seat_left.listen(lambda: told.append(stage.executor.taken))
    stage.submit(stage.claim("work", args={"number": 0}))
    await settle()
    assert told == [0]
    waiting.answer.set()
    await stage.quiet()


async def test_a_job_without_a_seat_is_cut_off_in_time_and_counts_for_its_queue() -> None:
    waiting = Waiting()
    stage = Stage(waiting.work, concurrency=4)
    stage.executor.allow("default", 2)
    stage.submit(*(stage.claim("work", args={"number": number}, options=Options(timeout=30.0)) for number in range(3)))
    await settle()
    assert waiting.begun == [0, 1], "a limit of the queue counts those without a seat too"
    await stage.pass_time(31)
    assert [type(ended.outcome) for ended in stage.ended.values()] == [TimedOut, TimedOut]
    await settle()
    assert waiting.begun == [0, 1, 2]
    waiting.answer.set()
    await stage.quiet()


async def test_jobs_without_a_seat_end_when_the_executor_is_closed() -> None:
    waiting = Waiting()
    stage = Stage(waiting.work, concurrency=1)
    stage.submit(*(stage.claim("work", args={"number": number}) for number in range(3)))
    await settle()
    stage.executor.close()
    await settle()
    assert [ended.outcome for ended in stage.ended.values()] == [Released("stopped")] * 3
