"""Rates as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from oncue import InvalidJob
from oncue.model import Rate
from oncue.policy import rates


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", Rate(10, 1)), ("1/sec", Rate(1, 1)), ("3/second", Rate(3, 1)), ("600/min", Rate(600, 60)),
        ("5/m", Rate(5, 60)), ("5/minute", Rate(5, 60)), ("5/h", Rate(5, 3600)), ("7/hour", Rate(7, 3600)),
        ("100/d", Rate(100, 86400)), ("1/day", Rate(1, 86400)), (" 10 / S ", Rate(10, 1)),
        ("1000000/s", Rate(1_000_000, 1)), ("007/s", Rate(7, 1)),
    ],
)  # fmt: skip
def test_rates(text: str, rate: Rate) -> None:
    assert rates.parsed(text, "rate") == rate
    assert rates.parsed(str(rate), "rate") == rate


@pytest.mark.parametrize(
    "wrong",
    ["", "10", "/s", "0/s", "-1/s", "1.5/s", "10/", "10/w", "10/ms", "10/10s", "1000001/s", "9" * 5000 + "/s", "ten/s",
     "٣/s", "10/s/s", 10, 1.5, None, True, ["10/s"], b"10/s"],
)  # fmt: skip
def test_what_is_no_rate_is_refused_with_the_field_and_what_is_expected(wrong: Any) -> None:
    with pytest.raises(InvalidJob, match="rate_per_group: expected a number of jobs from 1 to 1,000,000") as caught:
        rates.parsed(wrong, "rate_per_group")
    assert len(str(caught.value)) < 300
