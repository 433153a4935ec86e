"""What nodes measure in a minute, and the state of the SLOs and alerts that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

MinuteKind: TypeAlias = Literal["tick", "queue", "window", "schedule", "totals"]
Figures: TypeAlias = Mapping[str, Any]
"""Numbers by their names, or such mappings themselves."""


class Minute(NamedTuple):
    """What one node measured of one thing in one minute."""

    minute: datetime
    node_id: UUID
    kind: MinuteKind
    name: str
    """Of the queue, the window or the schedule. The planner has none."""
    figures: Figures


class AlertState(NamedTuple):
    """One SLO or alert of one thing, as the watcher last saw it."""

    alert: str
    of: str
    """What it is about: the name of a window, a queue, a task or a schedule."""
    value: float
    threshold: float
    breaches: int = 0
    """How many evaluations in a row have found a breach."""
    since: datetime | None = None
    """When the first of them was."""
    warned_at: datetime | None = None
    """When there were enough of them for a warning."""
    due_bucket: int | None = None
    """The minute of the day, in UTC, whose users it concerns most."""
    text: str = ""
    """The same in a sentence."""


class AlertBook(NamedTuple):
    """The state of all SLOs and alerts."""

    version: int
    """Grows with every evaluation. 0: there was none yet."""
    evaluated_at: datetime | None
    alerts: tuple[AlertState, ...]


NO_ALERTS = AlertBook(0, None, ())
