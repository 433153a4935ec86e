"""memory: how much a worker grows while it drains a long queue."""

from __future__ import annotations

from bench import oncue_side
from bench.figures.context import Bench
from bench.verdict import Figure, limited

MOST_MB = 20


def measure(bench: Bench) -> list[Figure]:
    """Measured once: growth adds up over the jobs of one run, and does not swing with the machine."""
    with bench.server.fresh() as dsn:
        growth = oncue_side.memory_growth_mb(dsn, bench.settings.memory_jobs)
    return [limited("memory", growth, MOST_MB, "MB")]


def bare(bench: Bench) -> list[Figure]:
    return []
