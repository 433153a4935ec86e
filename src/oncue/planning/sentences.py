"""What the figures mean, in sentences. The first says whether there are enough nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

from oncue.planning.capacity import PROCESSES
from oncue.planning.figures import Backlog, Figures
from oncue.planning.recorder import COALESCED
from oncue.policy.durations import describe

Tone: TypeAlias = Literal["good", "bad", "note"]
MOST_BACKLOGS = 3
MOST_SCHEDULES = 5
NOT_SIMULATED = (
    "handlers are not called, so what they would enqueue (add it to --arrivals), Snooze and Skip are not in these "
    "figures; neither are schedules that were made at run time."
)


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
    size, name = next((one for one in ((86400, "d"), (3600, "h"), (60, "min")) if seconds >= 2 * one[0]), (1, "s"))
    value = seconds / size
    return f"{value:.0f} {name}" if value >= 10 else f"{value:.1f} {name}".replace(".0 ", " ")


def clock(instant: datetime) -> str:
    return f"{instant:%a %Y-%m-%d %H:%M}"


def percent(share: float) -> str:
    """A share, with a digit after the point where it is small. What is more than nothing is not shown as nothing."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{share * 100:.0f} %" if share >= 0.0995 or share == 0 else f"{share * 100:.1f} %"


def listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(found.items()))


def sentences(figures: Figures) -> list[Sentence]:
    return [*_unserved(figures), *_nodes(figures), *_waiting(figures), *_slots(figures), *_ends(figures)]


def _unserved_queues(figures: Figures) -> list[str]:
    return sorted({task.queue for task in figures.tasks} - set(figures.scenario.queues))


def _unserved(figures: Figures) -> Iterator[Sentence]:
    if queues := _unserved_queues(figures):
        their = "its" if len(queues) == 1 else "their"
        yield Sentence("bad", f"No node serves {listed(queues)} (--queues): {their} jobs never run.")


# --- nodes ----------------------------------------------------------------------------------------------------------


def _nodes(figures: Figures) -> Iterator[Sentence]:
    scenario, capacity = figures.scenario, figures.capacity
    if not figures.jobs:
        yield Sentence("note", "Nothing ran: no slot of a schedule and none of --arrivals comes in this time.")
        return
    yield _verdict(figures)
    if not figures.target_met and not capacity.held_up_by and capacity.bottlenecks:
        keep = "keep" if PROCESSES in capacity.bottlenecks or len(capacity.bottlenecks) > 1 else "keeps"
        cures = {"more --processes" if one == PROCESSES else "a higher --limit" for one in capacity.bottlenecks}
        short = _limits(capacity.bottlenecks)
        told = f"{short[0].upper()}{short[1:]} alone {keep} jobs waiting: {listed(sorted(cures))} would help too."
        yield Sentence("note", told)
    when = clock(capacity.peak_at) + (", after an outage" if capacity.peak_after_outage else "")
    seats = f"{plural(capacity.peak_seats, 'seat')} at once would leave no job waiting"
    there = f"there {_is(scenario.seats)} {scenario.seats:,}"
    yield Sentence("note", f"The peak is on {when}: {seats}; {there}.")
    share, hour = figures.busiest_hour
    busiest = f"{percent(share)} in the busiest hour, from {clock(hour)}"
    yield Sentence("note", f"Seats in use: {percent(figures.utilisation)} on average, {busiest}.")


def _verdict(figures: Figures) -> Sentence:
    scenario, capacity, enough = figures.scenario, figures.capacity, figures.capacity.nodes_for_all
    here, is_ = plural(scenario.nodes, "node"), _is(scenario.nodes)
    target = _target(figures)
    besides = ", the time of outages not counted" if any(backlog.outage for backlog in figures.backlogs) else ""
    if figures.target_met:
        every = "every other job" if _unserved_queues(figures) else "every job"
        fewer = f"; {plural(enough, 'node')} would do" if enough is not None and enough < scenario.nodes else ""
        return Sentence("good", f"{here} {is_} enough to start {every} within {target}{besides}{fewer}.")
    if capacity.too_few is not None:
        return Sentence("bad", f"{here} {is_} too few{_tried_in_vain(figures, besides)}.")
    if enough is None:
        held = f"{_limits(capacity.held_up_by)} would keep jobs waiting beyond {target}{_without(figures)}"
        return Sentence("bad", f"More nodes do not help: {held}.")
    if enough <= scenario.nodes:
        has = "has" if scenario.nodes == 1 else "have"
        return Sentence("bad", f"{here} {has} seats enough, and yet some jobs waited for longer than {target}.")
    most = capacity.nodes_for_99_percent
    most_of_them = f", about {plural(most, 'node')} 99 % of them" if most is not None and most < enough else ""
    cure = f"{plural(enough, 'node')} would start every job within {target}{most_of_them}{besides}{_without(figures)}"
    return Sentence("bad", f"{here} {is_} too few: {cure}.")


def _tried_in_vain(figures: Figures, besides: str) -> str:
    most, likely = figures.capacity.too_few or 0, figures.capacity.nodes_by_arithmetic or 0
    waited = next(one.waits.max for one in figures.capacity.choices if one.nodes == most)
    late = f"wait for {about(waited)}" if waited > figures.scenario.target else "are given up before they begin"
    also = f", and so are {most:,}" if most > figures.scenario.nodes else ""
    cure = f"; by arithmetic it takes about {likely:,} nodes" if likely > most else ""
    return f"{also}: some jobs {late}{besides}{cure}"


