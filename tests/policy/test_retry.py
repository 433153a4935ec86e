from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.model import Failed
from oncue.policy.durations import LONGEST
from oncue.policy.retry import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_POLICY,
    Exponential,
    Ladder,
    from_stored,
    retry_after,
    wait,
)

HOUR = 3600.0


@pytest.mark.contract("QUE-4")
@pytest.mark.parametrize(
    ("retry_count", "shortest", "longest"),
    [
        (0, 48.0, 72.0),
        (1, 96.0, 144.0),
        (2, 192.0, 288.0),
        (10, 0.8 * 61_440, 1.2 * 61_440),
        (11, 19.2 * HOUR, 28.8 * HOUR),
        (10_000, 19.2 * HOUR, 28.8 * HOUR),
    ],
)
def test_the_default_delay_is_a_minute_doubled_and_spread(retry_count: int, shortest: float, longest: float) -> None:
    assert DEFAULT_POLICY.bounds(retry_count) == pytest.approx((shortest, longest))
    delays = [DEFAULT_POLICY.delay(retry_count, Random(seed)) for seed in range(200)]
    assert shortest <= min(delays) < max(delays) <= longest
    assert max(delays) - min(delays) > 0.5 * (longest - shortest)


@pytest.mark.contract("QUE-4")
def test_three_retries_by_default() -> None:
    assert DEFAULT_MAX_RETRIES == DEFAULT_POLICY.default_max_retries() == 3


@given(
    st.builds(
        Exponential,
        base=st.floats(0, 1e6),
        factor=st.floats(1, 100),
        cap=st.floats(0, 1e6),
        jitter=st.floats(0, 1),
    ),
    st.integers(0, 5000),
    st.integers(),
)
def test_a_delay_is_within_its_bounds_and_never_negative(policy: Exponential, retry_count: int, seed: int) -> None:
    shortest, longest = policy.bounds(retry_count)
    delay = policy.delay(retry_count, Random(seed))
    slack = 1e-9 * (1 + longest)
    assert delay >= 0
    assert shortest - slack <= delay <= longest + slack
    assert longest <= policy.cap * (1 + policy.jitter) + slack


@given(st.floats(0.001, 1e6), st.floats(1, 100), st.integers(0, 100))
def test_without_jitter_delays_only_grow(base: float, factor: float, retry_count: int) -> None:
    policy = Exponential(base, factor, "24h", 0)
    assert policy.delay(retry_count, Random(1)) <= policy.delay(retry_count + 1, Random(2))


def test_no_delay_stays_no_delay_however_often() -> None:
    assert Exponential("0s").delay(100_000, Random(1)) == 0


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=9), st.integers(0, 20))
def test_a_ladder_gives_its_steps_and_stays_on_the_last(steps: list[float], retry_count: int) -> None:
    ladder = Ladder(*steps)
    expected = steps[min(retry_count, len(steps) - 1)]
    assert ladder.delay(retry_count, Random(1)) == expected
    assert ladder.bounds(retry_count) == (expected, expected)
    assert ladder.default_max_retries() == len(steps)


def test_a_ladder_reads_durations() -> None:
    assert Ladder("30s", "2m", 600).steps == (30.0, 120.0, 600.0)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Exponential(factor=0.5), "factor"),
        (lambda: Exponential(factor=float("nan")), "factor"),
        (lambda: Exponential(factor=float("inf")), "factor"),
        (lambda: Exponential(jitter=1.5), "jitter"),
        (lambda: Exponential(jitter=-0.1), "jitter"),
        (lambda: Exponential(base="soon"), "base"),
        (lambda: Exponential(cap="-1s"), "cap"),
        (lambda: Ladder("30s", "never"), "step 2"),
    ],
)
def test_nonsense_is_refused_by_name(make, named: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=f"^{named}: "):
        make()


def test_a_ladder_without_steps_has_no_retries() -> None:
    assert (Ladder().default_max_retries(), Ladder().delay(0, Random(1)), Ladder().bounds(3)) == (0, 0.0, (0.0, 0.0))


@pytest.mark.parametrize("policy", [Exponential(), Exponential("5s", 3, "1h", 0), Ladder("30s", "2m"), Ladder()])
def test_a_policy_survives_storage(policy: Exponential | Ladder) -> None:
    assert from_stored(policy.stored()) == policy


NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("2m", 120.0),
        (1.5, 1.5),
        (timedelta(seconds=9), 9.0),
        ("Tue, 01 Jan 2030 12:00:30 GMT", NOW + timedelta(seconds=30)),
        ("Tuesday, 01-Jan-30 12:00:30 GMT", NOW + timedelta(seconds=30)),
        ("Tue Jan  1 12:00:30 2030", NOW + timedelta(seconds=30)),
        (NOW, NOW),
    ],
)
def test_what_a_retry_after_has_is_read(written: Any, meant: object) -> None:
    assert retry_after(written) == meant


@pytest.mark.parametrize(
    "written",
    ["soon", "-5", "Tue, 41 Jan 2030 12:00:00 GMT", "Tuesday", "9" * 400, "٣", datetime(2030, 1, 1), None, True],
)
def test_what_is_no_retry_after_is_refused_by_name(written: Any) -> None:
    with pytest.raises(ValueError, match=r"^after: expected"):
        retry_after(written)


@pytest.mark.parametrize(
    ("failed", "waits"),
    [
        (Failed("x"), 60.0),
        (Failed("x", 5.0), 5.0),
        (Failed("x", 5.0, at_least=True), 60.0),
        (Failed("x", 90.0, at_least=True), 90.0),
        (Failed("x", at_least=True), 60.0),
        (Failed("x", until=NOW + timedelta(seconds=7)), 7.0),
        (Failed("x", until=NOW - timedelta(days=7)), 0.0),
        (Failed("x", until=NOW - timedelta(days=7), at_least=True), 60.0),
        (Failed("x", until=datetime.max.replace(tzinfo=UTC)), LONGEST),
    ],
)
def test_a_failed_attempt_waits_as_it_asked_or_as_its_policy_says(failed: Failed, waits: float) -> None:
    assert wait(failed, NOW, 0, Ladder("1m"), Random(1)) == waits
