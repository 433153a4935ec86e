"""drain_pg: one worker process runs an empty `async def` for every job that waits on PostgreSQL."""

from __future__ import annotations

from bench import bare_postgres, oncue_side
from bench.figures.context import Bench
from bench.timing import Side
from bench.verdict import Figure, at_least, compared, plain


def measure(bench: Bench) -> list[Figure]:
    jobs = bench.settings.drain_jobs
    oncue = bench.on_postgres(lambda dsn: oncue_side.drain_pg(dsn, jobs, processes=1))
    rivals, absent = bench.drains("pgqueuer", "graphile_worker", "procrastinate", "celery")
    rates = bench.medians({"bare": _bare(bench), "oncue": oncue, **rivals})
    figures = [at_least("drain_pg", rates["oncue"], rates["bare"], 0.45)]
    return figures + [_against(name, rates) for name in rivals] + absent


def bare(bench: Bench) -> list[Figure]:
    return [plain("bare drain_pg", bench.medians({"bare": _bare(bench)})["bare"], "jobs/s")]


def _bare(bench: Bench) -> Side:
    return bench.on_postgres(lambda dsn: bare_postgres.drain(dsn, bench.settings.drain_jobs))


def _against(name: str, rates: dict[str, float]) -> Figure:
    """Only pgqueuer, the fastest on Python, is a bar; the others are for the reader."""
    title = f"drain_pg / {name}"
    if name == "pgqueuer":
        return at_least(title, rates["oncue"], rates[name], 1.0)
    return compared(title, rates["oncue"], rates[name])
