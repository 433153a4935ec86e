"""claim_scaling: pages that a claim of 100 touches, beside millions of queued or finished jobs.

The server counts the pages, so the figure does not depend on how busy the machine is.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import asyncpg

from bench import bare_table, oncue_side, timing
from bench.figures.context import Bench
from bench.pages import Counting, Tally
from bench.verdict import Figure, at_most, compared

SEATS = 100
CLAIMS = 7

Fill = Callable[[str, int, int], None]
Claim = Callable[[str, int, int], list[int]]


def measure(bench: Bench) -> list[Figure]:
    few, queued, finished = _pages(bench, oncue_side.fill_for_claims, oncue_side.claim_pages)
    return [
        at_most("claim_scaling queued", queued, few, 1.25),
        at_most("claim_scaling finished", finished, few, 1.25),
    ]


def bare(bench: Bench) -> list[Figure]:
    few, queued, finished = _pages(bench, _fill_bare, _claim_bare)
    return [
        compared("bare claim_scaling queued", queued, few),
        compared("bare claim_scaling finished", finished, few),
    ]


def _pages(bench: Bench, fill: Fill, claim: Claim) -> tuple[float, float, float]:
    few, many = bench.settings.few_rows, bench.settings.many_rows
    amounts = ((few, 0), (many, 0), (few, many))
    first, second, third = (_pages_with(bench, fill, claim, *amount) for amount in amounts)
    return first, second, third


def _pages_with(bench: Bench, fill: Fill, claim: Claim, queued: int, finished: int) -> float:
    """Claims are committed, so that each one meets what the last one left behind."""
    with bench.server.fresh() as dsn:
        fill(dsn, queued, finished)
        return statistics.median(claim(dsn, SEATS, CLAIMS))


def _fill_bare(dsn: str, queued: int, finished: int) -> None:
    bare_table.create(dsn)
    bare_table.fill(dsn, queued, finished)


def _claim_bare(dsn: str, seats: int, claims: int) -> list[int]:
    async def measure() -> list[int]:
        tally, found = Tally(), []
        connection = await asyncpg.connect(dsn)
        for _ in range(claims):
            before = tally.pages
            await Counting(connection, tally).fetch(bare_table.CLAIM, None, bare_table.QUEUE, seats)
            found.append(tally.pages - before)
        await connection.close()
        return found

    return timing.run(measure())
