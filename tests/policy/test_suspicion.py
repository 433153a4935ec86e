from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.policy import suspicion
from oncue.policy.options import FEWEST_CRASHES, Options
from tests.policy.test_lifecycle import a_claim

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LIMITS = st.integers(FEWEST_CRASHES, 12)


def charged(crashes: int, most: int | None, *, begun: bool = True) -> int:
    options = Options(max_crashes=most).stored()
    return suspicion.charged(a_claim(crashes=crashes, options=options), begun=begun)


@pytest.mark.parametrize(
    ("most", "stages"),
    [
        (3, [0, 2, 2]),
        (4, [0, 1, 2, 2]),
        (5, [0, 0, 1, 2, 2]),
        (7, [0, 0, 0, 0, 1, 2, 2]),
        (None, [0] * 9),
    ],
)
def test_the_company_gets_smaller_with_every_death(most: int | None, stages: list[int]) -> None:
    assert [suspicion.isolation(crashes, most) for crashes in range(len(stages))] == stages


@given(most=LIMITS)
def test_a_killer_is_poison_after_max_crashes_deaths_and_the_last_two_were_alone(most: int) -> None:
    crashes, alone, deaths = 0, 0, 0
    while not suspicion.is_poison(crashes, most):
        alone += suspicion.isolation(crashes, most) == suspicion.ALONE
        crashes, deaths = charged(crashes, most), deaths + 1
    assert (deaths, alone) == (most, 2)


@given(most=LIMITS, crashes=st.integers(0, 12))
def test_a_death_in_company_never_charges_a_job_into_the_last_two(most: int, crashes: int) -> None:
    if suspicion.isolation(crashes, most) < suspicion.ALONE:
        assert crashes < charged(crashes, most) <= most - 2


@given(most=LIMITS, crashes=st.integers(1, 12))
def test_what_had_not_begun_is_not_charged(most: int, crashes: int) -> None:
    assert charged(crashes, most, begun=False) == crashes


def test_never_is_never() -> None:
    assert [charged(0, None), suspicion.is_poison(10**6, None)] == [0, False]


def test_of_a_job_without_crashes_it_is_not_known_when_it_began() -> None:
    seen = NOW + timedelta(seconds=3)
    assert suspicion.began_at(a_claim(claimed_at=NOW)) == NOW
    assert suspicion.began_at(a_claim(claimed_at=NOW, started_at=seen)) == seen
    assert suspicion.began_at(a_claim(claimed_at=NOW, crashes=1)) is None
    assert suspicion.began_at(a_claim(claimed_at=NOW, crashes=1, started_at=seen)) == seen


def test_a_busy_node_lets_others_go_first_for_a_minute() -> None:
    assert suspicion.alone_before(NOW, idle=True) == NOW
    assert suspicion.alone_before(NOW, idle=False) == NOW - timedelta(minutes=1)
