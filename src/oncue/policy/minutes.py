"""What a minute's figures are made of: numbers that add up, and histograms whose percentiles can be read off.

A histogram counts durations in buckets of a fixed width: each reaches 10 % further than the one before. So the buckets
of all nodes fit together, and a percentile is right within 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from oncue.model import Figures

ONE_MINUTE = timedelta(minutes=1)
_GROWTH = math.log(1.1)
_MIDDLE = 2 / 2.1
"""The middle of a bucket, as a share of its upper end: no duration in it is further away than 5 %."""


def minute_of(instant: datetime) -> datetime:
    return instant.replace(second=0, microsecond=0)


def bucket(milliseconds: float) -> str:
    """The bucket of a duration: the number of its upper end, as a text, since it is a key of a JSON object."""
    return str(math.ceil(math.log(max(milliseconds, 1.0)) / _GROWTH - 1e-9))


def percentile(histogram: Mapping[str, int], share: float) -> float | None:
    """The duration, in milliseconds, that this share of a histogram does not exceed; None if it is empty."""
    total = sum(histogram.values())
    if not total:
        return None
    passed, number = 0, 0
    for number in sorted(map(int, histogram)):
        passed += histogram[str(number)]
        if passed >= share * total:
            break
    return 1.1**number * (_MIDDLE if number else 1.0)


def add(into: dict[str, Any], figures: Figures) -> None:
    """Add figures to others, name by name."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            add(into.setdefault(name, {}), value)
        else:
            into[name] = into.get(name, 0) + value


def summed(many: Iterable[Figures]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for figures in many:
        add(total, figures)
    return total
