"""What oncue tells of SLOs and alerts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from oncue.model import AlertBook, AlertState
from oncue.policy.subjects import shown_due


def alert_record(state: AlertState) -> dict[str, Any]:
    return {
        "alert": state.alert, "of": state.of, "state": state_of(state), "value": state.value,
        "threshold": state.threshold, "breaches": state.breaches, "since": _stamp(state.since),
        "warned_at": _stamp(state.warned_at),
        "due_at": None if state.due_bucket is None else shown_due(state.due_bucket), "text": state.text,
    }  # fmt: skip


def book_record(book: AlertBook) -> dict[str, Any]:
    return {"evaluated_at": _stamp(book.evaluated_at), "alerts": [alert_record(state) for state in book.alerts]}


def state_of(state: AlertState) -> str:
    """`warned`, `breached` (not often enough in a row for a warning yet), or `ok`."""
    return "warned" if state.warned_at is not None else "breached" if state.breaches else "ok"


def _stamp(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()
