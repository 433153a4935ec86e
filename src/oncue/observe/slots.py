"""Metrics of schedules: what became of their slots, and how late that was decided.

The leader tells of every slot, a hundred thousand of them after a full hour on a large installation: plain numbers are
added up here, and turned into metrics at a scrape. All of it comes from the thread of the event loop.

There may be more schedules than a time series database likes. The first `MOST_NAMED` that are told of have their own
series; the others share one (labels.py), so that the sum is right all the same. Lateness is told for all schedules
together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from oncue.model import Decided
from oncue.observe.buckets import BOUNDS, cumulated, empty
from oncue.observe.labels import OTHER
from oncue.policy.schedules import EDITED
from oncue.policy.slots import KEY_HELD, MAX_INSTANCES, MISFIRE
from oncue.telemetry import Telemetry

MOST_NAMED = 500
REASONS = {MISFIRE: MISFIRE, MAX_INSTANCES: MAX_INSTANCES, KEY_HELD: KEY_HELD, EDITED: "edited"}
"""The reasons that make a label. What a slot was coalesced into is a reason too, and different each time."""


class Lateness:
    """From slots' own time to their decision, in buckets."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = empty()
        self.total = 0.0


class SlotMetrics(Collector):
    def __init__(self, telemetry: Telemetry) -> None:
        self._named: set[str] = set()
        self._slots: dict[tuple[str, str, str], float] = {}
        self._lateness: dict[str, Lateness] = {}
        self._errors: dict[str, int] = {}
        telemetry.subscribe(self._decided, "slot")
        telemetry.subscribe(self._failed, "schedule.error")

    def _decided(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        decided: Decided = metadata["decided"]
        reason = "" if decided.reason is None else REASONS.get(decided.reason, "")
        series = (self._name(metadata["schedule"]), decided.verdict, reason)
        self._slots[series] = self._slots.get(series, 0) + measurements["slots"]
        lateness = self._lateness.get(decided.verdict) or self._lateness.setdefault(decided.verdict, Lateness())
        late = max(measurements["late"], 0.0)
        lateness.counts[bisect_left(BOUNDS, late)] += 1
        lateness.total += late

    def _failed(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        name = self._name(metadata["schedule"])
        self._errors[name] = self._errors.get(name, 0) + 1

    def _name(self, schedule: str) -> str:
        if schedule in self._named:
            return schedule
        if len(self._named) >= MOST_NAMED:
            return OTHER
        self._named.add(schedule)
        return schedule

    def collect(self) -> Iterator[Metric]:
        slots = CounterMetricFamily(
            "oncue_slots",
            "Slots that this node decided as the leader, by verdict.",
            labels=("schedule", "verdict", "reason"),
        )
        for labels, count in tuple(self._slots.items()):
            slots.add_metric(labels, count)
        yield slots
        lateness = HistogramMetricFamily(
            "oncue_slot_lateness_seconds",
            "From a slot's own time to its decision; a run of missed slots counts once, as late as its first.",
            labels=("verdict",),
        )
        for verdict, late in tuple(self._lateness.items()):
            lateness.add_metric((verdict,), cumulated(late.counts), late.total)
        yield lateness
        errors = CounterMetricFamily(
            "oncue_schedule_errors", "Passes in which a schedule's slots could not be worked out.", labels=("schedule",)
        )
        for name, count in tuple(self._errors.items()):
            errors.add_metric((name,), count)
        yield errors
