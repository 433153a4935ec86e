"""Values from outside become what a field declares, or are refused in words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest

from oncue.fields import Before, field, reader


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (int, "64", 64),
        (int, 64.0, 64),
        (float, "1.5", 1.5),
        (bool, "Yes", True),
        (bool, 0, False),
        (str | None, None, None),
        (str | None, "a", "a"),
        (Literal["a", "b"], "b", "b"),
        (tuple[str, ...], ["a", "b"], ("a", "b")),
        (Annotated[int, Before(len)], "four", 4),
        (Annotated[Annotated[int, Before(len)], field(ge=4)], "four", 4),
        (Annotated[int | None, field(ge=4)], None, None),
    ],
)
def test_a_value_is_read_as_its_type(hint: Any, value: Any, expected: Any) -> None:
    found = reader(hint)(value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("hint", "value", "complaint"),
    [
        (int, "many", "expected a whole number"),
        (int, 1.5, "expected a whole number"),
        (int, float("nan"), "expected a whole number"),
        (int, float("inf"), "expected a whole number"),
        (int, True, "expected a whole number"),
        (int, {"x": 1}, "expected a whole number"),
        (float, "often", "expected a number"),
        (bool, "maybe", "expected true or false"),
        (bool, 2, "expected true or false"),
        (str, 7, "expected a text"),
        (Literal["a", "b", "c"], "d", "expected 'a', 'b' or 'c'"),
        (tuple[str, ...], "a", "list of names"),
        (tuple[str, ...], ["a", 1], "expected a text"),
        (Annotated[int, field(ge=5)], "4", "expected at least 5"),
        (Annotated[int, field(le=5)], "6", "expected at most 5"),
        (Annotated[str, field(max_length=2)], "abc", "at most 2 characters"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(hint: Any, value: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        reader(hint)(value)


def test_a_hint_that_nobody_reads_is_an_error() -> None:
    with pytest.raises(TypeError, match="expected Before or field"):
        reader(Annotated[int, "at least 5"])
