"""The whole simulation of one seed: random work under random faults, then peace, then the checker's verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from oncue.engine.node import Pace
from oncue.errors import StoreUnavailable
from oncue.model import DEFAULT_QUEUE, LEADER_ADDRESS, NODE_ADDRESS, Job
from oncue.policy.aging import Rules
from oncue.policy.lifecycle import BY_HAND, HAND_MADE
from oncue.policy.options import Options
from oncue.sim import script
from oncue.sim.checker import Violation, check
from oncue.sim.checker.leaders import LEASES_TO_SETTLE
from oncue.sim.driver import finish
from oncue.sim.faults import DeposeLeader, Fault, StrikeLeader, heal, random_faults, random_locks
from oncue.sim.member import Crew
from oncue.sim.operator import OPTIONS
from oncue.sim.script import Act
from oncue.sim.wire import Delay
from oncue.sim.world import NOTICED, PACE, World

DISTURBED = 20.0
DRIFT = 0.005
"""How far a host's clock drifts from the database's until it can ask again, in seconds."""
LATE = 5.0
"""Seconds that a slot or a job may wait while nothing disturbs the cluster and a node has a free seat."""
PROMPT = 0.2
"""Seconds after the end of a lease, on lines that take no time, until everything is rescued that it covered."""
QUEUES = (DEFAULT_QUEUE, "another")
"""The first is the one that may be limited."""
LATENCIES = (0.0, 0.002, 0.02, 0.3)
RECOVERY = 180.0


def simulate(seed: int, *, nodes: int = 3, jobs: int = 25, limit: int | None = None) -> tuple[World, list[Violation]]:
    """A cluster under random work and random faults, and then in peace; what was not kept of the promises."""
    dice = Random(f"plan {seed}")
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
    if limit is not None:
        world.limit(limit)
    for name in names:
        world.boot(name)
    if limit is not None and dice.random() < 0.5:
        another = dice.choice((1, limit + 1, 2 * limit))
        world.after(dice.uniform(2, DISTURBED), lambda: world.limit(another))
    for fault in (*random_faults(dice, names, DISTURBED), *random_locks(Random(f"locks {seed}"), DISTURBED)):
        world.after(fault.at, lambda fault=fault: fault.strike(world))  # type: ignore[misc]
    _random_work(world, dice, jobs, limit)
    _work_on_terms(world, Random(f"terms {seed}"))
    _work_elsewhere(world, Random(f"addresses {seed}"), names)
    if limit is not None and dice.random() < 0.5:
        _rush(world, dice, limit)
    world.run(DISTURBED)
    heal(world)
    world.run(NOTICED)  # what operators did last is still on its way
    for queue in QUEUES:
        finish(world.operator.queues.resume(queue))  # perhaps a pause arrived after its resume
    _in_peace(world, dice)
    world.run_until(world.drained, RECOVERY)
    world.run(1.0)
    return world, verdict(world)


def _in_peace(world: World, dice: Random) -> None:
    """Some work after everybody has recovered: now nothing may be late, and one node leads."""
    world.run(LEASES_TO_SETTLE * world.pace.lease + 1.0)
    acts = [script.random_acts(dice, deadly=False) for _ in range(dice.randint(2, 8))]
    options = random_options(dice, acts)
    world.submit(world.batch(acts, options=options, deadline=dice.choice((None, 3.0)), max_retries=1))
    world.submit(world.batch([[Act()]], delay=RECOVERY, deadline=dice.choice((0.5, 1.5))))  # no node claims it in time
    world.after(dice.uniform(0.2, 2.0), lambda: operate(world, dice))
    world.run(LATE + 2.0)


def verdict(world: World, within: float = RECOVERY) -> list[Violation]:
    """What was not kept of the promises, if everything was to end within so many seconds of the last fault."""
    tolerance = DRIFT if world.own_clocks else 0.0
    return check(
        world.history.events, world.final(),
        tolerance=tolerance, drained_within=within, late=LATE, lease=world.pace.lease,
        prompt=None if world.latency or world.own_clocks else PROMPT,
    )  # fmt: skip


def _random_work(world: World, dice: Random, jobs: int, limit: int | None) -> None:
    while jobs > 0:
        count = min(jobs, dice.choice((1, 1, 2, 5, 10)))
        jobs -= count
        acts = [script.random_acts(dice) for _ in range(count)]
        fields = {
            "options": random_options(dice, acts),
            "queue": dice.choice(QUEUES),
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
    if dice.random() < 0.2:
        _burst(world, dice, dice.uniform(0, DISTURBED * 0.75))
    for _ in range(dice.randint(0, 10)):
        world.after(dice.uniform(0, DISTURBED), lambda: operate(world, dice))
    if dice.random() < 0.4:
        at = dice.uniform(0, DISTURBED * 0.75)
        for queue in dice.choice((QUEUES, QUEUES[:1], QUEUES[1:])):
            pause_the_queue(world, queue, at, dice.choice((1.0, 4.0)))
        if limit is not None:  # what is paused stays so all the same
            world.after(at + 0.5, lambda: world.limit(limit + dice.choice((0, 1))))


def _work_on_terms(world: World, dice: Random) -> None:
    """In some runs there are jobs whose ends depend on an instant or on the leader, and jobs that follow from them."""
    if dice.random() < 0.75:
        return
    for _ in range(2):
        fault = DeposeLeader(dice.uniform(2, DISTURBED))
        world.after(fault.at, lambda fault=fault: fault.strike(world))  # type: ignore[misc]
    for _ in range(8):
        acts, queue = [script.random_terms(dice)], dice.choice(QUEUES)
        options = random_options(dice, acts)
        world.after(
            dice.uniform(0, DISTURBED * 0.75),
            lambda acts=acts, queue=queue, options=options: world.submit(  # type: ignore[misc]
                world.batch(acts, queue=queue, options=options)
            ),
        )


def _work_elsewhere(world: World, dice: Random, names: Sequence[str]) -> None:
    """In some runs there are jobs for one node, or for the leader, which is deposed now and then.

    A name may have no node any more once a node goes by another one: what is for a name has a deadline.
    """
    if dice.random() < 0.75:
        return
    for _ in range(2):
        fault = DeposeLeader(dice.uniform(2, DISTURBED))
        world.after(fault.at, lambda fault=fault: fault.strike(world))  # type: ignore[misc]
    for _ in range(10):
        acts = [script.random_acts(dice)]
        is_led = dice.random() < 0.5
        fields = {
            "address": LEADER_ADDRESS if is_led else f"{NODE_ADDRESS}{dice.choice((*names, 'absent'))}",
            "deadline": None if is_led else 10.0,
            "queue": dice.choice(QUEUES),
            "priority": dice.choice((0, 50)),
            "options": random_options(dice, acts),
        }
        world.after(
            dice.uniform(0, DISTURBED * 0.75),
            lambda acts=acts, fields=fields: world.submit(world.batch(acts, **fields)),  # type: ignore[misc]
        )


def _burst(world: World, dice: Random, at: float) -> None:
    """Many jobs that take next to no time: of these a node holds some ready beyond its seats."""
    options = random_options(dice, [])
    acts = [[Act(seconds=round(dice.uniform(0.005, 0.05), 6))] for _ in range(dice.choice((30, 90)))]
    world.after(at, lambda: world.submit(world.batch(acts, options=options)))


def _rush(world: World, dice: Random, limit: int) -> None:
    """More than all seats can take for a while: only then does it matter who holds them."""
    acts = [[Act(seconds=round(dice.uniform(0.1, 1.5), 6))] for _ in range(16 * limit)]
    world.after(dice.uniform(0, DISTURBED / 2), lambda: world.submit(world.batch(acts)))


def random_pace(dice: Random) -> Pace:
    """Sometimes finished jobs are kept for a moment only, and those that wait soon gain priority."""
    kept = dice.choice((PACE.retention, PACE.retention, 6.0))
    aging = dice.choice((PACE.aging, Rules(every=2.0, after=3.0)))
    return dataclasses.replace(PACE, retention=kept, ledger_retention=kept, aging=aging)


def random_options(dice: Random, scripts: Sequence[Sequence[Act]]) -> Options:
    """What may hang has a time limit; of the others some have none, so that whatever strands them does for ever."""
    delivery = dice.choice(("at_least_once", "at_least_once", "at_most_once"))
    hangs = any(act.do == "hang" for acts in scripts for act in acts)
    longest = dice.choice((5.0, 20.0) if hangs else (5.0, 20.0, None))
    return Options(delivery, dice.choice((2.0, 6.0, None)), longest, OPTIONS.retry)  # type: ignore[arg-type]


def operate(world: World, dice: Random) -> None:
    """An operator does something to a job, whatever it is doing."""
    found = world.jobs()
    handled = [job for job in found if job.cancel_requested_at is not None or job.reason in ("cancelled", BY_HAND)]
    if found:
        _handle(world, dice, dice.choice(handled if handled and dice.random() < 0.4 else found))


def _handle(world: World, dice: Random, job: Job) -> None:
    colleague = world.colleague
    deeds: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: colleague.jobs.retry(job.id) if job.finished else colleague.jobs.cancel(job.id),
        lambda: colleague.jobs.retry(job.id) if job.finished else colleague.jobs.cancel(job.id),
        lambda: colleague.jobs.set_status(job.id, "queued" if job.finished else dice.choice(HAND_MADE)),
        lambda: colleague.jobs.boost(job.id, dice.choice((-50, 50))),
    ]
    world.errand(dice.choice(deeds)())


def pause_the_queue(world: World, queue: str, at: float, length: float) -> None:
    world.after(at, lambda: world.errand(world.colleague.queues.pause(queue)))
    world.after(at + length, lambda: world.errand(insisting(lambda: world.colleague.queues.resume(queue))))


async def insisting(deed: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Do something, again and again until the database answers."""
    while True:
        try:
            await deed()
        except StoreUnavailable:
            await Delay(1.0)
        else:
            return


