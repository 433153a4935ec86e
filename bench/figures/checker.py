"""checker: how long it takes to hold a history of a million events to every promise.

The history is a real one: weeks of a simulated cluster of five nodes with forty schedules, 1,500 jobs a day, and a
fault in every hour. What is measured is the check alone, with everything that can be asked of it.
"""

from __future__ import annotations

import logging
import sys
import time

from bench.figures.context import Bench
from bench.verdict import Figure, limited
from oncue.sim.checker import check, report
from oncue.sim.days import PACE, RECOVERY, Life, live, settle_down
from oncue.sim.runs import DRIFT

SEED = 1
LATE = 10.0
MOST_SECONDS = 60


def measure(bench: Bench) -> list[Figure]:
    logging.disable(logging.CRITICAL)  # what five nodes say in weeks of faults
    try:
        world = live(SEED, Life(days=bench.settings.checked_days))
        settle_down(world)
    finally:
        logging.disable(logging.NOTSET)
    events, final = world.history.events, world.final()
    world.close()
    print(f"  {len(events):,} events", file=sys.stderr, flush=True)

    def seconds_per_million() -> float:
        began = time.perf_counter()
        found = check(
            events, final, tolerance=DRIFT, drained_within=RECOVERY + 4 * PACE.lease, late=LATE, lease=PACE.lease
        )
        took = time.perf_counter() - began
        assert not found, report(found)
        return took / len(events) * 1e6

    seconds = bench.medians({"checker": seconds_per_million}, bench.settings.long_runs)["checker"]
    return [limited("checker", seconds, MOST_SECONDS, "s")]


def bare(bench: Bench) -> list[Figure]:
    return []
