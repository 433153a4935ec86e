"""hook20: so many webhooks with a schedule each on one machine, for ten minutes: a thousand deliveries every second.

One worker process with the settings that oncue has by default schedules and delivers. It is left out of `make bench`,
for its length: `python -m bench hook20`.
"""

from __future__ import annotations

import sys
import time

from bench import oncue_webhooks
from bench.crew import Child
from bench.figures.context import Bench
from bench.oncue_webhooks import CONCURRENCY, receiving
from bench.verdict import Figure, at_least, limited

PER_SECOND = 1_000
MOST_MB = 20
SLOWEST_SECONDS = 5
FILLED_PER_SECOND = 4_000
START_UP = 3.0
"""Seconds. So long after the filling is the first slot: the worker starts meanwhile."""


def measure(bench: Bench) -> list[Figure]:
    """Measured once: it is long enough."""
    webhooks, seconds = bench.settings.scheduled_webhooks, bench.settings.scheduled_seconds
    period, begin = max(webhooks // PER_SECOND, 1), START_UP + webhooks / FILLED_PER_SECOND
    with bench.server.fresh() as dsn, receiving() as (port, receiver):
        first_slot = oncue_webhooks.fill_schedules(dsn, port, webhooks, period, begin)
        worker = Child("bench.oncue_webhooks", "work", dsn, CONCURRENCY, begin + seconds / 4)
        try:
            started = time.monotonic()
            worker.wait_ready()
            print(f"  the worker started in {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
            time.sleep(max(first_slot + seconds - time.time(), 0))
            receiver.go()
            found = receiver.result()
            worker.go()
            memory = worker.result()
        finally:
            worker.stop()
    print(f"  {found} {memory}", file=sys.stderr, flush=True)
    return [
        at_least("hook20", found["delays"] / seconds, webhooks / period, 0.98),
        limited("hook20, p99 from slot to receiver", found["p99"] / 1000, SLOWEST_SECONDS, "s"),
        limited("hook20, memory", memory["last_mb"] - memory["warm_mb"], MOST_MB, "MB"),
    ]


def bare(bench: Bench) -> list[Figure]:
    return []
