"""drain_sqlite: one worker process on a SQLite file that waits for the disk at every commit."""

from __future__ import annotations

from bench import bare_sqlite, oncue_side
from bench.figures.context import Bench
from bench.timing import Side
from bench.verdict import Figure, at_least, plain


def measure(bench: Bench) -> list[Figure]:
    oncue = bench.on_sqlite(lambda path: oncue_side.drain_sqlite(path, bench.settings.drain_jobs))
    rivals, absent = bench.drains("huey")
    rates = bench.medians({"bare": _bare(bench), "oncue": oncue, **rivals})
    figures = [at_least("drain_sqlite", rates["oncue"], rates["bare"], 0.26)]
    against = [at_least(f"drain_sqlite / {name}", rates["oncue"], rates[name], 5.0) for name in rivals]
    return figures + against + absent


def bare(bench: Bench) -> list[Figure]:
    return [plain("bare drain_sqlite", bench.medians({"bare": _bare(bench)})["bare"], "jobs/s")]


def _bare(bench: Bench) -> Side:
    return bench.on_sqlite(lambda path: bare_sqlite.drain(path, bench.settings.drain_jobs))
