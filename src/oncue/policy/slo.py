"""The SLOs and alerts: what is read off the minutes of all nodes, what is a breach, and when it is told.

    minutes of all nodes, and the leader's sample ──► readings ──► judged: breaches in a row ──► begun, over

A reading compares one value with its threshold. A warning begins when so many evaluations in a row have found a breach,
and it is over with the first that finds none. The count is part of the stored state, so that it survives a fail-over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from oncue.model import AlertState, Figures, Minute, MinuteKind, Queue, Sample
from oncue.policy.durations import describe
from oncue.policy.minutes import minute_of, percentile, summed

TICK, SATURATION, WINDOW_DEPTH = "tick_duration", "saturation", "window_depth"
JOB, CUTOFF_RATE, PREDICTED = "job_duration", "cutoff_rate", "predicted_misses"
QUEUE_DEPTH, FAILED_RATE, RUNNING_LONG, MISSED = "queue_depth", "failed_rate", "running_long", "schedule_missed"
SLOS = (TICK, SATURATION, WINDOW_DEPTH, JOB, CUTOFF_RATE)
ALERTS = (*SLOS, PREDICTED, QUEUE_DEPTH, FAILED_RATE, RUNNING_LONG, MISSED)
MOST_TOLD = 50
"""Of one alert, so many queues, tasks or schedules are told of, the worst ones."""
PLANNER = "planner"
RISING_GAPS = 2
"""So many minutes of a rolling window may lack a sample of the depth: the lead has changed, say."""


@dataclass(frozen=True, slots=True)
class SloRules:
    """How often the watcher looks, how far back, and from which value on it warns."""

    every: float = 60.0
    """Seconds between two evaluations."""
    minutes: int = 15
    """The length of the rolling window."""
    consecutive: int = 3
    """How many breaches in a row make a warning."""
    tick_budget_ms: float = 300.0
    sat_ratio: float = 0.8
    depth_avg_max: float = 1000.0
    job_p95_max_ms: float = 30_000.0
    cutoff_rate_max: float = 0.01
    queue_depth: int = 1000
    failed_rate: float = 0.1
    running_for: float = 3600.0


class Reading(NamedTuple):
    """One value beside its threshold."""

    alert: str
    of: str
    value: float
    threshold: float
    text: str
    due_bucket: int | None = None
    is_breach: bool | None = None
    """None: it is one if the value is above the threshold."""

    @property
    def breached(self) -> bool:
        return self.value > self.threshold if self.is_breach is None else self.is_breach


class Judgement(NamedTuple):
    """What an evaluation leads to: the states that are kept, and those whose warning begins or is over."""

    states: tuple[AlertState, ...]
    begun: tuple[AlertState, ...]
    over: tuple[AlertState, ...]


def judged(known: Iterable[AlertState], readings: Iterable[Reading], rules: SloRules, now: datetime) -> Judgement:
    before = {(state.alert, state.of): state for state in known}
    states = [_judged_one(before.get((reading.alert, reading.of)), reading, rules, now) for reading in readings]
    after = {(state.alert, state.of): state for state in states}
    begun = [state for state in states if state.warned_at == now]
    ended = [
        (state, after.get(key))
        for key, state in before.items()
        if state.warned_at is not None and (key not in after or after[key].warned_at is None)
    ]
    return Judgement(tuple(states), tuple(begun), tuple(_over(was, seen) for was, seen in ended))


def _judged_one(was: AlertState | None, reading: Reading, rules: SloRules, now: datetime) -> AlertState:
    told = (reading.alert, reading.of, reading.value, reading.threshold)
    if not reading.breached:
        return AlertState(*told, due_bucket=reading.due_bucket, text=reading.text)
    breaches = 1 + (0 if was is None else was.breaches)
    since = now if was is None or was.since is None else was.since
    warned_at = None if was is None else was.warned_at
    if warned_at is None and breaches >= rules.consecutive:
        warned_at = now
    return AlertState(*told, breaches, since, warned_at, reading.due_bucket, reading.text)


def _over(was: AlertState, seen: AlertState | None) -> AlertState:
    """The warning that is over, with the value that ended it. Without one there is nothing to measure any more: the
    cutoff has passed, say, or the window is gone."""
    if seen is None:
        return was._replace(text=f"there is nothing to measure any more; last: {was.text}")
    return was._replace(value=seen.value, text=seen.text)


# --- what the rolling window holds ----------------------------------------------------------------------------------


class Rolling:
    """The minutes of all nodes in the rolling window, by what was measured."""

    def __init__(self, minutes: Sequence[Minute]) -> None:
        self._rows: dict[MinuteKind, dict[str, list[Minute]]] = defaultdict(lambda: defaultdict(list))
        for row in minutes:
            self._rows[row.kind][row.name].append(row)

    def names(self, kind: MinuteKind) -> list[str]:
        return sorted(self._rows[kind])

    def whole(self, kind: MinuteKind, name: str) -> dict[str, Any]:
        """The figures of all nodes and minutes together."""
        return summed(row.figures for row in self._rows[kind].get(name, ()))

    def by_minute(self, kind: MinuteKind, name: str) -> dict[datetime, dict[str, Any]]:
        """The figures of all nodes together, minute by minute, oldest first."""
        found: dict[datetime, list[Figures]] = defaultdict(list)
        for row in self._rows[kind].get(name, ()):
            found[row.minute].append(row.figures)
        return {minute: summed(found[minute]) for minute in sorted(found)}

    def first(self, kind: MinuteKind, name: str) -> Figures | None:
        """The oldest row: for figures that count from the beginning of time."""
        rows = self._rows[kind].get(name)
        return min(rows).figures if rows else None


def first_minute(rules: SloRules, now: datetime) -> datetime:
    """The oldest minute that an evaluation looks at. The present one is not over, and not written."""
    return minute_of(now) - timedelta(minutes=rules.minutes)


def readings(
    rolling: Rolling, sample: Sample, queues: Sequence[Queue], rules: SloRules, now: datetime
) -> list[Reading]:
    """All SLOs and alerts but the predicted misses."""
    return [
        *_ticks(rolling, rules),
        *(found for queue in rolling.names("queue") for found in _load(queue, rolling, rules)),
        *(found for window in rolling.names("window") for found in _window(window, rolling, rules)),
        *_worst(_queue_depths(queues, rules)),
        *_worst(_failed_rates(rolling, queues, rules)),
        *_worst(_long_runs(sample, rules, now)),
        *_worst(_missed(rolling, rules)),
    ]


def _worst(found: Iterable[Reading]) -> list[Reading]:
    """Those that are breached, the worst first; if none is, the one that comes nearest."""
    ordered = sorted(found, key=lambda reading: (-reading.value, reading.of))
    return [reading for reading in ordered if reading.breached][:MOST_TOLD] or ordered[:1]


# --- the five SLOs --------------------------------------------------------------------------------------------------


def _ticks(rolling: Rolling, rules: SloRules) -> list[Reading]:
    p95 = percentile(rolling.whole("tick", "").get("ms", {}), 0.95)
    if p95 is None:
        return []
    text = f"95 % of the planner's ticks take up to {p95:.0f} ms (budget {rules.tick_budget_ms:g} ms)"
    return [Reading(TICK, PLANNER, round(p95, 1), rules.tick_budget_ms, text)]


def _load(queue: str, rolling: Rolling, rules: SloRules) -> list[Reading]:
    """How full the seats of a window's queue were, and how many jobs waited."""
    whole = rolling.whole("queue", queue)
    samples = whole.get("samples", 0)
    if not samples:
        return []
    ratio, average = whole.get("full", 0) / samples, whole["depth"] / samples
    saturated = f"all seats of queue {queue} were taken in {ratio:.0%} of the samples (at most {rules.sat_ratio:.0%})"
    depths = [one["depth"] / one["samples"] for one in rolling.by_minute("queue", queue).values() if one.get("samples")]
    rises = _rises(depths, rules)
    depth = f"{average:.0f} jobs of queue {queue} wait on average (at most {rules.depth_avg_max:g})"
    if rises:
        depth += f", and ever more: {depths[0]:.0f} first, {depths[-1]:.0f} last"
    return [
        Reading(SATURATION, queue, round(ratio, 4), rules.sat_ratio, saturated),
        Reading(
            WINDOW_DEPTH, queue, round(average, 1), rules.depth_avg_max, depth,
            is_breach=rises or average > rules.depth_avg_max,
        ),
    ]  # fmt: skip


