"""A history of cluster jobs, told again: how each of them and its parts were at any event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from oncue.model import CLUSTER_ADDRESS
from oncue.policy import options
from oncue.policy.lifecycle import STARTUP_RECOVERY
from oncue.policy.options import ClusterOptions
from oncue.sim.checker.evidence import Evidence, JobStory, ends
from oncue.sim.checker.leaders import LEADER
from oncue.sim.history import Event

Status: TypeAlias = Literal["open", "running", "completed", "skipped", "failed", "lost"]
"""What became of a part. `open`: it waits."""
OPEN: frozenset[Status] = frozenset({"open", "running"})


def came_to(change: Event) -> Status:
    """What a part is after a change."""
    told = change.fields
    if not ends(change):
        return "open"
    if told["state"] == "succeeded":
        return "completed"
    if told["state"] in ("failed", "cancelled") or told["reason"] == "interrupted":
        return "failed"
    if told["reason"] == "skipped_timeout":
        return "lost" if told["error"] == "node_lost" else "failed"
    return "skipped"


@dataclass(slots=True)
class ObservedPart:
    node: str
    name: str
    status: Status = "open"
    ended: Event | None = None
    restarted: bool = False
    """Whether its node was restarted in the middle of it."""


@dataclass(slots=True)
class ObservedCluster:
    """A cluster job as it is at an event."""

    story: JobStory
    terms: ClusterOptions
    spread: Event | None = None
    release: Event | None = None
    end: Event | None = None
    parts: dict[int | str, ObservedPart] = field(default_factory=dict)
    """By the ids of their jobs, or by their nodes if they have none."""
    quorum_since: Event | None = None
    decidable_since: Event | None = None

    @property
    def needed(self) -> int:
        return len(self.parts) // 2 + 1

    @property
    def counts(self) -> Counter[Status]:
        return Counter(part.status for part in self.parts.values())

    @property
    def has_quorum(self) -> bool:
        counts = self.counts
        is_over = not any(part.status in (*OPEN, "lost") for part in self.parts.values())
        done = counts["completed"] + counts["skipped"]
        return done >= self.needed and (counts["completed"] > 0 or is_over)

    @property
    def cannot_have_one(self) -> bool:
        return self.counts["failed"] > len(self.parts) - self.needed

    def note(self, part: ObservedPart, event: Event) -> None:
        """Something happened to a part."""
        if event.kind == "claim":
            part.status = "running"
        else:
            part.status = came_to(event)
            part.ended = event if ends(event) else None
            part.restarted |= event.fields["state"] == "failed" and event.fields["reason"] == STARTUP_RECOVERY
        if self.has_quorum:
            self.quorum_since = self.quorum_since or event
        if self.quorum_since or self.cannot_have_one:
            self.decidable_since = self.decidable_since or event


@dataclass(slots=True)
class ObservedLead:
    """Who leads, since when by its own account, and under which name."""

    node: str = ""
    epoch: int = 0
    first: Event | None = None
    until: int = 0

    def note(self, hold: Event) -> None:
        if (self.node, self.epoch) != (hold.node, hold.fields["epoch"]):
            self.node, self.epoch, self.first = hold.node, hold.fields["epoch"], hold
        self.until = hold.fields["until"]

    def is_of(self, node: str, epoch: int) -> bool:
        return (self.node, self.epoch) == (node, epoch)


class ClusterStory:
    """Goes through a history, and knows at each event how each cluster job is."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.lead = ObservedLead()
        self.clusters = {story.id: ObservedCluster(story, terms) for story, terms in cluster_jobs(evidence)}
        self._whole: dict[int, tuple[ObservedCluster, ObservedPart]] = {}

    def events(self) -> Iterator[tuple[ObservedCluster, Event]]:
        """What is about a cluster job or one of its parts; for the checker to look at before it counts."""
        if not self.clusters or not self.evidence.certain:
            return
        for event in self.evidence.told("spread", "release", "claim", "change", "hold"):
            if event.kind == "hold":
                if event.fields["name"] == LEADER:
                    self.lead.note(event)
                continue
            if event.kind == "change" and not event.fields["accepted"]:
                continue
            job_id = event.fields["id"]
            cluster, part = self._whole.get(job_id, (self.clusters.get(job_id), None))
            if cluster is None:
                continue
            if part is not None:
                yield cluster, event
                cluster.note(part, event)
            else:
                yield cluster, event
                self._note(cluster, event)

    def part(self, event: Event) -> ObservedPart | None:
        """The part that an event is about."""
        return self._whole[event.fields["id"]][1] if event.fields["id"] in self._whole else None

    def _note(self, cluster: ObservedCluster, event: Event) -> None:
        if event.kind == "spread":
            cluster.spread = cluster.spread or event
            for told in event.fields["parts"]:
                part = cluster.parts[told["job"] or told["node"]] = ObservedPart(told["node"], told["name"])
                if told["job"] is not None:
                    self._whole[told["job"]] = (cluster, part)
        elif event.kind == "release":
            cluster.release = cluster.release or event
        elif event.kind == "change" and ends(event):
            cluster.end = cluster.end or event


def cluster_jobs(evidence: Evidence) -> Iterator[tuple[JobStory, ClusterOptions]]:
    for story in evidence.jobs.values():
        if story.address == CLUSTER_ADDRESS and story.written is not None:
            terms = options.read(story.written.fields["options"]).cluster
            if terms is not None:
                yield story, terms
