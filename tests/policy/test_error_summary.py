"""One line of an error: the one that says what it was, not the link that some libraries end with."""

from __future__ import annotations

import traceback

import pytest
from pydantic import TypeAdapter

from oncue.policy.error_summary import error_summary


def raised(error: BaseException, cause: BaseException | None = None) -> str:
    """The traceback of an error, as a job keeps it."""
    try:
        raise error from cause
    except BaseException as caught:
        return "".join(traceback.format_exception(caught)).rstrip()


def test_the_first_line_of_many() -> None:
    said = "(sqlite3.IntegrityError) UNIQUE constraint failed\n[SQL: insert into t]\n(Background: https://example.com)"
    assert (
        error_summary(raised(RuntimeError(said))) == "RuntimeError: (sqlite3.IntegrityError) UNIQUE constraint failed"
    )


def test_what_pydantic_says() -> None:
    with pytest.raises(ValueError, match="validation error") as error:
        TypeAdapter(int).validate_python("x")
    assert error_summary(raised(error.value)).endswith("ValidationError: 1 validation error for int")


def test_of_several_errors_the_one_that_was_raised_last() -> None:
    assert error_summary(raised(ValueError("second\nmore"), KeyError("first"))) == "ValueError: second"


def test_of_a_group_what_the_group_says() -> None:
    group = raised(ExceptionGroup("two of them", [ValueError("a"), ValueError("b")]))
    assert error_summary(group) == "ExceptionGroup: two of them (2 sub-exceptions)"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (None, ""),
        ("", ""),
        ("node_lost", "node_lost"),
        ("timed out: cut off after 5 s\nmore", "timed out: cut off after 5 s"),
        ('… handler\n  File "x.py", line 3, in work\n    fail()\nOSError: full', "OSError: full"),
        ('  File "x.py", line 3, in work\n    fail()', "fail()"),
    ],
)
def test_other_texts(error: str | None, line: str) -> None:
    assert error_summary(error) == line
