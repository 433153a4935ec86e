"""sim_repeat: how many of 500 simulated days, each lived twice in different processes, have the same history twice."""

from __future__ import annotations

from bench import lives
from bench.figures.context import Bench
from bench.verdict import Figure, missing

FIRST_SEED = 10_000


def measure(bench: Bench) -> list[Figure]:
    seeds = range(FIRST_SEED, FIRST_SEED + bench.settings.repeated_seeds)
    days = bench.settings.repeated_days
    once, again = lives.all_of(seeds, days, hash_seed="1"), lives.all_of(seeds, days, hash_seed="2")
    if broken := [life.seed for life in once if life.broken]:
        return [missing("sim_repeat", f"promises were broken under the seeds {broken}", holds=False)]
    alike = sum(one.digest == two.digest for one, two in zip(once, again, strict=True))
    return [Figure("sim_repeat", alike, len(seeds), alike / len(seeds), "= 1 x", alike == len(seeds))]


def bare(bench: Bench) -> list[Figure]:
    return []
