"""Faults as scheduled events, a random run of them, and the whole simulation of one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from random import Random
from typing import Literal, Protocol

from oncue.sim.driver import finish
from oncue.sim.wire import LAST_OUT, Crash, MidCallFault, When
from oncue.sim.world import OPERATOR, PACE, WORLD, World
from oncue.store.contract import LEADER


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
        member = world.members[self.node]
        member.restarts_after = self.down
        member.wire.crash_at(self.call, self.when)


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
        wire = world.line(self.node)
        wire.error_rate, wire.down = rate, rate >= 1


@dataclass(frozen=True, slots=True)
class HoldUp:
    """The line of one node, or of the client, is held up. What its callers gave up arrives late, among newer calls."""

    at: float
    node: str | None
    length: float

    def strike(self, world: World) -> None:
        world.fault("held up", self.node, self.length + LAST_OUT)
        wire = world.line(self.node)
        until = world.clock.now() + timedelta(seconds=self.length)
        wire.hold_up(until)
        world.at(until, wire.let_go)


@dataclass(frozen=True, slots=True)
class LockRows:
    """Another session holds what runs at that moment, and every schedule whose number is odd."""

    at: float
    length: float

    def strike(self, world: World) -> None:
        jobs = {job.id for job in world.jobs() if job.state == "running"}
        schedules = {schedule.id for schedule in finish(world.store.schedules.page()) if schedule.id % 2}
        world.fault("locked rows", None, self.length)
        world.locks.jobs |= jobs
        world.locks.schedules |= schedules
        world.after(self.length, world.locks.clear)


@dataclass(frozen=True, slots=True)
class LoseReply:
    """The next call of this kind takes effect, and its caller does not hear of it."""

    at: float
    node: str | None
    verb: str

    def strike(self, world: World) -> None:
        world.fault("lost reply", self.node, None)
        world.line(self.node).lose_reply(self.verb)


WRITES = (
    "jobs.claim", "jobs.apply", "slots.decide", "nodes.beat", "leases.renew", "leases.acquire", "nodes.register",
    "nodes.expire", "nodes.declare_lost", "queues.take_seats", "jobs.promote", "jobs.mark_started", "jobs.begin",
    "slots.release_parked", "counters.fold", "leases.release", "nodes.leave", "jobs.prune", "jobs.age",
    "jobs.reserve", "nodes.take_name",
)  # fmt: skip
"""What a node writes."""
OF_GROUPS = (
    *("groups.claim", "groups.claim", "groups.wake", "groups.wake"),
    *("queues.take_turns", "queues.return_turns", "jobs.promote"),
)
"""What a node writes where jobs belong to groups."""
OFTEN = ("jobs.claim", "jobs.claim", "jobs.apply", "jobs.apply", "slots.decide", "slots.decide")
WISHES = (
    "jobs.apply",
    "jobs.request_cancel",
    "queues.pause",
    "queues.resume",
    "jobs.prioritize",
    "slots.decide",
    "schedules.revise",
    "slots.rerun",
)
"""What an operator writes."""
OF_LIMITS = ("queues.set_limits", "groups.set")
"""What an operator writes to limits and groups."""


@dataclass(frozen=True, slots=True)
class SlowReply:
    """The next call of this kind takes effect at once, and its caller hears of it much later."""

    at: float
    node: str
    verb: str

    def strike(self, world: World) -> None:
        """It disturbs no process before that call."""
        told = partial(world.fault, "slow reply", self.node, world.pace.lease)
        world.members[self.node].wire.slow_reply(self.verb, told)


@dataclass(frozen=True, slots=True)
class CrashInCall:
    """The process dies in the middle of its next call of this verb: before its effect, or after it."""

    at: float
    node: str
    verb: str
    when: When
    down: float

    def strike(self, world: World) -> None:
        world.fault("crash", self.node, self.down)
        member = world.members[self.node]
        member.restarts_after = self.down
        member.wire.strike(self.verb, MidCallFault(self.when, self._die))

    def _die(self) -> None:
        raise Crash(self.verb)


@dataclass(frozen=True, slots=True)
class PauseInCall:
    """The process stands still in the middle of its next call of this verb: before its effect, or after it."""

    at: float
    node: str
    verb: str
    when: When
    length: float

    def strike(self, world: World) -> None:
        pause = PauseNode(self.at, self.node, self.length)
        world.members[self.node].wire.strike(self.verb, MidCallFault(self.when, lambda: pause.strike(world)))


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
    """An operator starts another process under the name of a live one, and kills it after a while."""

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
    """The database's clock is set. Until the processes have learned of it, what they do is early or late.

    A clock that was set back makes every lease longer by as much, also those of the dead.
    """

    at: float
    seconds: float

    def strike(self, world: World) -> None:
        if world.own_clocks:
            world.fault("clock", None, LEARNED)
            world.set_clock(self.seconds)
            world.disturbed(LEARNED)  # no quiet time that would tell the processes the hour


@dataclass(frozen=True, slots=True)
class StrikeLeader:
    """The leader at that moment dies, stands still, or is cut off from the database."""

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


@dataclass(frozen=True, slots=True)
class DeposeLeader:
    """The leader's lease ends before its time, as by a release that arrives late. It hears of that when it renews.

    Until then it settles what it ran under its epoch, while another node leads.
    """

    at: float

    def strike(self, world: World) -> None:
        for name, member in world.members.items():
            held = member.worker.leadership.held
            if held is not None and member.leads:
                world.fault("deposed", name, world.pace.lease)
                finish(member.store.leases.release(LEADER, held.holder, held.epoch, world.server.now()))


LEARNED = 10.0
"""Seconds until every process has asked for the time again, even if it was cut off for a moment."""


def heal(world: World) -> None:
    """End every fault, and let those pass that take their time: from here on the cluster must recover by itself."""
    world.locks.clear()
    for line in (None, OPERATOR):
        world.line(line).heal()
    for name, member in list(world.members.items()):
        member.wire.heal()
        world.resume(name)
        if not name.startswith(TWIN):
            world.revive(name)
    over = max(world.server.caught_up_at, world.troubled_until)
    world.run(max(0.0, (over - world.clock.now()).total_seconds()))
    world.history.add(WORLD, "faults.over")


@dataclass(frozen=True, slots=True)
class Struck:
    """The calls that faults strike: those of nodes, and those of operators."""

    calls: Sequence[str] = WRITES + OFTEN
    wishes: Sequence[str] = WISHES


USUAL, WITH_GROUPS = Struck(), Struck(WRITES + OFTEN + 4 * OF_GROUPS, WISHES + OF_LIMITS)


def random_faults(dice: Random, nodes: Sequence[str], seconds: float, struck: Struck = USUAL) -> list[Fault]:
    """A few; and in every third run a storm."""
    few = [
        random_fault(dice, dice.choice(nodes), dice.uniform(0, seconds), PACE.lease, struck)
        for _ in range(dice.randint(0, 10))
    ]
    return [*few, *_storm(dice, nodes, seconds, struck)] if dice.random() < 0.33 else few


def random_locks(dice: Random, seconds: float) -> list[Fault]:
    """In every third run. With dice of its own, so that the other faults of a seed stay what they are."""
    if dice.random() > 0.33:
        return []
    return [LockRows(dice.uniform(0, seconds), dice.uniform(0.2, 1.5) * PACE.lease) for _ in range(dice.randint(1, 3))]


def _storm(dice: Random, nodes: Sequence[str], seconds: float, struck: Struck) -> list[Fault]:
    """Every line drops calls and replies, and processes die or stand still in the middle of what they write."""
    lines: Sequence[str | None] = (*nodes, None, OPERATOR)
    rate, lengths = dice.choice((0.03, 0.1)), (0.2 * PACE.lease, 1.5 * PACE.lease)
    drops: list[Fault] = [StoreErrors(0.5, line, rate if line in nodes else 0.15, seconds) for line in lines]
    drops.append(HoldUp(dice.uniform(0, seconds), OPERATOR, PACE.lease * 1.5))
    drops += [LoseReply(dice.uniform(0, seconds / 2), OPERATOR, verb) for verb in struck.wishes]
    for verb in dice.choices(struck.calls, k=8):
        at, node, when = dice.uniform(0, seconds), dice.choice(nodes), dice.choice(("before", "after"))
        drops.append(dice.choice((CrashInCall, PauseInCall))(at, node, verb, when, dice.choice(lengths)))  # type: ignore[arg-type]
    return drops


def random_fault(dice: Random, node: str, at: float, lease: float, struck: Struck = USUAL) -> Fault:
    """Some are over long before a lease is, some long after."""
    length = dice.choice((0.2, 0.7, 1.5)) * lease * dice.uniform(0.5, 1.5)
    when: When = dice.choice(("before", "after"))
    match dice.randrange(16):
        case 0:
            return CrashNode(at, node, length)
        case 1:
            return CrashAtCall(at, node, dice.randint(1, 40), when, length)
        case 2:
            return PauseNode(at, node, length)
        case 3:
            return StoreErrors(at, dice.choice((node, None, OPERATOR)), dice.choice((0.1, 0.3, 0.6)), length)
        case 4:
            return StoreErrors(at, dice.choice((node, node, None, OPERATOR)), 1.0, length)
        case 5:
            return StopNode(at, node, length)
        case 6:
            return Namesake(at, node, length)
        case 7:
            return _lost_reply(dice, node, at, struck)
        case 8:
            return SlowReply(at, node, dice.choice(struck.calls))
        case 9 | 10:
            return HoldUp(at, dice.choice((node, node, None, OPERATOR)), length)
        case 11 | 12:
            return CrashInCall(at, node, dice.choice(struck.calls), when, length)
        case 13 | 14:
            return PauseInCall(at, node, dice.choice(struck.calls), when, length)
        case _:
            return SetClock(at, round(dice.choice((-1, 1)) * dice.choice((0.5, 3.0, 30.0)), 6))


def _lost_reply(dice: Random, node: str, at: float, struck: Struck) -> Fault:
    verbs: dict[str | None, Sequence[str]] = {node: struck.calls, None: ("jobs.enqueue",), OPERATOR: struck.wishes}
    whose = dice.choice((node, node, node, None, OPERATOR))
    return LoseReply(at, whose, dice.choice(verbs[whose]))
