"""The only place that waits: when it calls a service again, and that nothing ends a service but `stop`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncue.clock import VirtualClock
from oncue.engine import runner as runner_module
from oncue.engine.runner import LONGEST_PAUSE, Runner, pause_after, time_left
from oncue.engine.service import Signal
from oncue.errors import StoreUnavailable
from oncue.telemetry import Telemetry
from tests.engine.stage import settle

NEVER = timedelta(days=1)


class Counter:
    """A service that counts its steps, and does in each what it is told."""

    name = "counter"

    def __init__(self, deed: Callable[[Counter], Any] = lambda service: None, again: timedelta = NEVER) -> None:
        self.signal = Signal()
        self.steps = 0
        self.deed = deed
        self.again = again

    async def tick(self, now: datetime) -> datetime:
        self.steps += 1
        waits = self.deed(self)
        if waits is not None:
            await waits
        return now + self.again


def a_runner() -> tuple[Runner, list[Any]]:
    telemetry, told = Telemetry(), []
    telemetry.subscribe(lambda event, measures, data: told.append((measures, data)), "tick.error")
    return Runner(VirtualClock(), telemetry), told


@pytest.mark.parametrize("step", [timedelta(), timedelta(hours=1), -timedelta(hours=1)])
@pytest.mark.parametrize("reads_the_clock", [False, True])
def test_a_clock_that_is_set_during_a_step_makes_no_service_sleep_for_longer(
    step: timedelta, reads_the_clock: bool
) -> None:
    """Its next instant is one second after the time that it was told, or after the time that it read itself."""
    told = VirtualClock().now()
    now = told + timedelta(seconds=0.25) + step
    again_at = (now if reads_the_clock else told) + timedelta(seconds=1)
    assert time_left(again_at, told, 0.25, now) <= 1.0
    if not step:
        assert time_left(again_at, told, 0.25, now) == (1.0 if reads_the_clock else 0.75)


async def test_a_clock_that_is_set_back_during_a_step_delays_no_service() -> None:
    clock = VirtualClock()
    runner, hour = Runner(clock, Telemetry()), timedelta(hours=1)

    def set_back(service: Counter) -> None:
        now = VirtualClock().now() - service.steps * hour
        clock.now = lambda: now  # type: ignore[method-assign]

    service = Counter(set_back, again=timedelta(microseconds=1))
    runner.start([service])
    async with asyncio.timeout(5):
        while service.steps < 3:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await runner.stop()


async def test_a_signal_calls_a_service_before_its_time() -> None:
    runner, _ = a_runner()
    service = Counter()
    runner.start([service])
    await settle()
    assert service.steps == 1
    service.signal.set()
    await settle()
    assert service.steps == 2
    await runner.stop()


async def test_a_signal_that_comes_before_the_wait_is_not_lost() -> None:
    runner, _ = a_runner()
    service = Counter(lambda service: service.signal.set() if service.steps == 1 else None)
    runner.start([service])
    await settle()
    assert service.steps == 2
    await runner.stop()


async def test_a_step_that_is_due_follows_at_once_on_one_that_has_waited() -> None:
    """A claimer asks for its next batch before the last one runs: what it has started by then comes after it."""
    runner, _ = a_runner()
    order: list[str] = []

    def deed(service: Counter) -> Any:
        order.append(f"step {service.steps}")
        if service.steps == 2:
            service.again = NEVER
        return started_batch() if service.steps == 1 else None

    async def started_batch() -> None:
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(order.append, "batch")

    runner.start([Counter(deed, again=timedelta(0))])
    await settle()
    assert order == ["step 1", "step 2", "batch"]
    await runner.stop()


async def test_a_service_that_is_due_at_once_leaves_others_their_turn() -> None:
    runner, _ = a_runner()
    busy, other = Counter(again=timedelta(0)), Counter()
    other.name = "other"
    runner.start([busy, other])
    await settle(50)
    assert busy.steps > 10
    assert other.steps == 1
    await runner.stop()


def test_the_pause_after_a_failure_grows_up_to_a_limit() -> None:
    pauses = [pause_after(failures) for failures in range(1, 8)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.5
    assert pauses[-1] == LONGEST_PAUSE
    assert pause_after(100_000) == LONGEST_PAUSE


async def test_a_failing_step_is_told_and_repeated_however_long_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database may be away for hours: 1,500 failures in a row are 50 minutes."""
    monkeypatch.setattr(runner_module, "LONGEST_PAUSE", 0.0)
    runner, told = a_runner()

    def fails(service: Counter) -> None:
        if service.steps <= 1500:
            raise StoreUnavailable("away") if service.steps % 2 else KeyError("a bug")

    service = Counter(fails)
    runner.start([service])
    await settle(4000)
    assert service.steps == 1501
    assert len(told) == 1500
    assert told[-1][0] == {"failures": 1500}
    assert told[-1][1]["service"] == "counter"
    await runner.stop()


