"""Durations as people write them: `90`, `1.5s`, `10m`, `1h30m`, `timedelta(...)`."""

from __future__ import annotations

import re
from datetime import timedelta
from math import inf
from typing import TypeAlias

Duration: TypeAlias = str | float | timedelta

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS["d"] = 86400.0
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d)")
LONGEST = 36525 * 86400.0


def seconds(value: Duration, field: str = "duration") -> float:
    """How many seconds a duration has. Raises ValueError, naming the field, for anything that is not one."""
    total = _total(value, field)
    if not 0 <= total <= LONGEST:
        shown = "a number of that size" if total == inf else f"{value!r:.100}"
        raise ValueError(f"{field}: expected a duration between 0 and 100 years, not {shown}")
    return total


def _total(value: Duration, field: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _float(value)
    if isinstance(value, str):
        return _parsed(value.strip(), field)
    raise ValueError(f"{field}: expected a duration such as '30s', 90 or timedelta(minutes=5), not {value!r:.100}")


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # a whole number may be larger than any float
        return inf


def _parsed(text: str, field: str) -> float:
    total, at = 0.0, 0
    while match := _PART.match(text, at):
        total += float(match[1]) * _UNITS[match[2]]
        at = match.end()
    if text == "0":
        return 0.0
    if at == 0 or at != len(text):
        raise ValueError(
            f"{field}: expected a duration such as '30s', '10m' or '1h30m' (units ns, us, ms, s, m, h, d), "
            f"not {text!r:.100} (at position {at + 1})"
        )
    return total


def describe(total: float) -> str:
    """The shortest way to write a duration that `seconds` reads back: 5400 becomes `1h30m`."""
    if total < 1:
        return f"{total * 1000:.6f}".rstrip("0").rstrip(".") + "ms" if total else "0s"
    parts, rest = [], round(total, 3)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{int(count)}{unit}")
    if rest or not parts:
        parts.append(f"{rest:g}s")
    return "".join(parts)


def go_style(total: float) -> str:
    """A duration in whole seconds as Go writes it, with every unit below the largest: `5m0s`, `1h0m0s`."""
    minutes, rest = divmod(int(total), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"
