"""When waiting jobs gain priority: once in every round, however many nodes look."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Rules:
    """Every so many seconds, jobs that have waited for `after` seconds gain so much. A gain of 0 is no aging."""

    every: float = 300.0
    after: float = 3600.0
    gain: int = 10


def round_of(now: datetime, rules: Rules) -> int:
    """When the round began, in microseconds since 1970: it grows also when the interval is changed."""
    return (_round_start(now, rules) - _EPOCH) // timedelta(microseconds=1)


def next_round(now: datetime, rules: Rules) -> datetime:
    return _round_start(now, rules) + timedelta(seconds=rules.every)


def _round_start(now: datetime, rules: Rules) -> datetime:
    every = timedelta(seconds=rules.every)
    return now - (now - _EPOCH) % every
