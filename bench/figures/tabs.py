"""tabs: what a hundred open tabs cost a server, and how much of it goes to the database."""

from __future__ import annotations

import sys
from itertools import cycle, islice

from bench import database, timing
from bench.figures.context import Bench
from bench.server.dashboard import Cost, cost, furnish, kinds
from bench.server.site import Site, fill, serving
from bench.verdict import Figure, at_most, limited

MOST_OF_A_CORE = 5.0
OVERVIEW = "/"


def measure(bench: Bench) -> list[Figure]:
    settings = bench.settings
    few = settings.few_kept_jobs
    with bench.server.fresh() as dsn:
        timing.run(fill(dsn, few // 2, few // 2, rarity=4))
        timing.run(furnish(dsn, few))
        with serving(dsn, database.free_port()) as site:
            rooms = [address for kind, address in kinds(site).items() if len(kind) == 1 and "/" not in kind[0]]
            idle = _cost(bench, site, "one tab of the overview", [OVERVIEW])
            same = _cost(bench, site, f"{settings.tabs} tabs of the overview", [OVERVIEW] * settings.tabs)
            spread = [*islice(cycle(rooms), settings.tabs)]
            mixed = _cost(bench, site, f"{settings.tabs} tabs of {len(rooms)} pages", spread)
    return [
        limited("tabs", 100 * mixed.share, MOST_OF_A_CORE, "% of a core"),
        limited("tabs, of one page", 100 * same.share, MOST_OF_A_CORE, "% of a core"),
        at_most("tabs, statements", same.statements or 1, idle.statements or 1, 1.3),
    ]


def bare(bench: Bench) -> list[Figure]:
    return []


def _cost(bench: Bench, site: Site, what: str, pages: list[str]) -> Cost:
    found = timing.run(cost(site, pages, bench.settings.tab_seconds, bench.settings.tab_warm_up))
    print(
        f"  {what}: {100 * found.share:.2f} % of a core, {found.statements:.1f} statements a second, "
        f"{found.events:.2f} events a second to each", file=sys.stderr, flush=True,
    )  # fmt: skip
    return found
