"""Webhooks of a receiver on this machine, and a worker of them as a measured child: `deliver URL PORT ENDPOINTS TOTAL`."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from bench import child, timing
from oncue import Oncue
from oncue.application.webhooks import call_of
from oncue.cli.process import switch_threads_often
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


def healthy_url(port: int, number: int) -> str:
    return f"http://127.0.0.1:{port}/ok/{number}"


def name_of(number: int) -> str:
    return f"endpoint-{number}"


def make_app(url: str, port: int, endpoints: int, **settings: Any) -> Oncue:
    app = Oncue(settings=Settings(database_url=url, webhooks_allow=("127.0.0.0/8",), **settings))
    for number in range(endpoints):
        app.webhook(name_of(number), url=healthy_url(port, number), secrets=SECRET)
    return app


async def enqueue(app: Oncue, endpoints: int, each: int) -> None:
    """So many deliveries for each endpoint, in one call for each."""
    deliver = app.internals.builtin[DELIVER]
    for name in map(name_of, range(endpoints)):
        call = call_of(deliver, name, app.internals.webhooks[name].carried, {})
        await call.aenqueue_many([{"webhook": name, "payload": PAYLOAD}] * each)


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
        used = time.process_time()
        child.announce()
        await delivered.all.wait()
        child.answer(jobs=total, ended=delivered.last, cpu_us=(time.process_time() - used) * 1e6 / total)
    await app.aclose()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    child.dispatch({"deliver": lambda url, *numbers: timing.run(deliver(url, *map(int, numbers)))})
