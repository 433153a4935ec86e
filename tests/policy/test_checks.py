"""What users hand in, checked."""

from __future__ import annotations

from datetime import timedelta

import pytest

from oncue import InvalidJob, InvalidSchedule
from oncue.policy.checks import checked_grace, checked_name
from oncue.policy.durations import Duration


@pytest.mark.contract("SLOT-10")
@pytest.mark.parametrize("grace", [0, 0.999, "0", "999ms", timedelta(0)])
def test_a_grace_that_would_miss_every_slot_is_refused(grace: Duration) -> None:
    with pytest.raises(InvalidSchedule, match=r"^grace: expected at least 1 second, not ") as refused:
        checked_grace(grace)
    assert refused.value.field == "grace"


@pytest.mark.parametrize("grace", [1, 1.0, "1s", "1000ms", timedelta(seconds=1)])
def test_the_shortest_grace(grace: Duration) -> None:
    assert checked_grace(grace) == 1.0


@pytest.mark.parametrize("grace", ["soon", -1, None, "1000000d"])
def test_what_is_no_duration_is_refused_under_its_name(grace: Duration) -> None:
    with pytest.raises(InvalidSchedule, match=r"^grace: expected a duration"):
        checked_grace(grace)


def test_a_name_that_is_too_long_is_not_repeated_in_full() -> None:
    with pytest.raises(
        InvalidJob, match=r"^group: expected a printable name of 1 to 128 characters, not 'x+$"
    ) as refused:
        checked_name("x" * 1_000_000, "group")
    assert len(str(refused.value)) < 300
