"""The verbs on alerts: how the SLOs and alerts stand, as the leader's watcher last saw them."""

from __future__ import annotations

from datetime import timedelta

from oncue.model import AlertBook, Minute
from oncue.policy.minutes import minute_of
from oncue.verbs.base import NounVerbs


class Alerts(NounVerbs):
    """In plain code: `app.wait(app.alerts.book())`."""

    async def book(self) -> AlertBook:
        """Each SLO and alert with its value and its threshold, and when they were evaluated."""
        return await (await self._connected()).store.alerts.book()

    async def minutes(self, lasting: timedelta) -> list[Minute]:
        """What all nodes measured in the minutes that went by since so long ago, oldest first. They are kept for a
        day."""
        connected = await self._connected()
        return await connected.store.alerts.minutes(minute_of(connected.now()) - lasting)
