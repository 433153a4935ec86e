from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.policy.durations import Duration, describe, seconds


@pytest.mark.contract("QUE-6")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5ns", 5e-9),
        ("5us", 5e-6),
        ("5µs", 5e-6),
        ("5μs", 5e-6),
        ("250ms", 0.25),
        ("30s", 30),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("1d2h3m4s5ms", 93784.005),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("  90s ", 90),
        ("0s", 0),
        ("0", 0),
    ],
)
def test_text_is_read_in_its_units(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("value", "expected"), [(90, 90.0), (1.5, 1.5), (0, 0.0), (timedelta(minutes=5), 300.0)])
def test_numbers_and_timedeltas_are_read(value: Duration, expected: float) -> None:
    assert seconds(value) == expected


@pytest.mark.contract("QUE-6")
@pytest.mark.parametrize(
    ("text", "position"),
    [("", 1), ("soon", 1), ("s", 1), ("1h 30m", 3), ("1h30", 3), ("5x", 1), ("10m-5s", 4), ("1e3s", 1), ("-5s", 1)],
)
def test_what_cannot_be_read_is_refused_with_its_position(text: str, position: int) -> None:
    with pytest.raises(ValueError, match=rf"^timeout: expected a duration .*\(at position {position}\)$"):
        seconds(text, "timeout")


@pytest.mark.parametrize(
    "value", [-1, float("nan"), float("inf"), timedelta(seconds=-1), "40000d", None, True, [], b"5s"]
)
def test_what_is_no_duration_is_refused_by_name(value: object) -> None:
    with pytest.raises(ValueError, match=r"^delay: expected a duration"):
        seconds(value, "delay")  # type: ignore[arg-type]


@pytest.mark.parametrize("many", [10**400, 10**5000, -(10**5000), "9" * 400 + "d"], ids=["400", "5000", "less", "text"])
def test_a_number_that_fits_into_no_float_is_refused_like_any_other(many: Duration) -> None:
    with pytest.raises(
        ValueError, match=r"^delay: expected a duration between 0 and 100 years, not a number of that size$"
    ):
        seconds(many, "delay")


@pytest.mark.parametrize(
    ("total", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (30, "30s"),
        (90, "1m30s"),
        (5400, "1h30m"),
        (86400, "1d"),
        (1.5, "1.5s"),
        (1e-8, "0.00001ms"),
    ],
)
def test_a_duration_is_described_as_people_write_it(total: float, text: str) -> None:
    assert describe(total) == text


@given(st.integers(0, 36525 * 86400 * 1000))
def test_a_described_duration_reads_back(milliseconds: int) -> None:
    assert seconds(describe(milliseconds / 1000)) == pytest.approx(milliseconds / 1000, abs=0.0006)


@given(st.floats(1e-9, 1))
def test_a_short_described_duration_reads_back(total: float) -> None:
    assert seconds(describe(total)) == pytest.approx(total, rel=1e-4, abs=1e-9)
