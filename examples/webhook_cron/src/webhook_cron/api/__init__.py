"""HTTP: the jobs of this program and their executions, beside all of oncue's own API.

jobs         make, list, show and delete jobs
executions   what became of them, attempt by attempt
outages      a database that is away is a 500 here, as in the origin
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from oncue import Oncue
from oncue.server.api import AccessMode, admin_api
from oncue.server.api.idempotency import IdempotentRequests
from oncue.server.api.routing import Routes
from oncue.server.health import Readiness
from webhook_cron.api import executions, jobs
from webhook_cron.api.outages import OutagesAs500
from webhook_cron.emissions import Emissions
from webhook_cron.metrics import OriginMetrics

__all__ = ["job_api"]


def job_api(app: Oncue, readiness: Readiness, registry: CollectorRegistry, access: AccessMode) -> ASGIApp:
    """Everything that the process answers."""
    registry.register(OriginMetrics(Emissions(app, readiness)))
    gate = admin_api(app, readiness, registry, access)
    routes = Routes(gate.api, IdempotentRequests(app))
    jobs.add(routes, app)
    executions.add(routes, app)
    return OutagesAs500(gate)
