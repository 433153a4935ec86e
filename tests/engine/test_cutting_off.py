"""Time-outs, deadlines, cancellation, fencing and giving back, on coroutines and on threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from oncue.engine.context import current_job
from oncue.engine.executor import GRACE_SECONDS
from oncue.model import Cancelled, Failed, Released, Skipped, Succeeded, TimedOut
from oncue.policy.options import Options
from tests.engine.stage import Stage, settle

TIMED = Options(timeout=5.0)


async def forever() -> None:
    await asyncio.Event().wait()


class Gate:
    """A thread that stays until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.let_go = threading.Event()
        self.saw_request = False

    def __call__(self) -> str:
        self.entered.set()
        assert self.let_go.wait(60)
        self.saw_request = current_job().cancel_requested
        return "done"


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    gate.__name__ = "gate"  # type: ignore[attr-defined]
    yield gate
    gate.let_go.set()


async def entered(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.entered.wait, 20)


@pytest.mark.parametrize("options", [Options(timeout=5.0, max_runtime=60.0), Options(timeout=None, max_runtime=5.0)])
async def test_a_coroutine_is_cut_off_when_its_time_is_over(options: Options) -> None:
    stage = Stage(forever)
    stage.submit(stage.claim("forever", options=options))
    await settle()
    await stage.pass_time(4.9)
    assert stage.ended == {}
    await stage.pass_time(0.1)
    assert isinstance(stage.ended[1].outcome, TimedOut)
    assert stage.ended[1].ended_at == stage.now
    assert stage.executor.busy == 0


async def test_a_thread_is_reported_in_time_and_keeps_its_seat_until_it_ends(gate: Gate) -> None:
    stage = Stage(gate, concurrency=1)
    stage.submit(stage.claim("gate", options=TIMED), stage.claim("gate", options=TIMED))
    await entered(gate)
    await stage.pass_time(5.0)
    assert isinstance(stage.ended[1].outcome, TimedOut)
    assert (stage.executor.running, stage.executor.waiting) == (1, 1)
    gate.let_go.set()
    await stage.quiet()
    assert stage.ended[2].outcome == Succeeded('"done"')


async def test_a_deadline_ends_the_attempt_and_refuses_the_next() -> None:
    stage = Stage(forever)
    claim = stage.claim("forever", options=Options(timeout=60.0), deadline=3.0)
    stage.submit(claim)
    await settle()
    await stage.pass_time(3.0)
    assert isinstance(stage.ended[1].outcome, TimedOut)
    del stage.ended[1]
    stage.submit(claim)
    await stage.quiet()
    assert stage.ended[1].outcome == Skipped("deadline")
    assert stage.ended[1].started_at is None


async def test_a_job_that_was_cancelled_before_it_started_never_starts() -> None:
    stage = Stage(forever)
    ended = await stage.play("forever", cancel_requested=True)
    assert (ended.outcome, ended.started_at) == (Cancelled(), None)


async def test_what_waits_for_a_seat_when_an_operator_stops_it_never_starts() -> None:
    stage = Stage(forever, concurrency=1)
    stage.submit(stage.claim("forever"), stage.claim("forever"))
    await settle()
    stage.executor.cancel(2, 1)
    assert (stage.ended[2].outcome, stage.ended[2].started_at) == (Cancelled(), None)
    stage.executor.cancel(1, 1)
    await stage.quiet()
    assert (stage.executor.started_total, stage.executor.busy) == (1, 0)


async def test_an_operator_stops_a_coroutine() -> None:
    stage = Stage(forever)
    stage.submit(stage.claim("forever"))
    await settle()
    stage.executor.cancel(1, 1)
    stage.executor.cancel(1, 1)
    await stage.quiet()
    assert stage.ended[1].outcome == Cancelled()


async def test_a_thread_is_asked_to_stop_and_its_work_counts(gate: Gate) -> None:
    stage = Stage(gate)
    stage.submit(stage.claim("gate"))
    await entered(gate)
    stage.executor.cancel(1, 1)
    await settle()
    assert stage.ended == {}
    gate.let_go.set()
    await stage.quiet()
    assert gate.saw_request
    assert stage.ended[1].outcome == Succeeded('"done"')


async def test_a_thread_that_gives_up_when_asked_is_cancelled() -> None:
    started, asked = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        asked.wait(60)
        if current_job().cancel_requested:
            raise RuntimeError("stopped half-way")

    stage = Stage(work)
    stage.submit(stage.claim("work"))
    await asyncio.to_thread(started.wait, 20)
    stage.executor.cancel(1, 1)
    asked.set()
    await stage.quiet()
    assert stage.ended[1].outcome == Cancelled()


async def test_a_handler_that_swallows_its_cancellation_and_returns_has_done_its_work() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "tidied up"
        return ""

    stage = Stage(stubborn)
    stage.submit(stage.claim("stubborn"))
    await settle()
    stage.executor.cancel(1, 1)
    await stage.quiet()
    assert stage.ended[1].outcome == Succeeded('"tidied up"')
    stage.submit(stage.claim("stubborn", options=TIMED))
    await settle()
    await stage.pass_time(5.0)
    assert isinstance(stage.ended[2].outcome, TimedOut), "it was told to end by then, and did not"


