"""SLOs and alerts: how each of them stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncue.records.alerts import BookRecord, book_record
from oncue.server.api.documents import looking
from oncue.server.api.problems import Answer
from oncue.server.api.routing import Routes

if TYPE_CHECKING:
    from oncue.app import Oncue


def add(routes: Routes, app: Oncue) -> None:
    @routes.get("/api/admin/alerts", **looking("alerts", "Show the SLOs and alerts", BookRecord))
    async def list_alerts() -> Answer:
        """Each SLO and alert as the leader last saw it: its value, its threshold, and since when it is in breach."""
        return Answer(book_record(await app.alerts.book()))
