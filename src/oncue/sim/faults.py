"""Faults as scheduled events, a random run of them, and the whole simulation of one seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, Literal, Protocol

from oncue.policy.options import Options
from oncue.sim import script
from oncue.sim.checker import Violation, check
from oncue.sim.operator import OPTIONS
from oncue.sim.script import Act
from oncue.sim.wire import When
from oncue.sim.world import PACE, WORLD, World, finish


class Fault(Protocol):
    @property
    def at(self) -> float: ...

    def strike(self, world: World) -> None: ...


@dataclass(frozen=True, slots=True)
class CrashNode:
    """The process dies, and starts afresh a while later."""

    at: float
    node: str
    down: float

    def strike(self, world: World) -> None:
        world.fault("crash", self.node, self.down)
        world.crash(self.node)
        world.after(self.down, lambda: world.revive(self.node))


@dataclass(frozen=True, slots=True)
class CrashAtCall:
    """The process dies between two store calls: before the n-th from here on, or after it, its reply lost."""

    at: float
    node: str
    call: int
    when: When
    down: float

    def strike(self, world: World) -> None:
        world.fault("crash", self.node, self.down)
        world.members[self.node].wire.crash_at(self.call, self.when)
        world.after(self.down, lambda: world.revive(self.node))


@dataclass(frozen=True, slots=True)
class PauseNode:
    """The process stands still for a while: long enough, and it is a zombie when it goes on."""

    at: float
    node: str
    length: float

    def strike(self, world: World) -> None:
        world.fault("pause", self.node, self.length)
        world.pause(self.node)
        world.after(self.length, lambda: world.resume(self.node))


@dataclass(frozen=True, slots=True)
class StoreErrors:
    """Calls of one node, or of the client, fail at this rate, before or after their effect; at 1 all of them do."""

    at: float
    node: str | None
    rate: float
    length: float

    def strike(self, world: World) -> None:
        world.fault("partition" if self.rate >= 1 else "errors", self.node, self.length)
        self._set(world, self.rate)
        world.after(self.length, lambda: self._set(world, 0.0))

    def _set(self, world: World, rate: float) -> None:
        wire = world.client if self.node is None else world.members[self.node].wire
        wire.error_rate, wire.down = rate, rate >= 1


@dataclass(frozen=True, slots=True)
class LoseReply:
    """The next call of this kind takes effect, and its caller does not hear of it. A client's is an enqueue."""

    at: float
    node: str | None
    verb: str

    def strike(self, world: World) -> None:
        world.fault("lost reply", self.node, None)
        if self.node is None:
            world.client.lose_reply("enqueue")
        else:
            world.members[self.node].wire.lose_reply(self.verb)


REPLIES = ("claim", "apply", "beat", "renew", "acquire", "register", "decide", "bury", "take_seats")


@dataclass(frozen=True, slots=True)
class StopNode:
    """The process is told to stop while it is busy, and another takes its place a while later."""

    at: float
    node: str
    down: float

    def strike(self, world: World) -> None:
        world.fault("stop", self.node, self.down)
        world.stop(self.node, within=min(1.0, self.down / 2))
        for later in (0.0, 60.0):  # it may be kept from stopping for a while
            world.after(self.down + later, lambda: world.revive(self.node))


TWIN = "twin of "


@dataclass(frozen=True, slots=True)
class Namesake:
    """Somebody starts another process under the name of one that is alive, and kills it after a while."""

    at: float
    node: str
    length: float

    def strike(self, world: World) -> None:
        twin = TWIN + self.node
        if twin not in world.members or not world.members[twin].alive:
            exclusive = world.members[self.node].worker.node.exclusive
            world.boot(twin, known_as=self.node, exclusive=exclusive)
            world.fault("namesake", twin, self.length)
            world.after(self.length, lambda: world.crash(twin))


@dataclass(frozen=True, slots=True)
class SetClock:
    """Somebody sets the database's clock. Until the processes have learned of it, what they do is early or late.

    A clock that was set back makes every lease longer by as much, also those of the dead.
    """

    at: float
    seconds: float

    def strike(self, world: World) -> None:
        if world.own_clocks:
            world.fault("clock", None, LEARNED)
            world.set_clock(self.seconds)


@dataclass(frozen=True, slots=True)
class StrikeLeader:
    """Whoever leads at that moment dies, stands still, or is cut off from the database."""

    at: float
    how: Literal["crash", "pause", "partition"]
    length: float

    def strike(self, world: World) -> None:
        for name in [name for name, member in world.members.items() if member.leads and not member.paused]:
            faults: dict[str, Fault] = {
                "crash": CrashNode(self.at, name, self.length),
                "pause": PauseNode(self.at, name, self.length),
                "partition": StoreErrors(self.at, name, 1.0, self.length),
            }
            faults[self.how].strike(world)


LEARNED = 10.0
"""Seconds until every process has asked for the time again, even if it was cut off for a moment."""


def heal(world: World) -> None:
    """End every fault, and let those pass that take their time: from here on the cluster must recover by itself."""
    world.client.heal()
    for name, member in list(world.members.items()):
        member.wire.heal()
        world.resume(name)
        if not name.startswith(TWIN):
            world.revive(name)
    over = max(world.server.caught_up_at, world.troubled_until)
    world.run(max(0.0, (over - world.clock.now()).total_seconds()))
    world.history.add(WORLD, "faults.over")


def random_faults(dice: Random, nodes: Sequence[str], seconds: float) -> list[Fault]:
    return [
        random_fault(dice, dice.choice(nodes), dice.uniform(0, seconds), PACE.lease) for _ in range(dice.randint(0, 10))
    ]