# --- the same with schedules ----------------------------------------------------------------------------------------

BUSY = 12.0
RULES = ("@every 1s", "@every 2s", "* * * * * *", "*/3 * * * * *", "@every 7s", "* * * * *")
NAMES = ("often", "now and then", "at times")


def simulate_schedules(seed: int, *, nodes: int = 3) -> tuple[World, list[Violation]]:
    """A cluster with schedules, and operators who meddle with them, under faults that also strike the leader."""
    dice = Random(f"schedules {seed}")
    world = World(
        seed,
        pace=dataclasses.replace(PACE, schedules=4.0),
        hints=dice.choice((0.0, 0.5, 1.0)),
        latency=dice.choice(LATENCIES),
        one_host=dice.random() < 0.5,
        own_clocks=dice.random() < 0.5,
        elide=dice.random() < 0.5,
    )
    names, exclusive = [f"node{number}" for number in range(nodes)], dice.random() < 0.25
    for name in names:
        world.boot(name, exclusive=exclusive)
    faults = [*random_faults(dice, names, BUSY), *_leader_faults(dice), *random_locks(Random(f"locks {seed}"), BUSY)]
    for fault in faults:
        world.after(fault.at, lambda fault=fault: fault.strike(world))  # type: ignore[misc]
    for name in NAMES[: dice.randint(1, 3)]:
        world.after(dice.uniform(0, 5), lambda name=name: _random_schedule(world, dice, name))  # type: ignore[misc]
    for _ in range(dice.randint(0, 12)):
        world.after(dice.uniform(3, BUSY), lambda: _meddle(world, dice))
    world.run(BUSY)
    heal(world)
    world.run(3 * world.pace.lease + world.pace.schedules)
    world.calm()
    for schedule in finish(world.store.schedules.page()):
        finish(world.operator.schedules.toggle(schedule.name, False))
    world.run_until(world.drained, RECOVERY)
    world.run(1.0)
    return world, verdict(world)


