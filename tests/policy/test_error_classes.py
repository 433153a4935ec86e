"""What kind of failure an exception is."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.policy.error_classes import checked_error_classes, error_class


class ModelError(Exception):
    error_class = "llm"


class Strange(Exception):
    @property
    def error_class(self) -> str:
        raise RuntimeError("no")


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.contract("WIN-15")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ModelError(), "llm"), (TimeoutError(), "req"), (ConnectionResetError(), "req"), (KeyError(), None),
        (raised_from(KeyError(), ModelError()), "llm"), (Strange(), None),
        (type("Odd", (Exception,), {"error_class": "weather"})(), "unknown"),
    ],
)  # fmt: skip
def test_the_attribute_then_the_map_then_the_cause(error: Exception, expected: str | None) -> None:
    assert error_class(error, {TimeoutError: "req", ConnectionError: "req", ModelError: "parse"}) == expected


def test_causes_that_go_round_in_a_circle_end() -> None:
    one, two = KeyError(), ValueError()
    one.__cause__, two.__cause__ = two, one
    assert error_class(one, {}) is None


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["req"], "error_classes: expected a mapping"), ({"TimeoutError": "req"}, "expected classes of exceptions"),
        ({TimeoutError: "network"}, "expected one of req, llm, parse, unknown, not 'network'"),
    ],
)  # fmt: skip
def test_a_wrong_map_is_refused(given: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        checked_error_classes(given)
