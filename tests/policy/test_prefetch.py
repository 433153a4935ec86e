from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncue.policy.prefetch import buffer_target, shortage

counts = st.integers(0, 10_000)


def test_short_jobs_fill_the_buffer_and_long_ones_need_none() -> None:
    assert buffer_target(ended=10_000, elapsed=1.0, ceiling=500) == 500
    assert buffer_target(ended=2_000, elapsed=1.0, ceiling=500) == 200
    assert buffer_target(ended=1, elapsed=60.0, ceiling=500) == 0
    assert buffer_target(ended=5, elapsed=0.0, ceiling=500) == 0


def test_nothing_is_claimed_until_half_of_the_buffer_is_gone() -> None:
    assert shortage(seats=10, busy=110, target=100) == 0
    assert shortage(seats=10, busy=61, target=100) == 0
    assert shortage(seats=10, busy=60, target=100) == 50
    assert shortage(seats=10, busy=9, target=0) == 1
    assert shortage(seats=10, busy=10, target=0) == 0


@given(counts, counts, counts)
def test_what_is_claimed_fits_into_seats_and_buffer(seats: int, busy: int, target: int) -> None:
    wanted = shortage(seats, busy, target)
    assert wanted >= 0
    assert wanted == 0 or busy + wanted == seats + target
