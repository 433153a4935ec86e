"""Counters of what happens once per batch or less. They may be told from any thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Summary

from oncue.observe.labels import Pairs
from oncue.telemetry import Telemetry

LABELS = ("task", "queue")

# Event, its measurement (or 1), the name of the counter, its labels, and what it means.
COUNTERS: tuple[tuple[str, str | None, str, tuple[str, ...], str], ...] = (
    ("enqueue", "jobs", "enqueued_jobs", LABELS, "Jobs that this process wrote."),
    ("enqueue", "duplicates", "duplicate_jobs", LABELS, "Jobs not written, since their key was taken."),
    ("claim", None, "claims", (), "Claims that brought jobs."),
    ("claim", "jobs", "claimed_jobs", (), "Jobs that this node claimed."),
    ("settle", "jobs", "settled_jobs", (), "Outcomes that were written."),
    ("settle", "rejected", "settle_rejected", (), "Late outcomes that changed nothing: the job had moved on."),
    ("release", "jobs", "released_jobs", (), "Jobs given back unstarted, at no charge."),
    ("rescue", None, "rescued_jobs", LABELS, "Jobs taken from nodes that were lost."),
    ("rescue", "charged", "charged_deaths", LABELS, "Deaths of processes that a job which had begun is charged with."),
    ("rescue", "poison", "poison_jobs", LABELS, "Jobs that failed because their processes died under them."),
    ("overrun", None, "overrun_jobs", LABELS, "Attempts fenced for being over their maximum runtime."),
    ("expire", None, "expired_jobs", LABELS, "Jobs ended because they had waited past their time, unclaimed."),
    ("recovery", "jobs", "recovered_jobs", (), "Runs of a dead predecessor that this node ended when it started."),
    ("leader.elected", None, "elections", (), "How often this node came to lead."),
    ("leader.lost", None, "leads_lost", (), "How often this node could not keep the lead."),
    ("outage", None, "outages", (), "Times without a leader, longer than a lease, that this node ended."),
    ("outage", "duration", "outage_seconds", (), "How long these lasted in all."),
    ("exclusive.taken", None, "exclusive_taken", (), "How often this node became the exclusive worker."),
    ("exclusive.lost", None, "exclusive_lost", (), "How often this node could not stay the exclusive worker."),
    ("node.lost", None, "nodes_lost", (), "Nodes that this node declared lost."),
    ("orphans", "found", "orphans_found", (), "Overdue deliveries that no node would have looked at."),
    ("orphans", "re_emitted", "orphans_re_emitted", (), "Those of them that were emitted again."),
    ("age", "jobs", "aged_jobs", (), "Waiting jobs that were raised in priority."),
    ("prune", "jobs", "pruned_jobs", (), "Finished jobs that were deleted."),
    ("tick.error", None, "tick_errors", ("service",), "Steps of a service that failed and were repeated."),
)


class EventCounters:
    def __init__(self, registry: CollectorRegistry, pairs: Pairs) -> None:
        self._pairs = pairs
        self._counters: dict[str, list[tuple[Counter, str | None, tuple[str, ...]]]] = {}
        for event, measurement, name, labels, meaning in COUNTERS:
            counter = Counter(f"oncue_{name}", meaning, labels, registry=registry)
            self._counters.setdefault(event, []).append((counter, measurement, labels))
        self._beats = Summary("oncue_beat_seconds", "Renewals of this node's lease.", registry=registry)

    def subscribe(self, telemetry: Telemetry) -> None:
        telemetry.subscribe(self._count, *self._counters)
        telemetry.subscribe(self._beat, "node.beat")

    def _count(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        for counter, measurement, labels in self._counters[event]:
            child = counter.labels(*self._named(labels, metadata)) if labels else counter
            child.inc(1 if measurement is None else measurements.get(measurement, 0))

    def _named(self, labels: tuple[str, ...], metadata: Mapping[str, Any]) -> tuple[str, ...]:
        values = tuple(_label(metadata, label) for label in labels)
        return self._pairs.named(*values) if labels == LABELS else values

    def _beat(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._beats.observe(measurements["duration"])


def _label(metadata: Mapping[str, Any], name: str) -> str:
    """A label is named by the event itself, or by the claim that it is about."""
    return str(metadata[name] if name in metadata else getattr(metadata["claim"], name))
