"""Aging and pruning at the pace that the settings say, under virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncue.policy.aging import Rules
from oncue.sim.world import PACE, World


def gained(rules: Rules, seconds: float) -> int:
    """How much priority a job has gained that no node serves, after so long."""
    world = World(1, pace=replace(PACE, aging=rules))
    world.boot("alone")
    waits = world.enqueue(queue="nobody-serves-it")
    world.run(seconds)
    return world.job(waits).priority


@pytest.mark.contract("QUE-2", "QUE-18")
def test_aging_follows_its_settings() -> None:
    assert gained(Rules(every=60.0, after=120.0, gain=7), 110.0) == 0
    assert gained(Rules(every=60.0, after=120.0, gain=7), 400.0) in (28, 35)
    assert gained(Rules(every=60.0, after=120.0, gain=50), 400.0) == 100
    assert gained(Rules(every=60.0, after=120.0, gain=0), 400.0) == 0


@pytest.mark.contract("QUE-18")
def test_pruning_follows_its_settings() -> None:
    left = {}
    for interval in (10.0, 600.0):
        world = World(1, pace=replace(PACE, retention=20.0, maintenance=interval))
        world.boot("alone")
        world.run(5.0)
        job = world.enqueue()
        world.run(60.0)
        left[interval] = any(found.id == job for found in world.jobs())
    assert left == {10.0: False, 600.0: True}
