"""webhooks: deliveries a second from the enqueue to the settled job, beside a bare loop that only posts.

A worker process with the settings that oncue has by default delivers to 100 endpoints. The clock runs from the first
bulk enqueue until the last delivery is settled. The bare loop has as many requests on the way at once as the worker has
seats.
"""

from __future__ import annotations

import sys
import time

from bench import timing
from bench.crew import Child, race, rate
from bench.figures.context import Bench
from bench.oncue_webhooks import CONCURRENCY, enqueue, make_app, migrate, receiving
from bench.timing import Side
from bench.verdict import Figure, at_least, plain

ENDPOINTS = 100


def measure(bench: Bench) -> list[Figure]:
    each = bench.settings.deliveries // ENDPOINTS
    oncue = bench.on_postgres(lambda dsn: _deliver(dsn, each))
    rates = bench.medians({"bare": _bare(bench), "oncue": oncue})
    return [at_least("webhooks", rates["oncue"], rates["bare"], 0.35)]


def bare(bench: Bench) -> list[Figure]:
    return [plain("bare webhooks", bench.medians({"bare": _bare(bench)})["bare"], "requests/s")]


def _bare(bench: Bench) -> Side:
    requests = bench.settings.deliveries

    def side() -> float:
        with receiving() as (port, _):
            return rate(race([Child("bench.bare_webhooks", "post", port, requests, ENDPOINTS, CONCURRENCY)]))

    return side


def _deliver(dsn: str, each: int) -> float:
    total = each * ENDPOINTS
    with receiving() as (port, receiver):
        timing.run(migrate(dsn))
        worker = Child("bench.oncue_webhooks", "deliver", dsn, port, ENDPOINTS, total)
        try:
            worker.wait_ready()
            started = timing.run(_enqueue(dsn, port, each))
            answer = worker.result()
            print(f"  {answer['cpu_us']:.0f} us of CPU each", file=sys.stderr, flush=True)
        finally:
            worker.stop()
        receiver.go()
        arrived = receiver.result()["answered"]
    assert arrived == total, f"{arrived} of {total} deliveries arrived"
    return rate([{**answer, "started": started}])


async def _enqueue(dsn: str, port: int, each: int) -> int:
    app = make_app(dsn, port, ENDPOINTS)
    await app.internals.connected()
    started = time.monotonic_ns()
    await enqueue(app, app.internals.webhooks, each)
    await app.aclose()
    return started
