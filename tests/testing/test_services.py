"""The kit runs the engine's own services: what they do in production they do in a test."""

from __future__ import annotations

import asyncio
import gc
import time
from datetime import UTC, datetime, timedelta

import pytest

from oncue import Oncue, Retry, ScheduleNotFound, Skip, cron, current_job
from oncue.testing import Kit, use

NOON = datetime(2030, 6, 3, 12, tzinfo=UTC)


# --- limits, backfills, cancelling ------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"globally": 1}, {"per_node": 1}])
def test_a_limited_queue_is_served(app: Oncue, kit: Kit, limits: dict[str, int]) -> None:
    @app.task(queue="mail")
    def work() -> None: ...

    app.wait(app.queues.limit("mail", **limits))
    for _ in range(3):
        work.enqueue()
    assert kit.drain() == {"succeeded": 3}
    assert kit.perform(work).state == "succeeded"


def test_a_limit_that_a_job_sets_counts_at_once(app: Oncue, kit: Kit) -> None:
    @app.task
    def limit() -> None:
        app.wait(app.queues.limit("mail", globally=2))
        work.enqueue()

    @app.task(queue="mail")
    def work() -> None: ...

    work.enqueue()
    limit.enqueue()
    assert kit.drain() == {"succeeded": 3}


def test_jobs_of_groups_run_too(app: Oncue, kit: Kit) -> None:
    """At one instant, again and again, and what follows from them."""

    @app.task(queue="mail")
    def send(n: int) -> None:
        if n:
            send.using(group="tenant:8").enqueue(n - 1)

    @app.task(queue="mail")
    def first() -> None:
        current_job().then(send.using(group="tenant:7"), 2)

    app.wait(app.queues.limit("mail", per_group=1))
    for _ in range(2):
        first.enqueue()
        send.using(group="tenant:7").enqueue(0)
        assert kit.drain() == {"succeeded": 5}
    assert kit.perform(send.using(group="tenant:9"), 0).state == "succeeded"
    send.using(group="tenant:7", queue="other").enqueue(0)
    assert kit.drain(queue="mail") == {}
    assert kit.drain(queue="other") == {"succeeded": 1}


def test_groups_wait_for_their_pause_and_their_rate(app: Oncue, kit: Kit) -> None:
    @app.task(queue="mail")
    def send() -> None: ...

    app.wait(app.queues.limit("mail", rate_per_group="2/min"))
    app.wait(app.queues.pause("mail", group="b", for_="10m"))
    for group in ("a", "a", "a", "b"):
        send.using(group=group).enqueue()
    assert kit.drain() == {"succeeded": 1}
    assert kit.elapse("29s") == {}
    assert kit.elapse("1s") == {"succeeded": 1}
    assert kit.elapse("1m") == {"succeeded": 1}
    assert kit.elapse("10m") == {"succeeded": 1}


def test_a_queue_waits_for_its_rate(app: Oncue, kit: Kit) -> None:
    @app.task(queue="mail")
    def send() -> None: ...

    app.wait(app.queues.limit("mail", rate="1/min"))
    for group in (None, "a", None):
        send.using(group=group).enqueue()
    assert kit.drain() == {"succeeded": 1}
    assert kit.elapse("1m") == {"succeeded": 1}
    assert kit.elapse("1m") == {"succeeded": 1}


def test_the_highest_priority_runs_too_in_whichever_queue(app: Oncue, kit: Kit) -> None:
    order = []

    @app.task
    def note(name: str) -> None:
        order.append(name)

    note.enqueue("last")
    note.using(priority=100, queue="urgent").enqueue("first")
    assert kit.drain() == {"succeeded": 2}
    note.using(priority=100, queue="alarm").enqueue("alone")
    assert kit.drain() == {"succeeded": 1}
    assert order == ["first", "last", "alone"]


