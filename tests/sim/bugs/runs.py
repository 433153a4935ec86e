"""The runs that bugs are looked for in: from a seed to what the checker finds.

Most bugs show under the random work and random faults of the simulator's own runs. The others need a setting that
brings out what they get wrong: jobs that nothing cuts off, an operator on a slow line, a leader that stands still.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from oncue.model import Claim
from oncue.sim.checker import Violation, check
from oncue.sim.cluster import CREW as CLUSTER_CREW
from oncue.sim.cluster import Terms as ClusterTerms
from oncue.sim.cluster import cluster_job, create_at_once, simulate_cluster
from oncue.sim.cluster import declare as declare_tasks
from oncue.sim.deliveries import simulate_deliveries, simulate_outages
from oncue.sim.driver import finish
from oncue.sim.faults import (
    TWIN,
    CrashNode,
    DeposeLeader,
    Fault,
    HoldUp,
    LockRows,
    LoseReply,
    PauseInCall,
    PauseNode,
    StoreErrors,
    StrikeLeader,
    heal,
)
from oncue.sim.groups import FORGOTTEN, simulate_groups
from oncue.sim.operator import OPTIONS
from oncue.sim.runs import simulate, simulate_schedules, verdict
from oncue.sim.script import Act
from oncue.sim.windows import (
    CREW,
    WINDOW,
    Terms,
    TotalOutage,
    WindowScript,
    declare,
    in_peace,
    simulate_windows,
)
from oncue.sim.world import PACE, World
from oncue.tasks.cluster import PART

NODES = ("one", "two", "three")
ENDLESS = dataclasses.replace(OPTIONS, timeout=None, max_runtime=None)
"""Nothing cuts these jobs off: whatever strands one strands it for ever."""
ONCE = dataclasses.replace(OPTIONS, delivery="at_most_once")
SOON = 60.0
"""Within so many seconds after the last fault everything has to have ended."""

# --- the simulator's own runs ---------------------------------------------------------------------------------------


def work(seed: int) -> list[Violation]:
    """Random work under random faults."""
    return _closed(*simulate(seed))


def limited(seed: int) -> list[Violation]:
    """The same on a queue that runs two jobs at once, on all nodes together."""
    return _closed(*simulate(seed, limit=2))


def schedules(seed: int) -> list[Violation]:
    """Random schedules under random faults, and operators who meddle with them."""
    return _closed(*simulate_schedules(seed))


def grouped(seed: int) -> list[Violation]:
    """Random work in groups of queues, with limits, rates and pauses that change."""
    return _closed(*simulate_groups(seed))


def deliveries(seed: int) -> list[Violation]:
    """Random deliveries to webhooks that are edited, and endpoints of all manners."""
    return _closed(*simulate_deliveries(seed))


def edits(seed: int) -> list[Violation]:
    """The same with many more edits."""
    return _closed(*simulate_deliveries(seed, edits=60))


def windows(seed: int) -> list[Violation]:
    """Daily windows of a few subjects whose terms change, with troubles around their cutoffs."""
    return _closed(*simulate_windows(seed, nodes=2, subjects=6, days=1.0, edits=8))


def edited_windows(seed: int) -> list[Violation]:
    """The same with many more edits."""
    return _closed(*simulate_windows(seed, nodes=2, subjects=4, days=0.6, edits=40))


def window_cutoffs(seed: int, *, struck: bool = False) -> list[Violation]:
    """One cutoff of several subjects, whose last attempts end just around it, or hang."""
    cutoff_at = datetime(2026, 6, 1, 9, tzinfo=UTC)
    script = WindowScript(seed, lambda: world.clock.now(), deadly=0.0, near=0.8)
    world = World(seed, crew=CREW, script=script, start=cutoff_at - timedelta(minutes=4), elide=True)
    declare(world, Terms("2m", "30s", "60s", 8))
    for name in NODES:
        world.boot(name)
    heal(world)
    for number in range(8):
        finish(world.operator.windows.add(WINDOW, f"user{number}", at="09:00"))
    if struck:
        at = cutoff_at - timedelta(seconds=1)
        world.at(at, lambda: StrikeLeader(0.0, "pause", 5.0).strike(world))
    world.run(360.0)
    heal(world)
    in_peace(world, 0.01)
    return _closed(world, verdict(world, 3600.0))


def struck_window_cutoffs(seed: int) -> list[Violation]:
    """The same; the leader stands still when the cutoff comes."""
    return window_cutoffs(seed, struck=True)


def edits_in_an_outage(seed: int) -> list[Violation]:
    """Subjects are changed, removed and added again while nothing runs, after their cutoffs."""
    dice, start = Random(f"edits in an outage {seed}"), datetime(2026, 6, 1, 6, tzinfo=UTC)
    world = World(seed, crew=CREW, script=lambda claim: Act(), start=start, elide=True)
    declare(world, Terms("60m", "10m", "60s", 8))
    for name in NODES:
        world.boot(name)
    for number in range(6):
        finish(world.operator.windows.add(WINDOW, f"user{number}", at=f"{dice.randrange(7, 12):02}:00"))
    world.run(dice.uniform(0.5, 6.0) * 3600.0)
    TotalOutage(0.0, NODES, 86_400.0 * dice.choice((0.5, 2.5)), dead=True).strike(world)
    world.run(10 * 3600.0)
    for number in range(6):
        windows, name = world.operator.windows, f"user{number}"
        due = f"{dice.randrange(24):02}:30"
        world.errand(windows.remove(WINDOW, name) if number % 3 else windows.change(WINDOW, name, at=due))
    world.run(3 * 86_400.0)
    heal(world)
    in_peace(world)
    return _closed(world, verdict(world, 2 * 86_400.0))


def windows_in_outages(seed: int) -> list[Violation]:
    """Edits of subjects while nothing runs, for a part of a window or for days."""
    return _closed(*simulate_windows(seed, nodes=2, subjects=4, days=1.5, edits=40, outages=(2, 3)))


def clusters(seed: int) -> list[Violation]:
    """Cluster jobs on nodes that come and go, and leaders that die around their decisions."""
    return _closed(*simulate_cluster(seed))


def clusters_that_grow(seed: int) -> list[Violation]:
    """Two nodes do a part that takes its time, and a third comes by."""
    world = _cluster_of(seed, NODES[:2], [Act(seconds=2.0)], [Act()])
    world.after(2.0, lambda: world.submit(cluster_job(world)))
    world.after(2.8, lambda: _boot(world, NODES[2], NODES[2]))
    return _recovered(world, 8.0)


def clusters_that_restart(seed: int) -> list[Violation]:
    """Nodes die while their part waits to be tried again, before that is due or after, or in the middle of it."""
    dice = Random(f"restarts {seed}")
    parts = [Act("retry", 0.3, after=dice.choice((1.0, 4.0))), Act("ok", 0.5)]
    world = _cluster_of(seed, NODES, parts, [Act()], quorum_timeout=dice.choice((3.0, 8.0)))
    world.after(2.0, lambda: world.submit(cluster_job(world)))
    for node in NODES[1:]:
        at, down = 2.0 + dice.choice((0.2, 0.9)), dice.choice((1.5, 4.5))
        _strike(world, CrashNode(at, node, down))
    return _recovered(world, 16.0)


def clusters_that_are_led_anew(seed: int) -> list[Violation]:
    """The leader is deposed, or stands still, when its cluster jobs are to be decided or their action is recorded."""
    dice = Random(f"led anew {seed}")
    world = _cluster_of(seed, NODES, [Act(seconds=0.5)], [Act(seconds=0.8)], quorum_timeout=1.0)
    for number in range(8):
        at = 2.0 + 1.6 * number
        create = dice.choice((world.submit, partial(create_at_once, world)))
        world.after(at, lambda number=number, create=create: create(cluster_job(world, number=number)))  # type: ignore[misc]
        verb = dice.choice(("cluster.release", "cluster.spread", "cluster.create", "jobs.apply"))
        world.after(at - 0.1, partial(_pause_leader_in, world, verb, 5.0 * dice.random()))
        _strike(world, DeposeLeader(at + dice.choice((0.1, 0.9))))
    return _recovered(world, 16.0)


def _pause_leader_in(world: World, verb: str, length: float) -> None:
    """The leader stands still in the middle of a call, before its effect."""
    for name in [name for name, member in world.members.items() if member.leads and not member.paused]:
        PauseInCall(0.0, name, verb, "before", length).strike(world)


def clusters_by_hand(seed: int) -> list[Violation]:
    """An operator cancels cluster jobs while their parts run, and retries them."""
    dice = Random(f"by hand {seed}")
    world = _cluster_of(seed, NODES, [Act(seconds=1.5)], [Act(seconds=0.5)])
    heal(world)
    for number in range(3):
        batch = cluster_job(world, number=number)
        world.after(2.0 + number, partial(world.submit, batch))
        for later in (dice.uniform(0.3, 1.8), 4.0):
            world.after(2.0 + number + later, partial(_cancel_or_retry, world, batch.ids[0]))
    return _recovered(world, 10.0)


def clusters_that_retry_late(seed: int) -> list[Violation]:
    """A part is still under way when its job is over, asks to be tried again, and its node is gone for good by then."""
    dice = Random(f"late {seed}")
    world = _cluster_of(seed, NODES, [Act("retry", 2.0, after=1.0)], [Act()], quorum_timeout=0.5)
    job = cluster_job(world)
    world.after(2.0, partial(world.submit, job))
    world.after(3.0, lambda: world.errand(world.colleague.jobs.set_status(job.ids[0], "failed")))
    world.after(4.3 + 0.3 * dice.random(), lambda: world.crash(NODES[2]))
    return _recovered(world, 8.0)


def clusters_of_namesakes(seed: int) -> list[Violation]:
    """A twin of the leader has not got a name yet when it gets its part, and dies; so does the leader, for a while."""
    world = _cluster_of(seed, NODES[:1], [Act(seconds=0.3)], [Act()], quorum_timeout=2.0)
    world.after(2.0, lambda: _boot(world, TWIN + NODES[0], NODES[0]))
    world.after(2.3, lambda: world.submit(cluster_job(world)))
    world.after(2.8, lambda: world.crash(TWIN + NODES[0]))
    _strike(world, CrashNode(3.2, NODES[0], 1.0))
    return _recovered(world, 8.0)


def _cluster_of(
    seed: int, names: Sequence[str], parts: Sequence[Act], action: Sequence[Act], **terms: Any
) -> World:  # fmt: skip
    """Nodes of which each follows the same script in its part, and the leader another one in its action."""

    def script(claim: Claim) -> Act:
        acts = parts if claim.task.endswith(PART) else action
        return acts[min(claim.attempt, len(acts) - 1)]

    world = World(seed, crew=CLUSTER_CREW, script=script)
    declare_tasks(world, ClusterTerms(**{"max_retries": 2, **terms}))
    for name in names:
        world.boot(name)
    return world


def _cancel_or_retry(world: World, job_id: int) -> None:
    jobs, is_over = world.colleague.jobs, world.job(job_id).finished
    world.errand(jobs.retry(job_id) if is_over else jobs.cancel(job_id))


def outages(seed: int) -> list[Violation]:
    """Endpoints fail for a while, with breakers; one is busy, and nothing else is wrong."""
    return _closed(*simulate_outages(seed))


def grouped_clients(seed: int) -> list[Violation]:
    """Clients whose replies are lost write jobs of groups."""
    dice = Random(f"grouped clients {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.05)))
    for number in range(6):
        _strike(world, LoseReply(1.0 + number, None, "jobs.enqueue"))
        _submit(world, 1.5 + number, [[Act()]], group=f"group {number}")
    return _recovered(world, 12.0)


def rated(seed: int) -> list[Violation]:
    """A queue with a rate, on slow lines: jobs come to groups that run one at a time."""
    dice = Random(f"rated {seed}")
    world = World(seed, latency=0.3)
    finish(world.operator.queues.limit("default", per_group=1, rate="10/s"))
    for name in NODES:
        world.boot(name)
    for _ in range(30):
        act = Act(seconds=dice.uniform(0.1, 0.6))
        _submit(world, dice.uniform(2, 8), [[act]], group=dice.choice("abc"))
    world.run(10.0)
    world.run_until(world.drained, SOON)
    world.run(FORGOTTEN)
    return _closed(world, verdict(world, SOON))


def addressed(seed: int) -> list[Violation]:
    """Jobs for the leader, which is deposed now and then, and for a name that two nodes ask for."""
    dice = Random(f"addressed {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.05)))
    world.boot("four", known_as="one")
    for number in range(16):
        act = Act(seconds=dice.uniform(0.1, 1.5))
        _submit(world, number / 2, [[act]], address="role:leader")
        _submit(world, number / 2, [[act]], address="node:one", deadline=20.0)
    for number in range(4):
        _strike(world, DeposeLeader(2.0 + 2 * number + dice.random()))
    return _recovered(world, 12.0)


def addressed_and_limited(seed: int) -> list[Violation]:
    """All that waits in a limited queue is for one node."""
    world = World(seed)
    world.limit(1)
    for name in NODES:
        world.boot(name)
    _submit(world, 3.0, [[Act()], [Act()]], address=f"node:{NODES[seed % 3]}")
    return _recovered(world, 12.0)


# --- processes that are not well ------------------------------------------------------------------------------------


def endless(seed: int) -> list[Violation]:
    """Jobs without a time limit. Processes die and come back under their names; meanwhile the others' calls fail."""
    dice = Random(f"endless {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.05)))
    for _ in range(4):
        acts = [[Act(seconds=dice.choice((2.0, 5.0)))] for _ in range(dice.randint(1, 3))]
        _submit(world, dice.uniform(0, 5), acts, options=ENDLESS)
    for _ in range(2):
        at, victim = dice.uniform(1, 6), dice.choice(NODES)
        _strike(world, CrashNode(at, victim, 1.0))
        for node in NODES:
            _strike(world, StoreErrors(at + 2.0, node, 0.6, 3.0))
    return _recovered(world, 12.0)


def hanging(seed: int) -> list[Violation]:
    """Some jobs never end by themselves."""
    world = _cluster(seed)
    for number in range(8):
        _submit(world, number / 2, [[Act("hang" if number % 2 else "ok"), Act()]])
    return _recovered(world, 8.0)


def killers(seed: int) -> list[Violation]:
    """A job that takes every process down that runs it, among others that do no harm."""
    dice = Random(f"killers {seed}")
    world = _cluster(seed, concurrency=8)
    harmless = [[Act(seconds=dice.uniform(2, 3))] for _ in range(7)]
    _submit(world, 1.0, [*harmless, [Act("crash", seconds=0.5)]], options=ENDLESS)
    return _recovered(world, 30.0)


def killers_in_traffic(seed: int) -> list[Violation]:
    """The same while new work arrives all the time."""
    dice = Random(f"killers in traffic {seed}")
    world = _cluster(seed, concurrency=4)
    _submit(world, 1.0, [[Act("crash", seconds=1.0)]], options=ENDLESS)
    for number in range(40):
        _submit(world, number + dice.random(), [[Act(seconds=dice.uniform(1, 2))] for _ in range(3)])
    return _recovered(world, 40.0)


def crowd_of_suspects(seed: int) -> list[Violation]:
    """Two deaths by hand leave a crowd of suspects behind, for one node with many seats."""
    world = _cluster(seed, concurrency=16)
    _submit(world, 1.0, [[Act(seconds=20.0)] for _ in range(48)], options=ENDLESS)
    for number in range(2):
        for node in NODES:
            _strike(world, CrashNode(2.0 + 8.0 * number, node, 1.0))
    return _recovered(world, 12.0)


def waiting_suspects(seed: int) -> list[Violation]:
    """Processes die while jobs that have one death behind them wait for a seat in them."""
    dice = Random(f"waiting suspects {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.3)), concurrency=4)
    _submit(world, 1.0, [[Act(seconds=dice.uniform(0.5, 1.5))] for _ in range(40)], options=ENDLESS)
    for number in range(4):
        for node in NODES:
            _strike(world, CrashNode(2.0 + 5.0 * number + dice.uniform(0, 1), node, 1.0))
    return _recovered(world, 24.0)


def one_death(seed: int) -> list[Violation]:
    """A process dies in peace. It was started between two looks of the others: its lease ends between two as well."""
    dice = Random(f"one death {seed}")
    world, (victim, *others) = World(seed), NODES
    for name in others:
        world.boot(name)
    world.after(dice.uniform(0.2, 0.8), partial(world.boot, victim))
    _submit(world, 1.5, [[Act(seconds=30.0)] for _ in range(12)], options=ENDLESS)
    world.run(12.0 + dice.uniform(0, 3))
    _strike(world, CrashNode(0.5, victim, 20.0))
    return _recovered(world, 30.0)


def sleepers(seed: int) -> list[Violation]:
    """A node stands still in the middle of its jobs, and goes on when another has taken them over, or later."""
    dice = Random(f"sleepers {seed}")
    world = _cluster(seed, dice.choice((0.05, 0.3)))
    for _ in range(8):
        options = dice.choice((OPTIONS, ONCE, ENDLESS))
        _submit(world, 0.5, [[Act(seconds=dice.choice((2.0, 4.0, 6.0)))]], options=options)
    _strike(world, PauseNode(dice.uniform(0.7, 2.5), dice.choice(NODES), dice.uniform(3.0, 8.0)))
    return _recovered(world, 12.0)


def limited_sleepers(seed: int) -> list[Violation]:
    """Two jobs may run at once, many wait; the node that runs them stands still until others have its seats."""
    dice = Random(f"limited sleepers {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.1)))
    world.limit(2)
    _submit(world, 1.0, [[Act(seconds=dice.choice((0.5, 1.0)))] for _ in range(30)])
    for number in range(3):
        _strike(world, PauseNode(2.0 + 6 * number, NODES[number], dice.uniform(3.5, 5.0)))
    return _recovered(world, 22.0)


def namesakes(seed: int) -> list[Violation]:
    """Processes start under the name of one that is alive and at work, as in a rolling deployment."""
    dice = Random(f"namesakes {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.05)))
    for _ in range(8):
        _submit(world, dice.uniform(0, 4), [[Act(seconds=dice.choice((1.0, 3.0)))]])
    for number in range(2):
        world.after(2.0 + number, partial(_boot, world, f"{number} too", dice.choice(NODES)))
    return _recovered(world, 8.0)


def replicas(seed: int) -> list[Violation]:
    """Processes of one name, as the containers of a pod are. They die and stand still; then there is a long peace."""
    dice = Random(f"replicas {seed}")
    world = World(seed, latency=dice.choice((0.0, 0.05)))
    for name in NODES:
        world.after(dice.uniform(0, 2), partial(world.boot, name, known_as="pod"))
    _submit(world, 3.0, [[Act(seconds=dice.choice((1.0, 3.0)))] for _ in range(8)])
    world.run(3.0)
    _strike(world, CrashNode(dice.uniform(2, 6), dice.choice(NODES), dice.uniform(0.5, 4.0)))
    _strike(world, PauseNode(dice.uniform(2, 6), dice.choice(NODES), dice.uniform(3.5, 6.0)))
    world.run(12.0)
    heal(world)
    world.run(5 * PACE.lease)
    return _closed(world, verdict(world, SOON))


def bad_lines(seed: int) -> list[Violation]:
    """Every fifth call of every node fails: before it reached the database, or after, when only the reply is lost."""
    dice = Random(f"bad lines {seed}")
    world = _cluster(seed, 0.02)
    for node in NODES:
        _strike(world, StoreErrors(1.0, node, 0.2, 8.0))
    for _ in range(16):
        act = Act(seconds=dice.choice((0.1, 1.0)))
        _submit(world, dice.uniform(0, 8), [[act]], options=dice.choice((ENDLESS, ONCE)))
    return _recovered(world, 10.0)


def locked_rows(seed: int) -> list[Violation]:
    """Another session holds what runs at the moment, again and again."""
    dice = Random(f"locked rows {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.02)))
    for _ in range(16):
        act, options = Act(seconds=dice.choice((0.3, 1.0))), dice.choice((OPTIONS, ONCE, ENDLESS))
        _submit(world, dice.uniform(0, 8), [[act]], options=options)
    for number in range(4):
        _strike(world, LockRows(1.0 + 2 * number, dice.uniform(1.0, 1.8)))
    return _recovered(world, 10.0)


def cutoffs(seed: int) -> list[Violation]:
    """Successes that count only until an instant, on slow lines that fail, by hosts whose clocks are not right."""
    dice = Random(f"cutoffs {seed}")
    world = _cluster(seed, dice.choice((0.02, 0.3)), own_clocks=dice.random() < 0.7)
    for node in NODES:
        _strike(world, StoreErrors(1.0, node, 0.3, 8.0))
    for _ in range(24):
        seconds = round(dice.uniform(0.1, 2.0), 6)
        act = Act(seconds=seconds, before=round(seconds + dice.uniform(0.0, 1.0), 6), follows=1, follows_late=1)
        _submit(world, dice.uniform(0, 8), [[act]])
    return _recovered(world, 10.0)


def deposed(seed: int) -> list[Violation]:
    """Jobs whose ends count only while their node leads. Leaders lose their lease, and go on until they hear of it."""
    dice = Random(f"deposed {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.05)), concurrency=8)
    for _ in range(30):
        act = Act(dice.choice(("ok", "ok", "fail", "snooze")), seconds=dice.uniform(0.2, 1.5), led=True, follows=1)
        acts = [act, Act(seconds=0.2, led=True, follows=1)]
        _submit(world, dice.uniform(1, 12), [acts], options=dice.choice((OPTIONS, ONCE)))
    for number in range(5):
        _strike(world, DeposeLeader(2.0 + 2 * number + dice.random()))
    return _recovered(world, 14.0)


def chains(seed: int) -> list[Violation]:
    """Jobs that follow from others. Calls fail, processes die or stand still, and some of these jobs share a key."""
    dice = Random(f"chains {seed}")
    world = _cluster(seed, 0.02)
    for node in NODES:
        _strike(world, StoreErrors(1.0, node, 0.2, 8.0))
        _strike(world, CrashNode(dice.uniform(2, 7), node, 1.0))
        _strike(world, PauseNode(dice.uniform(2, 7), node, 4.0))
    for _ in range(20):
        key = dice.choice((None, None, "a"))
        act = Act(seconds=dice.choice((0.1, 1.0)), follows=dice.choice((1, 3)), follows_key=key)
        _submit(world, dice.uniform(0, 8), [[act]], options=dice.choice((OPTIONS, ENDLESS)))
    return _recovered(world, 10.0)


def talkative(seed: int) -> list[Violation]:
    """Jobs that tell details: some fail, some hang, and some are lost with their processes."""
    dice = Random(f"talkative {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.02)))
    for _ in range(16):
        act = Act(dice.choice(("ok", "fail", "snooze", "hang")), seconds=dice.uniform(0.1, 4.0), details=True)
        _submit(world, dice.uniform(0, 8), [[act, Act(details=True)]])
    for node in NODES:
        _strike(world, CrashNode(dice.uniform(2, 9), node, 1.0))
    return _recovered(world, 12.0)


def held_up(seed: int) -> list[Violation]:
    """Lines are held up again and again: what their callers gave up arrives late, among newer calls."""
    dice = Random(f"held up {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.02)))
    for _ in range(12):
        act, options = Act(seconds=dice.choice((1.0, 3.0, 5.0))), dice.choice((OPTIONS, ONCE, ENDLESS))
        _submit(world, dice.uniform(0, 8), [[act]], options=options)
    for node in NODES:
        at = 1.0
        while at < 12.0:
            length = dice.uniform(0.8, 2.0)
            _strike(world, HoldUp(at, node, length))
            at += length + dice.uniform(0.2, 1.5)
    return _recovered(world, 14.0)


def shutdowns(seed: int) -> list[Violation]:
    """Nodes are shut down while they work: what they have in hand is given back, and then they leave."""
    dice = Random(f"shutdowns {seed}")
    world = _cluster(seed)
    for _ in range(12):
        _submit(world, dice.uniform(0, 6), [[Act(seconds=2.0)]], options=dice.choice((OPTIONS, ONCE, ENDLESS)))
    for number, name in enumerate(NODES):
        world.after(2.0 + 2 * number, partial(_shut_down, world, name))
    return _recovered(world, 12.0)


def sleeping_leaders(seed: int) -> list[Violation]:
    """A leader stands still in the middle of a decision, and goes on when another leads, or later."""
    world = World(seed, latency=0.3)
    for name in NODES[:2]:
        world.boot(name)
    world.run(2.0)
    world.schedule("often", "@every 1s", missed="each", max_instances=100)
    world.run(2.0 + seed * 0.05)
    for name in [name for name, member in world.members.items() if member.leads]:
        world.pause(name)
        world.run(3.0 * (seed % 2))
        assert world.run_until(lambda: any(one.leads and not one.paused for one in world.members.values()), 60)
        world.run(3.0 * (seed % 2))
        world.resume(name)
    world.run(3.0)
    return _closed(world, check(world.history.events, world.final()))


def long_slots(seed: int) -> list[Violation]:
    """Schedules whose runs take longer than their slots are apart, on nodes with one seat each."""
    world = _cluster(seed, 0.02, concurrency=1)
    for number in range(2):
        world.schedule(f"often {number}", "@every 1s", Act(seconds=2.5), max_instances=1)
    world.run(12.0)
    return _closed(world, check(world.history.events, world.final()))


def exclusives(seed: int) -> list[Violation]:
    """Two nodes would be the only one, and one does not care. Their calls fail, and whoever works stands still."""
    dice = Random(f"exclusives {seed}")
    world = World(seed, latency=dice.choice((0.0, 0.1)), concurrency=2)
    for name in NODES:
        world.boot(name, exclusive=name != NODES[2])
    for number in range(24):
        _submit(world, 0.5 + number / 2, [[Act(seconds=dice.choice((0.1, 0.5, 3.0)))] * 2], options=ENDLESS)
    for name in NODES[:2]:
        _strike(world, StoreErrors(dice.uniform(1, 3), name, 0.5, 3.0))
        _strike(world, PauseNode(dice.uniform(5, 11), name, dice.uniform(3.5, 5.0)))
    return _recovered(world, 18.0)


# --- clients, operators, and what is kept ---------------------------------------------------------------------------


def slow_lines(seed: int) -> list[Violation]:
    """Every call takes its time. Clients send the same job twice at once, and operators cancel what they just read."""
    dice = Random(f"slow lines {seed}")
    world = _cluster(seed, 0.2)
    for number in range(8):
        at, act = dice.uniform(0, 4), Act(seconds=dice.choice((0.1, 0.4)))
        for _ in range(2):
            _submit(world, at, [[act]], keys=[f"key {dice.randrange(2)}"] if number % 2 else None)
    for _ in range(12):
        world.after(dice.uniform(0.2, 6), partial(_cancel_one, world, dice))
    return _recovered(world, 8.0)


def bad_clients(seed: int) -> list[Violation]:
    """Every third call of a client fails: before it reached the database, or after."""
    dice = Random(f"bad clients {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.02)))
    _strike(world, StoreErrors(0.0, None, 0.33, 9.0))
    for _ in range(12):
        _submit(world, dice.uniform(0, 8), [[Act()]], delay=dice.choice((0.0, 3.0)))
    return _recovered(world, 10.0)


def late_duplicates(seed: int) -> list[Violation]:
    """A client's line is held up, and what it gave up and asked again arrives in any order, among jobs of its key."""
    dice = Random(f"late duplicates {seed}")
    world = _cluster(seed)
    world.after(1.0, lambda: world.client.wire.hold_up(world.clock.now() + timedelta(seconds=4.0)))
    world.after(5.0, world.client.wire.let_go)
    for _ in range(8):
        _submit(world, dice.uniform(1.1, 1.8), [[Act()], [Act()]], keys=["a", dice.choice(("a", "b"))])
    for number in range(20):
        world.after(3.0 + number * 0.2, lambda: world.enqueue(Act(seconds=0.1), keys=["a"]))
    return _recovered(world, 8.0)


def lost_hints(seed: int) -> list[Violation]:
    """Two of three wake-ups are late, or do not come at all."""
    dice = Random(f"lost hints {seed}")
    world = _cluster(seed, hints=0.33)
    for _ in range(6):
        _submit(world, dice.uniform(0, 4), [[Act()]], delay=dice.choice((0.0, 1.0)))
    return _recovered(world, 5.0)


def same_keys(seed: int) -> list[Violation]:
    """Jobs that share two keys, and mostly fail at first: while one runs or waits for its retry, others are sent."""
    dice = Random(f"same keys {seed}")
    world = _cluster(seed)
    for _ in range(16):
        acts = [Act(dice.choice(("fail", "fail", "ok")), 0.3), Act()]
        _submit(world, dice.uniform(0, 8), [acts], keys=[f"key {dice.randrange(2)}"])
    return _recovered(world, 10.0)


def cancelled(seed: int) -> list[Violation]:
    """Operators cancel what runs: half of the time in peace, half of the time beside nodes that are shut down."""
    dice = Random(f"cancelled {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.05)), concurrency=4)
    for _ in range(12):
        _submit(world, dice.uniform(10, 11), [[Act(seconds=dice.choice((3.0, 9.0)))]], options=ENDLESS)
    for _ in range(6):
        world.after(dice.uniform(11, 14), partial(_cancel_one, world, dice))
    for number, name in enumerate(NODES if seed % 2 else ()):
        world.after(12.0 + number, partial(_shut_down, world, name))
    return _recovered(world, 20.0)


def cancelled_in_line(seed: int) -> list[Violation]:
    """Many short jobs, so that nodes hold more than they run; then long ones, some of which are cancelled."""
    dice = Random(f"cancelled in line {seed}")
    world = World(seed, concurrency=1)
    world.boot(NODES[0])
    _submit(world, 1.0, [[Act(seconds=0.002)]] * 50)
    _submit(world, 1.05, [[Act(seconds=1.5)] for _ in range(10)], options=ENDLESS)
    for _ in range(6):
        world.after(dice.uniform(1.2, 2.2), partial(_cancel_one, world, dice))
    return _recovered(world, 4.0)


def pauses(seed: int) -> list[Violation]:
    """An operator pauses the queue while jobs wait in it, and opens it again."""
    dice = Random(f"pauses {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.1)), concurrency=2)
    for _ in range(20):
        _submit(world, dice.uniform(0, 8), [[Act(seconds=dice.choice((0.1, 1.0)))] * 2])
    for number in range(3):
        world.after(2.0 + 2 * number, lambda: world.errand(world.colleague.queues.pause("default")))
        world.after(3.0 + 2 * number, lambda: world.errand(world.colleague.queues.resume("default")))
    return _recovered(world, 10.0)


def limited_pauses(seed: int) -> list[Violation]:
    """An operator pauses the queue, and gives it another limit before it is open again."""
    dice = Random(f"limited pauses {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.1)), concurrency=2)
    world.limit(3)
    for _ in range(20):
        _submit(world, dice.uniform(0, 6), [[Act(seconds=0.3)] * 2])
    world.after(3.0, lambda: world.errand(world.colleague.queues.pause("default")))
    world.after(4.0, lambda: world.limit(4))
    world.after(7.0, lambda: world.errand(world.colleague.queues.resume("default")))
    return _recovered(world, 8.0)


def retried_cancels(seed: int) -> list[Violation]:
    """Operators cancel what runs, and start it over."""
    dice = Random(f"retried cancels {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.05)))
    for _ in range(6):
        _submit(world, dice.uniform(0, 1), [[Act(seconds=3.0), Act()]])
    for number in range(12):
        world.after(1.5 + number / 2, partial(_cancel_or_retry_one, world, dice))
    return _recovered(world, 8.0)


def crowded(seed: int) -> list[Violation]:
    """In peace, and with more work than there are seats."""
    world = _cluster(seed, concurrency=1)
    _submit(world, 12.0, [[Act(seconds=1.0)] for _ in range(40)])
    return _recovered(world, 13.0)


def keeping_little(seed: int) -> list[Violation]:
    """Finished jobs are kept for ten seconds; some jobs wait for longer than that."""
    dice = Random(f"keeping little {seed}")
    world = World(seed, pace=dataclasses.replace(PACE, retention=10.0, ledger_retention=10.0))
    for name in NODES[:2]:
        world.boot(name)
    for _ in range(6):
        _submit(world, dice.uniform(0, 30), [[Act(seconds=0.5)]], delay=dice.choice((0.0, 45.0, 80.0)))
    return _recovered(world, 70.0)


# --- how they are made ----------------------------------------------------------------------------------------------


def _cluster(seed: int, latency: float = 0.0, **terms: Any) -> World:
    world = World(seed, latency=latency, **terms)
    for name in NODES:
        world.boot(name)
    return world


def _boot(world: World, name: str, known_as: str) -> None:
    world.boot(name, known_as=known_as)


def _submit(world: World, at: float, jobs: Sequence[Sequence[Act]], **options: Any) -> None:
    world.after(at, lambda: world.submit(world.batch(jobs, **options)))


def _strike(world: World, fault: Fault) -> None:
    world.after(fault.at, partial(fault.strike, world))


def _shut_down(world: World, name: str) -> None:
    world.stop(name, within=0.5)
    world.after(1.0, partial(world.revive, name))


def _recovered(world: World, disturbed: float) -> list[Violation]:
    """Let the faults happen, and then what is left of the work end."""
    world.run(disturbed)
    heal(world)
    world.run_until(world.drained, SOON)
    world.run(1.0)
    return _closed(world, verdict(world, SOON))


def _closed(world: World, violations: list[Violation]) -> list[Violation]:
    world.close()
    return violations


def _cancel_one(world: World, dice: Random) -> None:
    unfinished = [job for job in world.jobs() if not job.finished]
    if unfinished:
        world.errand(world.colleague.jobs.cancel(dice.choice(unfinished).id))


def _cancel_or_retry_one(world: World, dice: Random) -> None:
    job = dice.choice(world.jobs())
    if not job.finished:
        world.errand(world.colleague.jobs.cancel(job.id))
    elif job.state == "cancelled":
        world.errand(world.colleague.jobs.retry(job.id))
