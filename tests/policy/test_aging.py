from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.policy.aging import Rules, next_round, round_of

instants = st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


@pytest.mark.contract("QUE-2")
def test_every_five_minutes_ten_more_after_an_hour() -> None:
    assert Rules() == Rules(every=300.0, after=3600.0, gain=10)


@pytest.mark.contract("QUE-2")
@given(instants, st.sampled_from([1.0, 60.0, 300.0, 86400.0]))
def test_the_next_round_begins_within_one_interval_and_is_the_next(now: datetime, every: float) -> None:
    rules = Rules(every=every)
    coming = next_round(now, rules)
    assert timedelta(0) < coming - now <= timedelta(seconds=every)
    assert round_of(coming, rules) > round_of(now, rules)
    assert round_of(coming - timedelta(microseconds=1), rules) == round_of(now, rules)


@pytest.mark.contract("QUE-18")
@given(instants, st.sampled_from([1.0, 60.0, 300.0]), st.sampled_from([1.0, 90.0, 86400.0]))
def test_rounds_go_on_when_the_interval_is_changed(now: datetime, before: float, after: float) -> None:
    last = round_of(now, Rules(every=before))
    coming = next_round(next_round(now, Rules(every=before)), Rules(every=after))
    assert round_of(coming, Rules(every=after)) > last