def _rises(depths: Sequence[float], rules: SloRules) -> bool:
    """Whether more waited in every minute of the window than in the one before."""
    if len(depths) < max(rules.minutes - RISING_GAPS, 2):
        return False
    return all(later > earlier for earlier, later in pairwise(depths))


def _window(window: str, rolling: Rolling, rules: SloRules) -> list[Reading]:
    whole, found = rolling.whole("window", window), []
    p95 = percentile(whole.get("ms", {}), 0.95)
    if p95 is not None:
        text = f"95 % of the attempts of {window} take up to {p95:.0f} ms (at most {rules.job_p95_max_ms:g} ms)"
        found.append(Reading(JOB, window, round(p95, 1), rules.job_p95_max_ms, text))
    missed: Mapping[str, int] = whole.get("cutoff_reached", {})
    cutoffs, successes = sum(missed.values()), sum(whole.get("success", {}).values())
    if cutoffs + successes:
        rate = cutoffs / (cutoffs + successes)
        worst = max(missed, key=lambda bucket: (missed[bucket], bucket), default=None)
        text = f"{cutoffs} of {cutoffs + successes} users of {window} reached their cutoff ({rate:.1%})"
        at = None if worst is None else int(worst)
        found.append(Reading(CUTOFF_RATE, window, round(rate, 4), rules.cutoff_rate_max, text, at))
    return found


