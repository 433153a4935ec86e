"""Cluster jobs under faults: parts of all manners, leaders that die at any moment, nodes that come and go; then peace.

Each attempt, of a part or of a leader action, follows a script that depends on the seed, the job and the node alone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from oncue.errors import OncueError, StoreUnavailable
from oncue.model import CLUSTER_ADDRESS, CLUSTER_QUEUE, DEFAULT_QUEUE, Batch, Claim
from oncue.policy import options
from oncue.policy.lifecycle import entry_state
from oncue.policy.retry import DEFAULT_POLICY, Ladder
from oncue.sim.checker import Violation
from oncue.sim.checker.leaders import LEASES_TO_SETTLE
from oncue.sim.driver import finish
from oncue.sim.faults import (
    OFTEN,
    WRITES,
    CrashInCall,
    DeposeLeader,
    Fault,
    PauseInCall,
    StrikeLeader,
    Struck,
    heal,
    random_faults,
    random_locks,
)
from oncue.sim.member import Crew, Member
from oncue.sim.operator import Operator
from oncue.sim.runs import DISTURBED, LATE, LATENCIES, RECOVERY, operate, pause_the_queue, random_pace, verdict
from oncue.sim.script import Act, Deed
from oncue.sim.wire import When
from oncue.sim.world import NOTICED, World
from oncue.tasks.cluster import PART, ClusterTask

COMPACT, EVICT, ROTATE = "compact", "evict", "rotate"
"""One with a leader action after the parts, one with parts alone, and one that is the leader's alone."""
TASKS = (COMPACT, EVICT, ROTATE)
QUEUES = (DEFAULT_QUEUE, CLUSTER_QUEUE)
CREW = Crew(queues=QUEUES, tasks=(*TASKS, *(task + PART for task in TASKS[:2])))
WITHOUT_PARTS = Crew(queues=QUEUES, tasks=TASKS)
"""Of a node that may lead, and takes no part."""
OF_CLUSTER = (
    *("cluster.undecided", "cluster.spread", "cluster.spread", "cluster.release", "cluster.release", "cluster.create"),
    *("cluster.interrupted", "nodes.take_name", "jobs.apply", "jobs.apply", "jobs.claim", "jobs.claim"),
)
STRUCK = Struck((*WRITES, *OFTEN, *(3 * OF_CLUSTER)))
RULES = ("@every 2s", "@every 5s", "*/3 * * * * *")
DEEDS: tuple[Deed, ...] = ("ok", "fail", "retry", "skip", "hang", "crash", "cancel", "snooze", "give_up")
MOODS = {
    "well": (60, 6, 10, 6, 4, 3, 2, 3, 2),
    "idle": (8, 4, 4, 60, 2, 1, 1, 1, 1),
    "ill": (20, 30, 12, 4, 10, 4, 4, 2, 14),
}
"""How often the parts of a job do what."""


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """How the cluster tasks of a run are declared."""

    quorum_timeout: float = 3.0
    on_no_quorum: str = "proceed"
    on_node_restart: str = "count"
    retry: Any = None
    max_retries: int | None = None
    max_runtime: str | None = "12s"
    timeout: str = "6s"


def declare(world: World, terms: Terms) -> None:
    """Declare the tasks, as every worker does when it starts."""
    for operator in (world.operator, world.colleague):
        for task in tasks_of(operator, terms):
            operator.tasks[task.name] = task


def tasks_of(operator: Operator, terms: Terms) -> list[ClusterTask[Any, Any]]:
    def compact(number: int) -> None: ...

    def act(number: int) -> None: ...

    app: Any = operator
    limits = {
        "timeout": terms.timeout,
        "max_runtime": terms.max_runtime,
        "max_retries": terms.max_retries,
        "retry": terms.retry,
    }
    told: dict[str, Any] = {
        **{name: value for name, value in limits.items() if value is not None},
        "quorum_timeout": terms.quorum_timeout,
        "on_no_quorum": terms.on_no_quorum,
        "on_node_restart": terms.on_node_restart,
    }
    made = [
        ClusterTask(app, compact, name=COMPACT, **told),
        ClusterTask(app, compact, name=EVICT, **told),
        ClusterTask(app, compact, name=ROTATE, leader_only=True, **told),
    ]
    made[0].leader_action(act)
    return made


