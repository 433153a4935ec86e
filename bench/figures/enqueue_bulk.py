"""enqueue_bulk: many jobs enqueued at once, against a bare COPY of as many rows."""

from __future__ import annotations

from bench import bare_enqueue, oncue_side
from bench.figures.context import Bench
from bench.timing import Side
from bench.verdict import Figure, at_least, plain


def measure(bench: Bench) -> list[Figure]:
    oncue = bench.on_postgres(lambda dsn: oncue_side.enqueue_bulk(dsn, bench.settings.bulk_jobs))
    rates = bench.medians({"copy": _copy(bench), "oncue": oncue})
    return [at_least("enqueue_bulk", rates["oncue"], rates["copy"], 0.29)]


def bare(bench: Bench) -> list[Figure]:
    return [plain("bare enqueue_bulk", bench.medians({"copy": _copy(bench)})["copy"], "rows/s")]


def _copy(bench: Bench) -> Side:
    return bench.on_postgres(lambda dsn: bare_enqueue.copy(dsn, bench.settings.bulk_jobs))
