"""Daily windows under faults: subjects over many zones whose terms change, and troubles around their cutoffs.

Cutoffs come in rushes, so that a fault at one of them meets several subjects at once. Each attempt follows a script of
its own, and many of them end just before or just after the cutoff. Then the faults stop, and one more day passes.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from oncue.errors import OncueError
from oncue.model import DEFAULT_QUEUE, WINDOWS_QUEUE, Claim, Subject
from oncue.policy import options
from oncue.policy.windows import daily
from oncue.sim.checker import Violation
from oncue.sim.driver import finish
from oncue.sim.faults import (
    OFTEN,
    WRITES,
    CrashInCall,
    CrashNode,
    DeposeLeader,
    Fault,
    HoldUp,
    LoseReply,
    PauseInCall,
    SetClock,
    StoreErrors,
    StrikeLeader,
    Struck,
    heal,
    random_fault,
)
from oncue.sim.member import Crew
from oncue.sim.operator import Operator
from oncue.sim.runs import verdict
from oncue.sim.script import Act, Deed
from oncue.sim.world import NOTICED, OPERATOR, PACE, WORLD, World
from oncue.task import Task
from oncue.verbs.schedules.declaring import Declaring

WINDOW, HOOK = "digest", "reset"
HOUR, DAY = 3600.0, 86_400.0
CREW = Crew(queues=(WINDOWS_QUEUE, DEFAULT_QUEUE), tasks=(WINDOW, HOOK))
ZONES = (
    *("UTC", "Europe/London", "Europe/Berlin", "Europe/Moscow", "Africa/Cairo", "Africa/Lagos", "Africa/Johannesburg"),
    *("Africa/Casablanca", "Asia/Tehran", "Asia/Dubai", "Asia/Kabul", "Asia/Karachi", "Asia/Kolkata"),
    *("Asia/Kathmandu", "Asia/Dhaka", "Asia/Yangon", "Asia/Bangkok", "Asia/Shanghai", "Asia/Singapore", "Asia/Tokyo"),
    *("Asia/Seoul", "Australia/Perth", "Australia/Eucla", "Australia/Darwin", "Australia/Adelaide"),
    *("Australia/Sydney", "Australia/Lord_Howe", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Kiritimati"),
    *("Pacific/Pago_Pago", "Pacific/Honolulu", "Pacific/Marquesas", "America/Anchorage", "America/Los_Angeles"),
    *("America/Denver", "America/Chicago", "America/New_York", "America/St_Johns", "America/Sao_Paulo"),
)
STARTS = tuple(
    datetime(*start, tzinfo=UTC)
    for start in ((2026, 3, 27, 9), (2026, 10, 23, 17), (2026, 6, 30, 22), (2026, 3, 6, 3), (2027, 2, 26, 12))
)
"""Shortly before clock changes of Europe and America, and before ends of months."""
OF_WINDOWS = (
    *("windows.advance", "windows.advance", "windows.due", "windows.unfinished", "jobs.apply", "jobs.apply"),
    *("windows.all", "windows.next_at", "windows.fold", "jobs.reserve"),
)
WISHES = ("windows.put", "windows.put", "windows.advance", "jobs.request_cancel", "jobs.apply")
STRUCK = Struck((*WRITES, *OFTEN, *(4 * OF_WINDOWS)), WISHES)
LATENCIES = (0.0, 0.004, 0.05)
"""On slower lines something is always on its way, and no time is quiet."""
TIMEOUT = 60.0
KEEPING = dataclasses.replace(PACE, retention=1000 * DAY, window_retention=1000 * DAY)
"""What ended a month ago is still there, so that the checker can look at it."""
AHEAD = 5.0
"""Seconds before a cutoff within which its fault may strike."""
DUE = ("06:45", "08:00", "12:30", "21:15")
SETTLING = 120.0
"""Seconds until the last attempt has ended that hangs, or takes its process along."""
OUTAGES = (600.0, 0.75 * HOUR, 1.5 * HOUR, 5 * HOUR, 14 * HOUR, 1.3 * DAY, 3.1 * DAY)
WITHIN = 10 * DAY
"""Seconds after the last fault within which every job has ended: those of the day after it, too."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a window is declared in a run."""

    length: str
    retry: str
    timeout: str
    most: int


# --- the window, and what its jobs do -------------------------------------------------------------------------------


def declare(world: World, terms: Terms) -> None:
    """Declare the window and its hook, as every worker does when it starts."""
    for operator in (world.operator, world.colleague):
        for task in _tasks(operator, terms):
            operator.tasks[task.name] = task
        operator.scheduled = [WINDOW]
    finish(Declaring(world.operator).synchronise(world.operator))
    world.history.add(WORLD, "limit", queue=WINDOWS_QUEUE, globally=terms.most)


