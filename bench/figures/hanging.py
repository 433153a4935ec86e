"""hanging: what deliveries to healthy endpoints notice when other endpoints stop answering, all at once.

One worker process with the seats that oncue has by default. So many endpoints take a request and never answer it; each
has ten deliveries waiting, which is its whole share. Meanwhile a hundred healthy endpoints get deliveries at a steady
pace. The delay runs from the enqueue to the receiver. The time-outs of the hanging ones are longer than the run.
"""

from __future__ import annotations

import asyncio
import sys
import time

from bench import timing
from bench.crew import Child
from bench.figures.context import Bench
from bench.oncue_webhooks import (
    CONCURRENCY,
    SECRET,
    bare_app,
    calm_without_jobs,
    enqueue,
    healthy_url,
    migrate,
    receiving,
)
from bench.settings import Settings
from bench.verdict import Figure, limited
from oncue import Oncue

FEW, MANY = 7, 50
HEALTHY = 100
EACH = 10
TIMEOUT = 30
PER_SECOND = 100
MOST_SECONDS = 1.0


def measure(bench: Bench) -> list[Figure]:
    settings = bench.settings
    found = bench.medians(
        {
            f"{dying} of them": bench.on_postgres(lambda dsn, dying=dying: _longest(dsn, settings, dying))  # type: ignore[misc]
            for dying in (0, FEW, MANY)
        },
        settings.long_runs,
    )
    return [limited(f"hanging, {name}", seconds, MOST_SECONDS, "s") for name, seconds in found.items()]


def bare(bench: Bench) -> list[Figure]:
    return []


def _longest(dsn: str, settings: Settings, dying: int) -> float:
    """Seconds within which every delivery to a healthy endpoint was at the receiver."""
    with receiving() as (port, receiver):
        timing.run(_prepare(dsn, port, dying))
        calm_without_jobs(dsn)
        worker = Child("bench.oncue_webhooks", "work", dsn, CONCURRENCY, settings.hanging_seconds)
        try:
            worker.wait_ready()
            sent = timing.run(_feed(dsn, port, settings, dying))
            receiver.go()
            found = receiver.result()
            worker.go()
            used = worker.result()
        finally:
            worker.stop()
    print(f"  {dying}: {found} {used}", file=sys.stderr, flush=True)
    return float(found["longest"]) / 1000 if found["delays"] == sent else float(settings.hanging_seconds)


def _declared(dsn: str, port: int, dying: int) -> tuple[Oncue, list[str], list[str]]:
    app = bare_app(dsn)
    healthy, hanging = ([f"{kind}-{n}" for n in range(many)] for kind, many in (("ok", HEALTHY), ("dead", dying)))
    for number, name in enumerate(healthy):
        app.webhook(name, url=healthy_url(port, number), secrets=SECRET)
    for number, name in enumerate(hanging):
        app.webhook(name, url=f"http://127.0.0.1:{port}/dead/{number}", secrets=SECRET, timeout=TIMEOUT)
    return app, healthy, hanging


async def _prepare(dsn: str, port: int, dying: int) -> None:
    await migrate(dsn)
    app, _, _ = _declared(dsn, port, dying)
    await app.webhooks.declare_all(await app.internals.connected())
    await app.aclose()


async def _feed(dsn: str, port: int, settings: Settings, dying: int) -> int:
    """All that the hanging ones get, at once, and then deliveries to healthy ones in turn; how many these are."""
    app, healthy, hanging = _declared(dsn, port, dying)
    await app.internals.connected()
    await app.internals.webhooks[healthy[0]].adeliver(None)  # the first attempt of a process prepares its way out
    await asyncio.sleep(settings.isolation_start_up)
    await enqueue(app, hanging, EACH)
    total = round(settings.hanging_seconds * PER_SECOND)
    now, began = asyncio.get_running_loop().time, asyncio.get_running_loop().time()
    for number in range(total):
        await asyncio.sleep(began + number / PER_SECOND - now())
        await app.internals.webhooks[healthy[number % HEALTHY]].adeliver({"sent": time.monotonic_ns()})
    await asyncio.sleep(MOST_SECONDS)
    await app.aclose()
    return total