def _target(figures: Figures) -> str:
    scenario = figures.scenario
    hasty = any(scenario.longest_waits.get(task.name, scenario.target) < scenario.target for task in figures.tasks)
    return describe(scenario.target) + (", and before it is given up" if hasty else "")


def _without(figures: Figures) -> str:
    """What would do if nothing piled up in outages, where that is less."""
    usual, enough = figures.capacity.nodes_without_outages, figures.capacity.nodes_for_all
    if not figures.scenario.outages or usual is None or (enough is not None and usual >= enough):
        return ""
    return f"; without outages, about {plural(usual, 'node')} would do"


def _limits(names: Sequence[str]) -> str:
    found = ["the process seats" if name == PROCESSES else f"the limit of queue {name}" for name in names]
    return " and ".join(found) or "limits"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


# --- waiting, slots and ends ----------------------------------------------------------------------------------------


def _waiting(figures: Figures) -> Iterator[Sentence]:
    for outage, why in ((False, ""), (True, " around an outage")):
        found = [backlog for backlog in figures.backlogs if backlog.outage is outage]
        worst = sorted(found, key=lambda one: (-one.longest * one.waiting, one.start))[:MOST_BACKLOGS]
        for backlog in sorted(worst, key=lambda one: one.start):
            yield Sentence("bad", _backlog(backlog, why))
        if more := len(found) - len(worst):
            yield Sentence("bad", f"There were {more:,} more such times{why}, none of them worse.")


def _backlog(backlog: Backlog, why: str) -> str:
    start, end = backlog.start, backlog.end
    if begun := timedelta(seconds=end.second, microseconds=end.microsecond):
        end += timedelta(minutes=1) - begun  # a whole minute by which it has ended
    until = f"{end:%H:%M}" if start.date() == end.date() else clock(end)
    waited = f"up to {plural(backlog.waiting, 'job')} waited, the longest for {about(backlog.longest)}"
    return f"From {clock(start)} to {until}{why}, {waited}."


def _slots(figures: Figures) -> Iterator[Sentence]:
    lost = [(one.did_not_run.total() - one.did_not_run[COALESCED], one) for one in figures.schedules]
    ordered = sorted((pair for pair in lost if pair[0]), key=lambda pair: (-pair[0], pair[1].name))
    named, others = ordered[:MOST_SCHEDULES], ordered[MOST_SCHEDULES:]
    for slots, one in sorted(named, key=lambda pair: pair[1].name):
        told = f"{slots:,} of its {plural(one.slots, 'slot')} ({counts(one.did_not_run)})"
        yield Sentence("bad", f"Schedule {one.name} did not run for {told}.")
    if others:
        told = f"{plural(sum(slots for slots, _ in others), 'slot')} in all"
        yield Sentence("bad", f"{plural(len(others), 'more schedule')} did not run for {told}.")


def _ends(figures: Figures) -> Iterator[Sentence]:
    if failed := figures.ended["failed"]:
        yield Sentence("bad", f"{plural(failed, 'job')} failed for good, with no retry left.")
    if skipped := figures.skipped.total():
        yield Sentence("bad", f"{_were(skipped)} skipped ({counts(figures.skipped)}).")
    if left := figures.unfinished.total():
        yield Sentence("note", f"{_were(left)} not finished at the end ({counts(figures.unfinished)}).")


def _were(jobs: int) -> str:
    return f"{plural(jobs, 'job')} {'was' if jobs == 1 else 'were'}"


# --- beside the figures ---------------------------------------------------------------------------------------------


def notes(
    figures: Figures, queues: Mapping[str, str], scheduled: Collection[str], ruled: Collection[str] = ()
) -> list[str]:
    """What a reader should know about what the figures rest on. The retries of `ruled` follow a function."""
    scenario = figures.scenario
    coming = {stream.task for stream in scenario.arrivals} | set(scheduled)
    found = [] if queues else ["the application declares no tasks: is the module imported that has them?"]
    if guessed := [name for name in scenario.assumed if name in coming]:
        verb = "takes" if len(guessed) == 1 else "take"
        found.append(f"--durations does not say how long {listed(guessed)} {verb}: 1s is assumed.")
    if idle := [name for name in queues if name not in coming]:
        found.append(f"{listed(idle)} never ran: without a schedule, and without --arrivals.")
    due = {schedule.name for schedule in figures.schedules}
    if silent := [name for name in scheduled if name not in due]:
        found.append(f"{listed(silent)} {'has' if len(silent) == 1 else 'have'} no slot in this time.")
    for stream in scenario.arrivals:
        if not stream.expected(scenario.start, scenario.length):
            found.append(f"{stream} never comes in this time.")
    if unknown := [name for name in ruled if name in coming and scenario.failures.get(name)]:
        rule = f"the retry rule of {listed(unknown)} is a function, which is not called"
        found.append(f"{rule}: the usual backoff is assumed.")
    return [*found, NOT_SIMULATED]
