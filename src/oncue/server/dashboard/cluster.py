"""The cluster: nodes, leader and epoch, and cluster jobs node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard


def add(dashboard: Dashboard) -> None:
    pass
