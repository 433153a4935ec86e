"""The buffer under the names that the origin's dashboards ask for, beside oncue's own metrics."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook_cron.emissions import Emissions


class OriginMetrics(Collector):
    def __init__(self, emissions: Emissions) -> None:
        self._emissions = emissions

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "easycron_eventbus_buffer_size", "Executions that wait here for a seat.", self._emissions.size
        )
        yield GaugeMetricFamily(
            "easycron_eventbus_buffer_capacity", "Executions that may wait here at most.", self._emissions.capacity
        )
        yield CounterMetricFamily(
            "easycron_eventbus_emit_errors",
            "Executions that found no room within 5 seconds, and wait in the durable queue.",
            self._emissions.errors,
        )
