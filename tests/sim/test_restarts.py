"""Who dies between two calls comes back, however late that call is made."""

from __future__ import annotations

import pytest

from oncue.sim.faults import CrashAtCall
from oncue.sim.world import World


@pytest.mark.parametrize("call", [1, 60])
def test_a_process_that_dies_at_a_call_is_started_again(call: int) -> None:
    """The sixtieth call comes long after the second in which it would have been down."""
    world = World(1)
    world.boot("alone")
    world.run(1.0)
    CrashAtCall(0.0, "alone", call, "before", 1.0).strike(world)
    assert world.run_until(lambda: not world.members["alone"].alive, 120, look=0.1)
    world.run(1.5)
    member = world.members["alone"]
    assert (member.alive, member.label) == (True, "alone.2")
