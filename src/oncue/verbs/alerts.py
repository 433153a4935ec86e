"""The verbs on alerts: how the SLOs and alerts stand, as the leader's watcher last saw them."""

from __future__ import annotations

from oncue.model import AlertBook
from oncue.verbs.base import NounVerbs


class Alerts(NounVerbs):
    """In plain code: `app.wait(app.alerts.book())`."""

    async def book(self) -> AlertBook:
        """Each SLO and alert with its value and its threshold, and when they were evaluated."""
        return await (await self._connected()).store.alerts.book()
