"""tick_scaling: a pass of the scheduler that finds 100 schedules due, among 1,000 and among 100,000.

The server counts the pages, time is the median of passes in a process of its own, and memory is what that process holds
after them.
"""

from __future__ import annotations

from bench import oncue_slots
from bench.crew import Child
from bench.figures.context import Bench
from bench.pages import Tally
from bench.verdict import Figure, at_most, limited

DUE = 100
MOST_MB = 5


def measure(bench: Bench) -> list[Figure]:
    few, many, ticks = bench.settings.few_schedules, bench.settings.schedules, bench.settings.ticks
    of_few, of_many = _tally(bench, few), _tally(bench, many)
    memory: dict[int, float] = {}

    def milliseconds(total: int) -> float:
        with bench.server.fresh() as dsn:
            oncue_slots.fill(dsn, total, DUE)
            answer = Child("bench.oncue_slots", "tick", dsn, ticks).result()
        memory[total] = answer["mb"]
        return float(answer["milliseconds"])

    times = bench.medians({"few": lambda: milliseconds(few), "many": lambda: milliseconds(many)})
    return [
        at_most("tick_scaling statements", of_many.statements, of_few.statements, 1.5),
        at_most("tick_scaling pages", of_many.pages, of_few.pages, 1.5),
        at_most("tick_scaling time", times["many"], times["few"], 1.5),
        limited("tick_scaling memory", memory[many] - memory[few], MOST_MB, "MB"),
    ]


def bare(bench: Bench) -> list[Figure]:
    return []


def _tally(bench: Bench, total: int) -> Tally:
    with bench.server.fresh() as dsn:
        oncue_slots.fill(dsn, total, DUE)
        return oncue_slots.tick_tally(dsn)
