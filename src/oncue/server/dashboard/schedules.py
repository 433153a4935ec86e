"""Schedules: the calendar, the ledger of slots, and edits with a preview of what they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard


def add(dashboard: Dashboard) -> None:
    pass
