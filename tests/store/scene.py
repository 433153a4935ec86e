"""The cast of the store's tests: jobs, nodes and what becomes of them, in as few words as possible."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from random import Random
from typing import Any
from uuid import UUID, uuid4

from oncue.model import Batch, Change, Claim, Failed, Job, Lost, Node, Outcome, State, Succeeded
from oncue.policy import lifecycle
from oncue.policy.options import Options
from oncue.store import Store

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(days=365)
OPTIONS = Options().stored()
DONE = Succeeded()
BROKEN = Failed("it broke")
CRASHED = Lost()

# Ascending, and different in every process of a test.
_numbers = count(os.getpid() * 1_000_000_000)


def after(**parts: float) -> datetime:
    return NOW + timedelta(**parts)


def before(**parts: float) -> datetime:
    return NOW - timedelta(**parts)


def a_batch(
    size: int = 1,
    *,
    task: str = "send",
    queue: str = "default",
    priority: int = 0,
    state: State = "queued",
    options: str = OPTIONS,
    max_retries: int = 3,
    max_runtime: float | None = 3600.0,
    created_at: datetime = NOW,
    visible_at: datetime | None = None,
    deadline_at: datetime | None = None,
    keys: Sequence[str] | None = None,
    retry_of: int | None = None,
) -> Batch:
    total = len(keys) if keys else size
    return Batch(
        task=task,
        queue=queue,
        priority=priority,
        state=state,
        options=options,
        max_retries=max_retries,
        max_runtime=max_runtime,
        created_at=created_at,
        visible_at=visible_at or created_at,
        deadline_at=deadline_at,
        enqueued_by="tests",
        retry_of=retry_of,
        ids=list(islice(_numbers, total)),
        args=[json.dumps({"number": number}) for number in range(total)],
        keys=list(keys) if keys else None,
    )


async def put(store: Store, size: int = 1, **fields: Any) -> list[int]:
    """Enqueue jobs that differ in nothing but their number; their ids."""
    return [receipt.id for receipt in await store.enqueue([a_batch(size, **fields)])]


def a_node(name: str = "alpha", *, started_at: datetime = NOW, expires_at: datetime = NOW + LEASE) -> Node:
    return Node(
        id=uuid4(),
        name=name,
        host="host-1",
        pid=4711,
        boot_id="boot-1",
        version="0.1",
        queues=("default", "mail"),
        tasks=("send",),
        concurrency=8,
        address=None,
        started_at=started_at,
        beat_at=started_at,
        expires_at=expires_at,
    )


async def enter(store: Store, name: str = "alpha", **fields: Any) -> UUID:
    """Register a live node."""
    node = a_node(name, **fields)
    await store.register(node)
    return node.id


async def take(
    store: Store,
    node: UUID,
    limit: int = 100,
    *,
    queues: Sequence[str] = ("default",),
    tasks: Sequence[str] = ("send",),
    now: datetime = NOW,
    suspect: bool = False,
) -> list[Claim]:
    return await store.claim(node, queues, tasks, limit, now, suspect=suspect)


def change(claim: Claim, outcome: Outcome = DONE, *, at: datetime = NOW, started: bool = True) -> Change:
    """The change that this outcome of a claim leads to."""
    return lifecycle.settle(lifecycle.Ended(claim, outcome, claim.claimed_at if started else None, at), Random(1))


async def settle(
    store: Store, claims: Sequence[Claim], outcome: Outcome = DONE, *, at: datetime = NOW, started: bool = True
) -> list[bool]:
    return await store.apply([change(claim, outcome, at=at, started=started) for claim in claims], at)


async def see(store: Store, job_id: int) -> Job:
    job = await store.job(job_id)
    assert job is not None
    return job


async def states(store: Store, ids: Sequence[int]) -> list[State]:
    return [(await see(store, job_id)).state for job_id in ids]


async def a_suspect(store: Store, node: UUID, **fields: Any) -> int:
    """A queued job whose process died under it once. Nothing else may be claimable in its queue."""
    (job_id,) = await put(store, **fields)
    claims = await take(store, node, queues=[fields.get("queue", "default")], tasks=[fields.get("task", "send")])
    assert [claim.id for claim in claims] == [job_id]
    assert await settle(store, claims, CRASHED) == [True]
    return job_id


async def age_all(store: Store, round_no: int, waiting_since: datetime, now: datetime, limit: int = 1000) -> int:
    """One round of aging over every lane, as the engine does it: highest first, in steps; how many were raised."""
    total = 0
    for lane in await store.lanes():
        while raised := await store.age(lane, round_no, waiting_since, 10, limit, now):
            total += raised
    return total
