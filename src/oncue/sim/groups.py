"""Random work in groups of queues, with limits, rates and pauses that change, under random faults; then peace."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from oncue.sim import script
from oncue.sim.checker import Violation
from oncue.sim.checker.leaders import LEASES_TO_SETTLE
from oncue.sim.driver import finish
from oncue.sim.faults import WITH_GROUPS, DeposeLeader, heal, random_faults, random_locks
from oncue.sim.member import Crew
from oncue.sim.runs import (
    DISTURBED,
    LATE,
    LATENCIES,
    QUEUES,
    RECOVERY,
    insisting,
    operate,
    pause_the_queue,
    random_options,
    random_pace,
    verdict,
)
from oncue.sim.script import Act
from oncue.sim.world import NOTICED, World

GROUPS = ("a", "b", "c", "d")
LIMITS = (None, 1, 1, 2, 3)
RATES = (None, None, "2/s", "15/s", "100/s")
"""Of the last one some may start at once."""
FORGOTTEN = 5.0
"""Seconds until every group is forgotten of which nothing waits: a rate lets it go after half a second at most."""


def simulate_groups(seed: int, *, nodes: int = 3, jobs: int = 30) -> tuple[World, list[Violation]]:
    """A cluster whose jobs belong to groups, under random work and random faults, and then in peace."""
    dice = Random(f"groups {seed}")
    world = World(
        seed,
        pace=random_pace(dice),
        crew=Crew(queues=QUEUES),
        concurrency=dice.choice((1, 2, 4, 8)),
        hints=dice.choice((0.0, 0.5, 1.0)),
        latency=dice.choice(LATENCIES),
        own_clocks=dice.random() < 0.5,
        elide=dice.random() < 0.5,
    )
    names = [f"node{number}" for number in range(nodes)]
    for queue in QUEUES:
        finish(world.operator.queues.limit(queue, **_random_limits(dice)))
    for name in names:
        world.boot(name)
    faults = (*random_faults(dice, names, DISTURBED, WITH_GROUPS), *random_locks(dice, DISTURBED))
    for fault in (*faults, DeposeLeader(dice.uniform(2, DISTURBED))):
        world.after(fault.at, lambda fault=fault: fault.strike(world))  # type: ignore[misc]
    _random_work(world, dice, jobs)
    for _ in range(dice.randint(0, 8)):
        world.after(dice.uniform(0, DISTURBED), lambda: _meddle(world, dice))
    world.run(DISTURBED)
    heal(world)
    world.run(NOTICED)  # what operators did last is still on its way
    for queue in QUEUES:
        finish(world.operator.queues.resume(queue))  # perhaps a pause arrived after its resume
        for group in GROUPS:
            finish(world.operator.queues.resume(queue, group=group))
    _in_peace(world, dice)
    world.run_until(world.drained, RECOVERY)
    world.run(FORGOTTEN)
    return world, verdict(world)


def _random_limits(dice: Random) -> dict[str, Any]:
    return {"per_group": dice.choice(LIMITS), "rate": dice.choice(RATES), "rate_per_group": dice.choice(RATES)}


def _random_work(world: World, dice: Random, jobs: int) -> None:
    while jobs > 0:
        count = min(jobs, dice.choice((1, 2, 5, 10)))
        jobs -= count
        acts = [script.random_acts(dice) if dice.random() < 0.8 else script.random_terms(dice) for _ in range(count)]
        fields = {
            "options": random_options(dice, acts),
            "queue": dice.choice(QUEUES),
            "group": dice.choice((*GROUPS, *GROUPS, None)),
            "priority": dice.choice((0, 0, 50, 100)),
            "delay": dice.choice((0.0, 0.0, 0.0, 1.0, 6.0)),
            "deadline": dice.choice((None, None, None, 8.0)),
            "max_retries": dice.choice((0, 1, 3)),
            "keys": [f"key {dice.randrange(6)}" for _ in acts] if dice.random() < 0.2 else None,
        }
        world.after(
            dice.uniform(0, DISTURBED * 0.75),
            lambda acts=acts, fields=fields: world.submit(world.batch(acts, **fields)),  # type: ignore[misc]
        )
    for _ in range(dice.randint(0, 6)):
        world.after(dice.uniform(0, DISTURBED), lambda: operate(world, dice))
    if dice.random() < 0.2:
        pause_the_queue(world, dice.choice(QUEUES), dice.uniform(0, DISTURBED * 0.75), dice.choice((1.0, 4.0)))


def _meddle(world: World, dice: Random) -> None:
    """An operator sets limits and rates, of a queue or of one group, or pauses a group."""
    queues, queue, group = world.colleague.queues, dice.choice(QUEUES), dice.choice(GROUPS)
    own: dict[str, Any] = {"per_group": dice.choice(LIMITS), "rate_per_group": dice.choice(RATES)}
    one = dict([dice.choice(list(_random_limits(dice).items()))])
    deeds: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: queues.limit(queue, **one),
        lambda: queues.limit(queue, group=group, **own),
        lambda: queues.pause(queue, group=group),
        lambda: queues.pause(queue, group=group, for_=dice.choice((0.5, 3.0))),
    ]
    world.errand(dice.choice(deeds)())
    if dice.random() < 0.5:
        world.after(dice.choice((1.0, 4.0)), lambda: world.errand(insisting(lambda: queues.resume(queue, group=group))))


def _in_peace(world: World, dice: Random) -> None:
    """More than the groups may run at once, after everybody has recovered: now nothing is late, and all take turns."""
    world.run(LEASES_TO_SETTLE * world.pace.lease + 1.0)
    queue = dice.choice(QUEUES)
    if dice.random() < 0.5:
        finish(world.operator.queues.limit(queue, **_random_limits(dice)))
    for group in dice.sample(GROUPS, 3):
        acts = [[Act(seconds=round(dice.uniform(0.02, 0.6), 6))] for _ in range(dice.choice((2, 8)))]
        world.submit(world.batch(acts, queue=queue, group=group, delay=dice.choice((0.0, 0.0, 0.7))))
    acts = [script.random_acts(dice, deadly=False) for _ in range(4)]
    world.submit(world.batch(acts, queue=queue, group=dice.choice(GROUPS), options=random_options(dice, acts)))
    for _ in range(dice.randint(0, 2)):
        world.after(dice.uniform(0, 3), lambda: operate(world, dice))
        world.after(dice.uniform(0, 3), lambda: _meddle(world, dice))
    world.run(LATE + 2.0)
    for group in GROUPS:
        for paused in QUEUES:
            finish(world.operator.queues.resume(paused, group=group))
    world.disturbed(NOTICED)
