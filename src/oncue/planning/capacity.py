"""How many nodes the work needs: the same demand, served by ever more seats, until nobody waits for too long.

This is arithmetic, not the engine: a job that is due takes a free seat at once, the most urgent first. Limits of queues
are kept, so more nodes do not help where a limit is what makes jobs wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from oncue.planning.records import Place, Run, Unstarted, Work
from oncue.planning.scenario import Scenario
from oncue.planning.series import Percentiles, Series, percentiles
from oncue.planning.spans import Span, working

Lane: TypeAlias = str
"""Something that may be limited: a queue, or the tasks that run in processes."""

PROCESSES: Lane = "in processes"
NEVER = float("inf")
NEIGHBOURS = 2


class Demand(NamedTuple):
    """An attempt that wants a seat."""

    due: float
    priority: int
    job: Place
    seconds: float
    lanes: tuple[Lane, ...]
    patience: float = NEVER
    """If it waits for longer than this, it is given up."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a number of nodes would mean."""

    nodes: int
    waits: Percentiles
    utilisation: float
    simulated: bool = False
    """Whether the engine itself ran with so many nodes. If not, this is arithmetic."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the peak needs. A number of nodes is None where no number of them keeps the target, for `held_up_by`.

    Or, if `too_few` is there, where so many were simulated in vain, and it is not known how many would do.
    """

    for_all: int | None
    for_most: int | None
    """What keeps 99 % of the attempts within the target."""
    peak: int
    """So many seats would be taken at once if there were enough of them."""
    peak_at: float
    without_outages: int | None
    """What keeps the target where nothing piles up in outages. The same as `for_all` if there are none."""
    peak_after_outage: bool
    """Whether it is what piled up in an outage that makes the peak so high."""
    held_up_by: tuple[Lane, ...]
    choices: tuple[Choice, ...]
    too_few: int | None = None
    likely: int | None = None
    """What arithmetic says for `for_all`, once that was tried."""
    narrow: tuple[Lane, ...] = ()
    """What alone would keep jobs waiting on as many nodes as there are, with any number of other seats."""


def demands(scenario: Scenario, run: Run, in_processes: Iterable[str]) -> list[Demand]:
    """What the run asked for, of nodes that serve it: no number of others would help. In the order of time."""
    apart = frozenset(in_processes)

    def demand(one: Work | Unstarted, seconds: float, *, first: bool) -> Demand:
        lanes = (one.queue, PROCESSES) if one.task in apart else (one.queue,)
        patience = scenario.patience.get(one.task, NEVER) if first else NEVER
        return Demand(one.due, one.priority, one.job, seconds, lanes, patience)

    found = [demand(one, one.ended - one.started + one.left, first=one.number == 1) for one in run.work]
    left = [one for one in run.unstarted if one.queue in scenario.queues]
    return sorted([*found, *(demand(one, one.seconds, first=one.number == 1) for one in left)])


def waits(demand: Sequence[Demand], seats: int, limits: Mapping[Lane, int]) -> list[float]:
    """How long each has to wait for one of so many seats, in the order in which they get one."""
    return [seconds for _, seconds in served(demand, seats, limits)]


def served(demand: Sequence[Demand], seats: int, limits: Mapping[Lane, int]) -> list[tuple[Demand, float]]:
    """Who gets one of so many seats after which wait; longer than its patience: it is gone, and takes no seat.

    The demand is in the order in which it comes due.
    """
    found: list[tuple[Demand, float]] = []
    running: list[tuple[float, tuple[Lane, ...]]] = []
    ready: dict[tuple[Lane, ...], list[tuple[int, Place, int]]] = {}
    room = dict(limits)
    come = 0
    while come < len(demand) or any(ready.values()):
        now = min([one.due for one in demand[come : come + 1]] + [end for end, _ in running[:1]])
        while come < len(demand) and demand[come].due <= now:
            one = demand[come]
            heapq.heappush(ready.setdefault(one.lanes, []), (-one.priority, one.job, come))
            come += 1
        while running and running[0][0] <= now:
            _change(room, heapq.heappop(running)[1], 1)
        while len(running) < seats and (free := _first(ready, room)) is not None:
            one = demand[heapq.heappop(ready[free])[2]]
            found.append((one, now - one.due))
            if not _is_patient(one, now - one.due):
                continue
            _change(room, free, -1)
            heapq.heappush(running, (now + one.seconds, free))
    return found


def _is_patient(one: Demand, waited: float) -> bool:
    return round(waited, 6) <= one.patience


def _first(
    ready: Mapping[tuple[Lane, ...], Sequence[tuple[int, Place, int]]], room: Mapping[Lane, int]
) -> tuple[Lane, ...] | None:
    """Where the most urgent of those is that may start."""
    free = [lanes for lanes, line in ready.items() if line and all(room.get(lane, 1) > 0 for lane in lanes)]
    return min(free, key=lambda lanes: ready[lanes][0], default=None)


