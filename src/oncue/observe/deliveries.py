"""Metrics of deliveries: how requests to endpoints went, how long they took, and what the circuit breakers did.

There may be 100,000 webhooks, so none of these has a label of its own for each: `delivery_attempts`, the SQL view, and
the analytics in Redis tell one from another. How deliveries ended is read off the jobs of the task that sends them
(prometheus.py): a delivery costs the hot path nothing more than any other job.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from oncue.observe.buckets import BOUNDS, cumulated, empty
from oncue.telemetry import Telemetry

ANSWERED = ("delivered", "retry", "failed")
OUTCOMES = (*ANSWERED, "timeout", "network", "refused", "invalid")
"""What a request came to: an answer of one of three classes, or none."""
ENDS = {"succeeded": "delivered", "failed": "failed", "skipped": "skipped", "cancelled": "cancelled"}
"""What a delivery ended as, by the state of its job."""
EMITTERS = frozenset({"scheduler", "slot-writer"})
"""The services that write new executions: when a step of theirs fails, the executions come later."""


class DeliveryMetrics(Collector):
    def __init__(self, telemetry: Telemetry) -> None:
        self._attempts = dict.fromkeys(OUTCOMES, 0)
        self._latencies = empty()
        self._total = 0.0
        self._transitions = {"open": 0, "closed": 0}
        self._emit_errors = 0
        telemetry.subscribe(self._attempted, "delivery")
        telemetry.subscribe(self._switched, "breaker")
        telemetry.subscribe(self._not_emitted, "tick.error", "orphans")

    def _attempted(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        outcome = metadata["outcome"]
        self._attempts[outcome] += 1
        if outcome in ANSWERED:
            seconds = measurements["seconds"]
            self._latencies[bisect_left(BOUNDS, seconds)] += 1
            self._total += seconds

    def _switched(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._transitions["open" if measurements["trips"] else "closed"] += 1

    def _not_emitted(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        if event == "orphans":
            self._emit_errors += int(measurements["failed"])
        elif metadata["service"] in EMITTERS:
            self._emit_errors += 1

    def collect(self) -> Iterator[Metric]:
        attempts = CounterMetricFamily(
            "oncue_delivery_attempts", "Requests to endpoints by what came of them.", labels=("outcome",)
        )
        for outcome, count in self._attempts.items():
            attempts.add_metric((outcome,), count)
        latencies = HistogramMetricFamily(
            "oncue_delivery_seconds", "From a request to the end of its answer; of those that were answered."
        )
        latencies.add_metric((), cumulated(self._latencies), self._total)
        transitions = CounterMetricFamily(
            "oncue_breaker_transitions", "How often this node opened or closed a circuit breaker.", labels=("to",)
        )
        for to, count in self._transitions.items():
            transitions.add_metric((to,), count)
        yield from (attempts, latencies, transitions)
        yield CounterMetricFamily(
            "oncue_emit_errors",
            "Writes of due slots that failed and were repeated, and orphans that could not be emitted again.",
            self._emit_errors,
        )


def ended_deliveries(ends: Iterable[tuple[str, int]]) -> Metric:
    """Deliveries by what they ended as; `ends`: how many of their jobs ended in which state."""
    counts = dict.fromkeys(ENDS.values(), 0)
    for state, jobs in ends:
        if state in ENDS:
            counts[ENDS[state]] += jobs
    family = CounterMetricFamily("oncue_deliveries", "Deliveries by what they ended as.", labels=("outcome",))
    for outcome, count in counts.items():
        family.add_metric((outcome,), count)
    return family
