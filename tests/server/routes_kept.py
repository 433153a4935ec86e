"""The routes of the admin API, made once and used by many tests: to make them takes longer than most tests take.

All that a route knows of its application, it asks of the application. So it may ask a stand-in that passes on to the
application of the test; what a test keeps (the gate, what is known of readiness, the figures) is made for each test.
"""

from __future__ import annotations

from typing import Any

from oncue import Oncue
from oncue.observe.prometheus import PrometheusMetrics
from oncue.server.api import AccessMode, Gate, admin_api, routing
from oncue.server.health import Readiness


class StandIn:
    """Passes everything on to what it stands for now."""

    def __init__(self) -> None:
        self.stands_for: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stands_for, name)


class KeptRoutes:
    """The routes of one application at a time."""

    def __init__(self) -> None:
        app, readiness, registry = self._parts = StandIn(), StandIn(), StandIn()
        self._declared_for = _times()
        self._api = admin_api(app, readiness, registry, AccessMode.TOKEN).api  # type: ignore[arg-type]

    def gate(self, app: Oncue, access: AccessMode) -> Gate:
        """The routes are this application's from now on."""
        parts = (app, Readiness(app), PrometheusMetrics(app.internals.telemetry).registry)
        for stand_in, part in zip(self._parts, parts, strict=True):
            stand_in.stands_for = part
        return Gate(self._api, app, access)

    def put_back(self) -> None:
        """No application needs them any more."""
        for stand_in in self._parts:
            stand_in.stands_for = None
        _kept.setdefault(self._declared_for, []).append(self)


_kept: dict[tuple[float, ...], list[KeptRoutes]] = {}


def _times() -> tuple[float, ...]:
    """What a route takes from its module when it is declared."""
    return routing.READ_SECONDS, routing.CHANGE_SECONDS, routing.LONG_SECONDS


def kept_routes() -> KeptRoutes:
    """Routes that no application uses now. Who takes them puts them back, and adds nothing to them."""
    free = _kept.get(_times())
    return free.pop() if free else KeptRoutes()


def own_gate(app: Oncue, access: AccessMode) -> Gate:
    """A gate with routes of its own, for a test that changes them."""
    return admin_api(app, Readiness(app), PrometheusMetrics(app.internals.telemetry).registry, access)