def _tasks(operator: Operator, terms: Terms) -> tuple[Task[Any, Any], Task[Any, Any]]:
    def reset(user: str, day: date) -> None: ...

    def digest(user: str, day: date) -> None: ...

    app: Any = operator
    hook = Task(app, reset, name=HOOK, timeout="20s", max_runtime="2m")
    rule = daily(window=terms.length, retry=terms.retry)
    return hook, Task(
        app, digest, name=WINDOW, schedule=rule, timeout=terms.timeout, max_runtime="2m",
        max_concurrency=terms.most, on_cutoff=hook,
    )  # fmt: skip


class WindowScript:
    """What each attempt does follows from the seed, its subject, its day and its number."""

    def __init__(
        self, seed: int, now: Callable[[], datetime], *, deadly: float = 0.02, slow: bool = True, near: float = 0.25
    ) -> None:
        """`deadly`: how many attempts take their process along; `near`: how many end around the cutoff."""
        self._seed = seed
        self._now = now
        self._deadly = deadly
        self._slow = slow
        self._near = near
        self.in_peace = False
        """From here on no attempt hangs, or takes its process along."""

    def __call__(self, claim: Claim) -> Act:
        dice = Random(f"{self._seed} {claim.args} {claim.scheduled_for} {claim.claim_no}")
        window = options.read(claim.options).window
        if window is None or window.cutoff_at is None:
            return Act(dice.choice(("ok", "ok", "ok", "fail")), round(dice.uniform(0.0, 2.0), 6))
        left = (window.cutoff_at - self._now()).total_seconds()
        if dice.random() < self._deadly and not self.in_peace:
            return Act("crash", round(dice.uniform(0.0, 30.0), 6))
        deeds: Sequence[Deed] = ("ok", "fail", "hang", "give_up", "snooze", "skip", "cancel")
        chances = (60, 30, 0, 2, 2, 1, 1) if self.in_peace else (60, 24, 6, 2, 2, 1, 1)
        (deed,) = dice.choices(deeds, chances)
        seconds = self._seconds(dice, left)
        stubborn = dice.random() < 0.15 and seconds < TIMEOUT  # what outlives its time-out keeps its seat
        return Act(deed, seconds, round(dice.uniform(1.0, 600.0), 6), stubborn)

    def _seconds(self, dice: Random, left: float) -> float:
        """Mostly short; some attempts end just around the cutoff, and some are long."""
        kind = dice.random()
        if kind < self._near and left > 0:
            return round(max(left + dice.choice((-1, 1)) * dice.choice((0.001, 0.05, 0.6, 3.0)), 0.0), 6)
        if kind < self._near + 0.15 and self._slow:
            return round(dice.uniform(10.0, 80.0), 6)
        return round(dice.choice((0.01, 0.5, 4.0, 20.0)) * dice.random(), 6)


# --- the whole run --------------------------------------------------------------------------------------------------


