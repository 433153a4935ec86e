from __future__ import annotations

import pytest

from oncue.model import MAX_PRIORITY
from oncue.policy import priorities


@pytest.mark.contract("QUE-21")
def test_the_named_priorities_are_those_of_good_practice() -> None:
    assert priorities.BACKGROUND == 0
    assert 10 <= priorities.SCHEDULED <= 30
    assert 50 <= priorities.USER_REQUESTED <= 70 < MAX_PRIORITY
    assert priorities.CRITICAL_MAX_RETRIES >= 10