class ClusterScript:
    """What each attempt does follows from the seed, its job, its node and its number."""

    def __init__(self, seed: int, *, deadly: bool = True) -> None:
        self._seed = seed
        self.in_peace = not deadly
        """From here on no attempt hangs, or takes its process along."""

    def __call__(self, claim: Claim) -> Act:
        job = f"{self._seed} {claim.task.removesuffix(PART)} {claim.args} {claim.scheduled_for}"
        mood = Random(f"mood {job}").choices(tuple(MOODS), (6, 1, 3))[0]
        dice = Random(f"{job} {claim.address} {claim.claim_no}")
        is_part = claim.task.endswith(PART)
        (deed,) = dice.choices(DEEDS, MOODS[mood] if is_part else MOODS["well"])
        if deed in ("hang", "crash", "snooze") and self.in_peace:
            deed = "ok"
        if deed == "fail" and options.read(claim.options).retry == DEFAULT_POLICY:
            deed = "give_up"  # a task without a retry policy of its own fails for good
        seconds = round(dice.choice((0.0, 0.05, 0.5, 1.5, 4.0)) * dice.uniform(0.5, 1.5), 6)
        after = round(dice.choice((0.3, 1.0, 4.0)) * dice.uniform(0.5, 1.5), 6)
        return Act(deed, seconds, after, stubborn=dice.random() < 0.15)


# --- creating -------------------------------------------------------------------------------------------------------


def cluster_job(
    world: World,
    task: str = COMPACT,
    number: int = 1,
    *,
    nodes: Sequence[str] | None = None,
    key: str | None = None,
    delay: float = 0.0,
    deadline: float | None = None,
    priority: int = 0,
) -> Batch:
    """The batch of one cluster job, for these nodes or for all."""
    declared = world.operator.tasks[task]
    assert isinstance(declared, ClusterTask)
    told, now = declared.options_for(nodes, None), world.server.now()
    visible_at = now + timedelta(seconds=delay)
    return Batch(
        task=task, queue=CLUSTER_QUEUE, priority=priority, state=entry_state(visible_at, now), options=told.stored(),
        max_retries=declared.max_retries, max_runtime=told.max_runtime, created_at=now, visible_at=visible_at,
        deadline_at=None if deadline is None else now + timedelta(seconds=deadline), enqueued_by="sim", retry_of=None,
        ids=finish(world.operator.store.jobs.reserve(1)), args=[json.dumps({"number": number})],
        keys=None if key is None else [key], address=CLUSTER_ADDRESS,
    )  # fmt: skip


def create_at_once(world: World, batch: Batch) -> None:
    """The process that leads, as it believes, creates a cluster job with its parts; without one it is a wish."""
    member = next((one for one in world.members.values() if one.leads and not one.paused), None)
    if member is None:
        world.submit(batch)
        return
    world.driver.go_on(_created(member, batch), lambda _: world.hint(), _refused, member)


async def _created(member: Member, batch: Batch) -> None:
    store, epoch = member.wire.as_store(), member.worker.leadership.epoch
    told = options.read(batch.options).cluster
    if told is None or epoch is None:
        return
    try:
        await store.cluster.create(batch, told.parts, member.clock.now(), node=member.worker.node.id, epoch=epoch)
    except StoreUnavailable:
        # It may have been written. Written again under the same id it is there once, and gets its parts.
        await store.jobs.enqueue([batch], in_doubt=True)


def _refused(error: Exception) -> None:
    if not isinstance(error, OncueError):
        raise error


# --- the whole run --------------------------------------------------------------------------------------------------


def simulate_cluster(seed: int, *, jobs: int = 9) -> tuple[World, list[Violation]]:
    """Cluster jobs on nodes that come and go, with troubles around their decisions; then some in peace."""
    dice = Random(f"cluster {seed}")
    acts = ClusterScript(seed)
    world = World(
        seed,
        pace=random_pace(dice),
        crew=CREW,
        concurrency=dice.choice((2, 4)),
        script=acts,
        hints=dice.choice((0.0, 0.5, 1.0)),
        latency=dice.choice(LATENCIES),
        one_host=dice.random() < 0.4,
        own_clocks=dice.random() < 0.4,
        elide=dice.random() < 0.6,
    )
    declare(world, _random_terms(dice))
    names, exclusive = [f"node{number}" for number in range(dice.choice((1, 2, 3, 3, 4, 5)))], dice.random() < 0.08
    if dice.random() < 0.3:
        world.crews[names[-1]] = WITHOUT_PARTS
    for name in names:
        world.boot(name, exclusive=exclusive)
    for fault in [*random_faults(dice, names, DISTURBED, STRUCK), *_troubles(dice, names)]:
        world.after(fault.at, partial(fault.strike, world))
    for fault in random_locks(dice, DISTURBED):
        world.after(fault.at, partial(fault.strike, world))
    _random_jobs(world, dice, names, jobs)
    for _ in range(dice.choice((0, 0, 3, 6))):
        world.after(dice.uniform(1, DISTURBED), lambda: operate(world, dice))
    for _ in range(dice.choice((0, 1, 2))):
        world.after(dice.uniform(1, DISTURBED), lambda: _end_one(world, dice))
    if dice.random() < 0.15:
        pause_the_queue(world, CLUSTER_QUEUE, dice.uniform(0, DISTURBED * 0.75), dice.choice((1.0, 4.0)))
    world.run(DISTURBED)
    heal(world)
    world.run(NOTICED)
    finish(world.operator.queues.resume(CLUSTER_QUEUE))
    for schedule in finish(world.store.schedules.page()):
        finish(world.operator.schedules.toggle(schedule.name, False))
    acts.in_peace = True
    _in_peace(world, dice, names)
    world.run_until(world.drained, RECOVERY)
    world.run(1.0)
    return world, verdict(world)


