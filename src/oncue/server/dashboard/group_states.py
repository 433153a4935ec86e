"""Groups of a queue as pages show them: what holds them back, in a word."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from oncue.model import PARKED, Group

MOST_COUNTED = 1000
"""So many jobs of a group are counted."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group with its state."""

    group: Group
    state: str
    kind: str
    """The colour of its state."""
    until: datetime | None = None
    """When it opens by itself, or sends its next probe."""

    @property
    def is_held(self) -> bool:
        """Whether an operator could let it go on."""
        return self.group.paused_until is not None or bool(self.group.trips)

    @property
    def queued(self) -> str:
        return f"{self.group.queued:,}" + ("+" if self.group.queued >= MOST_COUNTED else "")


def group_row(group: Group, now: datetime) -> GroupRow:
    until = None if group.paused_until is None or group.paused_until <= now else group.paused_until
    end = None if until == PARKED else until
    if group.trips and until != PARKED:
        return GroupRow(group, f"circuit breaker open, trip {group.trips}", "fail", end)
    if until is not None:
        return GroupRow(group, "paused", "paused", end)
    if group.limit is not None and group.running >= group.limit:
        return GroupRow(group, "full", "warn")
    if group.queued and group.rate is not None and group.rated_until is not None and group.rated_until > now:
        return GroupRow(group, "waits for its rate", "warn", group.rated_until)
    return GroupRow(group, "open", "ok")
