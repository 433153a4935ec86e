"""OpenTelemetry: the second subscriber of telemetry, if its API is installed (`pip install 'oncue[opentelemetry]'`).

What daily windows tell becomes instruments of the meter `oncue`, under the names of the events. An application that
configures no provider of OpenTelemetry's gets nothing of it, at the cost of a call for each event.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

from oncue import __version__
from oncue.telemetry import Telemetry

_log = logging.getLogger("oncue.telemetry")
_subscribed: WeakSet[Telemetry] = WeakSet()


def subscribe(telemetry: Telemetry) -> bool:
    """Whether OpenTelemetry is there to hear. One process may start several workers: it hears once."""
    try:
        from opentelemetry import metrics
    except ImportError:
        return False
    if telemetry not in _subscribed:
        try:
            OpenTelemetryMetrics(metrics.get_meter("oncue", __version__)).subscribe(telemetry)
        except Exception as error:  # an old API lacks gauges, say: no worker stops for its metrics
            _log.warning("opentelemetry: its API cannot be used, and hears nothing: %s", error)
            return False
        _subscribed.add(telemetry)
    return True


class OpenTelemetryMetrics:
    def __init__(self, meter: Any) -> None:
        self._ticks = meter.create_histogram("sched.tick.duration", "ms", "Ticks of the planner.")
        self._attempts = meter.create_histogram("sched.job.duration", "ms", "Attempts of windows' jobs.")
        self._days = meter.create_counter("sched.finalize", "{day}", "Users' days that have their outcome.")
        self._depth = meter.create_gauge("sched.queue.depth", "{job}", "Jobs of windows that wait.")
        self._in_flight = meter.create_gauge("sched.executor.in_flight", "{job}", "Attempts of windows' jobs here.")
        self._breaches = meter.create_counter("slo.breach", "{warning}", "Warnings of the SLO watcher.")

    def subscribe(self, telemetry: Telemetry) -> None:
        for event, hear in {
            "sched.tick.stop": self._ticked, "sched.job.stop": self._stopped, "sched.finalize": self._finalized,
            "sched.queue.depth": self._sampled, "sched.executor.in_flight": self._seated, "slo.breach": self._breached,
        }.items():  # fmt: skip
            telemetry.subscribe(hear, event)

    def _ticked(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._ticks.record(measurements["duration_ms"])

    def _stopped(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        told = {name: metadata[name] for name in ("window", "result", "error_class") if name in metadata}
        self._attempts.record(measurements["duration_ms"], told)

    def _finalized(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._days.add(1, {name: metadata[name] for name in ("window", "status", "due_bucket")})

    def _sampled(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._depth.set(measurements["depth"], {"queue": metadata["queue"]})

    def _seated(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._in_flight.set(measurements["in_flight"], {"queue": metadata["queue"]})

    def _breached(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._breaches.add(1, {"alert": metadata["alert"], "of": metadata["of"]})
