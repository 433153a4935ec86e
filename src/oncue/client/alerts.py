"""The verbs on SLOs and alerts."""

from __future__ import annotations

from oncue.client import reading
from oncue.client.requests import Request
from oncue.records.alerts import BookRecord

_book = reading.record(BookRecord)


def alert_book() -> Request[BookRecord]:
    """Each SLO and alert with its value and its threshold, and when they were evaluated."""
    return Request("GET", "/api/admin/alerts", _book)
