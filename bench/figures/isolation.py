"""isolation: what deliveries to healthy endpoints notice of dead and slow ones.

One worker process, with the seats that an operator gives to webhooks: enough for all deliveries that the bad endpoints
may have on the way at once. A tenth of the endpoints is dead (half of them refuse connections, half accept and never
answer) and a tenth is slow. All get deliveries at the same pace. The delay runs from the enqueue to the receiver. The
first seconds of all processes are left out; the time-outs of the first deliveries come after that.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

import asyncpg

from bench import database, timing
from bench.crew import Child
from bench.figures.context import Bench
from bench.oncue_webhooks import SECRET, bare_app, calm_without_jobs, enqueue, healthy_url, migrate, receiving
from bench.settings import Settings
from bench.verdict import Figure, at_most
from oncue import Oncue

SEATS = 1_000
TIMEOUT = 5
PACE = 0.5
"""Deliveries a second to each endpoint."""
STEP = 0.01
"""Seconds. The deliveries of each step are enqueued together."""
UNDER_WAY = """
select exists (select from oncue_jobs where state in ('scheduled', 'queued', 'running', 'retrying')
                  and group_name like 'healthy-%')
"""


def measure(bench: Bench) -> list[Figure]:
    settings = bench.settings
    waiting = settings.waiting_deliveries

    def run(bad: bool, backlog: int) -> timing.Side:
        return bench.on_postgres(lambda dsn: _p99(dsn, settings, bad, backlog))

    sides = {"healthy alone": run(False, 0), "beside bad ones": run(True, 0), "and a backlog": run(True, waiting)}
    found = bench.medians(sides, settings.long_runs)
    alone = found["healthy alone"]
    return [
        at_most("isolation", found["beside bad ones"], alone, 1.5),
        at_most(f"isolation, {waiting:,} waiting", found["and a backlog"], alone, 1.5),
    ]


def bare(bench: Bench) -> list[Figure]:
    return []


def _p99(dsn: str, settings: Settings, bad: bool, backlog: int) -> float:
    """Milliseconds within which 99 of 100 deliveries to healthy endpoints were at the receiver."""
    endpoints = settings.endpoints
    with receiving() as (port, receiver):
        timing.run(_prepare(dsn, port, endpoints, backlog))
        (database.calm if backlog else calm_without_jobs)(dsn)
        worker = Child("bench.oncue_webhooks", "work", dsn, SEATS, settings.isolation_seconds)
        try:
            worker.wait_ready()
            sent = timing.run(_feed(dsn, port, settings, bad))
            receiver.go()
            found = receiver.result()
        finally:
            worker.stop()
    print(f"  {found}", file=sys.stderr, flush=True)
    assert found["delays"] == sent, f"{found['delays']} of {sent} deliveries to healthy endpoints arrived"
    return float(found["p99"])


def declared(dsn: str, port: int, endpoints: int) -> tuple[Oncue, dict[str, list[str]]]:
    """The webhooks, and their names by kind."""
    app, closed = bare_app(dsn), database.free_port()
    urls = {
        "healthy": healthy_url(port, 0).removesuffix("0"), "slow": f"http://127.0.0.1:{port}/slow/",
        "silent": f"http://127.0.0.1:{port}/dead/", "refusing": f"http://127.0.0.1:{closed}/",
    }  # fmt: skip
    kinds: dict[str, list[str]] = {kind: [] for kind in urls}
    for number in range(endpoints):
        kind = _kind(number)
        kinds[kind].append(f"{kind}-{number}")
        app.webhook(kinds[kind][-1], url=f"{urls[kind]}{number}", secrets=SECRET, timeout=TIMEOUT)
    return app, kinds


def _kind(number: int) -> str:
    return {0: "slow", 1: "silent" if number % 20 == 1 else "refusing"}.get(number % 10, "healthy")


async def _prepare(dsn: str, port: int, endpoints: int, backlog: int) -> None:
    """The webhooks, as a worker stores those that its code declares; and what waits for the dead ones."""
    await migrate(dsn)
    app, kinds = declared(dsn, port, endpoints)
    await app.webhooks.declare_all(await app.internals.connected())
    dead = kinds["silent"] + kinds["refusing"]
    if backlog:
        await enqueue(app, dead, backlog // len(dead))
    await app.aclose()


async def _feed(dsn: str, port: int, settings: Settings, bad: bool) -> int:
    """Deliveries to healthy endpoints in turn, and to bad ones at the same pace; how many of the former count."""
    app, kinds = declared(dsn, port, settings.endpoints)
    await app.internals.connected()
    healthy = kinds.pop("healthy")
    others = [name for names in kinds.values() for name in names] if bad else []
    time_now, counted = asyncio.get_running_loop().time, 0
    began, left_out = time_now(), round(settings.isolation_start_up / STEP)
    for step in range(left_out + round(settings.isolation_seconds / STEP)):
        await asyncio.sleep(began + step * STEP - time_now())
        now, counts = _turn(healthy, step), step >= left_out
        counted += len(now) if counts else 0
        await asyncio.gather(*(_deliver(app, name, counts) for name in (*now, *_turn(others, step))))
    await app.aclose()
    await _until_arrived(dsn)
    return counted


async def _until_arrived(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    while await connection.fetchval(UNDER_WAY):  # noqa: ASYNC110 (the worker is another process)
        await asyncio.sleep(0.2)
    await connection.close()


def _turn(names: Sequence[str], step: int) -> list[str]:
    """Whose turn it is in this step, so that each has its pace."""
    first, last = (round(place * STEP * PACE * len(names)) for place in (step, step + 1))
    return [names[place % len(names)] for place in range(first, last)]


async def _deliver(app: Oncue, name: str, counts: bool) -> None:
    await app.internals.webhooks[name].adeliver({"sent": time.monotonic_ns()} if counts else None)