async def test_a_handler_that_ignores_its_cancellation_is_reported_after_a_grace() -> None:
    release = asyncio.Event()

    async def deaf() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    stage = Stage(deaf)
    stage.submit(stage.claim("deaf", options=TIMED))
    await settle()
    await stage.pass_time(5.0)
    assert stage.ended == {}
    await stage.pass_time(GRACE_SECONDS)
    assert isinstance(stage.ended[1].outcome, TimedOut)
    assert stage.executor.running == 1, "its seat stays taken"
    release.set()
    await stage.quiet()
    assert stage.executor.busy == 0


async def test_a_handler_that_cancels_itself_fails_and_harms_nobody() -> None:
    async def suicidal() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async def cancelling() -> int:
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    async def raising() -> None:
        raise asyncio.CancelledError

    stage = Stage(suicidal, cancelling, raising, concurrency=1)
    stage.submit(stage.claim("suicidal"), stage.claim("cancelling"), stage.claim("raising"))
    await stage.quiet()
    assert isinstance(stage.ended[1].outcome, Failed)
    assert stage.ended[2].outcome == Succeeded("0")
    assert isinstance(stage.ended[3].outcome, Failed)


async def test_a_seat_goes_on_after_a_cut() -> None:
    async def fine() -> str:
        await asyncio.sleep(0)
        return "fine"

    stage = Stage(forever, fine, concurrency=1)
    stage.submit(stage.claim("forever", options=TIMED), *(stage.claim("fine") for _ in range(3)))
    await settle()
    await stage.pass_time(5.0)
    await stage.quiet()
    assert [stage.ended[number].outcome for number in (2, 3, 4)] == [Succeeded('"fine"')] * 3


async def test_a_fenced_attempt_stops_and_is_told_once() -> None:
    """Its outcome is rejected by the database, but the worker must hear of it, to put the claim down."""
    stage = Stage(forever, concurrency=1)
    stage.submit(stage.claim("forever"), stage.claim("forever"))
    await settle()
    assert stage.executor.claims() == [(1, 1), (2, 1)]
    stage.executor.fence(2, 1)
    stage.executor.fence(1, 1)
    await stage.quiet()
    assert [stage.ended[number].outcome for number in (1, 2)] == [Released("fenced")] * 2
    assert stage.ended[2].started_at is None, "it was still waiting for a seat"
    assert stage.executor.claims() == []


async def test_a_fenced_thread_is_told_at_once(gate: Gate) -> None:
    stage = Stage(gate)
    stage.submit(stage.claim("gate"))
    await entered(gate)
    stage.executor.fence(1, 1)
    assert stage.ended[1].outcome == Released("fenced")
    gate.let_go.set()
    await stage.quiet()
    assert gate.saw_request


async def test_what_waits_and_what_runs_can_be_given_back(gate: Gate) -> None:
    stage = Stage(forever, gate, concurrency=2)
    stage.submit(stage.claim("forever"), stage.claim("gate"), stage.claim("forever"))
    await entered(gate)
    stage.executor.release_waiting("shutdown")
    assert stage.ended[3].outcome == Released("shutdown")
    assert stage.ended[3].started_at is None
    stage.executor.release_running("shutdown")
    await settle()
    assert stage.ended[1].outcome == stage.ended[2].outcome == Released("shutdown")
    assert stage.ended[1].started_at is not None
    gate.let_go.set()
    await stage.quiet()


async def test_only_what_waits_for_too_long_is_given_back() -> None:
    stage = Stage(forever, concurrency=1)
    stage.submit(stage.claim("forever"), stage.claim("forever"))
    await stage.pass_time(3.0)
    stage.submit(stage.claim("forever"))
    stage.executor.release_waiting("waited", claimed_before=stage.now)
    assert sorted(stage.ended) == [2, 3]
    stage.executor.close()
    await settle()


async def test_nothing_starts_in_a_closed_executor() -> None:
    begun = []

    async def work(number: int) -> None:
        begun.append(number)
        await asyncio.Event().wait()

    stage = Stage(work, concurrency=1)
    stage.submit(stage.claim("work", args={"number": 1}), stage.claim("work", args={"number": 2}))
    await settle()
    stage.executor.close()
    await settle()
    assert begun == [1]
    assert stage.ended[1].outcome == Released("stopped")


@pytest.mark.contract("QUE-9")
async def test_what_waits_does_not_begin_once_the_lease_is_over() -> None:
    """A process that stood still goes on with the seat that comes free, before anybody has told it that it is lost."""
    alive, opened = True, asyncio.Event()

    async def first() -> None:
        nonlocal alive
        await opened.wait()
        stage.clock.advance(timedelta(seconds=60))
        alive = False

    async def second() -> None:
        raise AssertionError("it is another node's by now")

    stage = Stage(first, second, concurrency=1, may_start=lambda: alive)
    begun, waiting = stage.claim("first"), stage.claim("second")
    stage.submit(begun, waiting)
    await settle()
    opened.set()
    await stage.quiet()
    assert isinstance(stage.ended[begun.id].outcome, Succeeded)
    assert stage.ended[waiting.id].outcome == Released("lease_lost")
    assert stage.ended[waiting.id].started_at is None
