"""Celery on Redis: results ignored, rate limits off, large prefetch, no gossip or mingle."""

# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator"

from __future__ import annotations

import os
import threading
from typing import Any

from celery import Celery

from bench import child

# With empty jobs solo came out level with threads, and above prefork in a single try of each.
POOL = "solo"
QUIET = {"without_gossip": True, "without_mingle": True, "without_heartbeat": True}


def application(address: str) -> Celery:
    app = Celery("bench", broker=address)
    app.conf.update(
        task_ignore_result=True,
        worker_disable_rate_limits=True,
        worker_prefetch_multiplier=64,
        worker_send_task_events=False,
        worker_redirect_stdouts=False,
        task_store_errors_even_if_ignored=False,
        broker_pool_limit=1,
    )
    return app


def fill(address: str, jobs: str) -> None:
    app = application(address)
    with app.producer_or_acquire() as producer:
        for _ in range(int(jobs)):
            app.send_task("noop", producer=producer)


def drain(address: str, jobs: str) -> None:
    app, finished = application(address), threading.Event()
    meter = child.Meter(int(jobs), finished.set)

    @app.task(name="noop")
    def noop() -> None:
        meter.count()

    start(app)
    finished.wait()
    child.answer(rate=meter.rate())
    # The worker has no stop that is quick from another thread, and nothing of it is worth keeping.
    os._exit(0)


def start(app: Any) -> None:
    worker = app.Worker(pool=POOL, loglevel="ERROR", **QUIET)
    threading.Thread(target=worker.start, daemon=True).start()


if __name__ == "__main__":
    child.dispatch({"fill": fill, "drain": drain})
