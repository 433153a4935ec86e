"""A leader and its scheduler on a store, ticked by hand: for clocks that step back, and for steps that interleave."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from oncue.clock import VirtualClock
from oncue.engine.leadership import Leadership
from oncue.engine.scheduler import Scheduler
from oncue.model import Claim, Node, Schedule
from oncue.policy.lifecycle import lost, settle
from oncue.sim import rows
from oncue.sim.driver import finish
from oncue.sim.world import PACE, World
from oncue.store.contract import Store
from oncue.telemetry import Telemetry


class SteppingClock(VirtualClock):
    """A clock that somebody may set back."""

    def set_to(self, instant: datetime) -> None:
        self._now = instant


class Leader:
    """The two services that make slots of schedules, and nothing else of a node."""

    def __init__(self, world: World, name: str, store: Store | None = None) -> None:
        self.clock = SteppingClock(world.clock.now())
        self.telemetry = Telemetry()
        self.node: Node = world._node(name, exclusive=False)
        world._labels[self.node.id] = name
        self.store = store or world._recorded(name)
        self.leadership = Leadership(
            self.store, self.node, self.clock, self.telemetry, lambda: True, lease=PACE.lease, poll=PACE.poll
        )
        self.scheduler = Scheduler(
            self.store, self.node.id, self.leadership, Random(1), self.telemetry, interval=30.0, poll=PACE.poll
        )

    def tick(self, at: datetime | None = None) -> None:
        """Let both look once."""
        if at is not None:
            self.clock.set_to(at)
        finish(self.leadership.tick(self.clock.now()))
        finish(self.scheduler.tick(self.clock.now()))


async def take_over(world: World, claim: Claim, node: UUID) -> None:
    """Rescue a job, and let another node claim it at once: what may happen between any two calls of its former one."""
    now = world.clock.now()
    assert await world.store.jobs.apply([settle(lost(claim, now), world.dice)], now) == [True]
    (again,) = await world.store.jobs.claim(node, ["default"], [claim.task], 1, now)
    assert (again.id, again.claim_no) == (claim.id, claim.claim_no + 1)


def take_turns(*steps: Coroutine[Any, None, Any]) -> None:
    """Run steps that wait for their wires alternately, one call of each at a time, up to their ends."""
    waiting = list(steps)
    while waiting:
        for step in list(waiting):
            try:
                step.send(None)
            except StopIteration:
                waiting.remove(step)


def fired(world: World, name: str) -> list[datetime]:
    return [slot.scheduled_for for slot in world.slots(name) if slot.verdict == "fired"]


def verdicts(world: World, name: str) -> list[str]:
    return [slot.verdict for slot in world.slots(name)]


def since(schedule: Schedule, *seconds: float) -> list[datetime]:
    """Instants so many seconds after the schedule was made."""
    return [schedule.created_at + timedelta(seconds=number) for number in seconds]


def audit_holds(world: World, name: str) -> bool:
    """Whether every slot up to the cursor is accounted for."""
    found = finish(
        world.operator.schedules.audit(name, rows.books(world.store, name, world.server.now()).schedule.created_at)
    )
    assert found.holds, found.problems
    return True


def execute(world: World, statement: str, **parameters: Any) -> None:
    """A hand in the database itself."""
    finish(world.store.database.write(lambda connection: connection.execute(statement, parameters)))
