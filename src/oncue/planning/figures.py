"""From what happened to what an operator wants to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import NamedTuple

from oncue.planning.capacity import Capacity, Choice, demands, needed
from oncue.planning.recorder import FIRED, DueAttempt, Run
from oncue.planning.scenario import Scenario, Span, joined, within
from oncue.planning.series import Percentiles, Series, percentiles

GAP = 600.0
"""Backlogs that are no further apart than this are one to an operator."""
AFTERMATH = 60.0
HOUR = 3600.0
TRIES = 4
"""Each costs as much time as the simulation that was asked for."""
MOST_NODES = 200
"""So many nodes take a while to simulate: beyond that, and beyond what was asked for, there is arithmetic only."""


class Peak(NamedTuple):
    value: float
    at: datetime
    """When it is first so high; of an hour, when that begins."""


class Backlog(NamedTuple):
    """A time in which some job had waited for longer than the target."""

    start: datetime
    end: datetime
    waiting: int
    """How many jobs waited at once, at its worst."""
    longest: float
    """How late the last of them began, or was given up."""
    outage: bool
    """Whether there was an outage in it, or just before."""


@dataclass(frozen=True, slots=True)
class ScheduleFigures:
    """What became of a schedule's slots."""

    name: str
    slots: int
    ran: int
    late: int
    """Ran, and began later than the target."""
    latest: float
    did_not_run: Counter[str]
    """By verdict and reason."""


@dataclass(frozen=True, slots=True)
class TaskFigures:
    name: str
    queue: str
    jobs: int
    attempts: int
    retries: int
    seconds_in_seats: float
    ended: Counter[str]


@dataclass(frozen=True, slots=True)
class Figures:
    scenario: Scenario
    jobs: int
    attempts: int
    retries: int
    ended: Counter[str]
    unfinished: Counter[str]
    skipped: Counter[str]
    """Why jobs were skipped, those left out that their schedules' figures tell of."""
    utilisation: float
    busiest_hour: Peak
    """The highest share of seats in use."""
    lateness: Percentiles
    lateness_by_queue: dict[str, Percentiles]
    waiting: Series
    busy: Series
    most_waiting: Peak
    backlogs: tuple[Backlog, ...]
    schedules: tuple[ScheduleFigures, ...]
    tasks: tuple[TaskFigures, ...]
    outside_outages: Percentiles
    """How late attempts began in the queues that are served, the time of outages not counted."""
    target_met: bool
    """Whether all of these began within the target, or hardly later, and none was given up."""
    capacity: Capacity


def figures(scenario: Scenario, run: Run, queues: Mapping[str, str], in_processes: Iterable[str] = ()) -> Figures:
    """The figures of a run. `queues` says which queue each task uses."""
    began = [one for one in run.attempts if one.ended is not None]
    waiting = Series(one.wait for one in run.attempts)
    busy = Series(Span(one.until, one.ended) for one in began if one.ended is not None)
    served = [one for one in run.attempts if one.queue in scenario.queues]
    outside = percentiles(round(one.wait.length - within(scenario.outages, *one.wait), 6) for one in served)
    in_vain = [one for one in served if one.given_up is not None and not within(scenario.outages, *one.wait)]
    return Figures(
        scenario=scenario,
        jobs=run.jobs.total(),
        attempts=len(began),
        retries=sum(one.number > 1 for one in began),
        ended=sum(run.ended.values(), Counter()),
        unfinished=run.left,
        skipped=run.skipped,
        utilisation=_share(busy, scenario, Span(0.0, scenario.length)),
        busiest_hour=_busiest(scenario, busy),
        lateness=percentiles(one.wait.length for one in run.attempts),
        lateness_by_queue={
            queue: percentiles(one.wait.length for one in run.attempts if one.queue == queue)
            for queue in sorted({one.queue for one in run.attempts})
        },
        waiting=waiting,
        busy=busy,
        most_waiting=Peak(waiting.peak()[0], scenario.at(waiting.peak()[1])),
        backlogs=tuple(_backlogs(scenario, [one.wait for one in run.attempts], waiting)),
        schedules=tuple(_schedules(scenario, run)),
        tasks=tuple(_tasks(run, began, queues)),
        outside_outages=outside,
        target_met=outside.max <= scenario.target + scenario.slack and not in_vain,
        capacity=needed(scenario, demands(scenario, run, in_processes)),
    )


def _share(busy: Series, scenario: Scenario, span: Span) -> float:
    """Of the seats that there were: in an outage there are none."""
    up = span.length - within(scenario.outages, *span)
    return busy.area(*span) / (up * scenario.seats) if up > 0 else 0.0


