"""What an answer over HTTP means for a delivery."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.model import Failed
from oncue.policy.http import outcome, retry_after
from oncue.policy.retry import Ladder, wait

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.contract("HOOK-3")
@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (range(200, 300), "delivered"),
        (range(500, 600), "retry"),
        ([429], "retry"),
        ([*range(400, 429), *range(430, 500)], "failed"),
        (range(300, 400), "failed"),
        ([0, -1, 100, 101, 199, 600, 999], "failed"),
    ],
)
def test_the_class_of_a_status_decides(statuses: range | list[int], expected: str) -> None:
    assert {outcome(status) for status in statuses} == {expected}


@pytest.mark.contract("HOOK-3")
@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 120 ", 120.0),
        ("3600", 3600.0),
        ("3601", 3600.0),
        ("9" * 5000, 3600.0),
        ("-5", 0.0),
        ("Tue, 01 Jan 2030 12:00:30 GMT", 30.0),
        ("Tuesday, 01-Jan-30 12:00:30 GMT", 30.0),
        ("Tue Jan  1 12:00:30 2030", 30.0),
        ("Tue, 01 Jan 2030 14:00:00 GMT", 3600.0),
        ("Tue, 01 Jan 2030 11:59:59 GMT", 0.0),
        ("Mon, 01 Jan 0001 00:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("Tue, 41 Jan 2030 12:00:00 GMT", None),
        ("Tue, 01 Jan 99999999999999999999 12:00:00 GMT", None),
        ("1, 2", None),
        ("٣", None),
        ("\x00", None),
    ],
)
def test_what_an_endpoint_asks_for(written: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": written}, NOW) == seconds


def test_an_endpoint_that_asks_for_nothing() -> None:
    assert retry_after({"content-type": "text/plain"}, NOW) is None


@given(st.one_of(st.text(), st.from_regex(r"(Mon|Tue), \d+ [A-Z][a-z]+ \d+ [\d:]* ?[+-]?\w*", fullmatch=True)))
def test_whatever_it_says_it_is_a_wait_of_at_most_an_hour(written: str) -> None:
    asked = retry_after({"retry-after": written}, NOW)
    assert asked is None or 0 <= asked <= 3600


@given(st.integers(-10_000, 10_000))
def test_a_date_is_a_wait_from_now(seconds: int) -> None:
    written = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert retry_after({"retry-after": written}, NOW) == min(max(seconds, 0), 3600)


@pytest.mark.contract("HOOK-3")
@pytest.mark.parametrize(("written", "waits"), [("5", 30.0), ("90", 90.0), ("soon", 30.0), ("86400", 3600.0)])
def test_the_longer_of_step_and_retry_after(written: str, waits: float) -> None:
    failed = Failed("503", retry_after({"retry-after": written}, NOW), at_least=True)
    assert wait(failed, NOW, 0, Ladder("30s", "2m", "10m"), Random(1)) == waits