def _random_terms(dice: Random) -> Terms:
    retry, max_retries = dice.choice(((None, None), (None, 1), (Ladder("1s", "2s"), None)))
    return Terms(
        dice.choice((0.5, 2.0, 4.0)),
        dice.choice(("proceed", "proceed", "fail")),
        dice.choice(("count", "count", "fail")),
        retry,
        max_retries,
        dice.choice(("8s", "12s")),
    )


def _random_jobs(world: World, dice: Random, names: Sequence[str], jobs: int) -> None:
    for number in range(jobs):
        world.after(dice.uniform(0, DISTURBED * 0.85), partial(_create_one, world, dice, names, number))
    if dice.random() < 0.35:
        world.after(dice.uniform(0, 6), lambda: _schedule_one(world, dice))
    if dice.random() < 0.3:
        world.after(dice.uniform(2, DISTURBED * 0.7), lambda: _boot(world, "newcomer"))


def _boot(world: World, name: str) -> None:
    """A node joins."""
    world.boot(name)


def _create_one(world: World, dice: Random, names: Sequence[str], number: int) -> None:
    told: dict[str, Any] = {
        "nodes": dice.sample(names, dice.randint(1, len(names))) if dice.random() < 0.2 else None,
        "key": dice.choice(("a", "b")) if dice.random() < 0.3 else None,
        "deadline": 10.0 if dice.random() < 0.1 else None,
        "priority": dice.choice((0, 50)),
    }
    batch = cluster_job(world, dice.choice((COMPACT, COMPACT, EVICT, ROTATE)), number, **told)
    if dice.random() < 0.5:
        create_at_once(world, batch)
    else:
        world.submit(batch)


def _schedule_one(world: World, dice: Random) -> None:
    task, rule = world.operator.tasks[dice.choice(TASKS)], dice.choice(RULES)
    terms: dict[str, Any] = {"missed": dice.choice(("latest", "each", "none")), "grace": dice.choice((2.0, 300.0))}
    finish(world.operator.schedules.create("nightly", rule, task, {"number": 100}, **terms))
    world.disturbed(NOTICED)


def _troubles(dice: Random, names: Sequence[str]) -> list[Fault]:
    """What goes wrong around a decision: the leader dies in a call, stands still, or is deposed."""
    found: list[Fault] = []
    for _ in range(dice.choice((0, 1, 2, 4))):
        at, length = dice.uniform(1, DISTURBED), dice.choice((0.4, 1.5, 4.0, 7.0)) * dice.uniform(0.7, 1.3)
        found.append(dice.choice((_strike, _depose, _in_call))(dice, names, at, length))
    return found


def _strike(dice: Random, _: Sequence[str], at: float, length: float) -> Fault:
    return StrikeLeader(at, dice.choice(("crash", "pause", "partition")), length)


def _depose(_: Random, __: Sequence[str], at: float, ___: float) -> Fault:
    return DeposeLeader(at)


def _in_call(dice: Random, names: Sequence[str], at: float, length: float) -> Fault:
    kind, node, verb = dice.choice((CrashInCall, PauseInCall)), dice.choice(names), dice.choice(OF_CLUSTER)
    when: When = dice.choice(("before", "after"))
    return kind(at, node, verb, when, length)


def _end_one(world: World, dice: Random) -> None:
    """An operator cancels a cluster job, says what became of it, or retries one that has ended."""
    found = [job for job in world.jobs() if not job.task.endswith(PART)]
    if not found:
        return
    job, jobs = dice.choice(found), world.colleague.jobs
    deeds: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: jobs.retry(job.id) if job.finished else jobs.cancel(job.id),
        lambda: jobs.retry(job.id) if job.finished else jobs.cancel(job.id),
        lambda: jobs.set_status(job.id, "queued" if job.finished else dice.choice(("failed", "succeeded"))),
    ]
    world.errand(dice.choice(deeds)())


def _in_peace(world: World, dice: Random, names: Sequence[str]) -> None:
    """Some cluster jobs after every node has recovered: now no decision may be late."""
    world.run(LEASES_TO_SETTLE * world.pace.lease + 1.0)
    for number in range(200, 200 + dice.randint(1, 3)):
        world.after(dice.uniform(0, 1), partial(_create_one, world, dice, names, number))
    if dice.random() < 0.3:
        world.after(1.5, lambda: _end_one(world, dice))
    if dice.random() < 0.2:  # it comes too late to take part
        world.after(1.2, lambda: _boot(world, "late"))
    world.run(LATE + 2.0)
