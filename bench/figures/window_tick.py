"""window_tick: a tick of the planner that finds 1,000 subjects due, among 10,000 and among 1,000,000.

PostgreSQL counts the pages; of SQLite, the steps of its machine are counted. Time is the median of ticks in a process
of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench import oncue_windows
from bench.crew import Child
from bench.figures.context import Bench
from bench.timing import Side
from bench.verdict import Figure, at_most

MINUTES = 8
"""So many ticks find a crowd. The smaller database has as many and a few more."""


def measure(bench: Bench) -> list[Figure]:
    few, many = bench.settings.few_subjects, bench.settings.subjects
    due = few // (MINUTES + 2)
    answers: dict[str, dict[str, Any]] = {}

    def ticked(name: str, url: str, total: int) -> float:
        oncue_windows.fill(url, total, due)
        answers[name] = Child("bench.oncue_windows", "tick", url, MINUTES).result()
        return float(answers[name]["milliseconds"])

    def on_postgres(name: str, total: int) -> Side:
        return bench.on_postgres(lambda dsn: ticked(name, dsn, total))

    def on_sqlite(name: str, total: int) -> Side:
        return bench.on_sqlite(lambda path: ticked(name, f"sqlite:///{path}", total))

    of_few, of_many = (_tally(bench, total, due) for total in (few, many))
    sides: dict[str, Callable[[], float]] = {
        "few": on_postgres("few", few), "many": on_postgres("many", many),
        "few, SQLite": on_sqlite("few, SQLite", few), "many, SQLite": on_sqlite("many, SQLite", many),
    }  # fmt: skip
    times = bench.medians(sides, bench.settings.long_runs)
    file = {name: answers[f"{name}, SQLite"] for name in ("few", "many")}
    return [
        at_most("window_tick statements", of_many.statements, of_few.statements, 1.5),
        at_most("window_tick pages", of_many.pages, of_few.pages, 1.5),
        at_most("window_tick time", times["many"], times["few"], 1.5),
        at_most("window_tick statements, SQLite", file["many"]["statements"], file["few"]["statements"], 1.5),
        at_most("window_tick steps, SQLite", file["many"]["steps"], file["few"]["steps"], 1.5),
        at_most("window_tick time, SQLite", times["many, SQLite"], times["few, SQLite"], 1.5),
    ]


def bare(bench: Bench) -> list[Figure]:
    return []


def _tally(bench: Bench, total: int, due: int) -> Any:
    with bench.server.fresh() as dsn:
        oncue_windows.fill(dsn, total, due)
        return oncue_windows.tick_tally(dsn)
