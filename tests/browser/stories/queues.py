"""Queues in all their states: open, paused, limited, without a worker, with groups; workers that are busy or gone."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

from oncue import Oncue
from oncue.model import Node, Started

BUSY_SEATS = 6


def declare(app: Oncue) -> None:
    @app.task(name="queues.thumbnail", queue="queues.media")
    async def thumbnail(number: int) -> None:
        """Taken only by the workers of this story."""

    @app.task(name="queues.letter", queue="queues.letters")
    async def letter(number: int) -> None:
        """Waits for ever: the queue is paused, or has no worker."""

    @app.task(name="queues.quick")
    async def quick(number: int) -> None:
        """Runs at once, on the worker of all stories."""


async def tell(app: Oncue) -> list[str]:
    await app.find("queues.quick").aenqueue_many([(number,) for number in range(40)])
    await _media(app)
    await _letters(app)
    await app.find("queues.letter").using(queue="queues.orphans").aenqueue_many([(1,), (2,), (3,)])
    await app.queues.limit("queues.exports", globally=2, per_node=1, by="cli:anna")
    return ["/queues", "/queues/queues.media", "/queues/queues.letters?group=tenant:2", "/queues/queues.orphans"]


async def _media(app: Oncue) -> None:
    """A limited queue with two workers: one is full, the other has stopped to renew its lease."""
    store, now = (await app.internals.connected()).store, await app.now()
    busy = a_worker("queues-media-1", now, timedelta(hours=2))
    await store.nodes.register(busy)
    await store.nodes.take_name(busy.id, busy.name)
    await app.queues.limit("queues.media", globally=40, rate="50/s", by="token:anna#abcdefgh")
    jobs = app.find("queues.thumbnail")
    await jobs.aenqueue_many([(number,) for number in range(30)])
    room = {"queues.media": BUSY_SEATS + 3}
    claims = await store.jobs.claim(busy.id, busy.queues, busy.tasks, BUSY_SEATS + 3, now, rooms=room)
    began = [
        Started(claim.id, claim.claim_no, now - timedelta(seconds=7 * number + 5))
        for number, claim in enumerate(claims[:BUSY_SEATS])
    ]
    await store.jobs.mark_started(began)
    lost = a_worker("queues-media-2", now - timedelta(minutes=4), timedelta(minutes=3))
    await store.nodes.register(lost)
    await store.nodes.declare_lost(lost.id, now - timedelta(minutes=1))


async def _letters(app: Oncue) -> None:
    """A paused queue with groups: open, full, paused, rated."""
    for number in range(9):
        call = app.find("queues.letter").using(group=f"tenant:{number}", enqueued_by="shop")
        await call.aenqueue_many([(each,) for each in range(number + 1)])
    await app.queues.limit("queues.letters", per_group=4, rate_per_group="10/min", by="cli:anna")
    await app.queues.limit("queues.letters", group="tenant:1", per_group=1, rate_per_group="1/h", by="cli:anna")
    await app.queues.pause("queues.letters", group="tenant:2", for_="45m", by="token:anna#abcdefgh")
    await app.queues.pause("queues.letters", group="tenant:3", by="cli:berta")
    await app.queues.pause("queues.letters", by="cli:berta")


def a_worker(name: str, beat_at: datetime, lease: timedelta, *, queues: tuple[str, ...] = ("queues.media",)) -> Node:
    """A worker that is only a row."""
    return Node(
        id=uuid4(), name=name, host="media-host-7.example", pid=4711, boot_id="story", version="0.9.2", queues=queues,
        tasks=("queues.thumbnail",), concurrency=BUSY_SEATS, address=None, started_at=beat_at - timedelta(hours=3),
        beat_at=beat_at, expires_at=beat_at + lease, named=True,
    )  # fmt: skip
