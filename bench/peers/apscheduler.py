"""APScheduler 3: SQLAlchemy job store on PostgreSQL, a thread pool, all jobs due at once."""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import logging
import os
import threading
from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger

from bench import child

finished = threading.Event()
meter = child.Meter(0, finished.set)
lock = threading.Lock()


def noop() -> None:
    with lock:
        meter.count()


def scheduler(dsn: str) -> BackgroundScheduler:
    store = SQLAlchemyJobStore(url=dsn.replace("postgresql://", "postgresql+psycopg://"))
    defaults = {"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
    executors = {"default": ThreadPoolExecutor(10)}
    return BackgroundScheduler(jobstores={"default": store}, executors=executors, job_defaults=defaults, timezone=UTC)


def fill(dsn: str, slots: str) -> None:
    made = scheduler(dsn)
    made.start(paused=True)
    due = datetime.now(UTC)
    for number in range(int(slots)):
        trigger = CronTrigger(minute=f"0,{1 + number % 59}", hour=f"*/{1 + number % 12}", timezone=UTC)
        made.add_job("bench.peers.apscheduler:noop", trigger, id=str(number), next_run_time=due)
    os._exit(0)  # a scheduler that is shut down while it is paused fires what is due on its way out


def fire(dsn: str, slots: str) -> None:
    """From the first run to the last: between them lies the rescheduling of all but the last."""
    global meter
    meter = child.Meter(int(slots), finished.set)
    worker = scheduler(dsn)
    worker.start()
    finished.wait()
    worker.shutdown(wait=False)
    child.answer(rate=meter.rate())


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    import sys

    from bench.peers import apscheduler

    sys.modules["__main__"] = apscheduler
    child.dispatch({"fill": apscheduler.fill, "fire": apscheduler.fire})