# --- the four alerts of queues and schedules ------------------------------------------------------------------------


def _queue_depths(queues: Sequence[Queue], rules: SloRules) -> list[Reading]:
    return [
        Reading(QUEUE_DEPTH, queue.name, queue.queued, rules.queue_depth, f"{queue.queued} jobs wait in {queue.name}")
        for queue in queues
    ]


def _failed_rates(rolling: Rolling, queues: Sequence[Queue], rules: SloRules) -> list[Reading]:
    """Which share of the jobs failed that have ended since the oldest totals in the window."""
    found = []
    for queue in queues:
        first = rolling.first("totals", queue.name)
        if first is None:
            continue
        failed, succeeded = queue.failed - first["failed"], queue.succeeded - first["succeeded"]
        if failed >= 0 and succeeded >= 0 and failed + succeeded > 0:
            rate = failed / (failed + succeeded)
            text = f"{failed} of {failed + succeeded} jobs of queue {queue.name} failed ({rate:.1%})"
            found.append(Reading(FAILED_RATE, queue.name, round(rate, 4), rules.failed_rate, text))
    return found


def _long_runs(sample: Sample, rules: SloRules, now: datetime) -> list[Reading]:
    longest: dict[str, int] = {}
    for age in sample.ages:
        if age.kind == "running":
            longest[age.task] = max(longest.get(age.task, 0), round((now - age.since).total_seconds()))
    return [
        Reading(RUNNING_LONG, task, seconds, rules.running_for, f"a job of {task} has run for {describe(seconds)}")
        for task, seconds in longest.items()
    ]


def _missed(rolling: Rolling, rules: SloRules) -> list[Reading]:
    counts = {name: rolling.whole("schedule", name).get("missed", 0) for name in rolling.names("schedule")}
    return [
        Reading(MISSED, name, missed, 0, f"{missed} slots of {name} were missed: none ran in its time")
        for name, missed in counts.items()
    ]
