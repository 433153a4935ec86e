"""SLOs and alerts: how each of them stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard


def add(dashboard: Dashboard) -> None:
    pass
