"""The dashboard and the API for the application's own server: `app.asgi()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from oncue.observe.prometheus import PrometheusMetrics
from oncue.server.api import AccessMode
from oncue.server.health import Readiness
from oncue.server.site import site

if TYPE_CHECKING:
    from oncue.app import Oncue


def mountable(app: Oncue, *, require_token: bool, on_loopback: bool = False) -> ASGIApp:
    """Everything that `oncue serve` answers. Without `on_loopback` a token is needed from the start."""
    access = (AccessMode.LOOPBACK if on_loopback else AccessMode.TOKEN) if require_token else AccessMode.TRUSTED
    return site(app, Readiness(app), PrometheusMetrics(app.internals.telemetry).registry, access)
