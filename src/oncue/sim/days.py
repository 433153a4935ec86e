"""Days of a cluster's life: its schedules, its clients, and a fault in every hour. Nights cost nothing.

The pace is the one of production. Most jobs come from schedules that share their minutes, as cron's do; the others
come from clients, a few at a time. Each schedule's and each client's jobs have a script of their own: short or long,
sound or failing, some that hang, and now and then one that takes its process along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from oncue.engine.node import Pace
from oncue.policy.options import Options
from oncue.policy.retry import Exponential
from oncue.policy.triggers import cron
from oncue.sim.checker import Violation
from oncue.sim.driver import finish
from oncue.sim.faults import Fault, StrikeLeader, heal, random_fault
from oncue.sim.runs import verdict
from oncue.sim.script import Act, Deed
from oncue.sim.world import World

DAY, HOUR = 86_400.0, 3_600.0
PACE = Pace(retention=100_000 * DAY, ledger_retention=100_000 * DAY)
OPTIONS = Options(timeout=120.0, max_runtime=600.0, retry=Exponential("20s", cap="10m"))
RECOVERY = 3 * HOUR
"""Long enough for the last retries of what failed."""

# How many of forty schedules have which rule, and how often it comes in a day.
RULES: tuple[tuple[int, str, float], ...] = (
    (4, "*/10 * * * *", 144),
    (6, "*/30 * * * *", 48),
    (10, "{minute} * * * *", 24),
    (4, "@every 6h", 4),
    (8, "{minute} {hour} * * *", 1),
    (4, "{minute} {hour} * * mon-fri", 0.7),
    (2, "{minute} {hour} * * sun", 0.15),
    (2, "{minute} {hour} 1 * *", 0.03),
)
ZONES = ("UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")


@dataclass(frozen=True, slots=True)
class Life:
    """How much goes on."""

    days: float = 1.0
    nodes: int = 5
    schedules: int = 40
    jobs: int = 1_500
    """In a day, from schedules and clients together."""
    faults: float = 1.0
    """In an hour."""


def simulate_days(seed: int, life: Life = Life()) -> tuple[World, list[Violation]]:
    """Live through these days under faults, then without; what was not kept of the promises."""
    world = live(seed, life)
    settle_down(world)
    return world, verdict(world, RECOVERY + 4 * PACE.lease)


def live(seed: int, life: Life) -> World:
    """The days themselves, faults and all."""
    dice = Random(f"days {seed}")
    world = World(
        seed,
        pace=PACE,
        concurrency=dice.choice((4, 8, 16)),
        hints=0.9,
        latency=0.004,
        prompt=0.8,
        own_clocks=True,
        elide=True,
    )
    names = [f"node{number}" for number in range(life.nodes)]
    for name in names:
        world.boot(name)
    world.run(10.0)
    per_day = _make_schedules(world, dice, life.schedules)
    end = world.clock.now() + timedelta(days=life.days)
    _Clients(world, dice, max(life.jobs - per_day, 0.0), end).call()
    if life.faults:
        _Troubles(world, dice, names, life.faults, end).begin()
    world.run(life.days * DAY)
    return world


def settle_down(world: World) -> None:
    """Faults stop: within three leases one node leads and no slot waits; then everything ends."""
    heal(world)
    world.run(3 * world.pace.lease)
    world.calm()
    for schedule in finish(world.store.schedules.page(limit=1_000)):
        finish(world.operator.schedules.toggle(schedule.name, False))
    world.run_until(world.drained, RECOVERY, look=10.0)
    world.run(1.0)


def _make_schedules(world: World, dice: Random, wanted: int) -> float:
    """Make the schedules; how many jobs they make in a day."""
    rules = [(rule, often) for count, rule, often in RULES for _ in range(count)]
    per_day = 0.0
    for number in range(wanted):
        rule, often = rules[number % len(rules)]
        words = rule.format(minute=dice.randrange(60), hour=dice.randrange(24))
        zone = "UTC" if words.startswith("@") else dice.choice(ZONES)
        world.schedule(
            f"schedule {number}", cron(words, tz=zone), *_acts(dice, deadly=often <= 1),
            options=OPTIONS, max_retries=dice.choice((0, 2, 4)),
            missed=dice.choice(("latest", "each", "none")), grace=dice.choice((60.0, 300.0, HOUR)),
            max_instances=dice.choice((1, 1, 2, 10)),
        )  # fmt: skip
        per_day += often
    return per_day


def _acts(dice: Random, *, deadly: bool = True) -> list[Act]:
    """A script. What comes every few minutes is not deadly: its crashes would be more than all other faults."""
    before: Sequence[Deed] = dice.choices(("fail", "hang", "snooze", "crash"), (16, 2, 2, 1 if deadly else 0), k=1)
    seconds = dice.choice((0.02, 2.0, 30.0))
    acts = [Act(before[0], seconds, after=30.0, stubborn=dice.random() < 0.1)] if dice.random() < 0.1 else []
    return [*acts, Act(dice.choice(("ok", "ok", "ok", "ok", "ok", "ok", "ok", "give_up", "skip")), seconds)]


class _Clients:
    """Applications that enqueue at random moments, one job or some."""

    BATCH = (1, 2, 6, 12, 24)

    def __init__(self, world: World, dice: Random, per_day: float, end: datetime) -> None:
        self._world = world
        self._dice = dice
        self._end = end
        self._pause = DAY * (sum(self.BATCH) / len(self.BATCH)) / per_day if per_day else None

    def call(self) -> None:
        """Come by some time from now, and again."""
        if self._pause is not None:
            self._world.after(round(self._dice.expovariate(1 / self._pause), 6), self._submit)

    def _submit(self) -> None:
        if self._world.clock.now() >= self._end:
            return
        dice = self._dice
        count = dice.choice(self.BATCH)
        self._world.submit(
            self._world.batch(
                [_acts(dice) for _ in range(count)],
                options=OPTIONS,
                max_retries=dice.choice((0, 2, 4)),
                priority=dice.choice((0, 0, 50)),
                delay=dice.choice((0.0, 0.0, 0.0, 600.0)),
                keys=[f"key {dice.randrange(20)}" for _ in range(count)] if dice.random() < 0.1 else None,
            )
        )
        self.call()


class _Troubles:
    """Something goes wrong every now and then."""

    def __init__(self, world: World, dice: Random, names: Sequence[str], per_hour: float, end: datetime) -> None:
        self._world = world
        self._dice = dice
        self._names = names
        self._end = end
        self._hour = HOUR / per_hour

    def begin(self) -> None:
        """One trouble in every hour, at any moment of it."""
        if self._world.clock.now() < self._end:
            self._world.after(round(self._dice.uniform(0, self._hour), 6), self._strike)
            self._world.after(self._hour, self.begin)

    def _strike(self) -> None:
        if self._world.clock.now() < self._end:
            self._trouble().strike(self._world)

    def _trouble(self) -> Fault:
        dice, lease = self._dice, self._world.pace.lease
        if dice.random() < 0.25:
            how = dice.choice(("crash", "pause", "partition"))
            return StrikeLeader(0.0, how, round(dice.choice((0.3, 1.0, 3.0)) * lease, 6))  # type: ignore[arg-type]
        return random_fault(dice, dice.choice(self._names), 0.0, lease)