def test_a_backfill_runs_one_job_after_the_other(app: Oncue) -> None:
    slots = []

    @app.task(schedule=cron("0 * * * *"))
    def hourly(slot: datetime) -> None:
        slots.append(slot)

    with use(app, now=NOON) as kit:
        app.wait(app.schedules.toggle("hourly", False))
        kit.clock.advance("5h")
        app.wait(app.schedules.toggle("hourly", True))
        app.wait(app.schedules.backfill("hourly", NOON + timedelta(minutes=30), NOON + timedelta(hours=4, minutes=30)))
        assert kit.drain() == {"succeeded": 4}
    assert slots == [NOON + timedelta(hours=n) for n in range(1, 5)]


async def test_a_job_that_waits_can_be_cancelled(app: Oncue, kit: Kit) -> None:
    begun = asyncio.Event()

    @app.task
    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    receipt = await wait.aenqueue()
    draining = asyncio.create_task(kit.adrain())
    await begun.wait()
    await app.jobs.cancel(receipt.id)
    assert await draining == {"cancelled": 1}


async def test_a_job_that_waits_is_cut_off_when_its_time_is_over(app: Oncue, kit: Kit) -> None:
    begun = asyncio.Event()

    @app.task(timeout="30s", max_retries=0)
    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    performing = asyncio.create_task(kit.aperform(wait))
    await begun.wait()
    kit.clock.advance("31s")
    assert (await performing).error == "timed out: cut off after 30 s"


async def test_a_drain_that_is_stopped_gives_back_what_it_ran(app: Oncue, kit: Kit) -> None:
    begun = asyncio.Event()

    @app.task
    async def wait() -> None:
        begun.set()
        if current_job().attempt == 1 and not kit.jobs(state="succeeded"):
            await asyncio.Event().wait()

    @app.task
    async def work() -> None: ...

    receipt = await wait.aenqueue()
    draining = asyncio.create_task(kit.adrain())
    await begun.wait()
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining
    await kit.aperform(work)
    assert await kit.adrain() == {"succeeded": 1}
    assert kit.job(receipt).state == "succeeded"


# --- the loop ---------------------------------------------------------------------------------------------------


async def test_handlers_run_on_the_loop_of_the_test(app: Oncue, kit: Kit) -> None:
    loops = []

    @app.task
    async def work() -> None:
        loops.append(asyncio.get_running_loop())

    await work.aenqueue()
    await kit.adrain()
    assert loops == [asyncio.get_running_loop()]


def test_a_plain_test_may_say_which_loop(app: Oncue) -> None:
    loops = []

    @app.task
    async def work() -> None:
        loops.append(asyncio.get_running_loop())

    with asyncio.Runner() as runner:
        with use(app, loop=runner.get_loop()) as kit:
            kit.perform(work)
        assert loops == [runner.get_loop()]
        assert not loops[0].is_closed(), "it belongs to the test"


def test_one_kit_may_be_drained_on_many_loops(app: Oncue, kit: Kit) -> None:
    @app.task
    async def work() -> None:
        await asyncio.sleep(0)

    for _ in range(3):
        work.enqueue()
        assert asyncio.run(kit.adrain()) == {"succeeded": 1}


# --- strict -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_strict_drain_raises_what_a_handler_raised(app: Oncue, kit: Kit, kind: str) -> None:
    error = ValueError("no such order")

    def plain() -> None:
        raise error

    async def coroutine() -> None:
        await asyncio.sleep(0)
        raise error

    broken = app.task(name="broken", max_retries=2)(plain if kind == "def" else coroutine)
    receipt, other = broken.enqueue(), broken.enqueue()
    with pytest.raises(ValueError, match="no such order") as raised:
        kit.drain(strict=True)
    assert raised.value is error
    assert (kit.job(receipt).state, kit.job(other).state) == ("retrying", "queued"), "the failed job is settled first"
    assert kit.drain() == {"retrying": 1}


def test_what_a_handler_decides_is_no_error(app: Oncue, kit: Kit) -> None:
    @app.task
    def skips() -> None:
        raise Skip("nothing to do")

    @app.task
    def retries() -> None:
        raise Retry(after="1m")

    skips.enqueue()
    retries.enqueue()
    assert kit.drain(strict=True) == {"skipped": 1, "retrying": 1}


def test_a_timeout_is_an_error_of_a_strict_drain(app: Oncue, kit: Kit) -> None:
    @app.task(timeout="30s")
    def slow() -> None:
        kit.clock.advance("31s")

    slow.enqueue()
    with pytest.raises(TimeoutError, match="cut off after 30 s"):
        kit.drain(strict=True)


