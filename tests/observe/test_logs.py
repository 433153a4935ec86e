"""Log lines as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from oncue.observe import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The root logger's output, put back as it was afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:], root.level = handlers, level


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_text_is_in_utc(stream: io.StringIO) -> None:
    logs.configure("info", "text", stream)
    logging.getLogger("shop").info("hello %s", "world")
    logging.getLogger("shop").debug("not this")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    shop: hello world\n", stream.getvalue())


def test_json_carries_logger_level_message_and_exception(stream: io.StringIO) -> None:
    logs.configure("debug", "json", stream)
    try:
        raise ValueError("bäng")
    except ValueError:
        logging.getLogger("shop").exception("it %s", "broke")
    (line,) = lines(stream)
    assert (line["logger"], line["level"], line["message"]) == ("shop", "error", "it broke")
    assert line["time"].endswith("Z")
    assert line["exception"].endswith("ValueError: bäng")


@pytest.mark.parametrize(
    ("message", "arguments", "fields"),
    [
        (
            "job %d started task=%s queue=%s attempt=%d",
            (7, "a task=evil queue=x", "mail", 2),
            {"job": 7, "task": "a task=evil queue=x", "queue": "mail", "attempt": 2},
        ),
        (
            "job %d %s task=%s duration=%.3fs%s%s%s",
            (7, "failed", "send", 0.5, " rows=3", "", " error=ValueError: job=9"),
            {"job": 7, "state": "failed", "task": "send", "duration": 0.5, "rows": 3, "error": "ValueError: job=9"},
        ),
        (
            "job %d started task=%s attempt=%d%s",
            (7, "send", 1, " slot=2030-01-01T03:00:00+00:00"),
            {"job": 7, "task": "send", "attempt": 1, "slot": "2030-01-01T03:00:00+00:00"},
        ),
        ("node %s (%s) is lost", ("alpha", "1234"), {"node": "alpha"}),
        ("100 %% of %s", ("them",), {}),
        ("nothing to see", (), {}),
    ],
)
def test_the_engines_lines_name_their_fields(
    stream: io.StringIO, message: str, arguments: tuple[Any, ...], fields: dict[str, Any]
) -> None:
    logs.configure("info", "json", stream)
    logging.getLogger("oncue.job").info(message, *arguments)
    (line,) = lines(stream)
    assert line.keys() - {"time", "level", "logger", "message"} == fields.keys()
    assert line.items() >= fields.items()


def test_what_json_does_not_know_is_written_as_text(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    logging.getLogger("oncue.job").info("job %s", object)
    assert lines(stream)[0]["job"] == "<class 'object'>"


HOSTILE = "x\x1b[2J\x9b\r\u202e\n2030-01-01T00:00:00.000Z INFO    oncue.job: job 1 succeeded"


def test_a_text_line_cannot_be_forged_and_acts_on_no_terminal(stream: io.StringIO) -> None:
    logs.configure("info", "text", stream)
    logging.getLogger("oncue.job").info("job %d failed error=%s", 7, HOSTILE)
    first, second = stream.getvalue().splitlines()
    assert first.endswith(r"job 7 failed error=x\x1b[2J\x9b\r\u202e")
    assert second == "    2030-01-01T00:00:00.000Z INFO    oncue.job: job 1 succeeded"


def test_a_traceback_is_readable_and_set_off(stream: io.StringIO) -> None:
    logs.configure("info", "text", stream)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("shop").exception("it broke")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("shop: it broke")
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-2] == r"    ValueError: x\x1b[2J\x9b\r\u202e"
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


def test_json_lines_hold_the_data_and_nothing_that_acts(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    logging.getLogger("shop").info("%s", HOSTILE)
    assert stream.getvalue().removesuffix("\n").isprintable()
    assert lines(stream)[0]["message"] == HOSTILE


def test_an_error_that_ends_in_many_digits_is_a_line_like_any_other(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    digits = "9" * 5000
    logging.getLogger("oncue.job").info("job %d %s%s%s", 7, "failed", " rows=3", f" error={digits}")
    (line,) = lines(stream)
    assert (line["job"], line["rows"], line["error"]) == (7, 3, digits)


def test_a_stranger_writes_no_line_for_every_request_that_is_no_http(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("uvicorn", "uvicorn.error"):  # a server of another test may have configured them in its own way
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)
    logs.configure("debug", "text", stream)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("uvicorn.error").error("Exception in ASGI application")
    assert "Invalid" not in stream.getvalue()
    assert "ASGI" in stream.getvalue()