async def test_an_outage_is_one_line_when_it_begins_and_one_when_it_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every service notices it, again and again."""
    monkeypatch.setattr(runner_module, "LONGEST_PAUSE", 0.0)
    clock, telemetry, steps = VirtualClock(), Telemetry(), 100
    runner = Runner(clock, telemetry)

    def fails(service: Counter) -> None:
        clock.advance(timedelta(seconds=1))
        if service.steps <= steps:
            raise StoreUnavailable("away")

    services = [Counter(fails) for _ in range(5)]
    for number, service in enumerate(services):
        service.name = f"service {number}"
    with caplog.at_level(logging.WARNING, "oncue"):
        runner.start(services)
        await settle(600)
    assert [service.steps for service in services] == [steps + 1] * 5
    assert caplog.messages == [
        "away (everything is tried again until it answers)",
        "away (for 300 s now)",
        "the database answers again, after 504.0 s",
    ]
    await runner.stop()


async def test_a_service_that_is_stopped_during_an_outage_hides_no_later_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runner, _ = a_runner()

    def fails(service: Counter) -> None:
        raise StoreUnavailable("away")

    with caplog.at_level(logging.WARNING, "oncue"):
        for _ in range(2):
            runner.start([Counter(fails)])
            await settle()
            await runner.stop()
    assert caplog.messages == ["away (everything is tried again until it answers)"] * 2


async def test_a_wake_up_does_not_cut_the_pause_short() -> None:
    runner, _ = a_runner()

    def fails(service: Counter) -> None:
        raise StoreUnavailable("away")

    service = Counter(fails)
    runner.start([service])
    await settle()
    for _ in range(5):
        service.signal.set()
        await settle()
    assert service.steps == 1
    await runner.stop()


async def test_stop_ends_a_step_in_the_middle_and_finish_lets_it_end() -> None:
    runner, _ = a_runner()
    release, ended = asyncio.Event(), []

    async def step(name: str) -> None:
        await release.wait()
        ended.append(name)

    one, two = Counter(lambda service: step("one")), Counter(lambda service: step("two"))
    one.name, two.name = "one", "two"
    runner.start([one, two])
    await settle()
    await runner.stop("one")
    finishing = asyncio.ensure_future(runner.finish("two", within=20))
    await settle()
    release.set()
    await finishing
    assert ended == ["two"]
    assert (one.steps, two.steps) == (1, 1)


async def test_finish_wakes_a_service_that_waits_and_gives_up_on_one_that_hangs() -> None:
    runner, _ = a_runner()
    idle, stuck = Counter(), Counter(lambda service: asyncio.Event().wait())
    idle.name, stuck.name = "idle", "stuck"
    runner.start([idle, stuck])
    await settle()
    await runner.finish("idle", within=20)
    await runner.finish("stuck", within=0.01)
    assert (idle.steps, stuck.steps) == (1, 1)
