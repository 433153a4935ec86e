"""sim_days: how long a thousand simulated days take, each promise checked, on all processors of this machine.

Five nodes, forty schedules and 1,500 jobs a day, with a fault in every hour. The days are lived in stretches of twenty,
each from a seed of its own, since a history is checked as a whole.
"""

from __future__ import annotations

import sys
import time

from bench import lives
from bench.figures.context import Bench
from bench.verdict import Figure, limited, missing

STRETCH = 20
DAYS = 1_000
MOST_MINUTES = 15


def measure(bench: Bench) -> list[Figure]:
    stretches = max(2, round(bench.settings.simulated_days / STRETCH))
    days = min(STRETCH, bench.settings.simulated_days / stretches)
    began = time.perf_counter()
    lived = lives.all_of(range(stretches), days)
    minutes = (time.perf_counter() - began) / 60
    broken = [life.seed for life in lived if life.broken]
    if broken:
        return [missing("sim_days", f"promises were broken under the seeds {broken}", holds=False)]
    events, jobs = sum(life.events for life in lived), sum(life.jobs for life in lived)
    print(f"  {stretches * days:g} days, {jobs:,} jobs, {events:,} events, no alarm", file=sys.stderr, flush=True)
    return [limited("sim_days", minutes * DAYS / (stretches * days), MOST_MINUTES, "min for 1,000 days")]


def bare(bench: Bench) -> list[Figure]:
    return []
