"""What a handler returns or raises, and what becomes of it."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncue.engine.context import current_job
from oncue.engine.outcomes import SizeLimits
from oncue.errors import Cancel, Fail, Postpone, Retry, Skip, Snooze
from oncue.model import Cancelled, Failed, Skipped, Snoozed, Succeeded
from tests.engine.stage import Stage

NOVEMBER = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)


async def coroutine(value: Any = None) -> Any:
    return value


def plain(value: Any = None) -> Any:
    return value


@pytest.mark.parametrize("task", ["coroutine", "plain"])
async def test_a_result_is_kept_as_json(task: str) -> None:
    stage = Stage(coroutine, plain)
    assert await stage.outcome(task) == Succeeded()
    assert await stage.outcome(task, args={"value": {"rows": [1, "é"]}}) == Succeeded('{"rows":[1,"é"]}')


@dataclass
class Reading:
    celsius: float


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (object(), "result_not_json"),
        ("\ud800", "result_not_json"),
        (math.nan, "result_not_json"),
        ({"rates": [1.0, -math.inf]}, "result_not_json"),
        (Reading(math.nan), "result_not_json"),
        ("x" * 2000, "result_too_large"),
    ],
)
async def test_a_result_that_cannot_be_kept_does_not_fail_the_job(result: object, reason: str) -> None:
    async def work() -> object:
        return result

    assert await Stage(work, limits=SizeLimits(result=1000)).outcome("work") == Succeeded(reason=reason)


async def test_a_result_that_holds_nothing_is_json() -> None:
    async def work() -> list[float | None]:
        return [1.5, None]

    assert await Stage(work).outcome("work") == Succeeded("[1.5,null]")


async def failed(stage: Stage, task: str = "work", **fields: Any) -> Failed:
    outcome = await stage.outcome(task, **fields)
    assert isinstance(outcome, Failed)
    return outcome


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_whatever_a_coroutine_raises_is_its_failure(kind: type[BaseException]) -> None:
    async def work() -> None:
        raise kind("it broke")

    assert kind.__name__ in (await failed(Stage(work))).error


@pytest.mark.parametrize("kind", [ValueError, SystemExit, StopIteration])
async def test_whatever_a_plain_function_raises_is_its_failure(kind: type[BaseException]) -> None:
    def work() -> None:
        raise kind("it broke")

    stage = Stage(work)
    assert kind.__name__ in (await failed(stage)).error
    assert stage.executor.busy == 0


async def test_an_error_is_text_that_every_database_takes() -> None:
    async def work() -> None:
        raise ValueError("nul \x00, surrogate \udc80, and much more " + "y" * 10_000)

    error = (await failed(Stage(work, limits=SizeLimits(error=500)))).error
    assert len(error.encode()) <= 500
    assert error.endswith("yyyy")
    short = (await failed(Stage(broken_text))).error
    assert "nul \\x00, surrogate \\udc80" in short


async def broken_text() -> None:
    raise ValueError("nul \x00, surrogate \udc80")


broken_text.__name__ = "work"


async def test_an_error_that_cannot_be_printed_is_a_failure_all_the_same() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    async def work() -> None:
        raise Unprintable

    assert "Unprintable" in (await failed(Stage(work))).error


async def test_arguments_that_do_not_fit_are_a_failure() -> None:
    assert "unexpected keyword" in (await failed(Stage(coroutine), "coroutine", args={"colour": 1})).error


@pytest.mark.parametrize(
    ("signal", "outcome"),
    [
        (Retry("later", after="90s"), Failed("later", 90.0)),
        (Retry(), Failed("retry requested")),
        (Retry("busy", after="120", at_least=True), Failed("busy", 120.0, at_least=True)),
        (Retry(after="Sun, 06 Nov 1994 08:49:37 GMT"), Failed("retry requested", until=NOVEMBER)),
        (Retry(after=NOVEMBER), Failed("retry requested", until=NOVEMBER)),
        (Fail("no such card"), Failed("no such card", final=True)),
        (Snooze("10m"), Snoozed(600.0)),
        (Postpone("10m"), Snoozed(600.0, begun=False)),
        (Snooze(timedelta(seconds=5), "not yet"), Snoozed(5.0, "not yet")),
        (Skip("nothing new"), Skipped("nothing new")),
        (Cancel("pointless"), Cancelled("pointless")),
    ],
)
async def test_a_handler_decides_by_raising(signal: Exception, outcome: object) -> None:
    async def work() -> None:
        raise signal

    def thread() -> None:
        raise signal

    stage = Stage(work, thread)
    assert await stage.outcome("work") == outcome
    assert await stage.outcome("thread") == outcome


@pytest.mark.parametrize(
    "signal", [Retry(after="soon"), Retry(after=datetime(2030, 1, 1)), Snooze(-5), Skip(7), Fail(7)]
)  # type: ignore[arg-type]
async def test_a_signal_that_makes_no_sense_is_a_failure(signal: Exception) -> None:
    async def work() -> None:
        raise signal

    stage = Stage(work)
    assert "what it asks for cannot be done" in (await failed(stage)).error
    assert stage.executor.busy == 0


async def test_a_custom_policy_has_the_word() -> None:
    async def work() -> None:
        raise ConnectionError("away")

    stage = Stage(work)
    seen = []

    def rule(retries: int, error: Exception) -> float | None:
        seen.append((retries, type(error)))
        return 7.5 if retries < 2 else None

    stage.handlers["work"].rule = rule
    again, last = await failed(stage), await failed(stage, retry_count=2)
    assert (again.delay, again.final) == (7.5, False)
    assert (last.delay, last.final) == (None, True)
    assert "ConnectionError: away" in again.error
    assert seen == [(0, ConnectionError), (2, ConnectionError)]


async def test_a_custom_policy_that_fails_leaves_the_word_to_the_jobs_own() -> None:
    class Nasty(Exception):
        def __repr__(self) -> str:
            raise RuntimeError

    async def work() -> None:
        raise ValueError("first")

    def rule(retries: int, error: Exception) -> float | None:
        raise Nasty

    stage = Stage(work)
    stage.handlers["work"].rule = rule
    outcome = await failed(stage)
    assert (outcome.delay, outcome.final) == (None, False)
    assert "first" in outcome.error
    assert "its retry policy failed" in outcome.error


async def test_the_running_job_knows_itself() -> None:
    seen: list[Any] = []

    async def work() -> None:
        job = current_job()
        job.rows(12)
        seen.append((job.id, job.task, job.queue, job.attempt, job.retries_left, job.cancel_requested))

    def thread() -> None:
        current_job().rows(13)

    stage = Stage(work, thread)
    ended = await stage.play("work", attempt=1, retry_count=2)
    assert ended.rows == 12
    assert seen == [(1, "work", "default", 2, 1, False)]
    assert (await stage.play("thread")).rows == 13
    with pytest.raises(LookupError, match="inside a handler"):
        current_job()


async def test_deep_recursion_is_a_failure() -> None:
    def deep() -> None:
        deep()

    limit = sys.getrecursionlimit()
    assert "RecursionError" in (await failed(Stage(deep), "deep")).error
    assert sys.getrecursionlimit() == limit
