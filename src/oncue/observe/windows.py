"""Metrics of daily windows: the planner's ticks, attempts, outcomes of days, and what waits and runs."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from oncue.observe.buckets import BOUNDS, cumulated, empty
from oncue.telemetry import Telemetry


class _Durations:
    """Durations in buckets."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = empty()
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class WindowMetrics(Collector):
    """The names of windows and their queues stand in the code of the application: there are few."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._ticks: _Durations | None = None
        self._attempts: dict[tuple[str, str, str], _Durations] = {}
        self._days: Counter[tuple[str, str]] = Counter()
        self._depths: dict[str, float] = {}
        self._in_flight: dict[str, tuple[float, float]] = {}
        self._breaches: Counter[str] = Counter()
        for event, hear in {
            "sched.tick.stop": self._ticked, "sched.job.stop": self._stopped, "sched.finalize": self._finalized,
            "sched.queue.depth": self._sampled, "sched.executor.in_flight": self._seated,
            "slo.breach": self._breached, "slo.over": self._breached,
        }.items():  # fmt: skip
            telemetry.subscribe(hear, event)

    def _ticked(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._ticks = self._ticks or _Durations()
        self._ticks.add(measurements["duration_ms"] / 1000)

    def _stopped(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        labels = metadata["window"], metadata["result"], metadata.get("error_class", "")
        self._attempts.setdefault(labels, _Durations()).add(measurements["duration_ms"] / 1000)

    def _finalized(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._days[metadata["window"], metadata["reason"] or metadata["status"]] += 1

    def _sampled(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._depths[metadata["queue"]] = measurements["depth"]

    def _seated(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._in_flight[metadata["queue"]] = measurements["in_flight"], metadata["max_concurrency"]

    def _breached(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._breaches[event.removeprefix("slo.")] += 1

    def collect(self) -> Iterator[Metric]:
        ticks = HistogramMetricFamily("oncue_window_tick_seconds", "Ticks of the planner on this node.")
        if self._ticks is not None:
            ticks.add_metric((), cumulated(self._ticks.counts), self._ticks.total)
        yield ticks
        attempts = HistogramMetricFamily(
            "oncue_window_attempt_seconds",
            "Attempts of windows' jobs on this node, by result and class of error.",
            labels=("window", "result", "error_class"),
        )
        for labels, durations in tuple(self._attempts.items()):
            attempts.add_metric(labels, cumulated(durations.counts), durations.total)
        yield attempts
        yield self._outcomes()
        yield from self._load()

    def _outcomes(self) -> Metric:
        days = CounterMetricFamily(
            "oncue_window_days", "Users' days that were decided here, by outcome.", labels=("window", "status")
        )
        for labels, count in tuple(self._days.items()):
            days.add_metric(labels, count)
        return days

    def _load(self) -> Iterator[Metric]:
        running = GaugeMetricFamily("oncue_window_in_flight", "Attempts of windows' jobs here.", labels=("queue",))
        most = GaugeMetricFamily("oncue_window_max_concurrency", "How many may run here at once.", labels=("queue",))
        for queue, (in_flight, seats) in tuple(self._in_flight.items()):
            running.add_metric((queue,), in_flight)
            most.add_metric((queue,), seats)
        yield from (running, most)
        depth = GaugeMetricFamily(
            "oncue_window_depth",
            "Jobs of windows that waited, as this node last saw it as the leader.",
            labels=("queue",),
        )
        for queue, jobs in tuple(self._depths.items()):
            depth.add_metric((queue,), jobs)
        yield depth
        told = CounterMetricFamily("oncue_slo_warnings", "Warnings of the SLO watcher on this node.", labels=("event",))
        for event, count in tuple(self._breaches.items()):
            told.add_metric((event,), count)
        yield told
