"""From what happened to what an operator wants to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from oncue.planning.capacity import Capacity, demands, needed
from oncue.planning.records import Run, Slots, Unstarted, Work
from oncue.planning.scenario import Scenario
from oncue.planning.series import Percentiles, Series, percentiles
from oncue.planning.spans import Span, joined, within

TOGETHER = 600.0
"""Spells of waiting that are no further apart than this are one to an operator."""
AFTERMATH = 60.0
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """A spell in which some job had waited for longer than the target."""

    span: Span
    waiting: int
    """So many jobs waited at once, at its worst."""
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
    """Run, and begun later than the target."""
    latest: float
    lost: Counter[str]
    """Those that did not run, by verdict and reason."""


@dataclass(frozen=True, slots=True)
class TaskFigures:
    name: str
    queue: str
    jobs: int
    attempts: int
    retries: int
    busy: float
    """Seconds in which its attempts took a seat."""
    ends: Counter[str]


@dataclass(frozen=True, slots=True)
class Figures:
    scenario: Scenario
    jobs: int
    attempts: int
    retries: int
    ends: Counter[str]
    left: Counter[str]
    skipped: Counter[str]
    """Why jobs were skipped, those that their schedules' figures tell of left out."""
    utilisation: float
    busiest: tuple[float, float]
    """The highest share of seats in use over an hour, and when that hour began."""
    lateness: Percentiles
    by_queue: dict[str, Percentiles]
    within_target: float
    """The share of attempts that began in time."""
    waiting: Series
    busy: Series
    peak: tuple[int, float]
    """How many jobs waited at most, and when that was first so."""
    troubles: tuple[Trouble, ...]
    schedules: tuple[ScheduleFigures, ...]
    tasks: tuple[TaskFigures, ...]
    lateness_by_queue: dict[str, list[float]]
    besides_outages: Percentiles
    """How late attempts began, the time of outages not counted, in the queues that are served."""
    kept: bool
    """Whether all of these began within the target, or hardly later, and none was given up."""
    capacity: Capacity


def figures(scenario: Scenario, run: Run, queues: dict[str, str], in_processes: Iterable[str] = ()) -> Figures:
    """The figures of a run. `queues` says which queue each task uses."""
    waits = [Span(one.due, one.started) for one in run.work] + [Span(one.due, one.until) for one in run.unstarted]
    waiting = Series(waits)
    busy = Series(Span(one.started, one.ended) for one in run.work)
    late = _late(run)
    besides = percentiles(_besides_outages(scenario, run))
    every = [seconds for found in late.values() for seconds in found]
    ends: Counter[str] = Counter()
    for counted in run.ended.values():
        ends.update(counted)
    return Figures(
        scenario=scenario,
        jobs=run.jobs.total(),
        attempts=len(run.work),
        retries=sum(one.number > 1 for one in run.work),
        ends=ends,
        left=run.left,
        skipped=run.skipped,
        utilisation=_share(busy.area(), scenario, Span(0.0, scenario.length)),
        busiest=_busiest(scenario, busy),
        lateness=percentiles(every),
        by_queue={queue: percentiles(found) for queue, found in late.items()},
        within_target=sum(seconds <= scenario.target for seconds in every) / len(every) if every else 1.0,
        waiting=waiting,
        busy=busy,
        peak=waiting.peak(),
        troubles=tuple(_troubles(scenario, waits, waiting)),
        schedules=tuple(_schedules(scenario, run)),
        tasks=tuple(_tasks(run, queues)),
        lateness_by_queue=late,
        besides_outages=besides,
        kept=besides.max <= scenario.target + scenario.slack
        and not any(_is_too_late(scenario, one) for one in run.unstarted),
        capacity=needed(scenario, demands(scenario, run, in_processes)),
    )


def _late(run: Run) -> dict[str, list[float]]:
    """By queue: how late attempts began. Whoever still waits has waited for that long at least."""
    found: dict[str, list[float]] = {}
    for work in run.work:
        found.setdefault(work.queue, []).append(work.started - work.due)
    for one in run.unstarted:
        found.setdefault(one.queue, []).append(one.until - one.due)
    return {queue: sorted(found[queue]) for queue in sorted(found)}