def test_a_strict_elapse_stops_at_the_error(app: Oncue) -> None:
    @app.task(schedule=cron("0 * * * *"))
    def hourly(slot: datetime) -> None:
        if slot.hour == 15:
            raise ValueError("three o'clock")

    with use(app, now=NOON) as kit:
        with pytest.raises(ValueError, match="three o'clock"):
            kit.elapse("1d", strict=True)
        assert kit.clock.now() == NOON + timedelta(hours=3)
        assert kit.elapse("1h") == {"failed": 1, "succeeded": 1}, "its retries, and the next slot"


# --- one schedule, and many slots -------------------------------------------------------------------------------


def test_one_schedule_alone(app: Oncue) -> None:
    @app.task(schedule=cron("0 * * * *"))
    def hourly() -> None: ...

    @app.task(schedule=cron("*/10 * * * *"))
    def often() -> None: ...

    @app.task
    def later() -> None: ...

    with use(app, now=NOON) as kit:
        later.using(delay="90m").enqueue()
        assert kit.elapse("2h", schedule=hourly) == {"succeeded": 3}
        assert [job.task for job in kit.jobs(often)] == []
        assert kit.elapse("1h", schedule="often") == {"succeeded": 6}
        assert kit.elapse("1h") == {"succeeded": 7}, "the others fire again, and have missed nothing"
        assert app.wait(app.schedules.audit("often", NOON)).counts() == {"fired": 12}
        with pytest.raises(ScheduleNotFound):
            kit.elapse("1h", schedule="unknown")


def test_a_paused_queue_does_not_stop_the_time(app: Oncue) -> None:
    @app.task(schedule=cron("0 * * * *"), queue="slow", max_instances=100, grace="1d")
    def hourly() -> None: ...

    with use(app, now=NOON) as kit:
        app.wait(app.queues.pause("slow"))
        assert kit.elapse("3h") == {}
        assert len(kit.jobs(hourly, state="queued")) == 3


def test_what_has_waited_past_its_time_is_ended_on_the_way(app: Oncue) -> None:
    @app.task(schedule=cron("0 * * * *"), queue="slow", max_instances=100, grace="30m")
    def hourly() -> None: ...

    @app.task(deadline="90m")
    def later() -> None: ...

    with use(app, now=NOON) as kit:
        app.wait(app.queues.pause("slow"))
        receipt = later.using(delay="5h").enqueue()
        assert kit.elapse("2h15m") == {}
        assert [(job.state, job.finished_at) for job in kit.jobs(hourly)] == [
            ("skipped", NOON + timedelta(minutes=90, microseconds=1)),
            ("queued", None),
        ]
        assert (kit.job(receipt).state, kit.job(receipt).reason) == ("skipped", "deadline")
        assert kit.job(receipt).finished_at == NOON + timedelta(minutes=90)


def test_an_instant_without_end_is_stopped_and_a_long_time_is_not(app: Oncue) -> None:
    @app.task(schedule=cron("@every 1m"))
    def often() -> None: ...

    @app.task
    def ping() -> None:
        ping.enqueue()

    with use(app, now=NOON) as kit:
        assert kit.elapse("1h", limit=10) == {"succeeded": 60}
        ping.enqueue()
        with pytest.raises(AssertionError, match="10 attempts and still something is due"):
            kit.elapse("1h", limit=10)


def test_the_time_that_an_elapse_takes_grows_with_its_slots_alone(app: Oncue) -> None:
    @app.task(schedule=cron("@every 10s"))
    def often() -> None: ...

    def took(duration: str, kit: Kit) -> float:
        """What other tests have left behind is not collected meanwhile: that may take longer than all of this."""
        gc.collect()
        gc.disable()
        try:
            began = time.process_time()
            kit.elapse(duration)
            return time.process_time() - began
        finally:
            gc.enable()

    with use(app, now=NOON) as kit:
        took("10m", kit)
        first = took("1h", kit)
        took("4h", kit)
        assert took("1h", kit) < 2.5 * first
