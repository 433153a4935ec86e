"""Four nodes, of which one is this process, and cluster jobs in all their states."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

from oncue import Node, NodeResult, Oncue
from oncue.policy import quorum

OTHERS = ("cluster-2", "cluster-3", "cluster-4")
ENDED = ("succeeded", "failed", "cancelled", "skipped")


def declare(app: Oncue) -> None:
    @app.cluster_task(name="cluster.compact", quorum_timeout="10m")
    async def compact(node: Node, level: int = 1) -> dict[str, Any]:
        return {"level": level, "freed_mb": 112, "note": "<b>größer</b>"}

    @compact.leader_action
    def publish(results: list[NodeResult]) -> dict[str, int]:
        return {"freed_mb": sum((one.result or {}).get("freed_mb", 0) for one in results if one.completed)}

    @app.cluster_task(name="cluster.warm", quorum_timeout="10m")
    async def warm() -> int:
        return 5000

    @warm.leader_action
    def announce(results: list[NodeResult], quorum: bool) -> str:
        return "caches are warm"

    @app.cluster_task(name="cluster.flush", quorum_timeout="200ms")
    async def flush() -> None:
        pass

    @flush.leader_action
    def upload(results: list[NodeResult], quorum: bool) -> None:
        raise RuntimeError("the bucket does not answer: <script>alert(1)</script>")

    @app.cluster_task(name="cluster.reindex", quorum_timeout="10m")
    async def reindex(table: str) -> None:
        await asyncio.sleep(3600)

    @app.cluster_task(name="cluster.rotate", leader_only=True)
    async def rotate(node: Node) -> str:
        return f"{node.name} has rotated the keys"


async def tell(app: Oncue) -> list[str]:
    await until(app, led)
    nodes = [await join(app, name) for name in OTHERS]

    done = await run(app, "cluster.compact", {"level": 3}, key="tonight")
    for name in OTHERS[:2]:
        await set_part(app, done, name, "success")
    await until(app, lambda app: ended(app, done))

    broken = await run(app, "cluster.warm")
    for name in OTHERS[:2]:
        await set_part(app, broken, name, "failed")
    await until(app, lambda app: ended(app, broken))

    alone = await run(app, "cluster.rotate")
    without = await run(app, "cluster.flush")
    await until(app, lambda app: ended(app, alone, without))
    cancelled = await run(app, "cluster.reindex", {"table": "invoices"})
    await app.jobs.cancel(cancelled, by="anna")

    waits = await run(app, "cluster.warm")
    await set_part(app, waits, OTHERS[0], "failed")
    connected = await app.internals.connected()
    await connected.store.nodes.declare_lost(nodes[1].id, connected.now())
    runs = await run(app, "cluster.reindex", {"table": "orders"})
    await until(app, lambda app: own_part_ended(app, waits))
    return ["/cluster", *(f"/cluster/{number}" for number in (done, broken, alone, without, cancelled, waits, runs))]


async def run(app: Oncue, task: str, args: dict[str, Any] | None = None, **options: Any) -> int:
    return (await app.cluster.run(task, args, by="story", **options)).id


async def join(app: Oncue, name: str) -> Node:
    """A node that is alive and does nothing: its parts come to what the story says."""
    connected = await app.internals.connected()
    here, now = (await app.nodes.list())[0], connected.now()
    node = Node(
        uuid4(), name, f"{name}.example", 100 + len(name), "boot", here.version, here.queues, here.tasks, 8,
        f"http://{name}.example:8080", now, now, now + timedelta(hours=6),
    )  # fmt: skip
    await connected.store.nodes.register(node)
    await connected.store.nodes.take_name(node.id, name)
    return node


async def set_part(app: Oncue, job_id: int, name: str, status: str) -> None:
    parts = (await app.cluster.get(job_id)).parts
    (number,) = (part.job_id for part in parts if part.node_name == name)
    assert number is not None
    await app.jobs.set_status(number, status, by="story")


async def led(app: Oncue) -> bool:
    return await app.cluster.leader() is not None


async def ended(app: Oncue, *ids: int) -> bool:
    jobs = [await app.jobs.get(number) for number in ids]
    return all(job.state in ENDED for job in jobs)


async def own_part_ended(app: Oncue, job_id: int) -> bool:
    return "completed" in quorum.statuses_of(await app.cluster.get(job_id))


async def until(app: Oncue, found: Callable[[Oncue], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await found(app):
            await app.internals.pause_before_retry(0.05)
