"""What a handler tells of its attempt: merged, checked, and bounded in size."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from oncue.engine import details
from oncue.engine.details import LARGEST_DETAILS, merged


def told(*calls: dict[str, Any]) -> dict[str, Any]:
    text: str | None = None
    for call in calls:
        text = merged(text, call)
        assert len(text.encode()) <= LARGEST_DETAILS
    found: dict[str, Any] = json.loads(text or "null")
    return found


def test_later_calls_add_and_replace() -> None:
    assert told({"status": 500, "try": 1}, {"status": 200}, {"ms": 3.5}) == {"status": 200, "try": 1, "ms": 3.5}
    assert told({}) == {}


def test_values_are_what_json_has() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    assert told({"at": at, "list": [1, None], "none": None, "set": {1}}) == {
        "at": "2030-01-01T00:00:00Z", "list": [1, None], "none": None, "set": [1],
    }  # fmt: skip


@pytest.mark.parametrize("value", [object(), float("nan"), float("inf"), [lambda: 1]])
def test_a_value_that_json_does_not_have_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ValueError, match="details: expected 'body' to be a value that JSON has"):
        merged(None, {"body": value})


def test_texts_that_a_database_does_not_take_are_made_plain() -> None:
    assert told({"body": "a\x00b\udcff"}) == {"body": "a\\x00b\\udcff"}


@pytest.mark.parametrize("letter", ["x", "ä", "\U0001f600", '"', "\n", "\u2028"])
def test_a_long_text_is_cut_and_says_so(letter: str) -> None:
    found = told({"status": 200, "body": letter * 20_000})
    assert found["status"] == 200
    kept, _, mark = found["body"].partition("…")
    assert kept == letter * len(kept)
    assert len(json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()) > LARGEST_DETAILS * 0.9
    assert mark.endswith(" bytes)")


def test_of_several_the_longest_are_cut_first() -> None:
    found = told({"short": "s" * 300, "long": "l" * 9000, "longer": "m" * 9_999})
    assert found["short"] == "s" * 300
    assert found["longer"] == "… (10001 bytes)"
    assert found["long"].startswith("l" * 3000)


def test_what_is_no_text_is_left_out_whole() -> None:
    assert told({"rows": list(range(5000)), "count": 5000}) == {"rows": "… (23891 bytes)", "count": 5000}


def test_too_many_of_them_leave_nothing_but_a_mark() -> None:
    found = told({f"field {number}": number for number in range(1000)})
    assert list(found) == ["left_out"]
    assert "more than the 4096 that are kept" in found["left_out"]


@pytest.mark.parametrize("fields", [700, 5000])
def test_thousands_of_them_are_measured_once(monkeypatch: pytest.MonkeyPatch, fields: int) -> None:
    """They may come from somebody else, and the worker's event loop stands still meanwhile."""
    dumped, calls = details._dumped, Counter[str]()

    def counted(value: Any) -> str:
        calls["all"] += 1
        return dumped(value)

    monkeypatch.setattr(details, "_dumped", counted)
    assert list(told({f"field {number}": "x" * 40 for number in range(fields)})) == ["left_out"]
    assert calls["all"] < 4 * fields
