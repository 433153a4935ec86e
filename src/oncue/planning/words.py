"""What the figures mean, in sentences. The first says whether there are enough nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

from oncue.planning.capacity import PROCESSES, Capacity
from oncue.planning.figures import Figures, ScheduleFigures, Trouble
from oncue.planning.spans import moment
from oncue.policy.durations import describe

Tone: TypeAlias = Literal["good", "bad", "note"]
MOST_TROUBLES = 3
MOST_SCHEDULES = 5


class Sentence(NamedTuple):
    tone: Tone
    text: str


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def about(seconds: float) -> str:
    """A duration for people: 200 ms, 38 min, 2.5 h."""
    if seconds < 0.0005:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{_short(seconds / size)} {name}"
    return f"{_short(seconds)} s"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")


def clock(instant: datetime) -> str:
    return f"{instant:%a %Y-%m-%d %H:%M}"


def percent(share: float) -> str:
    """A share, with a digit after the point where it is small. What is more than nothing is not told as nothing."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{share * 100:.0f} %" if share >= 0.0995 or share == 0 else f"{share * 100:.1f} %"


def sentences(figures: Figures) -> list[Sentence]:
    return [
        *_closed(figures),
        *_enough(figures),
        *_spells(figures),
        *_slots(figures),
        *_ends(figures),
    ]


def _closed(figures: Figures) -> Iterator[Sentence]:
    closed = _unserved(figures)
    if closed:
        their = "its" if len(closed) == 1 else "their"
        yield Sentence("bad", f"No node serves {listed(closed)} (--queues): {their} jobs never run.")


def _unserved(figures: Figures) -> list[str]:
    return sorted({task.queue for task in figures.tasks} - set(figures.scenario.queues))


# --- nodes ----------------------------------------------------------------------------------------------------------


def _enough(figures: Figures) -> Iterator[Sentence]:
    scenario, capacity = figures.scenario, figures.capacity
    if not figures.jobs:
        yield Sentence("note", "Nothing ran: no slot of a schedule and none of --arrivals comes in this time.")
        return
    yield _verdict(figures)
    if not figures.kept and not capacity.held_up_by:
        yield from _narrow(capacity.narrow)
    there = f"there {'is' if scenario.seats == 1 else 'are'} {scenario.seats:,}"
    seats = f"{plural(capacity.peak, 'seat')} at once would leave nobody waiting; {there}"
    when = clock(moment(scenario.start, capacity.peak_at)) + (", after an outage" if capacity.peak_after_outage else "")
    yield Sentence("note", f"The peak is on {when}: {seats}.")
    share, hour = figures.busiest
    busiest = f"{percent(share)} in the busiest hour, from {clock(moment(scenario.start, hour))}"
    yield Sentence("note", f"Seats in use: {percent(figures.utilisation)} on average, {busiest}.")


def _narrow(lanes: Sequence[str]) -> Iterator[Sentence]:
    """More nodes are one cure where process seats or limits are what is short; there is a cheaper one."""
    if not lanes:
        return
    keep = "keep" if PROCESSES in lanes or len(lanes) > 1 else "keeps"
    cures = sorted({"more --processes" if lane == PROCESSES else "a higher --limit" for lane in lanes})
    short = _held_up(lanes)
    yield Sentence("note", f"{short[0].upper()}{short[1:]} alone {keep} jobs waiting: {listed(cures)} would help too.")


def _verdict(figures: Figures) -> Sentence:
    scenario, capacity = figures.scenario, figures.capacity
    target = _target(figures)
    if figures.kept and (capacity.for_all is None or capacity.for_all >= scenario.nodes):
        return _is_enough(figures, "")
    if capacity.too_few is not None:
        return _never_enough(figures, capacity.too_few)
    if capacity.for_all is None:
        held = f"{_held_up(capacity.held_up_by)} would keep jobs waiting beyond {target}{_without(figures)}"
        return Sentence("bad", f"More nodes do not help: {held}.")
    enough, here = plural(capacity.for_all, "node"), plural(scenario.nodes, "node")
    is_, has = ("is", "has") if scenario.nodes == 1 else ("are", "have")
    if capacity.for_all > scenario.nodes:
        besides = _besides(figures)
        cure = f"{enough} would start every job within {target}{_most(capacity)}{besides}{_without(figures)}"
        return Sentence("bad", f"{here} {is_} too few: {cure}.")
    if not figures.kept:
        return Sentence("bad", f"{here} {has} seats enough, and yet some jobs waited for longer than {target}.")
    return _is_enough(figures, f"; {enough} would do")


def _is_enough(figures: Figures, fewer: str) -> Sentence:
    scenario = figures.scenario
    here = f"{plural(scenario.nodes, 'node')} {'is' if scenario.nodes == 1 else 'are'}"
    every = "every other job" if _unserved(figures) else "every job"
    within = f"within {_target(figures)}{_besides(figures)}"
    return Sentence("good", f"{here} enough to start {every} {within}{fewer}.")


