"""The admin API over HTTP: jobs, queues, schedules, webhooks, windows, cluster jobs, nodes, tokens, audit log, alerts.

auth         who may come in: the gate in front of every route
routing      routes that declare what they need, and the steps that every request takes
intake       what comes in, checked
idempotency  POST requests that may be sent twice
problems     errors as problem documents
pages        listings page by page
models/      what requests and answers look like
openapi      the description of it all
the rest     one file for each kind of thing; a route parses, calls one verb of the application, and renders
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

from oncue import __version__
from oncue.server.api import openapi
from oncue.server.api.auth import AccessMode, Gate
from oncue.server.api.idempotency import IdempotentRequests
from oncue.server.api.routing import Routes

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from oncue.app import Oncue
    from oncue.server.health import Readiness

__all__ = ["AccessMode", "Gate", "admin_api", "process_api"]


def admin_api(app: Oncue, readiness: Readiness, registry: CollectorRegistry, access: AccessMode) -> Gate:
    """Everything that there is, behind the gate."""
    from oncue.server.api import (
        alerts,
        audit_log,
        cluster,
        enqueueing,
        executions,
        jobs,
        nodes,
        queues,
        schedules,
        slots,
        tokens,
        webhooks,
        windows,
    )

    gate = process_api(app, readiness, registry, access)
    routes = Routes(gate.api, IdempotentRequests(app))
    # The slots' paths come before the schedules': a schedule's name may have slashes, and takes what is left.
    for part in (
        enqueueing, jobs, queues, slots, schedules, executions, webhooks, windows, cluster, nodes, tokens, audit_log,
        alerts,
    ):  # fmt: skip
        part.add(routes, app)
    openapi.add(routes)
    return gate


def process_api(app: Oncue, readiness: Readiness, registry: CollectorRegistry, access: AccessMode) -> Gate:
    """What every process answers, a worker too: health and metrics, nothing that changes anything."""
    from oncue.server import health, metrics

    api = FastAPI(
        title="oncue", version=__version__, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )  # fmt: skip
    openapi.describe(api)
    routes = Routes(api)
    health.add(routes, readiness)
    metrics.add(routes, registry)
    return Gate(api, app, access)
