"""enqueue_one: jobs enqueued one by one, each awaited until it is durable."""

from __future__ import annotations

from bench import bare_enqueue, oncue_side
from bench.figures.context import Bench
from bench.timing import Side
from bench.verdict import Figure, at_least, plain


def measure(bench: Bench) -> list[Figure]:
    oncue = bench.on_postgres(lambda dsn: oncue_side.enqueue_one(dsn, bench.settings.single_jobs))
    rates = bench.medians({"bare": _bare(bench), "oncue": oncue})
    return [at_least("enqueue_one", rates["oncue"], rates["bare"], 0.72)]


def bare(bench: Bench) -> list[Figure]:
    return [plain("bare enqueue_one", bench.medians({"bare": _bare(bench)})["bare"], "jobs/s")]


def _bare(bench: Bench) -> Side:
    return bench.on_postgres(lambda dsn: bare_enqueue.one_by_one(dsn, bench.settings.single_jobs))
