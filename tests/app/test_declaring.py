from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from oncue import BACKGROUND, SCHEDULED, USER_REQUESTED, Exponential, InvalidJob, Ladder, Oncue, Task, cron
from oncue.policy.priorities import CRITICAL_MAX_RETRIES


@pytest.fixture
def app() -> Oncue:
    return Oncue("sqlite:///never.db")


def work() -> None: ...


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "two\nlines"}, "name: expected a printable name of 1 to 128 characters"),
        ({"queue": "q" * 200}, "queue: expected a printable name"),
        ({"priority": 101}, "priority: expected a whole number from 0 to 100, not 101"),
        ({"priority": "high"}, "priority: expected a whole number"),
        ({"timeout": "soon"}, "timeout: expected a duration such as"),
        ({"timeout": -1}, "timeout: expected a duration between 0 and 100 years"),
        ({"max_runtime": "soon"}, "max_runtime: expected a duration such as"),
        ({"deadline": "soon"}, "deadline: expected a duration such as"),
        ({"delivery": "exactly_once"}, "delivery: expected 'at_least_once' or 'at_most_once', not 'exactly_once'"),
        ({"max_retries": -1}, "max_retries: expected a whole number from 0 to 1,000,000, not -1"),
        ({"retry": "30s"}, r"retry: expected Exponential\(…\), Ladder\(…\) or a function, not '30s'"),
        ({"missed": "latest"}, "^missed: only tasks with a schedule= have one$"),
        ({"grace": "5m"}, "^grace: only tasks with a schedule= have one$"),
        ({"max_instances": 1}, "^max_instances: only tasks with a schedule= have one$"),
        ({"name": "12", "schedule": cron("@daily")}, "^name: expected a name that is not a number, not '12'$"),
        ({"process": "yes"}, "^process: expected True or False, not 'yes'$"),
        ({"colour": "red"}, "colour"),
    ],
    ids=str,
)
def test_a_bad_option_is_refused_at_the_declaration(app: Oncue, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        app.task(**options)(work)
    assert app.tasks == {}


def positional_only(a: int, /) -> None: ...


def starred(*args: int) -> None: ...


def double_starred(**kwargs: int) -> None: ...


def yields() -> Iterator[int]:
    yield 1


async def yields_too() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (positional_only, "positional_only: expected named parameters only, not a"),
        (starred, r"starred: expected named parameters only, not \*args"),
        (double_starred, r"double_starred: expected named parameters only, not \*\*kwargs"),
        (yields, "yields: expected a function that returns, not one that yields"),
        (yields_too, "yields_too: expected a function that returns, not one that yields"),
        (partial(work), "name: expected a printable name"),
    ],
    ids=["positional", "starred", "double starred", "generator", "async generator", "partial"],
)
def test_a_function_that_cannot_be_a_task_is_refused(app: Oncue, function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        app.task(function)


def slot_as_number(slot: int) -> None: ...


def slot_as_text(slot: str = "") -> None: ...


def slot_as_datetime(slot: datetime | None = None) -> None: ...


def slot_as_anything(slot) -> None: ...  # type: ignore[no-untyped-def]


def slot_as_what_comes_later(slot: Later, more: Later | None = None) -> None: ...  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize("function", [slot_as_number, slot_as_text])
def test_a_slot_that_is_no_datetime_is_refused(app: Oncue, function: Callable[..., Any]) -> None:
    name = function.__name__
    message = rf"schedule: {name}\(slot\): expected a parameter that takes a datetime"
    with pytest.raises(ValueError, match=message):
        app.task(schedule=cron("@daily"))(function)
    assert app.tasks == {}
    with pytest.raises(InvalidJob, match=message.replace("schedule", "slot")) as refused:
        app.task(function).arguments.dump_for_slots({}, 1000)
    assert "2000" not in str(refused.value)


@pytest.mark.parametrize("function", [slot_as_datetime, slot_as_anything, slot_as_what_comes_later])
def test_a_slot_that_may_be_a_datetime_is_accepted(app: Oncue, function: Callable[..., Any]) -> None:
    assert app.task(schedule=cron("@daily"))(function).schedule is not None


def test_two_tasks_cannot_share_a_name(app: Oncue) -> None:
    app.task(work)
    with pytest.raises(ValueError, match="a task 'work' is declared already; give one of them another name="):
        app.task(work)
    assert app.task(name="other")(work).name == "other"


@pytest.mark.parametrize(
    ("options", "max_retries"),
    [
        ({}, 3),
        ({"max_retries": 10}, 10),
        ({"retry": Ladder("30s", "2m", "10m", "1h")}, 4),
        ({"retry": Exponential("5s")}, 3),
        ({"retry": Ladder("30s"), "max_retries": 7}, 7),
        ({"delivery": "at_most_once"}, 0),
        ({"delivery": "at_most_once", "retry": Ladder("30s")}, 1),
        ({"delivery": "at_most_once", "max_retries": 2}, 2),
    ],
    ids=str,
)
def test_how_often_a_task_is_retried(app: Oncue, options: dict[str, Any], max_retries: int) -> None:
    assert app.task(**options)(work).max_retries == max_retries


@pytest.mark.contract("QUE-21")
def test_the_recommended_priorities_have_names_and_the_default_stays_zero(app: Oncue) -> None:
    assert BACKGROUND == 0
    assert 10 <= SCHEDULED <= 30
    assert 50 <= USER_REQUESTED <= 70
    assert app.task(work).priority == BACKGROUND


@pytest.mark.contract("QUE-21")
def test_three_retries_are_the_default_and_critical_targets_get_ten(app: Oncue) -> None:
    assert 3 <= app.task(work).max_retries <= 5
    assert CRITICAL_MAX_RETRIES >= 10
    assert app.task(name="critical", max_retries=CRITICAL_MAX_RETRIES)(work).max_retries == CRITICAL_MAX_RETRIES


def test_max_crashes_is_a_number_from_three_on_or_never() -> None:
    app = Oncue()

    def told(max_crashes: Any) -> int | None:
        return Task(app, lambda: None, name="work", max_crashes=max_crashes).options(None).max_crashes

    assert [told(3), told(5), told("never")] == [3, 5, None]
    for wrong in (2, 0, -1, True, "often", 3.5, None):
        with pytest.raises(InvalidJob, match='max_crashes: expected a whole number from 3 on, or "never"'):
            told(wrong)
