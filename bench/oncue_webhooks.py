"""Webhooks of a receiver on this machine, and workers of them as measured children.

`deliver URL PORT ENDPOINTS TOTAL` works until so much is settled, `work URL CONCURRENCY WARM` until it is told to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from bench import child, database, timing
from bench.crew import Child
from oncue import Oncue, cron
from oncue.application.webhooks import call_of
from oncue.cli.process import collect_rarely, switch_threads_often
from oncue.model import DELIVER
from oncue.settings import Settings

CONCURRENCY = Settings.concurrency
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PAYLOAD = {"event": "order.paid", "order": 123_456, "lines": [{"sku": f"item-{n}", "quantity": n} for n in range(8)]}
BODY = json.dumps(PAYLOAD, separators=(",", ":")).encode()
HEADERS = {
    "Content-Type": "application/json", "User-Agent": "oncue/0.0.0", "Accept-Encoding": "identity",
    "webhook-id": "0" * 36, "webhook-timestamp": "0" * 10, "webhook-signature": "v1," + "0" * 44,
}  # fmt: skip
"""Of the same names and lengths as those of a delivery."""


@contextlib.contextmanager
def receiving() -> Iterator[tuple[int, Child]]:
    """A receiver, and the port that it listens on."""
    port = database.free_port()
    receiver = Child("bench.receiver", "serve", port)
    try:
        receiver.wait_ready()
        yield port, receiver
    finally:
        receiver.stop()


def healthy_url(port: int, number: int) -> str:
    return f"http://127.0.0.1:{port}/ok/{number}"


def name_of(number: int) -> str:
    return f"endpoint-{number}"


def bare_app(url: str, **settings: Any) -> Oncue:
    return Oncue(settings=Settings(database_url=url, webhooks_allow=("127.0.0.0/8",), **settings))


async def migrate(dsn: str) -> None:
    app = bare_app(dsn)
    store = app.internals.make_store()
    await store.migrate()
    await store.close()
    await app.aclose()


def make_app(url: str, port: int, endpoints: int) -> Oncue:
    app = bare_app(url)
    for number in range(endpoints):
        app.webhook(name_of(number), url=healthy_url(port, number), secrets=SECRET)
    return app


async def enqueue(app: Oncue, names: Iterable[str], each: int) -> None:
    """So many deliveries for each webhook, in one call for each."""
    deliver = app.internals.builtin[DELIVER]
    for name in names:
        call = call_of(deliver, name, app.internals.webhooks[name].carried, {})
        await call.aenqueue_many([{"webhook": name, "payload": PAYLOAD}] * each)


# Copies of one webhook and of the schedule that has it as its target, by SQL, for speed. Of each second of the period
# as many schedules have a slot.
COPY_WEBHOOKS = """
insert into oncue_webhooks (name, description, url, method, headers, content_type, body, timeout, secrets, retry,
                            redirects, ca, certificate, enabled, reason, declared_by, version, created_by, created_at,
                            updated_at, deleted_at, deleted)
select 'hook-' || n, description, url || n, method, headers, content_type, body, timeout, secrets, retry, redirects, ca,
       certificate, enabled, reason, declared_by, version, created_by, created_at, updated_at, deleted_at, deleted
  from oncue_webhooks, generate_series(1, $1::int) as n where name = 'template'
"""
COPY_SCHEDULES = """
insert into oncue_schedules (name, description, task, args, queue, priority, expression, tz, dst, missed, grace,
                             max_instances, enabled, options, max_retries, max_runtime, revision, started_at, version,
                             cursor, next_run_at, created_by, created_at, updated_at, group_name)
select 'hook-' || n, description, task, json_build_object('webhook', 'hook-' || n), queue, priority, expression, tz,
       dst, missed, grace, max_instances, enabled, options, max_retries, max_runtime, 1, began, 1, began,
       began + make_interval(secs => $2::int), created_by, created_at, updated_at, 'hook-' || n
  from oncue_schedules, generate_series(1, $1::int) as n
 cross join lateral (select $3::timestamptz + make_interval(secs => n % $2::int - $2::int) as began) as t
 where name = 'template'
"""


def fill_schedules(dsn: str, port: int, webhooks: int, period: int, begin: float) -> float:
    """Webhooks with a schedule each; the first slot, which is so many seconds away, as Unix time."""
    first = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=begin)
    timing.run(_fill_schedules(dsn, port, webhooks, period, first))
    calm_without_jobs(dsn)
    return first.timestamp()


def calm_without_jobs(dsn: str) -> None:
    """As `database.calm`. A table that is known to be empty would be read whole by plans that are kept for a minute."""
    database.execute(dsn, "vacuum analyze oncue_schedules", "vacuum analyze oncue_webhooks", "checkpoint")


async def _fill_schedules(dsn: str, port: int, webhooks: int, period: int, first: datetime) -> None:
    await migrate(dsn)
    app = bare_app(dsn)
    await app.webhooks.create("template", url=f"http://127.0.0.1:{port}/ok/", secrets=SECRET)
    await app.schedules.create("template", cron(f"@every {period}s"), webhook="template")
    connection = await asyncpg.connect(dsn, command_timeout=None)
    await connection.execute(COPY_WEBHOOKS, webhooks)
    await connection.execute(COPY_SCHEDULES, webhooks, period, first)
    await connection.execute("delete from oncue_schedules where name = 'template'")
    await connection.close()
    await app.aclose()


class Delivered:
    """Counts what was settled, by the worker's own telemetry, until it is all that was enqueued."""

    def __init__(self, total: int) -> None:
        self.left = total
        self.all = asyncio.Event()
        self.last = 0

    def __call__(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self.left -= int(measurements["jobs"])
        self.last = time.monotonic_ns()
        if self.left <= 0:
            self.all.set()


async def deliver(url: str, port: int, endpoints: int, total: int) -> None:
    switch_threads_often()  # as `oncue worker` does
    app, delivered = make_app(url, port, endpoints), Delivered(total)
    app.internals.telemetry.subscribe(delivered, "settle")
    async with app.worker():
        collect_rarely()
        used = time.process_time()
        child.announce()
        await delivered.all.wait()
        child.answer(jobs=total, ended=delivered.last, cpu_us=(time.process_time() - used) * 1e6 / total)
    await app.aclose()


async def work(url: str, concurrency: int, warm_seconds: float) -> None:
    """Deliver what there is; the growth of the process is counted from so many seconds after its start."""
    switch_threads_often()
    app, stop = bare_app(url, concurrency=concurrency), asyncio.Event()
    loop, warm_mb = asyncio.get_running_loop(), 0.0

    def warm() -> None:
        nonlocal warm_mb
        warm_mb = child.rss_mb()

    loop.add_reader(sys.stdin, stop.set)
    async with app.worker():
        collect_rarely()
        child.announce()
        loop.call_later(warm_seconds, warm)
        await stop.wait()
        child.answer(warm_mb=warm_mb or child.rss_mb(), last_mb=child.rss_mb(), cpu=time.process_time())
    await app.aclose()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    child.dispatch(
        {
            "deliver": lambda url, *numbers: timing.run(deliver(url, *map(int, numbers))),
            "work": lambda url, seats, warm: timing.run(work(url, int(seats), float(warm))),
        }
    )
