"""Prometheus metrics: the first subscriber of telemetry.

An attempt that starts and ends is told tens of thousands of times a second. prometheus_client takes a lock for every
counter and walks a histogram's buckets: 2.7 µs for the four updates of a job, with the labels looked up beforehand.
Here the two hot events only bisect and add up plain numbers, 0.9 µs a job together with the calls, and a collector
turns them into metrics at a scrape. They come from one thread, that of the event loop; what may come from
others is counted by prometheus_client (rare.py).

The series are bounded (labels.py). What is about the whole database is in cluster.py, what is about schedules in
slots.py, about deliveries in deliveries.py, about windows in windows.py, about cluster jobs in cluster_jobs.py, and a
node's standing in node_metrics.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from oncue import __version__
from oncue.model import CLUSTER_QUEUE, DELIVER, TERMINAL, WEBHOOKS_QUEUE, Change, Claim, Job, TimedOut
from oncue.observe.buckets import BOUNDS, cumulated, empty
from oncue.observe.cluster import ClusterMetrics
from oncue.observe.cluster_jobs import ClusterJobMetrics
from oncue.observe.deliveries import DeliveryMetrics, ended_deliveries
from oncue.observe.event_counters import LABELS, EventCounters
from oncue.observe.labels import Pairs
from oncue.observe.node_metrics import NodeMetrics, ObservedNode
from oncue.observe.slots import SlotMetrics
from oncue.observe.windows import WindowMetrics
from oncue.policy import options
from oncue.policy.slots import MISFIRE
from oncue.telemetry import Telemetry


class Seats(Protocol):
    """Where jobs run, read at a scrape."""

    concurrency: int

    @property
    def running(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    @property
    def aside(self) -> int: ...


class MetricSeries:
    """What is counted for one task in one queue."""

    __slots__ = ("cut_off", "durations", "ends", "misfires", "total_duration", "total_wait", "waits")

    def __init__(self) -> None:
        self.waits = empty()
        self.total_wait = 0.0
        self.durations = empty()
        self.total_duration = 0.0
        self.ends: dict[tuple[str, str | None, bool], int] = {}
        self.misfires = 0
        self.cut_off = 0


class PrometheusMetrics(Collector):
    """Counts what telemetry tells, in a registry of its own."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.registry = CollectorRegistry()
        self._series: dict[tuple[str, str], MetricSeries] = {}
        self._pairs = Pairs()
        self._seats: Seats | None = None
        self._buffer = 0
        self._told: Mapping[str, float] = {}
        self._standing = NodeMetrics(telemetry)
        self._pairs.expect(DELIVER, WEBHOOKS_QUEUE)  # deliveries are read off it, however many tasks there are
        self._cluster_jobs = ClusterJobMetrics(telemetry)
        for collector in (
            self, SlotMetrics(telemetry), self._standing, ClusterMetrics(telemetry), DeliveryMetrics(telemetry),
            WindowMetrics(telemetry), self._cluster_jobs,
        ):  # fmt: skip
            self.registry.register(collector)
        ProcessCollector(registry=self.registry)
        Info("oncue_build", "The version that runs here.", registry=self.registry).info({"version": __version__})
        telemetry.subscribe(self._job_started, "job.start")
        telemetry.subscribe(self._job_stopped, "job.stop")
        telemetry.subscribe(self._seats_told, "in_flight")
        telemetry.subscribe(self._taken_away, "rescue", "overrun")
        telemetry.subscribe(self._expired, "expire")
        EventCounters(self.registry, self._pairs).subscribe(telemetry)

    def follow(self, seats: Seats, buffer: int, standing: ObservedNode | None = None) -> None:
        """Read what runs and waits off the executor itself: between two settles, events are old news."""
        self._seats, self._buffer = seats, buffer
        if standing is not None:
            self._standing.follow(standing)

    def expect(self, tasks: Iterable[tuple[str, str]]) -> None:
        """Show the counters of these tasks (each with its queue) from the start: a counter that appears with its first
        failure looks to Prometheus as if nothing had happened yet."""
        for task, queue in tasks:
            self._pairs.expect(task, queue)
            self._new_series(task, queue)
            if queue == CLUSTER_QUEUE:
                self._cluster_jobs.expect(task)

    # --- the hot path -------------------------------------------------------------------------------------------

    def _job_started(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        claim = metadata["claim"]
        series = self._series.get((claim.task, claim.queue)) or self._new_series(claim.task, claim.queue)
        wait = measurements["wait"]
        series.waits[bisect_left(BOUNDS, wait)] += 1
        series.total_wait += wait

    def _job_stopped(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        claim, change = metadata["claim"], metadata["change"]
        series = self._series.get((claim.task, claim.queue)) or self._new_series(claim.task, claim.queue)
        if change.outcome is not None:
            duration = measurements["duration"]
            series.durations[bisect_left(BOUNDS, duration)] += 1
            series.total_duration += duration
            if isinstance(metadata["outcome"], TimedOut):
                series.cut_off += _reached(claim, duration)
        elif change.reason == MISFIRE:
            series.misfires += 1
        end = (change.state, change.outcome, claim.retry_count > 0)
        series.ends[end] = series.ends.get(end, 0) + 1

    def _new_series(self, task: str, queue: str) -> MetricSeries:
        return self._series.setdefault(self._pairs.named(task, queue), MetricSeries())

    # --- now and then -------------------------------------------------------------------------------------------

    def _seats_told(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._told = measurements

    def _taken_away(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        """Another node's attempt was ended from here: its own process is gone, or stuck, and tells nothing."""
        claim, change = metadata["claim"], metadata["change"]
        self._ended(claim, change)

    def _expired(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        """A job was ended that no node had claimed in time."""
        job, change = metadata["job"], metadata["change"]
        self._ended(job, change).misfires += change.reason == MISFIRE

    def _ended(self, job: Job | Claim, change: Change) -> MetricSeries:
        series = self._new_series(job.task, job.queue)
        end = (change.state, change.outcome, job.retry_count > 0)
        series.ends[end] = series.ends.get(end, 0) + 1
        return series

    # --- at a scrape --------------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        yield from self._histograms()
        yield from self._ends()
        yield from self._here()

    def _histograms(self) -> Iterator[Metric]:
        waits = HistogramMetricFamily(
            "oncue_job_wait_seconds",
            "From enqueue to the start of the first attempt; of a job for later and of a retry, from due to started.",
            labels=LABELS,
        )
        durations = HistogramMetricFamily("oncue_job_duration_seconds", "From started to ended.", labels=LABELS)
        for labels, series in tuple(self._series.items()):
            if any(series.waits) or any(series.durations):
                waits.add_metric(labels, cumulated(series.waits), series.total_wait)
                durations.add_metric(labels, cumulated(series.durations), series.total_duration)
        yield waits
        yield durations

    def _ends(self) -> Iterator[Metric]:
        finished = CounterMetricFamily(
            "oncue_jobs_finished", "Jobs by the state that they ended in.", labels=(*LABELS, "state")
        )
        attempts = CounterMetricFamily(
            "oncue_attempts",
            "Attempts by outcome; retry tells the first try from a repetition after a failure.",
            labels=(*LABELS, "outcome", "retry"),
        )
        retries = CounterMetricFamily("oncue_retries", "Attempts that failed and will be repeated.", labels=LABELS)
        cut_off = CounterMetricFamily(
            "oncue_overlong_attempts", "Attempts that reached their maximum runtime and were cut off.", labels=LABELS
        )
        misfires = CounterMetricFamily(
            "oncue_misfired_jobs", "Jobs of slots that could not start within their grace.", labels=LABELS
        )
        for labels, series in tuple(self._series.items()):
            ends = dict(_summed(series, lambda state, outcome, retry: state))
            for state in sorted(TERMINAL):
                finished.add_metric((*labels, state), ends.get(state, 0))
            for name, jobs in _summed(series, lambda state, outcome, retry: outcome and (outcome, _word(retry))):
                attempts.add_metric((*labels, *name), jobs)
            retries.add_metric(labels, ends.get("retrying", 0))
            cut_off.add_metric(labels, series.cut_off)
            misfires.add_metric(labels, series.misfires)
        yield from (finished, attempts, retries, cut_off, misfires)
        yield ended_deliveries(
            end
            for (task, _), series in tuple(self._series.items()) if task == DELIVER
            for end in _summed(series, lambda state, outcome, retry: state)
        )  # fmt: skip

    def _here(self) -> Iterator[Metric]:
        told, seats = self._told, self._seats
        running, buffered = told.get("in_flight", 0), told.get("buffered", 0)
        concurrency, aside = told.get("concurrency", 0), told.get("aside", 0)
        if seats is not None:
            running, buffered, concurrency, aside = seats.running, seats.waiting, seats.concurrency, seats.aside
        yield GaugeMetricFamily("oncue_in_flight_jobs", "Attempts that run in this process.", running)
        yield GaugeMetricFamily("oncue_concurrency", "Attempts that may have a seat here at once.", concurrency)
        yield GaugeMetricFamily("oncue_aside_jobs", "Attempts that run here without a seat.", aside)
        yield GaugeMetricFamily("oncue_buffer_size", "Claimed jobs that wait here for a seat.", buffered)
        yield GaugeMetricFamily("oncue_buffer_capacity", "Claimed jobs that may wait here at most.", self._buffer)


def _summed(series: MetricSeries, name: Callable[[str, str | None, bool], Any]) -> list[tuple[Any, int]]:
    """The ends of attempts, added up under the names that `name` gives them; those without one are left out."""
    sums: dict[Any, int] = {}
    for end, jobs in tuple(series.ends.items()):
        named = name(*end)
        if named:
            sums[named] = sums.get(named, 0) + jobs
    return list(sums.items())


def _reached(claim: Claim, duration: float) -> bool:
    """Whether an attempt was cut off at its maximum runtime, and not at its time-out or deadline before."""
    limit = options.max_runtime(claim.options)
    return limit is not None and duration >= limit * 0.999


def _word(flag: bool) -> str:
    return "yes" if flag else "no"
