"""A day in the life of a cluster, with a fault in every hour."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import Counter

import pytest

from oncue.sim.days import Life, simulate_days

MORNING = Life(days=0.25)


@pytest.mark.contract("QUE-9", "SLOT-3")
def test_a_morning_keeps_every_promise() -> None:
    logging.disable(logging.CRITICAL)
    try:
        world, violations = simulate_days(1, MORNING)
    finally:
        logging.disable(logging.NOTSET)
    assert not violations, "\n".join(map(str, violations))
    kinds = Counter(event.kind for event in world.history.events)
    assert kinds["fault"] >= 6
    assert 250 < kinds["job"] < 600
    assert world.timeline.skipped.total_seconds() > 0.95 * 6 * 3600
    world.close()


def test_a_morning_is_the_same_in_another_process() -> None:
    program = (
        "from oncue.sim.days import Life, simulate_days;print(simulate_days(2, Life(days=0.1))[0].history.digest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
