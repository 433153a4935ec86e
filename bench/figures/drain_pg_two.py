"""drain_pg_two: two worker processes share the queue; a second one must not slow the first one down."""

from __future__ import annotations

from bench import bare_postgres, oncue_side
from bench.figures.context import Bench
from bench.timing import Side
from bench.verdict import Figure, at_least, plain


def measure(bench: Bench) -> list[Figure]:
    rates = bench.medians({"bare two": _bare(bench), "one": _oncue(bench, 1), "two": _oncue(bench, 2)})
    return [
        at_least("drain_pg_two / one", rates["two"], rates["one"], 1.0),
        at_least("drain_pg_two", rates["two"], rates["bare two"], 0.4),
    ]


def bare(bench: Bench) -> list[Figure]:
    return [plain("bare drain_pg_two", bench.medians({"bare two": _bare(bench)})["bare two"], "jobs/s")]


def _bare(bench: Bench) -> Side:
    return bench.on_postgres(lambda dsn: bare_postgres.drain(dsn, bench.settings.drain_jobs, processes=2))


def _oncue(bench: Bench, processes: int) -> Side:
    return bench.on_postgres(lambda dsn: oncue_side.drain_pg(dsn, bench.settings.drain_jobs, processes))
