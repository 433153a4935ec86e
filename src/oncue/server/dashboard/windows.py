"""Daily windows: what became of a day, by the minute of the cutoff, and the days of one subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard


def add(dashboard: Dashboard) -> None:
    pass
