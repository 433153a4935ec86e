"""A simulated process stops as a real one does: what it holds is given back, its heartbeat stops, then it leaves."""

from __future__ import annotations

import pytest

from oncue.sim.checker import check
from oncue.sim.script import Act
from oncue.sim.world import World


@pytest.mark.parametrize("seed", range(13))
def test_a_process_that_has_left_does_not_come_back(seed: int) -> None:
    """On a line that is slow enough for a beat to fall between its farewell and its end."""
    world = World(seed, latency=0.9)
    for name in ("one", "two"):
        world.boot(name)
    world.run(3.0)
    jobs = [world.enqueue(Act(seconds=2.0)) for _ in range(6)]
    world.run(1.5 + seed / 12)
    world.stop("one", within=1.0)
    world.run(20.0)
    own = [event.kind for event in world.history.events if event.node == "one.1" and event.kind.startswith("lease")]
    assert "lease.end" in own
    assert "lease" not in own[own.index("lease.end") :]
    assert {world.job(job).state for job in jobs} == {"succeeded"}
    assert check(world.history.events, world.final()) == []
