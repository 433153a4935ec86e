"""What a rate allows. Instants and durations are in microseconds.

`used_until` is the instant up to which a rate has been used up: each start moves it by `every`. While it lies in
the past, something may start. It is never taken to be longer ago than a burst: what was not used by then is lost.
"""

from __future__ import annotations

LONGEST_BURST = 40_000


def burst(every: float) -> int:
    return round(LONGEST_BURST // every * every)


def allowed(every: float, used_until: int, now: int) -> int:
    """How many may start now."""
    return int((now - used_until) / every) + 1 if used_until <= now else 0
