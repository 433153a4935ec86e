"""Processes that stand still for longer than their lease, each in the middle of a write, and then go on.

Each of them is stopped where it is about to write, or has just been told that it has written: a beat, a claim, an
outcome, slots, the lease of the leader, a job of a client. Meanwhile it is declared lost and others take over. Whatever
it writes when it goes on must be rejected, and it must become a member again. A client has no lease: what it enqueues
so late is written, once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from signal import SIGCONT
from uuid import UUID

from chaos.stage import LOAD, Stage
from tests.process import standstill
from tests.process.cluster import Process
from tests.process.program import LEASE
from tests.process.standstill import Point

CREW = 6
OF_WORKERS = tuple(Point(verb, side) for verb in ("beat", "claim", "apply") for side in ("before", "after"))
OF_LEADERS = tuple(Point(verb, side) for verb in ("decide", "renew") for side in ("before", "after"))
OF_CLIENTS = tuple(Point("enqueue", side) for side in ("before", "after"))
KINDS = {"renew": "lead renewal", "decide": "slot decision", "apply": "settle"}
REACH_SECONDS = 10.0
ON_ITS_WAY_SECONDS = 0.2
"""What a process had sent before it was stopped is written while its lease is good: until then it is not looked at."""
REJECTED = "a zombie's late writes are rejected"


@dataclass
class Zombie:
    process: Process
    point: Point
    node: UUID | None = None
    """None for a client."""
    epoch: int = 0
    """Under which it led, if it did."""
    held: set[tuple[int, int]] = field(default_factory=set)


def run(stage: Stage, amount: int) -> None:
    """Make so many zombies, a few at a time: never so many that nobody is left to take over."""
    cluster, dice = stage.cluster, stage.dice
    crew, client = started(stage, CREW)
    plans = [cycle(dice.sample(points, len(points))) for points in (OF_LEADERS, OF_WORKERS, OF_WORKERS, OF_CLIENTS)]
    with cluster.load(*LOAD, pause=0.15, times=1, seconds=0.6):
        made = 0
        while made < amount:
            made += len(rise(stage, chosen(stage, crew, client, [next(plan) for plan in plans][: amount - made])))
    cluster.kill(client)
    stage.finish(crew)


def started(stage: Stage, many: int) -> tuple[list[Process], Process]:
    """So many workers and a client, all of whom can be told where to stand still."""
    crew = [stage.cluster.start("--concurrency", "4", TEST_STANDSTILL="1") for _ in range(many)]
    client = stage.cluster.run("tests.process.client", "0.05", TEST_STANDSTILL="1")
    stage.cluster.ready(*crew)
    return crew, client


def chosen(stage: Stage, crew: list[Process], client: Process, points: Sequence[Point]) -> list[Zombie]:
    """Who is to stand still at each of these points: the leader at its own, the client at its own, others elsewhere."""
    leader, lease = stage.cluster.led()
    others = [worker for worker in crew if worker is not leader]
    stage.dice.shuffle(others)
    zombies = []
    for point in points:
        process = leader if point in OF_LEADERS else client if point in OF_CLIENTS else others.pop()
        zombies.append(Zombie(process, point, epoch=lease.epoch if process is leader else 0))
    return zombies


def rise(stage: Stage, wanted: list[Zombie]) -> list[Point]:
    """Stop them, wait until others have taken over, and let them go on. Where they stood still, those that did."""
    nodes = stage.node_ids()
    zombies = stopped(stage, wanted)
    stage.wait(ON_ITS_WAY_SECONDS)
    stage.outcome.done["zombies that were not to be had"] += len(wanted) - len(zombies)
    for zombie in zombies:
        zombie.node = nodes.get(zombie.process.name)
        if zombie.node is not None:
            zombie.held = {(row.id, row.claim_no) for row in stage.held(zombie.node)}
    stopped_at = time.monotonic()
    names = ", ".join(zombie.process.name for zombie in zombies)
    stage.cluster.until(
        lambda: all(is_taken_over(stage, zombie) for zombie in zombies), f"{names}: declared lost, and taken over"
    )
    stage.wait(max(LEASE * 1.2 - (time.monotonic() - stopped_at), stage.dice.uniform(0.0, 0.5)))
    for zombie in zombies:
        zombie.process.send(SIGCONT)
    for zombie in zombies:
        judge(stage, zombie)
    return [zombie.point for zombie in zombies]


def stopped(stage: Stage, wanted: list[Zombie]) -> list[Zombie]:
    """Wait until they stand still where they should; those that do.

    One that keeps the file locked from the others would be another story: nobody could take over. It has to try again.
    """
    for zombie in wanted:
        arm(stage, zombie)
    end = time.monotonic() + REACH_SECONDS
    while True:
        standing = [zombie for zombie in wanted if zombie.process.process.is_stopped()]
        if standing and stage.cluster.is_locked():
            for zombie in standing:
                arm(stage, zombie)
                zombie.process.send(SIGCONT)
        elif len(standing) == len(wanted):
            return standing
        elif time.monotonic() > end:
            late = [zombie for zombie in wanted if standstill.disarm(stage.cluster.folder, zombie.process.name)]
            wanted = [zombie for zombie in wanted if zombie not in late]
        time.sleep(0.01)


def arm(stage: Stage, zombie: Zombie) -> None:
    standstill.arm(stage.cluster.folder, zombie.process.name, zombie.point)


def is_taken_over(stage: Stage, zombie: Zombie) -> bool:
    """Whether it was declared lost, others have its jobs, and its lead if it had that."""
    if zombie.node is None:
        return True
    if zombie.node in stage.node_ids().values() or stage.held(zombie.node):
        return False
    lease = stage.cluster.lease()
    return not zombie.epoch or (lease is not None and lease.epoch > zombie.epoch)


def judge(stage: Stage, zombie: Zombie) -> None:
    cluster, name, (verb, side) = stage.cluster, zombie.process.name, zombie.point
    last = len(standstill.stood(cluster.folder, name)) - 1
    cluster.until(
        lambda: standstill.stood(cluster.folder, name)[last].answer is not None, f"{name} has been answered ({verb})"
    )
    found = standstill.stood(cluster.folder, name)[last]
    if zombie.node is not None:
        cluster.until(lambda: zombie.node in stage.node_ids().values(), f"{name} is a member again")
        if verb == "claim" and side == "before" and found.answer:
            # Its heartbeat, a thread of its own, was faster: it was a member again before it asked.
            stage.outcome.done["late claims of those who were members again"] += 1
        elif side == "before" and has_taken(found.answer):
            stage.fault(REJECTED, f"{name}: its {verb} of {found.wanted} was answered with {found.answer}")
        if (verb, side) == ("claim", "after"):
            zombie.held |= {tuple(place) for place in found.answer}
        cluster.until(lambda: zombie.held <= written(zombie), f"{name} has tried to write what it held: {zombie.held}")
        for place in zombie.held & written(zombie, accepted=True):
            stage.fault(REJECTED, f"{name} wrote job {place[0]} under claim {place[1]}")
    elif not found.answer:
        stage.fault("a late enqueue is written", f"{name}: {found}")
    stage.outcome.done["zombies"] += 1
    stage.outcome.done[f"zombies: {KINDS.get(verb, verb)}"] += 1
    stage.outcome.done["late writes rejected"] += len(zombie.held) + (zombie.node is not None and side == "before")


def has_taken(answer: object) -> bool:
    return any(answer) if isinstance(answer, list) else bool(answer)


def written(zombie: Zombie, accepted: bool | None = None) -> set[tuple[int, int]]:
    """The claims whose ends a process has tried to write, with this result or any."""
    changes = [event.fields for event in zombie.process.history if event.kind == "change"]
    return {
        (told["id"], told["claim_no"]) for told in changes if accepted is None or bool(told["accepted"]) == accepted
    }
