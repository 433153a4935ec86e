"""How many nodes the work needs: the same demand, served by ever more seats, until no job waits for too long.

This is arithmetic, not the engine: a job that is due takes a free seat at once, the most urgent first. Limits of queues
are kept, so more nodes do not help where a limit is what makes jobs wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from oncue.planning.recorder import Order, Run
from oncue.planning.scenario import Scenario, Span, within
from oncue.planning.series import Percentiles, Series, percentiles

PROCESSES = "in processes"
"""The name of the limit on tasks that run in processes. Every other limit has the name of its queue."""
NEVER = float("inf")


class Demand(NamedTuple):
    """An attempt that wants a seat."""

    due: float
    priority: int
    order: Order
    seconds: float
    limits: tuple[str, ...]
    """The names of the limits that count it."""
    longest_wait: float = NEVER
    """If it waits for longer than this, it is given up."""

    def is_given_up(self, waited: float) -> bool:
        return round(waited, 6) > self.longest_wait


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

    nodes_for_all: int | None
    nodes_for_99_percent: int | None
    """What keeps 99 % of the attempts within the target."""
    nodes_without_outages: int | None
    """What keeps the target where nothing piles up in outages. The same as for all if there are none."""
    peak_seats: int
    """So many seats would be taken at once if there were enough of them."""
    peak_at: datetime
    peak_after_outage: bool
    """Whether it is what piled up in an outage that makes the peak so high."""
    held_up_by: tuple[str, ...]
    """The limits that keep jobs waiting on any number of nodes."""
    bottlenecks: tuple[str, ...]
    """The limits that alone keep jobs waiting on as many nodes as there are, with any number of other seats."""
    choices: tuple[Choice, ...]
    too_few: int | None = None
    nodes_by_arithmetic: int | None = None
    """What arithmetic said for `nodes_for_all`, once that was simulated."""


def demands(scenario: Scenario, run: Run, in_processes: Iterable[str]) -> list[Demand]:
    """What the run asked for in the order of time. Of queues that no node serves, only what ran."""
    apart = frozenset(in_processes)
    return sorted(
        Demand(
            one.due, one.priority, one.order, one.seconds,
            (one.queue, PROCESSES) if one.task in apart else (one.queue,),
            scenario.longest_waits.get(one.task, NEVER) if one.number == 1 else NEVER,
        )
        for one in run.attempts
        if one.ended is not None or one.queue in scenario.queues
    )  # fmt: skip


def served(demand: Sequence[Demand], seats: int, limits: Mapping[str, int]) -> list[tuple[Demand, float]]:
    """How long each waits for one of so many seats, in the order in which they get one.

    What waits for too long is given up and takes no seat. The demand is in the order in which it comes due.
    """
    found: list[tuple[Demand, float]] = []
    running: list[tuple[float, tuple[str, ...]]] = []
    ready: dict[tuple[str, ...], list[tuple[int, Order, int]]] = {}
    free = dict(limits)
    come = 0
    while come < len(demand) or any(ready.values()):
        now = min([one.due for one in demand[come : come + 1]] + [end for end, _ in running[:1]])
        while come < len(demand) and demand[come].due <= now:
            one = demand[come]
            heapq.heappush(ready.setdefault(one.limits, []), (-one.priority, one.order, come))
            come += 1
        while running and running[0][0] <= now:
            _change(free, heapq.heappop(running)[1], 1)
        while len(running) < seats and (group := _most_urgent(ready, free)) is not None:
            one = demand[heapq.heappop(ready[group])[2]]
            found.append((one, now - one.due))
            if not one.is_given_up(now - one.due):
                _change(free, group, -1)
                heapq.heappush(running, (now + one.seconds, group))
    return found


def _most_urgent(
    ready: Mapping[tuple[str, ...], Sequence[tuple[int, Order, int]]], free: Mapping[str, int]
) -> tuple[str, ...] | None:
    """The group with the most urgent attempt that its limits let start."""
    able = [group for group, waiting in ready.items() if waiting and all(free.get(limit, 1) > 0 for limit in group)]
    return min(able, key=lambda group: ready[group][0], default=None)


def _change(free: dict[str, int], limits: tuple[str, ...], by: int) -> None:
    for limit in limits:
        if limit in free:
            free[limit] += by


class _Answer(NamedTuple):
    waits: Percentiles
    none_given_up: bool
    busy: float
    """Seconds in which seats are taken."""


class _Demanded:
    """What any number of nodes would mean for a demand."""

    def __init__(self, scenario: Scenario, demand: Sequence[Demand]) -> None:
        self._scenario = scenario
        self._demand = demand
        self._known: dict[int, _Answer] = {}
        self.peak, self.peak_at = Series(Span(one.due, one.due + one.seconds) for one in demand).peak()
        per_node = [limits.per_node for limits in scenario.limits.values() if limits.per_node is not None]
        apart = [scenario.processes] if any(PROCESSES in one.limits for one in demand) else []
        self.most = max(-(-self.peak // min([*per_node, *apart, scenario.concurrency])), 1)
        """More nodes than this do not help: so many have seats for the whole peak, whatever limits it on a node."""

    def on(self, nodes: int) -> _Answer:
        if nodes not in self._known:
            found = served(self._demand, nodes * self._scenario.concurrency, _limits(self._scenario, nodes))
            ran = [one.seconds for one, waited in found if not one.is_given_up(waited)]
            waits = percentiles(min(round(waited, 6), one.longest_wait) for one, waited in found)
            self._known[nodes] = _Answer(waits, len(ran) == len(found), sum(ran))
        return self._known[nodes]

    def for_all(self) -> int | None:
        target = self._scenario.target
        return self._smallest(lambda answer: answer.waits.max <= target and answer.none_given_up)

    def for_99_percent(self) -> int | None:
        return self._smallest(lambda answer: answer.waits.p99 <= self._scenario.target)

    def held_up_by(self, nodes: int) -> tuple[str, ...]:
        """The limits for which jobs wait too long on so many nodes, however many other seats these have."""
        return tuple(
            sorted(
                name
                for name, most in _limits(self._scenario, nodes).items()
                if (own := [one for one in self._demand if name in one.limits])
                and max(waited for _, waited in served(own, len(own), {name: most})) > self._scenario.target
            )
        )

    def _smallest(self, fits: Callable[[_Answer], bool]) -> int | None:
        """The smallest number of nodes that fits, if any does. What fits a number fits larger ones."""
        low, high = 1, self.most
        if not fits(self.on(high)):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(self.on(middle)) else (middle + 1, high)
        return low


def needed(scenario: Scenario, asked: Sequence[Demand]) -> Capacity:
    """The smallest numbers of nodes that keep the target, and what their neighbours would mean.

    The clock stands still in outages: no node could have helped. What came due in one comes all at once at its end.
    """
    outages = scenario.outages
    all_at_once = _Demanded(scenario, sorted(one._replace(due=one.due - within(outages, 0, one.due)) for one in asked))
    plain = _Demanded(scenario, asked) if outages else all_at_once
    for_all, for_most, without = all_at_once.for_all(), all_at_once.for_99_percent(), plain.for_all()
    up = scenario.length - sum(span.length for span in outages)
    known = {one for one in (scenario.nodes, for_all, for_most, without) if one is not None}
    choices = []
    for nodes in sorted({near for one in known for near in (one - 1, one, one + 1) if near > 0}):
        answer = all_at_once.on(nodes)
        utilisation = answer.busy / (up * nodes * scenario.concurrency) if up > 0 else 0
        choices.append(Choice(nodes, answer.waits, utilisation))
    peak_at = all_at_once.peak_at
    for outage in outages:
        peak_at += outage.length if outage.start <= peak_at else 0.0
    return Capacity(
        for_all, for_most, without, all_at_once.peak, scenario.at(peak_at), plain.peak < all_at_once.peak,
        () if for_all is not None else all_at_once.held_up_by(all_at_once.most),
        all_at_once.held_up_by(scenario.nodes), tuple(choices),
    )  # fmt: skip


def _limits(scenario: Scenario, nodes: int) -> dict[str, int]:
    found = {PROCESSES: scenario.processes * nodes}
    for queue, limits in scenario.limits.items():
        both = (limits.globally, None if limits.per_node is None else limits.per_node * nodes)
        if known := [one for one in both if one is not None]:
            found[queue] = min(known)
    return found
