"""pickup_p50: milliseconds from enqueue to the start of the job, on an idle system, in two processes."""

from __future__ import annotations

from bench import bare_pickup, oncue_side
from bench.figures.context import Bench
from bench.timing import Side
from bench.verdict import Figure, at_most, plain


def measure(bench: Bench) -> list[Figure]:
    oncue = bench.on_postgres(lambda dsn: oncue_side.pickup_p50(dsn, bench.settings.pickups))
    rivals, absent = bench.pickups("pgqueuer", "procrastinate")
    delays = bench.medians({"bare": _bare(bench), "oncue": oncue, **rivals})
    figures = [at_most("pickup_p50", delays["oncue"], delays["bare"], 1.6)]
    against = [at_most(f"pickup_p50 / {name}", delays["oncue"], delays[name], 1.0) for name in rivals]
    return figures + against + absent


def bare(bench: Bench) -> list[Figure]:
    return [plain("bare pickup_p50", bench.medians({"bare": _bare(bench)})["bare"], "ms")]


def _bare(bench: Bench) -> Side:
    return bench.on_postgres(lambda dsn: bare_pickup.p50(dsn, bench.settings.pickups))
