"""Metrics of the whole database, as this process last saw it: what waits and runs, who leads, who serves what.

Every process that is scraped tells the same, a web process as well as a worker: take the maximum over them, never the
sum. What was seen is told until `MOST_FAILURES` looks in a row have failed, about a quarter of a minute. From then on
it is old news, and only `oncue_database_up` is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from heapq import nlargest
from typing import Any, TypeAlias

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oncue.engine.survey import NAME, Survey
from oncue.errors import StoreError
from oncue.model import Queue
from oncue.observe.labels import MOST, OTHER, busiest
from oncue.policy.suspicion import ALONE, IN_COHORT, NAMES
from oncue.telemetry import Telemetry

MOST_FAILURES = 10

Reading: TypeAlias = tuple[str, tuple[str, ...], float]
"""The name of a gauge, its labels, and its value."""

QUEUE = ("queue",)
ALERT = ("alert", "of")
GAUGES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("queue_oldest_wait_seconds", QUEUE, "For how long the job has been due that has waited longest; 0 if none does."),
    ("queue_paused", QUEUE, "1 while the queue is paused."),
    ("queue_paused_seconds", QUEUE, "For how long the queue has been paused; 0 while it is open."),
    ("queue_limit", ("queue", "scope"), "Jobs that may run at once, on all nodes together (global) or on each (node)."),
    ("queue_nodes", QUEUE, "Live nodes that take jobs of the queue."),
    ("jobs_running_longest_seconds", ("task", "queue"), "For how long the job has run that has run longest."),
    ("kept_apart_jobs", ("isolation",), "Jobs that wait to run in a cohort or alone, as their processes died."),
    ("breakers_open", (), "Endpoints whose circuit breaker is open; 1,000 are counted at most."),
    ("groups_paused", (), "Groups of queues that an operator has paused; 1,000 are counted at most."),
    ("leader_present", (), "1 while some node leads."),
    ("schedules_enabled", (), "1 while a schedule is enabled, or a window with subjects."),
    ("alert_active", ALERT, "1 while the leader's watcher warns of this SLO or alert."),
    ("alert_value", ALERT, "What the watcher compares with the threshold."),
    ("alert_threshold", ALERT, "Above this it is a breach."),
    (
        "schedule_overdue_seconds",
        (),
        "For how long a slot, or a day of a window, has been due that no leader has decided; 0 if none is.",
    ),
)


class ClusterMetrics(Collector):
    def __init__(self, telemetry: Telemetry) -> None:
        self._depths: Mapping[str, Mapping[int, int]] = {}
        self._survey: Survey | None = None
        self._is_up: bool | None = None
        telemetry.subscribe(self._depth_sampled, "queue.depth")
        telemetry.subscribe(self._surveyed, "survey")
        telemetry.subscribe(self._failed, "tick.error")

    def _depth_sampled(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._depths = metadata["depths"]

    def _surveyed(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._survey, self._is_up = metadata["survey"], True

    def _failed(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        if metadata["service"] != NAME:
            return
        if isinstance(metadata["error"], StoreError):
            self._is_up = False
        if measurements["failures"] >= MOST_FAILURES:
            self._survey, self._depths = None, {}

    def collect(self) -> Iterator[Metric]:
        yield from self._waiting()
        gauges = {name: GaugeMetricFamily(f"oncue_{name}", meaning, labels=labels) for name, labels, meaning in GAUGES}
        for name, labels, value in () if self._survey is None else readings(self._survey):
            gauges[name].add_metric(labels, value)
        yield from gauges.values()
        up = GaugeMetricFamily("oncue_database_up", "1 if the database answered when this process last looked.")
        if self._is_up is not None:
            up.add_metric((), int(self._is_up))
        yield up

    def _waiting(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily("oncue_queue_depth", "Jobs that are due and wait, sampled.", labels=QUEUE)
        spread = GaugeMetricFamily("oncue_queue_priority_jobs", "The same by priority.", labels=("queue", "priority"))
        for queue, priorities in _bounded(self._depths).items():
            depth.add_metric((queue,), sum(priorities.values()))
            for priority, jobs in priorities.items():
                spread.add_metric((queue, str(priority)), jobs)
        yield depth
        yield spread


def _bounded(depths: Mapping[str, Mapping[int, int]]) -> Mapping[str, Mapping[int, int]]:
    """The fullest queues, and all others added up."""
    named = busiest(depths, lambda queue: sum(depths[queue].values()))
    shown: dict[str, Mapping[int, int]] = {queue: depths[queue] for queue in depths if queue in named}
    if len(named) < len(depths):
        shown[OTHER] = sum((Counter(depths[queue]) for queue in depths if queue not in named), Counter())
    return shown


def readings(survey: Survey) -> Iterator[Reading]:
    """What a look at the database says, gauge by gauge."""
    yield from _of_queues(survey)
    longest: dict[tuple[str, str], float] = {}
    for age in survey.ages:
        if age.kind == "running":
            longest[age.task, age.queue] = _since(age.since, survey.sampled_at or survey.at)
    for labels in nlargest(MOST, longest, key=longest.__getitem__):
        yield "jobs_running_longest_seconds", labels, longest[labels]
    for isolation in (IN_COHORT, ALONE):
        yield "kept_apart_jobs", (NAMES[isolation],), survey.isolated.get(isolation, 0)
    yield "breakers_open", (), sum(group.trips > 0 for group in survey.held_back)
    yield "groups_paused", (), sum(group.by_hand for group in survey.held_back)
    for state in survey.alerts[:MOST]:
        labels = (state.alert, state.of)
        yield "alert_active", labels, int(state.warned_at is not None)
        yield "alert_value", labels, state.value
        yield "alert_threshold", labels, state.threshold
    yield "leader_present", (), int(survey.led)
    yield "schedules_enabled", (), int(survey.next_run is not None)
    yield "schedule_overdue_seconds", (), _since(survey.next_run, survey.at)


def _of_queues(survey: Survey) -> Iterator[Reading]:
    """Those that a node serves come first, then the busiest. Of the others the worst is told, and no limits."""
    sampled_at = survey.sampled_at or survey.at
    waits = {age.queue: _since(age.since, sampled_at) for age in survey.ages if age.kind == "queued"}
    queues = {queue.name: queue for queue in survey.queues}
    every = {*waits, *survey.serving, *queues}
    named = busiest(every, lambda name: (name in survey.serving, _jobs(queues.get(name)), waits.get(name, 0.0)))
    for name in sorted(named):
        yield from _of_queue(name, waits.get(name, 0.0), survey.serving.get(name, 0), queues.get(name), survey)
    others = every - named
    if others:
        yield "queue_oldest_wait_seconds", (OTHER,), max(waits.get(name, 0.0) for name in others)
        yield "queue_nodes", (OTHER,), min(survey.serving.get(name, 0) for name in others)
        paused = [queues[name].paused_at for name in others if name in queues]
        yield "queue_paused", (OTHER,), int(any(paused))
        yield "queue_paused_seconds", (OTHER,), max((_since(at, survey.at) for at in paused), default=0.0)


def _jobs(queue: Queue | None) -> int:
    return 0 if queue is None else queue.queued + queue.running + queue.later


def _of_queue(name: str, wait: float, nodes: int, queue: Queue | None, survey: Survey) -> Iterator[Reading]:
    yield "queue_oldest_wait_seconds", (name,), wait
    yield "queue_nodes", (name,), nodes
    if queue is not None:
        yield "queue_paused", (name,), int(queue.paused_at is not None)
        yield "queue_paused_seconds", (name,), _since(queue.paused_at, survey.at)
        for scope, limit in (("global", queue.global_limit), ("node", queue.node_limit)):
            if limit is not None:
                yield "queue_limit", (name, scope), limit


def _since(instant: datetime | None, now: datetime) -> float:
    return 0.0 if instant is None else max((now - instant).total_seconds(), 0.0)