def _besides_outages(scenario: Scenario, run: Run) -> Iterator[float]:
    for queue, due, end in (
        *((one.queue, one.due, one.started) for one in run.work),
        *((one.queue, one.due, one.until) for one in run.unstarted),
    ):
        if queue in scenario.queues:
            yield round(end - due - within(scenario.outages, due, end), 6)


def _is_too_late(scenario: Scenario, one: Unstarted) -> bool:
    """Whether it was given up because it found no seat in time, and not because of an outage or of `--queues`."""
    served = one.queue in scenario.queues
    return served and one.given_up is not None and within(scenario.outages, one.due, one.until) == 0


def _share(busy: float, scenario: Scenario, span: Span) -> float:
    """Of the seats that there were: in an outage there are none."""
    up = span.length - within(scenario.outages, *span)
    return busy / (up * scenario.seats) if up > 0 else 0.0


def _busiest(scenario: Scenario, busy: Series) -> tuple[float, float]:
    """Of the hours from the start on, and of the last one, if that is none of these."""
    whole, rest = divmod(scenario.length, HOUR)
    last = max(scenario.length - HOUR, 0.0)
    found = [Span(hour * HOUR, (hour + 1) * HOUR) for hour in range(int(whole))]
    hours = [*found, Span(last, scenario.length)] if rest else found
    busy_for = busy.areas(hours)
    shares = [(_share(seconds, scenario, hour), -hour.start) for seconds, hour in zip(busy_for, hours, strict=True)]
    share, start = max(shares)
    return share, -start


def _troubles(scenario: Scenario, waits: Sequence[Span], waiting: Series) -> Iterator[Trouble]:
    overdue = sorted(Span(one.start + scenario.target, one.end) for one in waits if one.length > scenario.target)
    number = 0
    for span in joined(overdue, TOGETHER):
        longest = 0.0
        while number < len(overdue) and overdue[number].start <= span.end:
            longest = max(longest, overdue[number].length + scenario.target)
            number += 1
        before = span.start - scenario.target - AFTERMATH
        outage = within(scenario.outages, before, span.end) > 0
        whole = Span(span.start - scenario.target, span.end)
        yield Trouble(whole, waiting.peak(*whole)[0], longest, outage)


def _schedules(scenario: Scenario, run: Run) -> Iterator[ScheduleFigures]:
    by_name: dict[str, list[Slots]] = {}
    for slots in run.slots:
        by_name.setdefault(slots.schedule, []).append(slots)
    for name in sorted(by_name):
        late = run.fired.get(name, ())
        given_up = Counter(
            f"not started: {one.given_up}"
            for one in run.unstarted
            if one.is_slot and one.task == name and one.given_up is not None
        )
        yield ScheduleFigures(
            name,
            sum(one.slots for one in by_name[name]),
            len(late),
            sum(seconds > scenario.target for seconds in late),
            max(late, default=0.0),
            _lost(by_name[name], given_up),
        )


def _lost(slots: Sequence[Slots], given_up: Counter[str]) -> Counter[str]:
    found = given_up.copy()
    for one in slots:
        if one.verdict == "coalesced":
            found["coalesced"] += one.slots  # its reason names the slot that it went into: each has another
        elif one.verdict != "fired":
            found[f"{one.verdict}: {one.reason}" if one.reason else one.verdict] += one.slots
    return found


def _tasks(run: Run, queues: dict[str, str]) -> Iterator[TaskFigures]:
    by_name: dict[str, list[Work]] = {}
    for one in run.work:
        by_name.setdefault(one.task, []).append(one)
    for name in sorted(run.jobs):
        work = by_name.get(name, [])
        busy = sum(one.ended - one.started for one in work)
        retries = sum(one.number > 1 for one in work)
        yield TaskFigures(name, queues[name], run.jobs[name], len(work), retries, busy, run.ended.get(name, Counter()))