def random_fault(dice: Random, node: str, at: float, lease: float) -> Fault:
    """Some are over long before a lease is, some long after."""
    length = dice.choice((0.2, 0.7, 1.5)) * lease * dice.uniform(0.5, 1.5)
    match dice.randrange(10):
        case 0:
            return CrashNode(at, node, length)
        case 1:
            return CrashAtCall(at, node, dice.randint(1, 40), dice.choice(("before", "after")), length)
        case 2:
            return PauseNode(at, node, length)
        case 3:
            return StoreErrors(at, dice.choice((node, None)), dice.choice((0.1, 0.3, 0.6)), length)
        case 4:
            return StoreErrors(at, dice.choice((node, None)), 1.0, length)
        case 5:
            return StopNode(at, node, length)
        case 6:
            return Namesake(at, node, length)
        case 7 | 8:
            return LoseReply(at, dice.choice((node, node, node, None)), dice.choice(REPLIES))
        case _:
            return SetClock(at, round(dice.choice((-1, 1)) * dice.choice((0.5, 3.0, 30.0)), 6))


# --- one seed, one run ----------------------------------------------------------------------------------------------

DISTURBED = 20.0
DRIFT = 0.005
"""How far a host's clock drifts from the database's until it can ask again, in seconds."""
LATE = 5.0
"""Seconds that a slot or a job may wait while nothing disturbs the cluster and somebody has room."""
LATENCIES = (0.0, 0.002, 0.02, 0.3)
RECOVERY = 180.0


def simulate(seed: int, *, nodes: int = 3, jobs: int = 25, limit: int | None = None) -> tuple[World, list[Violation]]:
    """A cluster under random work and random faults, and then in peace; what was not kept of the promises."""
    dice = Random(f"plan {seed}")
    world = World(
        seed,
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
    for fault in random_faults(dice, names, DISTURBED):
        world.after(fault.at, lambda fault=fault: fault.strike(world))  # type: ignore[misc]
    _random_work(world, dice, jobs)
    world.run(DISTURBED)
    heal(world)
    world.run_until(world.drained, RECOVERY)
    world.run(1.0)
    return world, verdict(world)


def verdict(world: World, within: float = RECOVERY) -> list[Violation]:
    """What was not kept of the promises, if everything was to end within so many seconds of the last fault."""
    tolerance = DRIFT if world.own_clocks else 0.0
    return check(
        world.history.events, world.final(),
        tolerance=tolerance, drained_within=within, late=LATE, lease=world.pace.lease,
    )  # fmt: skip


def _random_work(world: World, dice: Random, jobs: int) -> None:
    while jobs > 0:
        count = min(jobs, dice.choice((1, 1, 2, 5, 10)))
        jobs -= count
        acts = [script.random_acts(dice) for _ in range(count)]
        fields = {
            "options": _random_options(dice),
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
    for _ in range(dice.randint(0, 4)):
        world.after(dice.uniform(0, DISTURBED), lambda: _operate(world, dice))


def _random_options(dice: Random) -> Options:
    delivery = dice.choice(("at_least_once", "at_least_once", "at_most_once"))
    return Options(delivery, dice.choice((2.0, 6.0, None)), dice.choice((5.0, 20.0)), OPTIONS.retry)  # type: ignore[arg-type]


def _operate(world: World, dice: Random) -> None:
    """An operator cancels or revives a job, whatever it is doing."""
    found = world.jobs()
    if found:
        job = dice.choice(found)
        world.errand(world.colleague.retry(job.id) if job.finished else world.colleague.cancel(job.id))


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
    faults = [*random_faults(dice, names, BUSY), *_leader_faults(dice)]
    for fault in faults:
        world.after(fault.at, lambda fault=fault: fault.strike(world))  # type: ignore[misc]
    for name in NAMES[: dice.randint(1, 3)]:
        world.after(dice.uniform(0, 5), lambda name=name: _random_schedule(world, dice, name))  # type: ignore[misc]
    for _ in range(dice.randint(0, 8)):
        world.after(dice.uniform(3, BUSY), lambda: _meddle(world, dice))
    world.run(BUSY)
    heal(world)
    world.run(3 * world.pace.lease + world.pace.schedules)
    world.calm()
    for schedule in finish(world.store.schedules()):
        finish(world.operator.toggle_schedule(schedule.name, False))
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
    world.schedule(
        name, dice.choice(RULES), *acts[dice.choice((0, 1, 1)) :],
        options=_random_options(dice), max_retries=dice.choice((0, 1)),
        missed=dice.choice(("latest", "each", "none")), grace=dice.choice((1.0, 2.0, 300.0)),
        max_instances=dice.choice((1, 1, 2, 50)),
    )  # fmt: skip


def _meddle(world: World, dice: Random) -> None:
    """An operator does something to a schedule, or tries to."""
    found = finish(world.store.schedules())
    if not found:
        return
    name, colleague, now = dice.choice(found).name, world.colleague, world.server.now()
    coming = finish(world.operator.preview(name, 3))
    deeds: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: colleague.run_now(name),
        lambda: colleague.trigger(name, dice.choice(coming).scheduled_for),
        lambda: colleague.toggle_schedule(name, dice.random() < 0.6),
        lambda: colleague.change_schedule(name, rule=dice.choice(RULES)),
        lambda: colleague.change_schedule(name, max_instances=dice.choice((1, 3)), description="changed"),
        lambda: colleague.backfill(name, now - timedelta(seconds=dice.choice((3, 9))), now),
        lambda: colleague.delete_schedule(name),
    ]
    world.errand(dice.choice(deeds)())