def _busiest(scenario: Scenario, busy: Series) -> Peak:
    """Of the hours from the start on, and of the last one."""
    starts = [hour * HOUR for hour in range(int(scenario.length // HOUR))] + [max(scenario.length - HOUR, 0.0)]
    shares = ((_share(busy, scenario, Span(at, min(at + HOUR, scenario.length))), -at) for at in starts)
    share, start = max(shares)
    return Peak(share, scenario.at(-start))


def _backlogs(scenario: Scenario, waits: Sequence[Span], waiting: Series) -> Iterator[Backlog]:
    overdue = sorted(Span(one.start + scenario.target, one.end) for one in waits if one.length > scenario.target)
    number = 0
    for span in joined(overdue, GAP):
        longest = 0.0
        while number < len(overdue) and overdue[number].start <= span.end:
            longest = max(longest, overdue[number].length + scenario.target)
            number += 1
        whole = Span(span.start - scenario.target, span.end)
        outage = within(scenario.outages, whole.start - AFTERMATH, whole.end) > 0
        yield Backlog(scenario.at(whole.start), scenario.at(whole.end), waiting.peak(*whole)[0], longest, outage)


def _schedules(scenario: Scenario, run: Run) -> Iterator[ScheduleFigures]:
    first = [one for one in run.attempts if one.is_slot]
    for name, slots in sorted(run.slots.items()):
        own = [one for one in first if one.task == name]  # a declared schedule has its task's name
        late = [one.wait.length for one in own if one.ended is not None]
        lost = Counter({what: count for what, count in slots.items() if what != FIRED})
        lost.update(f"not started: {one.given_up}" for one in own if one.given_up is not None)
        after_target = sum(seconds > scenario.target for seconds in late)
        yield ScheduleFigures(name, slots.total(), len(late), after_target, max(late, default=0.0), lost)


def _tasks(run: Run, began: Sequence[DueAttempt], queues: Mapping[str, str]) -> Iterator[TaskFigures]:
    for name in sorted(run.jobs):
        own = [one for one in began if one.task == name]
        busy = sum(one.ended - one.until for one in own if one.ended is not None)
        retries = sum(one.number > 1 for one in own)
        yield TaskFigures(name, queues[name], run.jobs[name], len(own), retries, busy, run.ended.get(name, Counter()))


# --- how many nodes would do ----------------------------------------------------------------------------------------


def searched(first: Figures, simulate: Callable[[int], Figures]) -> Figures:
    """The same figures, with a number of nodes that the engine has kept the target with, according to `simulate`.

    Arithmetic gives all seats to what is due. The engine's nodes take jobs ahead and know little of each other, and
    with more nodes there is more to do: a slot that found its last run still waiting makes a job after all. So the
    number is simulated, and if it does not do, larger ones are.
    """
    if not first.attempts:
        return first
    known = {first.scenario.nodes: first}
    enough = _search(first, simulate, known)
    return replace(first, capacity=_told(first.capacity, enough, known))


def _search(first: Figures, simulate: Callable[[int], Figures], known: dict[int, Figures]) -> int | None:
    here, likely = first.scenario.nodes, first.capacity.nodes_for_all
    if likely is None and not first.target_met:
        return None
    candidate = min(likely or here, here) if first.target_met else max(likely or here, here + 1)
    for step in (2**number for number in count()):
        if first.target_met and candidate >= here:
            return here
        if len(known) > TRIES or candidate > max(MOST_NODES, here):
            break
        known[candidate] = found = simulate(candidate)
        if found.target_met:
            return candidate
        candidate = max(found.capacity.nodes_for_all or 0, candidate + step)
    return here if first.target_met else None


def _told(capacity: Capacity, enough: int | None, known: Mapping[int, Figures]) -> Capacity:
    """What the engine says takes the place of what arithmetic said."""
    failed = [nodes for nodes, found in known.items() if not found.target_met]
    late = [
        nodes
        for nodes, found in known.items()
        if found.outside_outages.p99 > found.scenario.target + found.scenario.slack
    ]
    for_most = capacity.nodes_for_99_percent
    choices = {choice.nodes: choice for choice in capacity.choices if not _is_refuted(choice, known)}
    for nodes, found in known.items():
        choices[nodes] = Choice(nodes, found.outside_outages, found.utilisation, simulated=True)
    return replace(
        capacity,
        nodes_for_all=enough,
        nodes_for_99_percent=for_most if for_most is None or for_most > max(late, default=0) else enough,
        too_few=max(failed) if enough is None and capacity.nodes_for_all is not None and failed else None,
        nodes_by_arithmetic=capacity.nodes_for_all,
        choices=tuple(choices[nodes] for nodes in sorted(choices)),
    )


def _is_refuted(choice: Choice, known: Mapping[int, Figures]) -> bool:
    """Whether arithmetic says that so many nodes keep the target, and the engine missed it with more of them."""
    return any(
        nodes > choice.nodes and choice.waits.max <= found.scenario.target < found.outside_outages.max
        for nodes, found in known.items()
        if not found.target_met
    )
