"""The dashboard and the API at one address: pages go to the one, everything else to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from oncue.server.api import AccessMode, Gate, admin_api
from oncue.server.api.routing import find
from oncue.server.dashboard import Dashboard, dashboard
from oncue.server.dashboard.entrance import path_below

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from oncue.app import Oncue
    from oncue.server.health import Readiness


class Site:
    """An ASGI application."""

    def __init__(self, gate: Gate, pages: Dashboard, prefix: str) -> None:
        self.gate = gate
        self.dashboard = pages
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = self._below_prefix(scope)
        is_page = scope["type"] == "http" and (self.dashboard.has(scope) or self._is_lost(scope))
        await (self.dashboard if is_page else self.gate)(scope, receive, send)

    async def aclose(self) -> None:
        await self.dashboard.aclose()

    def _is_lost(self, scope: Scope) -> bool:
        """Whether a browser asks for an address that nothing has: it is told so with a page."""
        if scope["method"] not in ("GET", "HEAD") or "text/html" not in Headers(scope=scope).get("accept", ""):
            return False
        return path_below(scope).split("/")[1:2] != ["api"] and find(self.gate.api.router.routes, scope) == (None, ())

    def _below_prefix(self, scope: Scope) -> Scope:
        """What a proxy passes on with the prefix of ONCUE_PUBLIC_URL still in the path, as it is without."""
        path = scope["path"]
        if not self._prefix or scope.get("root_path") or not f"{path}/".startswith(f"{self._prefix}/"):
            return scope
        raw = scope.get("raw_path")
        return {
            **scope,
            "path": path[len(self._prefix) :] or "/",
            "raw_path": raw[len(self._prefix) :] or b"/" if raw else raw,
        }


def site(app: Oncue, readiness: Readiness, registry: CollectorRegistry, access: AccessMode) -> Site:
    """Everything that `oncue run` and `oncue serve` answer."""
    gate = admin_api(app, readiness, registry, access)
    public = app.settings.public_url
    return Site(gate, dashboard(app, gate), urlsplit(public).path.rstrip("/") if public else "")
