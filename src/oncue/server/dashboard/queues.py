"""Queues with their limits and groups, and the workers that serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard


def add(dashboard: Dashboard) -> None:
    pass
