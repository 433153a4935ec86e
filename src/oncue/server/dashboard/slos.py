"""The SLOs and alerts that the leader watches: what each is about, what to do, and how it went lately."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from oncue.model import AlertBook, AlertState, Minute, Schedule
from oncue.policy import slo
from oncue.policy.minutes import percentile
from oncue.policy.slo import Rolling, SloRules
from oncue.server.dashboard.rendering import count, milliseconds, shell
from oncue.server.dashboard.rendering import duration as length

Show: TypeAlias = Callable[[float], str]
Points: TypeAlias = Sequence[tuple[datetime, float]]

LASTING = timedelta(hours=1)
"""How far back the lines go."""
WIDTH, HEIGHT = 120.0, 28.0


def percent(value: float) -> str:
    return f"{value:.1%}".replace("%", " %")


class AlertKind(NamedTuple):
    """One SLO or alert, whatever it is of."""

    alert: str
    title: str
    group: str
    show: Show
    breach: Callable[[SloRules], str]
    """What is a breach, in words."""
    advice: str
    command: Callable[[str], str]
    """What to type, by what it is of."""


SLOS, ALERTS = "SLOs of daily windows", "Alerts of queues, tasks and schedules"

KINDS = (
    AlertKind(slo.PREDICTED, "Predicted misses", SLOS, count,
         lambda rules: f"at the present rate over {percent(rules.cutoff_rate_max)} of an open cutoff's users miss it",
         "Act now: more seats, or mend what fails.", lambda of: shell("oncue windows", of)),
    AlertKind(slo.CUTOFF_RATE, "Cutoffs reached", SLOS, percent,
         lambda rules: f"over {percent(rules.cutoff_rate_max)} of the days ended as cutoff_reached",
         "See which cutoffs, then explain one of their subjects.", lambda of: shell("oncue windows", of)),
    AlertKind(slo.SATURATION, "Seats taken", SLOS, percent,
         lambda rules: f"all seats were taken in over {percent(rules.sat_ratio)} of the samples",
         "Give the queue more seats, and start workers with room for them.",
         lambda of: f"{shell('oncue queues limit', of)} --global N"),
    AlertKind(slo.WINDOW_DEPTH, "Jobs of windows that wait", SLOS, count,
         lambda rules: f"over {rules.depth_avg_max:,g} jobs waited on average, or ever more",
         "Is the queue paused, or served by no worker? Else it needs more seats.", lambda of: "oncue queues"),
    AlertKind(slo.JOB, "Attempt duration, 95 %", SLOS, milliseconds,
         lambda rules: f"95 % of the attempts take up to over {milliseconds(rules.job_p95_max_ms)}",
         "What the handler calls is slow. Give the task a time-out.",
         lambda of: shell("oncue jobs", task=of, limit=10)),
    AlertKind(slo.TICK, "Planner's tick, 95 %", SLOS, milliseconds,
         lambda rules: f"95 % of the ticks take up to over {milliseconds(rules.tick_budget_ms)}",
         "The database is slow, or far. Look at its load at full hours.", lambda of: "oncue doctor"),
    AlertKind(slo.QUEUE_DEPTH, "Jobs that wait", ALERTS, count,
         lambda rules: f"over {rules.queue_depth:,} jobs wait in a queue",
         "Is the queue paused, or served by too few workers?", lambda of: "oncue queues"),
    AlertKind(slo.FAILED_RATE, "Jobs that failed", ALERTS, percent,
         lambda rules: f"over {percent(rules.failed_rate)} of a queue's jobs failed for good",
         "Mend the cause, deploy, then retry them.", lambda of: shell("oncue jobs", status="failed", queue=of)),
    AlertKind(slo.RUNNING_LONG, "Longest run", ALERTS, length,
         lambda rules: f"a job has run for over {length(rules.running_for)}",
         "See which one it is, and cancel it if it hangs.",
         lambda of: shell("oncue jobs", status="running", task=of)),
    AlertKind(slo.MISSED, "Slots and days missed", ALERTS, count,
         lambda rules: "a slot was found only after its grace, or an outage took days of a window",
         "See which, and why.", lambda of: shell("oncue audit", of, _from="-1d")),
)  # fmt: skip
BADGES = {"warned": "breach", "breached": "warn", "ok": "ok"}
BY_NAME = {kind.alert: kind for kind in KINDS}
OF_QUEUES = (slo.SATURATION, slo.WINDOW_DEPTH, slo.QUEUE_DEPTH, slo.FAILED_RATE)


def about_window(book: AlertBook, window: Schedule) -> list[AlertState]:
    """What concerns a window: itself, its task and its queue."""
    return [
        one for one in book.alerts
        if one.of == (window.queue if one.alert in OF_QUEUES else window.name) and one.alert != slo.TICK
    ]  # fmt: skip


def kind_of(alert: str) -> AlertKind:
    """A leader of a newer version may watch more."""
    unknown = AlertKind(
        alert, alert.replace("_", " "), ALERTS, lambda value: f"{value:g}", lambda rules: "see its sentence",
        "This version does not know it.", lambda of: "oncue alerts list",
    )  # fmt: skip
    return BY_NAME.get(alert, unknown)


def by_urgency(states: Sequence[AlertState]) -> list[AlertState]:
    """Those that are warned of first, then by breaches in a row; else as they are listed here."""
    order = {kind.alert: place for place, kind in enumerate(KINDS)}
    return sorted(
        states, key=lambda one: (one.warned_at is None, -one.breaches, order.get(one.alert, len(order)), one.of)
    )


# --- how it went lately ---------------------------------------------------------------------------------------------


class Spark(NamedTuple):
    """The values of the minutes lately, as lines in a box of 120 by 28."""

    paths: Sequence[str]
    threshold: float
    sentence: str


def line_of(state: AlertState, rolling: Rolling, minutes: Sequence[Minute], now: datetime) -> Spark | None:
    """None where minutes do not tell of it."""
    points = _points(state, rolling, minutes)
    if not points:
        return None
    top = max([state.threshold, *(value for _, value in points)]) * 1.08 or 1.0
    paths: list[list[str]] = []
    before = None
    for at, value in points:
        if before is None or at - before > timedelta(minutes=2):
            paths.append([])
        x = WIDTH * (1 - (now - at) / LASTING)
        paths[-1].append(f"{min(max(x, 0), WIDTH):.1f},{HEIGHT * (1 - value / top):.1f}")
        before = at
    show = kind_of(state.alert).show
    values = [value for _, value in points]
    sentence = f"In the last hour, by the minute: from {show(min(values))} to {show(max(values))}"
    return Spark([_drawn(path) for path in paths], round(HEIGHT * (1 - state.threshold / top), 1), sentence)


def _drawn(path: Sequence[str]) -> str:
    """A single minute is a short stroke."""
    if len(path) == 1:
        x, _, y = path[0].partition(",")
        return f"{max(float(x) - 1.5, 0):.1f},{y} {path[0]}"
    return " ".join(path)


def _points(state: AlertState, rolling: Rolling, minutes: Sequence[Minute]) -> Points:
    match state.alert:
        case slo.TICK:
            return _each(rolling.by_minute("tick", ""), lambda one: percentile(one.get("ms", {}), 0.95))
        case slo.JOB:
            return _each(rolling.by_minute("window", state.of), lambda one: percentile(one.get("ms", {}), 0.95))
        case slo.SATURATION:
            return _each(rolling.by_minute("queue", state.of), lambda one: _ratio(one.get("full", 0), one))
        case slo.WINDOW_DEPTH:
            return _each(rolling.by_minute("queue", state.of), lambda one: _ratio(one.get("depth", 0), one))
        case slo.CUTOFF_RATE:
            return _each(rolling.by_minute("window", state.of), _cutoff_rate)
        case slo.MISSED:
            return _each(rolling.by_minute("schedule", state.of), lambda one: one.get("missed", 0))
        case slo.FAILED_RATE:
            return _failed(state.of, minutes)
    return []


def _each(figures: Mapping[datetime, Mapping[str, Any]], value: Callable[[Mapping[str, Any]], float | None]) -> Points:
    told = ((at, value(one)) for at, one in figures.items())
    return [(at, float(found)) for at, found in told if found is not None]


def _ratio(part: float, one: Mapping[str, Any]) -> float | None:
    return part / one["samples"] if one.get("samples") else None


def _cutoff_rate(one: Mapping[str, Any]) -> float | None:
    cutoffs, successes = sum(one.get("cutoff_reached", {}).values()), sum(one.get("success", {}).values())
    return cutoffs / (cutoffs + successes) if cutoffs + successes else None


def _failed(queue: str, minutes: Sequence[Minute]) -> Points:
    """Which share failed of what ended between two notes of the totals. Two leaders of one minute note the same."""
    totals = {
        one.minute: (int(one.figures.get("failed", 0)), int(one.figures.get("succeeded", 0)))
        for one in minutes
        if one.kind == "totals" and one.name == queue
    }
    found, ordered = [], sorted(totals.items())
    for (_, before), (at, after) in pairwise(ordered):
        failed, succeeded = after[0] - before[0], after[1] - before[1]
        if failed >= 0 and succeeded >= 0 and failed + succeeded:
            found.append((at, failed / (failed + succeeded)))
    return found