def _change(room: dict[Lane, int], lanes: tuple[Lane, ...], by: int) -> None:
    for lane in lanes:
        if lane in room:
            room[lane] += by


class _Answer(NamedTuple):
    waits: Percentiles
    patient: bool
    """Whether nobody was given up."""
    busy: float
    """Seconds in which seats are taken."""


class _Served:
    """What any number of nodes would mean for a demand."""

    def __init__(self, scenario: Scenario, demand: Sequence[Demand]) -> None:
        self._scenario = scenario
        self._demand = demand
        self._known: dict[int, _Answer] = {}
        self.peak, self.peak_at = Series(Span(one.due, one.due + one.seconds) for one in demand).peak()
        self.most = max(-(-self.peak // _narrowest(scenario, demand)), 1)

    def by(self, nodes: int) -> _Answer:
        if nodes not in self._known:
            found = served(self._demand, nodes * self._scenario.concurrency, _limits(self._scenario, nodes))
            seated = [one.seconds for one, waited in found if _is_patient(one, waited)]
            waits = percentiles(min(round(waited, 6), one.patience) for one, waited in found)
            self._known[nodes] = _Answer(waits, len(seated) == len(found), sum(seated))
        return self._known[nodes]

    def for_all(self) -> int | None:
        return _smallest(
            self.most, lambda nodes: self.by(nodes).waits.max <= self._scenario.target and self.by(nodes).patient
        )

    def for_most(self) -> int | None:
        return _smallest(self.most, lambda nodes: self.by(nodes).waits.p99 <= self._scenario.target)


def needed(scenario: Scenario, asked: Sequence[Demand]) -> Capacity:
    """The smallest numbers of nodes that keep the target, and what their neighbours would mean.

    The clock stands still in outages: no node could have helped. What came due in one comes all at once at its end.
    """
    demand = sorted(one._replace(due=working(scenario.outages, one.due)) for one in asked)
    served = _Served(scenario, demand)
    plain = _Served(scenario, asked) if scenario.outages else served
    for_all, for_most, without = served.for_all(), served.for_most(), plain.for_all()
    up = scenario.length - sum(span.length for span in scenario.outages)
    choices = [
        Choice(
            nodes, served.by(nodes).waits, served.by(nodes).busy / (up * nodes * scenario.concurrency) if up > 0 else 0
        )
        for nodes in sorted(_shown(scenario.nodes, for_all, for_most, without))
    ]
    held_up_by = () if for_all is not None else _guilty(scenario, demand, served.most)
    return Capacity(
        for_all, for_most, served.peak, _on_the_clock(scenario.outages, served.peak_at), without,
        plain.peak < served.peak, held_up_by, tuple(choices), narrow=_guilty(scenario, demand, scenario.nodes),
    )  # fmt: skip


def _limits(scenario: Scenario, nodes: int) -> dict[Lane, int]:
    found = {PROCESSES: scenario.processes * nodes}
    for queue, limits in scenario.limits.items():
        together = [] if limits.globally is None else [limits.globally]
        together += [] if limits.per_node is None else [limits.per_node * nodes]
        if together:
            found[queue] = min(together)
    return found


def _narrowest(scenario: Scenario, demand: Sequence[Demand]) -> int:
    """What a node adds at least, in whichever lane it adds least: with peak by this, no more nodes help."""
    per_node = [limits.per_node for limits in scenario.limits.values() if limits.per_node is not None]
    apart = [scenario.processes] if any(PROCESSES in one.lanes for one in demand) else []
    return min([*per_node, *apart, scenario.concurrency])


def _smallest(most: int, fits: Callable[[int], bool]) -> int | None:
    """The smallest number from 1 to `most` that fits, if any does. What fits a number fits larger ones."""
    if not fits(most):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def _shown(nodes: int, *enough: int | None) -> Iterator[int]:
    interesting = {nodes, *(one for one in enough if one is not None)}
    return (number for number in range(1, max(interesting) + NEIGHBOURS) if _near(number, interesting))


def _near(number: int, interesting: Iterable[int]) -> bool:
    return any(abs(number - one) < NEIGHBOURS for one in interesting)


def _guilty(scenario: Scenario, demand: Sequence[Demand], nodes: int) -> tuple[Lane, ...]:
    """The limited lanes in which jobs wait for too long on so many nodes, however many other seats these have."""
    limits = _limits(scenario, nodes)
    return tuple(sorted(lane for lane, most in limits.items() if _is_late(scenario, demand, lane, most)))


def _is_late(scenario: Scenario, demand: Sequence[Demand], lane: Lane, most: int) -> bool:
    own = [one for one in demand if lane in one.lanes]
    return max(waits(own, len(own), {lane: most}), default=0.0) > scenario.target


def _on_the_clock(outages: Sequence[Span], instant: float) -> float:
    """When it was, by a clock that goes on, that one which stands still in outages said this: not in one."""
    for outage in outages:
        if outage.start <= instant:
            instant += outage.length
    return instant
