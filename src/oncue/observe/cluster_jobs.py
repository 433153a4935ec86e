"""Metrics of cluster jobs: what they came to, with a quorum or without, and how long the leader waited for one.

The leader tells of its decisions, and the node that ran a leader action of its end: what all nodes tell adds up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from oncue.model import CLUSTER_QUEUE
from oncue.observe.buckets import BOUNDS, cumulated, empty
from oncue.observe.labels import MOST, OTHER
from oncue.policy import options
from oncue.telemetry import Telemetry

OUTCOMES = {"succeeded": "completed", "failed": "failed", "cancelled": "cancelled", "skipped": "skipped"}


class ClusterJobMetrics(Collector):
    def __init__(self, telemetry: Telemetry) -> None:
        self._tasks: set[str] = set()
        self._jobs: Counter[tuple[str, str]] = Counter()
        self._decisions: Counter[tuple[str, str]] = Counter()
        self._parts: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._waits: dict[str, list[int]] = {}
        self._waited: dict[str, float] = {}
        telemetry.subscribe(self._spread, "cluster.spread")
        telemetry.subscribe(self._decided, "cluster.decided")
        telemetry.subscribe(self._stopped, "job.stop")

    def expect(self, task: str) -> None:
        """Show the counters of a declared task from the start, so that a first failure is a rise."""
        name = self._name(task)
        for outcome in OUTCOMES.values():
            self._jobs[name, outcome] += 0
        for reached in ("yes", "no"):
            self._decisions[name, reached] += 0
        self._lost[name] += 0

    def _name(self, task: str) -> str:
        if task in self._tasks:
            return task
        if len(self._tasks) >= MOST:
            return OTHER
        self._tasks.add(task)
        return task

    def _spread(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._parts[self._name(metadata["task"])] += int(measurements["parts"])

    def _decided(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        """What the leader decided. A job without an action, or that fails here, has ended with that."""
        name, what = self._name(metadata["task"]), metadata["what"]
        self._lost[name] += int(measurements["lost"])
        if what in OUTCOMES:
            self._jobs[name, OUTCOMES[what]] += 1
        if what in ("decided", "succeeded"):
            self._decisions[name, "yes" if metadata["quorum"] else "no"] += 1
        if metadata["quorum"]:
            waited = max(measurements["duration"], 0.0)
            self._waits.setdefault(name, empty())[bisect_left(BOUNDS, waited)] += 1
            self._waited[name] = self._waited.get(name, 0.0) + waited

    def _stopped(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        claim = metadata["claim"]
        if claim.queue != CLUSTER_QUEUE or metadata["change"].state not in OUTCOMES:
            return
        if options.read(claim.options).cluster is not None:
            self._jobs[self._name(claim.task), OUTCOMES[metadata["change"].state]] += 1

    def collect(self) -> Iterator[Metric]:
        counters = (
            ("cluster_jobs", "Cluster jobs that ended here, by outcome.", ("task", "outcome"), self._jobs),
            (
                "cluster_decisions",
                "Cluster jobs that went on, as the leader decided here: with a quorum of their parts, or without.",
                ("task", "quorum"),
                self._decisions,
            ),
        )
        for name, meaning, labels, counts in counters:
            family = CounterMetricFamily(f"oncue_{name}", meaning, labels=labels)
            for values, count in tuple(counts.items()):
                family.add_metric(values, count)
            yield family
        yield from self._of_parts()
        waits = HistogramMetricFamily(
            "oncue_cluster_quorum_seconds",
            "From the parts of a cluster job being written to its quorum.",
            labels=("task",),
        )
        for task, buckets in tuple(self._waits.items()):
            waits.add_metric((task,), cumulated(buckets), self._waited[task])
        yield waits

    def _of_parts(self) -> Iterator[Metric]:
        written = CounterMetricFamily(
            "oncue_cluster_parts", "Parts of cluster jobs that the leader wrote here.", labels=("task",)
        )
        lost = CounterMetricFamily(
            "oncue_cluster_parts_lost", "Parts whose node was lost when the leader decided here.", labels=("task",)
        )
        for family, counts in ((written, self._parts), (lost, self._lost)):
            for task, count in tuple(counts.items()):
                family.add_metric((task,), count)
            yield family
