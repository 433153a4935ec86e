"""How many jobs a scenario will make, before any is made: one that no memory could hold is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from oncue.planning.arrivals import Stream
from oncue.planning.spans import moment
from oncue.policy.triggers import TICK, Rule, trigger

MOST_JOBS = 1_000_000
"""In memory that is some 4 GB, and it takes half an hour."""


def arriving(streams: Sequence[Stream], start: datetime, length: float) -> int:
    """How many jobs the streams will bring, as far as one can know. Raises ValueError if these are too many."""
    expected = {stream: stream.expected(start, length) for stream in streams}
    total = round(sum(expected.values()))
    if total > MOST_JOBS:
        worst = max(expected, key=lambda stream: expected[stream])
        bring = f"; {worst.words()} alone brings {expected[worst]:,.0f}" if len(expected) > 1 else ""
        raise ValueError(f"expected {MOST_JOBS:,} jobs in the simulated time at most, not {total:,}{bring}")
    return total


def check_slots(rules: Mapping[str, Rule], jobs: int, start: datetime, length: float) -> None:
    """Whether schedules with these names make too many, on top of so many jobs. Raises ValueError."""
    end = moment(start, length) - TICK
    slots = {name: trigger(rule, start).count(start - TICK, end) for name, rule in sorted(rules.items())}
    total = jobs + sum(slots.values())
    if total > MOST_JOBS:
        worst = max(slots, key=lambda name: slots[name])
        told = f"schedule {worst} alone has {slots[worst]:,} slots"
        raise ValueError(f"expected {MOST_JOBS:,} jobs in the simulated time at most, not {total:,}; {told}")
