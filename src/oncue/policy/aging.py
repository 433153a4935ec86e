"""When waiting jobs gain priority: once in every round, however many nodes look."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class Rules:
    every: float = 300.0
    after: float = 3600.0
    gain: int = 10


def round_of(now: datetime, rules: Rules) -> int:
    """Rounds are counted from 1970, so that every node numbers them alike."""
    return int(now.timestamp() // rules.every)


def next_round(now: datetime, rules: Rules) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=(round_of(now, rules) + 1) * rules.every)