def _leader_faults(dice: Random) -> list[Fault]:
    return [
        StrikeLeader(dice.uniform(2, BUSY), dice.choice(("crash", "pause", "partition")), dice.choice((1.0, 4.0, 8.0)))
        for _ in range(dice.randint(0, 3))
    ]


def _random_schedule(world: World, dice: Random, name: str) -> None:
    act = Act(dice.choice(("ok", "ok", "fail", "hang")), dice.choice((0.0, 0.3, 2.5)))
    acts = [dataclasses.replace(act, stubborn=act.do == "hang" and act.seconds > 1), Act()]  # some are stuck
    options = random_options(dice, [acts])
    world.schedule(
        name, dice.choice(RULES), *acts[dice.choice((0, 1, 1)) :],
        options=options, max_retries=dice.choice((0, 1)),
        missed=dice.choice(("latest", "each", "none")), grace=dice.choice((1.0, 2.0, 300.0)),
        max_instances=dice.choice((1, 1, 2, 50)),
    )  # fmt: skip


def _meddle(world: World, dice: Random) -> None:
    """An operator does something to a schedule, or tries to."""
    found = finish(world.store.schedules.page())
    if not found:
        return
    name, colleague, now = dice.choice(found).name, world.colleague, world.server.now()
    coming = finish(world.operator.schedules.preview(name, 3))
    deeds: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: colleague.schedules.run_now(name),
        lambda: colleague.schedules.trigger(name, dice.choice(coming).scheduled_for),
        lambda: colleague.schedules.toggle(name, dice.random() < 0.6),
        lambda: colleague.schedules.change(name, rule=dice.choice(RULES)),
        lambda: colleague.schedules.change(name, max_instances=dice.choice((1, 3)), description="changed"),
        lambda: colleague.schedules.backfill(name, now - timedelta(seconds=dice.choice((3, 9))), now),
        lambda: colleague.schedules.delete(name),
    ]
    made = [job for job in world.jobs() if job.schedule_id is not None]
    if made and dice.random() < 0.3:
        _handle(world, dice, dice.choice(made))
    else:
        world.errand(dice.choice(deeds)())
