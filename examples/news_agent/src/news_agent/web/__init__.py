"""HTTP: the pages, and the same as JSON, beside all of oncue's own API.

pages     the users with what today came to, and one user's day
api       sign up, change, remove, chat, and the same as the pages as JSON
answers   what both share: users by number, and refusals in this program's words
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from news_agent.web import api, pages
from oncue import Oncue
from oncue.server.api import AccessMode, admin_api
from oncue.server.api.idempotency import IdempotentRequests
from oncue.server.api.routing import Routes
from oncue.server.health import Readiness

__all__ = ["news_api"]


def news_api(app: Oncue, readiness: Readiness, registry: CollectorRegistry, access: AccessMode) -> ASGIApp:
    """Everything that the process answers."""
    gate = admin_api(app, readiness, registry, access)
    routes = Routes(gate.api, IdempotentRequests(app))
    pages.add(routes)
    api.add(routes)
    return gate