def _never_enough(figures: Figures, nodes: int) -> Sentence:
    """The arithmetic knew a number, and it was tried, and larger ones."""
    scenario, here = figures.scenario, plural(figures.scenario.nodes, "node")
    is_ = "is" if scenario.nodes == 1 else "are"
    waited = next(one.waits.max for one in figures.capacity.choices if one.nodes == nodes)
    late = f"wait for {about(waited)}" if waited > scenario.target else "are given up before they begin"
    more = f"{here} {is_} too few" + (f", and so are {nodes:,}" if nodes > scenario.nodes else "")
    likely = figures.capacity.likely
    cure = f"; by arithmetic it takes about {likely:,} nodes" if likely is not None and likely > nodes else ""
    return Sentence("bad", f"{more}: some jobs {late}{_besides(figures)}{cure}.")


def _target(figures: Figures) -> str:
    scenario = figures.scenario
    hasty = any(scenario.patience.get(task.name, scenario.target) < scenario.target for task in figures.tasks)
    return describe(scenario.target) + (", and before it is given up" if hasty else "")


def _besides(figures: Figures) -> str:
    return ", the time of outages not counted" if any(trouble.outage for trouble in figures.troubles) else ""


def _without(figures: Figures) -> str:
    """What would do if nothing piled up in outages, where that is less."""
    usual, enough = figures.capacity.without_outages, figures.capacity.for_all
    if not figures.scenario.outages or usual is None or (enough is not None and usual >= enough):
        return ""
    return f"; without outages, about {plural(usual, 'node')} would do"


def _most(capacity: Capacity) -> str:
    if capacity.for_most is None or capacity.for_all is None or capacity.for_most >= capacity.for_all:
        return ""
    return f", about {plural(capacity.for_most, 'node')} 99 % of them"


def _held_up(by: Sequence[str]) -> str:
    lanes = ["the process seats" if lane == PROCESSES else f"the limit of queue {lane}" for lane in by]
    return " and ".join(lanes) or "limits"


# --- waiting --------------------------------------------------------------------------------------------------------


def _spells(figures: Figures) -> Iterator[Sentence]:
    own = [trouble for trouble in figures.troubles if not trouble.outage]
    after = [trouble for trouble in figures.troubles if trouble.outage]
    for troubles, why in ((own, ""), (after, " around an outage")):
        for trouble in _worst(troubles):
            yield Sentence("bad", _spell(figures, trouble, why))
        if len(troubles) > MOST_TROUBLES:
            more = f"{len(troubles) - MOST_TROUBLES:,} more such times{why}"
            yield Sentence("bad", f"There were {more}, none of them worse.")


def _worst(troubles: Sequence[Trouble]) -> list[Trouble]:
    """The worst ones, in the order of time."""
    worst = sorted(troubles, key=lambda trouble: (-trouble.longest * trouble.waiting, trouble.span))[:MOST_TROUBLES]
    return sorted(worst, key=lambda trouble: trouble.span)


def _spell(figures: Figures, trouble: Trouble, why: str) -> str:
    start = moment(figures.scenario.start, trouble.span.start)
    end = _minute_after(moment(figures.scenario.start, trouble.span.end))
    until = f"{end:%H:%M}" if start.date() == end.date() else clock(end)
    waited = f"up to {plural(trouble.waiting, 'job')} waited, the longest for {about(trouble.longest)}"
    return f"From {clock(start)} to {until}{why}, {waited}."


def _minute_after(instant: datetime) -> datetime:
    """The first whole minute that is not earlier: what has ended by then has ended."""
    begun = timedelta(seconds=instant.second, microseconds=instant.microsecond)
    return instant - begun + timedelta(minutes=1) if begun else instant


# --- slots and ends -------------------------------------------------------------------------------------------------


def _slots(figures: Figures) -> Iterator[Sentence]:
    gone = {schedule.name: _gone(schedule) for schedule in figures.schedules if _gone(schedule)}
    named = sorted(gone, key=lambda name: (-gone[name], name))[:MOST_SCHEDULES]
    for schedule in figures.schedules:
        if schedule.name in named:
            slots = f"{gone[schedule.name]:,} of its {plural(schedule.slots, 'slot')}"
            yield Sentence("bad", f"Schedule {schedule.name} did not run for {slots} ({_counts(schedule.lost)}).")
    if rest := len(gone) - len(named):
        others = sum(gone.values()) - sum(gone[name] for name in named)
        yield Sentence("bad", f"{plural(rest, 'more schedule')} did not run for {plural(others, 'slot')} in all.")


def _gone(schedule: ScheduleFigures) -> int:
    return sum(count for what, count in schedule.lost.items() if what != "coalesced")


def _ends(figures: Figures) -> Iterator[Sentence]:
    failed, left = figures.ends["failed"], figures.left.total()
    if failed:
        yield Sentence("bad", f"{plural(failed, 'job')} failed for good, with no retry left.")
    if skipped := figures.skipped.total():
        yield Sentence("bad", f"{_were(skipped)} skipped ({_counts(figures.skipped)}).")
    if left:
        yield Sentence("note", f"{_were(left)} not finished at the end ({_counts(figures.left)}).")


def _were(jobs: int) -> str:
    return f"{plural(jobs, 'job')} {'was' if jobs == 1 else 'were'}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))


def listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
