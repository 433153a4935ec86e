"""Metrics of a node: whether it lives, leads, is the exclusive worker, or stands by for another one.

Over all nodes, `sum(oncue_is_leader)` is 1 unless no node leads; for a moment it may be 2, which does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oncue.model import Lease, Node
from oncue.observe.labels import MOST
from oncue.telemetry import Telemetry


class ObservedLeadership(Protocol):
    @property
    def epoch(self) -> int | None: ...


class ObservedExclusivity(Protocol):
    @property
    def holder(self) -> Lease | None: ...

    def may_work(self) -> bool: ...


class ObservedMembership(Protocol):
    def is_alive(self) -> bool: ...


class ObservedSeating(Protocol):
    @property
    def allowed(self) -> Mapping[str, int]: ...


class ObservedNode(Protocol):
    """A worker node, read at a scrape."""

    @property
    def node(self) -> Node: ...

    @property
    def membership(self) -> ObservedMembership: ...

    @property
    def seating(self) -> ObservedSeating: ...

    @property
    def leadership(self) -> ObservedLeadership: ...

    @property
    def exclusivity(self) -> ObservedExclusivity: ...


class NodeMetrics(Collector):
    def __init__(self, telemetry: Telemetry) -> None:
        self._node: ObservedNode | None = None
        self._leads = False
        self._epoch = 0.0
        self._is_exclusive = False
        telemetry.subscribe(self._led, "leader.elected", "leader.lost")
        telemetry.subscribe(self._excluded, "exclusive.taken", "exclusive.lost")

    def follow(self, node: ObservedNode) -> None:
        """Read it off the node itself: a lease that has quietly run out, or was given up, is no event."""
        self._node = node

    def _led(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._leads = event == "leader.elected"
        self._epoch = measurements["epoch"]

    def _excluded(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._is_exclusive = event == "exclusive.taken"

    def collect(self) -> Iterator[Metric]:
        leads, is_exclusive, stands_by = self._leads, self._is_exclusive, False
        if self._node is not None:
            leads = self._node.leadership.epoch is not None
            is_exclusive = self._node.node.exclusive and self._node.exclusivity.may_work()
            stands_by = self._node.exclusivity.holder is not None
        yield GaugeMetricFamily("oncue_is_leader", "1 while this node leads.", int(leads))
        yield GaugeMetricFamily("oncue_leader_epoch", "Under which epoch this node led last; 0: never.", self._epoch)
        yield GaugeMetricFamily("oncue_is_exclusive", "1 while this node is the exclusive worker.", int(is_exclusive))
        yield GaugeMetricFamily(
            "oncue_standing_by", "1 while this node stands by, since another one is exclusive.", int(stands_by)
        )
        yield from self._of_a_node()

    def _of_a_node(self) -> Iterator[Metric]:
        """What only a process with a worker has: one without must not look like a node that is lost."""
        alive = GaugeMetricFamily("oncue_node_alive", "1 while this node holds its lease, and may work.")
        seats = GaugeMetricFamily(
            "oncue_queue_seats", "Jobs of a limited queue that this node may run at once.", labels=("queue",)
        )
        if self._node is not None:
            alive.add_metric((), int(self._node.membership.is_alive()))
            for queue, most in tuple(self._node.seating.allowed.items())[:MOST]:
                seats.add_metric((queue,), most)
        yield alive
        yield seats
