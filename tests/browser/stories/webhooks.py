"""Webhooks in all their states, and deliveries that came to all that a delivery can come to. Nothing is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from urllib.parse import quote, urlsplit

from oncue import Job, Ladder, Oncue, cron
from oncue.model import WEBHOOKS_QUEUE
from oncue.webhooks.transport import NotSent, Request, Response

ORDERS, DOWN, SLOW = "webhooks-orders", "webhooks-down", "webhooks-slow"
PARTNER = "https://partner.example/in?from=oncue"
WAYS: list[object] = []
"""One that is forgotten would end by itself."""
PARTNER_ENDPOINT = "https://partner.example:443"
ENDED = ("succeeded", "failed", "cancelled", "skipped")


class Endpoints:
    """What the endpoints of this story answer, by their hosts."""

    def __init__(self) -> None:
        self.sent: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.sent.append(request)
        host = urlsplit(request.url).hostname
        if host == "down.example":
            raise NotSent("network", "https://down.example:443: connection refused")
        if host == "busy.example":
            return answer(503, '{"error": "we are busy, come back later"}', {"retry-after": "3000"})
        if host == "strict.example":
            return answer(422, '{"error": "amount: expected a number", "hint": "<b>see the manual</b>"}')
        if host == "slow.example":
            await asyncio.sleep(3600)
        return answer(200, '{"ok": true}')

    async def close(self) -> None:
        pass


def answer(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(status, headers or {}, text, False, 0.084, "192.0.2.7", 0)


def declare(app: Oncue) -> None:
    other_way = app.internals.delivering_through(Endpoints())
    other_way.__enter__()
    WAYS.append(other_way)
    app.webhook(
        "webhooks-heartbeat", url="https://monitor.example/ping", method="GET", schedule=cron("*/5 * * * *"),
        description="Tells the monitor that we are alive",
    )  # fmt: skip


async def tell(app: Oncue) -> list[str]:
    hooks = app.webhooks
    await hooks.create(
        ORDERS, url="https://erp.example/hooks/orders", secrets=["env:ONCUE_SECRET_ORDERS"], redirects=1,
        headers={"Authorization": "Bearer nobody-may-see-this", "Accept": "application/json"}, timeout="10s",
        body='{"order": {{payload.order}}, "ref": "{{id}}"}', description="Every order that was paid, to the ERP",
    )  # fmt: skip
    await hooks.change(ORDERS, secrets=())  # this process has no variable of that name, and would try again and again
    await hooks.create(DOWN, url="https://down.example/in", retry=Ladder("10m", "1h", "6h", "1d"))
    await hooks.create("webhooks-busy", url="https://busy.example/in")
    await hooks.create("webhooks-strict", url="https://strict.example/v2/payments", method="PUT", retry=Ladder())
    await hooks.create(SLOW, url="https://slow.example/in")
    await hooks.create("webhooks-paused", url="https://erp.example/paused")
    await hooks.create("webhooks-disabled", url="https://erp.example/disabled", enabled=False)
    await hooks.create("webhooks-idle", url="https://erp.example/never-used")
    await app.schedules.create("webhooks-nightly", "0 3 * * *", webhook=ORDERS, args={"payload": {"order": 0}})
    await hooks.pause("webhooks-paused", for_="2h", by="anna")
    await app.queues.limit("webhooks", group=ORDERS, rate_per_group="50/s", per_group=20)

    made = [(await hooks.deliver(ORDERS, {"order": number, "customer": "Größe & Söhne"})).id for number in range(8)]
    failed = await hooks.deliver("webhooks-strict", {"amount": "seven"}, key="payment:7", enqueued_by="shop")
    tried = await hooks.deliver("webhooks-busy", {"order": 1})
    waits = [await hooks.deliver("webhooks-paused", {"order": number}) for number in range(3)]
    skipped = await hooks.deliver("webhooks-disabled", {"order": 9})
    await hooks.deliver(SLOW, {"order": 2})
    bare = await app.adeliver(PARTNER, {"hello": "partner"})
    refused = await app.adeliver("https://strict.example/once", {"hello": "strict"}, retry=Ladder())
    for number in range(6):
        await hooks.deliver(DOWN, {"order": number})
    await until(app, lambda: ended(app, *made, failed.id, skipped.id, bare.id, refused.id))
    await until(app, lambda: trips(app, DOWN))
    await until(app, lambda: attempts(app, tried.id))
    await keep_open(app, DOWN)
    await hooks.deliver(DOWN, {"order": 6})
    again = await hooks.retry(failed.uid, by="anna")
    await until(app, lambda: ended(app, again.id))
    return [
        "/webhooks", f"/webhooks/{ORDERS}", f"/webhooks/{DOWN}", f"/webhooks/{DOWN}?status=emitted",
        "/webhooks/webhooks-heartbeat", "/webhooks/webhooks-idle", "/new-webhook", f"/edit-webhook/{ORDERS}",
        "/executions", "/executions?status=failed", f"/executions?endpoint={quote(PARTNER_ENDPOINT, safe='')}",
        f"/executions/{failed.uid}", f"/executions/{tried.uid}", f"/executions/{bare.uid}",
        f"/executions/{waits[0].id}", f"/executions/{made[0]}",
    ]  # fmt: skip


async def ended(app: Oncue, *ids: int) -> bool:
    jobs = [await app.jobs.get(number) for number in ids]
    return all(job.state in ENDED for job in jobs)


async def trips(app: Oncue, name: str) -> bool:
    return (await app.webhooks.endpoint(name)).trips > 0


async def keep_open(app: Oncue, name: str) -> None:
    """As if its probes had failed, too: the next one is far away."""
    connected, known = await app.internals.connected(), await app.webhooks.endpoint(name)
    until = connected.now() + timedelta(minutes=9)
    await connected.store.groups.trip(
        WEBHOOKS_QUEUE, name, known.trips, 5, until, connected.now(), known_until=known.paused_until
    )


async def attempts(app: Oncue, number: int) -> bool:
    job: Job = await app.jobs.get(number)
    return job.state == "retrying"


async def until(app: Oncue, found: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await found():
            await app.internals.pause_before_retry(0.05)
