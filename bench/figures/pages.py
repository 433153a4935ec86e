"""pages: what the dashboard takes to answer when two million finished jobs are kept, against one with a thousand.

Pages are found by following links from the overview, so that a new one is measured as soon as there is one.
"""

from __future__ import annotations

import sys

from bench import database, timing
from bench.figures.context import Bench
from bench.server.dashboard import furnish, kinds, medians
from bench.server.site import Site, fill, serving
from bench.verdict import Figure, at_most, limited

MOST_ROWS = 20_000
GROWN = 20
"""One in so many of what is kept is a run, a delivery, a slot or an entry of the audit log."""


def measure(bench: Bench) -> list[Figure]:
    settings = bench.settings
    few = settings.few_kept_jobs
    with bench.server.fresh() as many_dsn, bench.server.fresh() as few_dsn:
        timing.run(fill(many_dsn, settings.kept_jobs, settings.open_jobs, rarity=1_000))
        timing.run(furnish(many_dsn, settings.kept_jobs // GROWN))
        # Of each kind so many that every filter has as much to show on both sides.
        timing.run(fill(few_dsn, few // 2, few // 2, rarity=4))
        timing.run(furnish(few_dsn, few))
        ports = [database.free_port() for _ in range(2)]
        with serving(many_dsn, ports[0]) as large, serving(few_dsn, ports[1]) as small:
            there, also = kinds(large), kinds(small)
            common = [(there[kind], also[kind]) for kind in there if kind in also]
            rows = timing.run(large.rows_read([address for address, _ in common], settings.statistics_seconds))
            compared = [_compared(large, small, pair, settings.requests) for pair in common]
    worst = max(compared, key=lambda found: found[0] / found[1])
    slowest = max(compared)
    figure = at_most("pages", worst[0], worst[1], 3)
    note = f"ms, the worst of {len(common)}: {worst[2]}; the slowest takes {slowest[0]:.0f} ms: {slowest[2]}"
    return [Figure(**{**figure.record(), "note": note}), limited("pages, rows read", rows, MOST_ROWS, "rows")]  # type: ignore[arg-type]


def bare(bench: Bench) -> list[Figure]:
    return []


def _compared(large: Site, small: Site, pair: tuple[str, str], requests: int) -> tuple[float, float, str]:
    slow, quick = medians([(large, pair[0]), (small, pair[1])], requests)
    print(f"  {pair[0]}: {slow:.2f} ms, {quick:.2f} ms", file=sys.stderr, flush=True)
    return slow, quick, pair[0]
