"""What oncue tells of SLOs and alerts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal, TypeAlias

from oncue.model import AlertBook, AlertState
from oncue.policy.subjects import shown_due
from oncue.records.documents import RULES, Document, document, rules

StateWord: TypeAlias = Literal["warned", "breached", "ok"]
"""`breached`: not often enough in a row for a warning yet."""
ALERT_EXAMPLE: dict[str, Any] = {
    "alert": "predicted_misses",
    "of": "morning_digest",
    "state": "warned",
    "value": 214.0,
    "threshold": 5.0,
    "breaches": 3,
    "due_at": "09:00",
    "text": "at the present rate 214 users of morning_digest miss 09:00 (UTC)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecord:
    """One SLO or alert of one thing, as the leader last saw it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(ALERT_EXAMPLE)

    alert: str
    of: str
    """What it is about: the name of a window, a queue, a task or a schedule."""
    state: StateWord
    """`warned`, `breached` (not often enough in a row for a warning yet), or `ok`."""
    value: float
    threshold: float
    breaches: int
    """How many evaluations in a row have found a breach."""
    since: datetime | None
    """When the first of them was."""
    warned_at: datetime | None
    """When there were enough of them for a warning."""
    due_at: str | None
    """The cutoff, in UTC, whose users it concerns most."""
    text: str
    """The same in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookRecord:
    """How all SLOs and alerts stand. One is listed once there is something to measure."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    evaluated_at: datetime | None
    """null: the leader has not evaluated them yet; it does so once a minute."""
    alerts: tuple[AlertRecord, ...]


def book_record(book: AlertBook) -> Document:
    return document(BookRecord(evaluated_at=book.evaluated_at, alerts=tuple(map(_alert, book.alerts))))


def _alert(state: AlertState) -> AlertRecord:
    return AlertRecord(
        alert=state.alert, of=state.of, state=state_of(state), value=state.value, threshold=state.threshold,
        breaches=state.breaches, since=state.since, warned_at=state.warned_at,
        due_at=None if state.due_bucket is None else shown_due(state.due_bucket), text=state.text,
    )  # fmt: skip


def state_of(state: AlertState) -> StateWord:
    return "warned" if state.warned_at is not None else "breached" if state.breaches else "ok"
