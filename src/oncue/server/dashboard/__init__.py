"""The dashboard: pages for operators, rendered here, over the same verbs as the API.

entrance   who may open a page, who may change something: sessions, cookies, CSRF, where a request comes from
pages      pages and actions that declare what they need, and the steps that every request takes
view       what a page is asked for, and where its links lead
deeds      what an action is asked for, and what it did
forms      queries and forms, of bounded size
live       one stream per tab; what many tabs show is read and rendered once
rendering  templates, and how values are shown
assets     scripts and styles, compressed once
limits     how often a client may ask
the rest   one file for each kind of page; a page calls verbs and hands what they tell to its template
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncue.server.dashboard.entrance import Entrance
from oncue.server.dashboard.pages import Dashboard

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.server.api.auth import Gate

__all__ = ["Dashboard", "dashboard"]


def dashboard(app: Oncue, gate: Gate) -> Dashboard:
    """All pages, for the visitors that the gate's mode of access lets in."""
    from oncue.server.dashboard import (
        alerts,
        audit_log,
        cluster,
        jobs,
        names,
        overview,
        queues,
        schedules,
        settings,
        signing_in,
        webhooks,
        windows,
    )

    found = Dashboard(app, Entrance(app, gate))
    for part in (
        signing_in, names, overview, jobs, queues, schedules, windows, webhooks, cluster, alerts, audit_log, settings,
    ):  # fmt: skip
        part.add(found)
    return found
