"""Arguments are checked against the type hints before anything is written, and the message names what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from oncue import InvalidJob, Oncue, Task
from oncue.tasks.arguments import plain_json
from oncue.tasks.shapes import Shape

LIMIT = 256 * 1024


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: int
    y: float = 0.0


class Address(BaseModel):
    street: str
    number: int = Field(gt=0)
    point: Point | None = None


def declared(function: Callable[..., Any]) -> Task[..., Any]:
    return Oncue("sqlite:///never.db").task(function)


def through_json(task: Task[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    return task.bind(task.arguments.dump(args, kwargs, LIMIT))


def one(hint: Any) -> Task[..., Any]:
    """A task with one argument of this type."""

    def work(value: Any) -> None: ...

    work.__annotations__ = {"value": hint, "return": None}
    return declared(work)


ACCEPTED: list[tuple[Any, Any]] = [
    (int, 42),
    (int, 10**30),
    (float, 0.1),
    (bool, True),
    (str, "naïve \x00 ☃"),
    (bytes, b"abc"),
    (datetime, datetime(2030, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)),
    (date, date(2030, 1, 1)),
    (timedelta, timedelta(days=1, microseconds=1)),
    (Decimal, Decimal("1.10")),
    (UUID, UUID(int=7)),
    (Colour, Colour.BLUE),
    (Level, Level.HIGH),
    (Literal["a", "b"], "b"),
    (Point, Point(1, 2.5)),
    (Address, Address(street="Main", number=1, point=Point(1))),
    (Optional[int], None),  # noqa: UP045
    (int | None, 3),
    (list[Colour], [Colour.RED, Colour.BLUE]),
    (dict[str, list[Point]], {"a": [Point(1)]}),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (Annotated[int, Field(ge=0)], 0),
    (Any, {"a": [1, None, "b"]}),
]


@pytest.mark.parametrize(("hint", "value"), ACCEPTED, ids=lambda value: str(value)[:40])
def test_the_handler_gets_what_was_enqueued(hint: Any, value: Any) -> None:
    assert through_json(one(hint), value) == {"value": value}


REFUSED: list[tuple[Any, Any, str, str]] = [
    (int, "many", "value", "valid integer"),
    (int, 1.5, "value", "valid integer"),
    (int, None, "value", "valid integer"),
    (str, 7, "value", "valid string"),
    (datetime, "yesterday", "value", "valid datetime"),
    (Colour, "green", "value", "'red' or 'blue'"),
    (Literal["a", "b"], "c", "value", "'a' or 'b'"),
    (Point, {"x": "?"}, "value.x", "valid integer"),
    (Address, {"street": "Main", "number": 0}, "value.number", "greater than 0"),
    (Address, {"number": 1}, "value.street", "Field required"),
    (list[int], [1, "two"], "value.1", "valid integer"),
    (dict[str, list[Point]], {"a": [{"y": 1}]}, "value.a.0.x", "Field required"),
    (Annotated[int, Field(ge=0)], -1, "value", "greater than or equal to 0"),
    (float, math.nan, "value", "finite number"),
    (float, math.inf, "value", "finite number"),
    (list[float], [0.5, -math.inf], "value.1", "finite number"),
    (Any, math.nan, "value", "JSON has no NaN and no infinity"),
    (dict[str, Any], {"a": [math.inf]}, "value", "JSON has no NaN"),
    (Point, Point(1, math.nan), "value", "JSON has no NaN"),
    (Any, object(), "value", "cannot be written as JSON: .*<class 'object'>"),
    (Any, b"\xff", "value", "cannot be written as JSON"),
    (str, "\ud800", "value", "valid string|surrogates|JSON"),
]


@pytest.mark.parametrize(("hint", "value", "field", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_fit_is_refused_by_name(hint: Any, value: Any, field: str, message: str) -> None:
    with pytest.raises(InvalidJob, match=message) as refusal:
        through_json(one(hint), value)
    assert refusal.value.field == field
    assert str(refusal.value).startswith(f"{field}: ")


def test_the_argument_that_has_no_json_form_is_named() -> None:
    def work(first: Any, second: Any) -> None: ...

    with pytest.raises(InvalidJob) as refusal:
        through_json(declared(work), 1, object())
    assert refusal.value.field == "second"


def test_circles_are_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(InvalidJob, match="value: cannot be written as JSON"):
        through_json(one(Any), circle)


def test_defaults_are_the_handlers_own() -> None:
    def work(a: int, b: int = 2, *, c: str = "c") -> None: ...

    task = declared(work)
    assert through_json(task, 1) == {"a": 1}, "tomorrow's default applies to a job that was enqueued today"
    assert through_json(task, 1, 3, c="d") == {"a": 1, "b": 3, "c": "d"}


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"work\(a: .int., b: .int. = 2\).* missing a required argument: 'a'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"z": 1}, "unexpected keyword argument 'z'"),
        ((1,), {"a": 1}, "multiple values for argument 'a'"),
    ],
)
def test_missing_and_extra_arguments_are_refused(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    def work(a: int, b: int = 2) -> None: ...

    with pytest.raises(InvalidJob, match=message):
        declared(work).arguments.dump(args, kwargs, LIMIT)


def test_too_many_bytes_are_refused() -> None:
    task = one(str)
    assert task.arguments.dump(("x" * (LIMIT - 12),), {}, LIMIT)
    with pytest.raises(InvalidJob, match="arguments: expected at most 262144 bytes of JSON, not 262145"):
        task.arguments.dump(("x" * (LIMIT - 11),), {}, LIMIT)


def test_without_hints_anything_with_a_json_form_goes() -> None:
    def work(a, b=None):  # type: ignore[no-untyped-def]
        ...

    assert through_json(declared(work), [1, {"x": None}], b="b") == {"a": [1, {"x": None}], "b": "b"}


def test_hints_are_resolved_when_they_are_needed() -> None:
    assert through_json(declared(later_known), Later(n=1)) == {"value": Later(n=1)}


def later_known(value: Later) -> None: ...


class Later(BaseModel):
    n: int


def test_a_hint_that_cannot_be_resolved_is_explained() -> None:
    def work(value: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidJob, match=r"^arguments: a type hint of work cannot be resolved: name 'Nowhere'"):
        through_json(declared(work), 1)


class Opaque: ...


def test_a_hint_without_a_json_form_is_explained() -> None:
    with pytest.raises(InvalidJob, match=r"^arguments: a type hint of work has no JSON form"):
        through_json(one(Opaque), Opaque())


def test_the_caller_sees_numbers_in_text_as_numbers() -> None:
    assert through_json(one(int), "42") == {"value": 42}, "what fits is taken, as pydantic does it"


@given(number=st.integers(), text=st.text(), flag=st.booleans())
def test_plain_values_are_written_as_pydantic_writes_them(number: int, text: str, flag: bool) -> None:
    def handler(number: int, text: str, flag: bool) -> None: ...

    named = {"number": number, "text": text, "flag": flag}
    shape = Shape(handler, "handler", dict.fromkeys(named, False))
    assert plain_json(named, {"number": int, "text": str, "flag": bool}) == shape.dump(named)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, [1], "\ud800"])
def test_values_that_are_not_exactly_of_their_type_are_left_to_pydantic(value: object) -> None:
    hint = str if value == "\ud800" else int
    assert plain_json({"value": value}, {"value": hint}) is None
    assert plain_json({"value": value}, {}) is None