def simulate_windows(
    seed: int,
    *,
    nodes: int = 3,
    subjects: int = 12,
    days: float = 2.5,
    edits: int = 14,
    outages: Sequence[int] = (0, 0, 1, 2),
) -> tuple[World, list[Violation]]:
    """Subjects over many zones, changed and removed, with troubles around their cutoffs; then a day of peace."""
    dice = Random(f"windows {seed}")
    start = dice.choice(STARTS)
    script = WindowScript(seed, lambda: world.clock.now())
    world = World(
        seed,
        pace=dataclasses.replace(PACE, windows=dice.choice((10.0, 60.0))),
        crew=CREW,
        concurrency=dice.choice((1, 2, 4)),
        script=script,
        hints=dice.choice((0.0, 0.5, 1.0)),
        latency=dice.choice(LATENCIES),
        prompt=0.8,
        own_clocks=dice.random() < 0.5,
        elide=True,
        start=start,
    )
    declare(
        world,
        Terms(*dice.choice((("60m", "10m"), ("20m", "2m"), ("6h", "40m"))), f"{TIMEOUT:g}s", dice.choice((1, 2, 4))),
    )
    names = [f"node{number}" for number in range(nodes)]
    for name in names:
        world.boot(name)
    world.run(2.0)
    rushes = _rushes(dice, start, days)
    for number in range(subjects):
        finish(world.operator.windows.add(WINDOW, f"user{number:02}", **random_terms(dice, rushes)))
    world.hint()
    disturbed = days * DAY - SETTLING
    for fault in [*_faults_around(dice, names, rushes, start), *_outages(dice, names, days, outages)]:
        if fault.at < disturbed:
            world.after(fault.at, lambda fault=fault: fault.strike(world))  # type: ignore[misc]
    for at in [_around(dice, rushes, start, 1800.0) for _ in range(dice.randint(edits // 2, edits))]:
        if at < disturbed:
            world.after(at, lambda: _meddle(world, dice, rushes, subjects))
    world.run(disturbed)
    script.in_peace = True
    world.run(SETTLING)
    heal(world)
    world.run(NOTICED)
    in_peace(world)
    return world, verdict(world, WITHIN)


class Population(NamedTuple):
    """How many users have a window, for how many days, and how many of their jobs may run at once."""

    users: int = 2000
    days: int = 30
    most: int = 20


def simulate_population(seed: int, population: Population) -> tuple[World, list[Violation]]:
    """Users in forty zones, with a crash or a late call around every cutoff that any of them has."""
    dice = Random(f"population {seed}")
    script = WindowScript(seed, lambda: world.clock.now(), deadly=0.0002, slow=False)
    world = World(
        seed, pace=KEEPING, crew=CREW, concurrency=8, script=script, hints=1.0, latency=0.004, prompt=0.8, elide=True,
        start=datetime(2026, 10, 15, tzinfo=UTC),
    )  # fmt: skip
    declare(world, Terms("60m", "10m", f"{TIMEOUT:g}s", population.most))
    names = [f"node{number}" for number in range(4)]
    for name in names:
        world.boot(name)
    world.run(2.0)
    rows = [
        {"subject": f"user{number:04}", "at": dice.choice(DUE), "tz": ZONES[number % len(ZONES)]}
        for number in range(population.users)
    ]
    finish(world.operator.windows.add_many(WINDOW, rows))
    world.hint()
    _Cutoffs(world, dice, names, world.clock.now() + timedelta(days=population.days)).look()
    world.run(population.days * DAY)
    script.in_peace = True
    world.run(SETTLING)
    heal(world)
    in_peace(world, 1.0)
    return world, verdict(world, WITHIN)


def outcomes_of(world: World) -> dict[str, int]:
    """What the days of a run came to, and what it went through."""
    found = Counter[str]()
    for event in world.history.events:
        if event.kind == "finalize":
            found[f"days {event.fields['reason'] or event.fields['status']}"] += 1
        elif event.kind in ("start", "fault"):
            found["attempts" if event.kind == "start" else "faults"] += 1
    return dict(sorted(found.items()))


class _Cutoffs:
    """Looks out for the next cutoff of any subject, and lets something go wrong around it."""

    def __init__(self, world: World, dice: Random, names: Sequence[str], end: datetime) -> None:
        self._world = world
        self._dice = dice
        self._names = names
        self._end = end

    def look(self) -> None:
        now = self._world.clock.now()
        soon = finish(self._world.store.next_cutoff(now + timedelta(seconds=AHEAD)))
        if soon is None or soon >= self._end:
            return
        at = (soon - now).total_seconds() + self._dice.uniform(-3.0, 2.0)
        fault = fault_around(self._dice, self._names, at)
        self._world.after(fault.at, lambda: fault.strike(self._world))
        self._world.at(soon, self.look)


def in_peace(world: World, days: float = 1.1) -> None:
    """One more day, in which every opening and every cutoff is in time; then the subjects leave, and all jobs end."""
    world.run(days * DAY)
    while found := finish(world.operator.windows.subjects(WINDOW, limit=1000)):
        for subject in found:
            world.errand(world.operator.windows.remove(WINDOW, subject.name))
        world.run(1.0)
    world.hint()
    world.run_until(world.drained, HOUR, look=5.0)
    world.run(2.0)


def _rushes(dice: Random, start: datetime, days: float) -> list[datetime]:
    """The instants at which many cutoffs are: whole minutes, a few in a day, the same every day."""
    first = start.replace(second=0, microsecond=0) + timedelta(hours=2)
    minutes = sorted(dice.sample(range(0, 1440, 5), 3))
    return [first + timedelta(days=day, minutes=minute) for day in range(int(days) + 1) for minute in minutes]


def random_terms(dice: Random, rushes: Sequence[datetime]) -> dict[str, Any]:
    """A subject whose cutoff is in one of the rushes, wherever it lives."""
    tz = dice.choice(ZONES)
    local = dice.choice(rushes).astimezone(ZoneInfo(tz))
    terms: dict[str, Any] = {"at": f"{local:%H:%M}", "tz": tz}
    if dice.random() < 0.2:
        terms["weekdays"] = dice.choice(("MON-FRI", "SAT,SUN", "MON,WED,FRI,SUN"))
    if dice.random() < 0.2:
        terms["days_off"] = [(local + timedelta(days=dice.randint(-1, 1))).date()]
    return terms


# --- faults ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TotalOutage:
    """Nothing runs for a while: all processes are gone, or none of them reaches the database."""

    at: float
    nodes: Sequence[str]
    length: float
    dead: bool

    def strike(self, world: World) -> None:
        # A host that cannot ask for the time for hours is seconds off, which no promise allows for.
        dead = self.dead or world.own_clocks
        for name in self.nodes:
            fault = CrashNode(0.0, name, self.length) if dead else StoreErrors(0.0, name, 1.0, self.length)
            fault.strike(world)


def _around(dice: Random, rushes: Sequence[datetime], start: datetime, reach: float) -> float:
    """Shortly before or after a cutoff, or the opening before it: in seconds from the start."""
    instant = (dice.choice(rushes) - start).total_seconds() - dice.choice((0.0, 0.0, 0.0, HOUR))
    return max(instant + dice.choice((-1, 1)) * dice.choice((0.01, 1.0, 5.0, reach)) * dice.random(), 0.0)


def _faults_around(dice: Random, names: Sequence[str], rushes: Sequence[datetime], start: datetime) -> list[Fault]:
    return [
        fault_around(dice, names, _around(dice, rushes, start, 60.0)) for _ in range(dice.choice((0, 4, 8, 16, 30)))
    ]


def fault_around(dice: Random, names: Sequence[str], at: float) -> Fault:
    """Something that goes wrong around a cutoff: a crash between two calls, a late call, a leader that is stale."""
    node, length = dice.choice(names), dice.choice((0.5, 2.0, 5.0, 12.0)) * dice.uniform(0.5, 1.5)
    match dice.randrange(10):
        case 0 | 1:  # what was sent before the cutoff arrives after it
            return HoldUp(max(at - length / 2, 0.0), dice.choice((node, node, OPERATOR)), length)
        case 2:
            return CrashInCall(at, node, dice.choice(OF_WINDOWS), dice.choice(("before", "after")), length)
        case 3:
            return PauseInCall(at, node, dice.choice(OF_WINDOWS), dice.choice(("before", "after")), length)
        case 4:
            how = dice.choice(("crash", "pause", "partition"))
            return StrikeLeader(at, how, length)  # type: ignore[arg-type]
        case 5:
            return DeposeLeader(at)
        case 6:
            return LoseReply(at, node, dice.choice(OF_WINDOWS))
        case 7:
            return SetClock(at, round(dice.choice((-1, 1)) * dice.choice((0.5, 3.0, 30.0)), 6))
        case _:
            return random_fault(dice, node, at, PACE.lease, STRUCK)


def _outages(dice: Random, names: Sequence[str], days: float, most: Sequence[int]) -> list[Fault]:
    """In every second run: for a part of a window, for the whole of it, or for days."""
    return [
        TotalOutage(dice.uniform(0, days * DAY), names, dice.choice(OUTAGES), dice.random() < 0.7)
        for _ in range(dice.choice(most))
    ]


# --- operators ------------------------------------------------------------------------------------------------------


def _meddle(world: World, dice: Random, rushes: Sequence[datetime], subjects: int) -> None:
    """An operator changes a subject, removes it, adds it again, or runs its day now."""
    windows, name = world.colleague.windows, f"user{dice.randrange(subjects):02}"
    terms = random_terms(dice, rushes)
    deeds: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: windows.change(WINDOW, name, at=terms["at"]),
        lambda: windows.change(WINDOW, name, tz=terms["tz"]),
        lambda: windows.change(WINDOW, name, **terms),
        lambda: windows.add(WINDOW, name, **terms),
        lambda: windows.add_many(WINDOW, [{"subject": name, **terms}, {"subject": f"{name}+", **terms}]),
        lambda: windows.remove(WINDOW, name),
        lambda: _removed_and_added(world, name, terms, dice.choice((0.0, 2.0, 1200.0))),
        lambda: windows.run_now(WINDOW, name),
        lambda: windows.run_now(WINDOW, name),
        lambda: _cancelled(world, name),
    ]
    world.errand(dice.choice(deeds)())


async def _removed_and_added(world: World, name: str, terms: dict[str, Any], later: float) -> None:
    windows = world.colleague.windows
    known: Subject | None = None
    with contextlib.suppress(OncueError):
        known = await windows.subject(WINDOW, name)
        await windows.remove(WINDOW, name)
    if known is not None and later:
        world.after(later, lambda: world.errand(windows.add(WINDOW, name, **terms)))
    else:
        await windows.add(WINDOW, name, **terms)


async def _cancelled(world: World, name: str) -> None:
    """An operator cancels the job of a day."""
    subject = await world.colleague.windows.subject(WINDOW, name)
    if subject.job_id is not None:
        await world.colleague.jobs.cancel(subject.job_id)
