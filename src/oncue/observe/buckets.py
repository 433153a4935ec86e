"""The buckets of histograms that are counted in plain numbers, and shown at a scrape."""

from __future__ import annotations

from itertools import accumulate

BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0,
)  # fmt: skip


def empty() -> list[int]:
    return [0] * (len(BOUNDS) + 1)


def cumulated(counts: list[int]) -> list[tuple[str, float]]:
    """The buckets as Prometheus wants them: each with everything below it."""
    return list(zip((*map(str, BOUNDS), "+Inf"), accumulate(counts), strict=True))
