"""claim_scaling: pages that a claim of 100 touches, beside millions of queued or finished jobs.

Pages are counted by EXPLAIN (ANALYZE, BUFFERS), which does not depend on the machine's mood.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Callable

import asyncpg

from bench import bare_table, oncue_side
from bench.figures.context import Bench
from bench.oncue_side import Statement
from bench.verdict import Figure, at_most, compared

SEATS = 100
CLAIMS = 7

Fill = Callable[[str, int, int], None]
Claim = Callable[[str, int], list[Statement]]


def measure(bench: Bench) -> list[Figure]:
    few, queued, finished = _pages(bench, oncue_side.fill_for_claims, oncue_side.claim_statements)
    return [
        at_most("claim_scaling queued", queued, few, 1.3),
        at_most("claim_scaling finished", finished, few, 1.3),
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
    with bench.server.fresh() as dsn:
        fill(dsn, queued, finished)
        return asyncio.run(_count(dsn, claim(dsn, SEATS)))


async def _count(dsn: str, statements: list[Statement]) -> float:
    """Claims are committed, so that each one meets what the last one left behind."""
    connection = await asyncpg.connect(dsn)
    try:
        claims = [[await explain(connection, each) for each in statements] for _ in range(CLAIMS)]
    finally:
        await connection.close()
    return statistics.median(sum(pages) for pages in claims)


async def explain(connection: asyncpg.Connection, statement: Statement) -> int:
    explained = f"explain (analyze, buffers, format json) {statement.sql}"
    [report] = json.loads(await connection.fetchval(explained, *statement.args))
    plan = report["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _fill_bare(dsn: str, queued: int, finished: int) -> None:
    bare_table.create(dsn)
    bare_table.fill(dsn, queued, finished)


def _claim_bare(dsn: str, seats: int) -> list[Statement]:
    return [Statement(bare_table.CLAIM, (None, bare_table.QUEUE, seats))]
