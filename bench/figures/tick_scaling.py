"""tick_scaling: a pass of the scheduler that finds 100 schedules due, among 1,000 and among 100,000.

Pages are counted by EXPLAIN (ANALYZE, BUFFERS), time is the median of passes in a process of its own, and memory is
what that process holds after them.
"""

from __future__ import annotations

import asyncio

import asyncpg

from bench import oncue_slots
from bench.crew import Child
from bench.figures.claim_scaling import explain
from bench.figures.context import Bench
from bench.verdict import Figure, at_most, limited

DUE = 100
MOST_MB = 5


def measure(bench: Bench) -> list[Figure]:
    few, many = 1_000, bench.settings.schedules
    few_pages, many_pages = _pages(bench, few), _pages(bench, many)
    memory: dict[int, float] = {}
    statements: dict[int, float] = {}

    def milliseconds(total: int) -> float:
        with bench.server.fresh() as dsn:
            oncue_slots.fill(dsn, total, DUE)
            answer = Child("bench.oncue_slots", "tick", dsn).result()
        memory[total], statements[total] = answer["mb"], answer["statements"]
        return float(answer["milliseconds"])

    times = bench.medians({"few": lambda: milliseconds(few), "many": lambda: milliseconds(many)})
    return [
        at_most("tick_scaling statements", statements[many], statements[few], 1.5),
        at_most("tick_scaling pages", many_pages, few_pages, 1.5),
        at_most("tick_scaling time", times["many"], times["few"], 1.5),
        limited("tick_scaling memory", memory[many] - memory[few], MOST_MB, "MB"),
    ]


def bare(bench: Bench) -> list[Figure]:
    return []


def _pages(bench: Bench, total: int) -> float:
    with bench.server.fresh() as dsn:
        oncue_slots.fill(dsn, total, DUE)
        return asyncio.run(_count(dsn, oncue_slots.tick_statements(dsn)))


async def _count(dsn: str, statements: list[oncue_slots.Statement]) -> float:
    connection = await asyncpg.connect(dsn)
    try:
        return float(sum([await explain(connection, each) for each in statements]))
    finally:
        await connection.close()
