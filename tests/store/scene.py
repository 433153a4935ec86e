"""The cast of the store's tests: jobs, nodes and what becomes of them, in as few words as possible."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from random import Random
from typing import Any
from uuid import UUID, uuid4

from oncue.model import (
    Batch,
    Change,
    Claim,
    Decided,
    Failed,
    Job,
    Lease,
    Lost,
    Node,
    Outcome,
    Revised,
    Revision,
    Schedule,
    Slot,
    State,
    Step,
    Succeeded,
)
from oncue.policy import lifecycle
from oncue.policy.options import Options
from oncue.policy.schedules import TERMS
from oncue.store import Store
from oncue.store.contract import LEADER

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
    order_at: datetime | None = None,
    group: str | None = None,
    address: str | None = None,
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
        order_at=order_at,
        group=group,
        address=address,
    )


async def put(store: Store, size: int = 1, **fields: Any) -> list[int]:
    """Enqueue jobs that differ in nothing but their number; their ids."""
    return [receipt.id for receipt in await store.jobs.enqueue([a_batch(size, **fields)])]


def a_node(
    name: str = "alpha", *, started_at: datetime = NOW, expires_at: datetime = NOW + LEASE, exclusive: bool = False
) -> Node:
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
        exclusive=exclusive,
    )


async def enter(store: Store, name: str = "alpha", **fields: Any) -> UUID:
    """Register a live node."""
    node = a_node(name, **fields)
    await store.nodes.register(node)
    return node.id


async def take(
    store: Store,
    node: UUID,
    limit: int = 100,
    *,
    queues: Sequence[str] = ("default",),
    tasks: Sequence[str] = ("send",),
    now: datetime = NOW,
    few: int = 0,
    alone: datetime | None = None,
    rooms: Mapping[str, int] | None = None,
    epoch: int | None = None,
) -> list[Claim]:
    return await store.jobs.claim(node, queues, tasks, limit, now, few=few, alone=alone, rooms=rooms, epoch=epoch)


def change(claim: Claim, outcome: Outcome = DONE, *, at: datetime = NOW, started: bool = True) -> Change:
    """The change that this outcome of a claim leads to."""
    return lifecycle.settle(lifecycle.Ended(claim, outcome, claim.claimed_at if started else None, at), Random(1))


async def settle(
    store: Store, claims: Sequence[Claim], outcome: Outcome = DONE, *, at: datetime = NOW, started: bool = True
) -> list[bool]:
    return await store.jobs.apply([change(claim, outcome, at=at, started=started) for claim in claims], at)


async def see(store: Store, job_id: int) -> Job:
    job = await store.jobs.get(job_id)
    assert job is not None
    return job


async def states(store: Store, ids: Sequence[int]) -> list[State]:
    return [(await see(store, job_id)).state for job_id in ids]


async def a_suspect(store: Store, node: UUID, deaths: int = 2, **fields: Any) -> int:
    """A queued job whose process died under it: after two deaths it runs in a cohort, after three alone.

    Nothing else may be claimable in its queue.
    """
    (job_id,) = await put(store, **fields)
    where = {"queues": [fields.get("queue", "default")], "tasks": [fields.get("task", "send")]}
    for _ in range(deaths):
        claims = await take(store, node, few=1, alone=after(days=1), **where)
        assert [claim.id for claim in claims] == [job_id]
        assert await settle(store, claims, CRASHED) == [True]
    return job_id


async def age_all(store: Store, round_no: int, waiting_since: datetime, now: datetime, limit: int = 1000) -> int:
    """One round of aging over every lane, as the engine does it: highest first, in steps; how many were raised."""
    total = 0
    for lane in await store.jobs.levels():
        while raised := await store.jobs.age(lane, round_no, waiting_since, 10, limit, now):
            total += raised
    return total


# --- schedules and slots ------------------------------------------------------------------------------------------


def at(minutes: float) -> datetime:
    """A slot of a schedule that fires every minute."""
    return NOW + timedelta(minutes=minutes)


def a_schedule(name: str = "report", **fields: Any) -> Schedule:
    """A schedule that was made at noon and fires every minute, first at one past."""
    usual: dict[str, Any] = {
        "id": 0, "name": name, "description": "", "task": "send", "args": "{}", "queue": "default", "priority": 0,
        "expression": "* * * * *", "tz": "UTC", "dst": "debian", "missed": "latest", "grace": 300.0, "max_instances": 1,
        "enabled": True, "options": OPTIONS, "max_retries": 3, "max_runtime": 600.0, "deadline": None,
        "declared_by": None, "reason": None, "revision": 1, "started_at": NOW, "version": 1, "cursor": NOW,
        "next_run_at": at(1), "last_run_at": None, "horizon": None, "created_by": "tests", "created_at": NOW,
        "updated_at": NOW, "deleted_at": None,
    }  # fmt: skip
    return Schedule(**{**usual, **fields})


def a_revision(schedule: Schedule, by: str = "tests") -> Revision:
    terms = {name: getattr(schedule, name) for name in TERMS}
    return Revision(
        schedule_id=schedule.id, revision=schedule.revision, started_at=schedule.started_at, changed_by=by, **terms
    )


async def plan(store: Store, name: str = "report", **fields: Any) -> Schedule:
    """Create a schedule."""
    wanted = a_schedule(name, **fields)
    assert await store.schedules.revise([Revised(wanted, 0, a_revision(wanted))], NOW) == [True]
    return await find(store, name)


async def find(store: Store, name: str = "report") -> Schedule:
    found = await store.schedules.get(name)
    assert found is not None
    return found


def a_step(schedule: Schedule, *decided: Decided, cursor: datetime | None = None) -> Step:
    """The step that decides these slots; the next one comes a minute after the last."""
    reached = cursor or max((slot.until or slot.scheduled_for for slot in decided), default=schedule.cursor)
    return Step(schedule.id, schedule.version, reached, reached + timedelta(minutes=1), decided)


async def fire(
    store: Store, schedule: Schedule, *slots: datetime, now: datetime | None = None, parked: bool = False
) -> list[int]:
    """Decide slots of a schedule as it stands now, so that each has a job; their ids."""
    schedule = await find(store, schedule.name)
    ids = await store.jobs.reserve(len(slots))
    decided = [Decided(slot, "fired", None, job_id) for slot, job_id in zip(slots, ids, strict=True)]
    assert await store.slots.decide([a_step(schedule, *decided)], now or slots[-1], by="tests", parked=parked) == [True]
    return ids


async def all_slots(store: Store, schedule: Schedule) -> list[Slot]:
    return await store.slots.between(schedule.id, before(days=9999), after(days=9999))


async def the_slot(store: Store, schedule: Schedule, slot: datetime) -> Slot:
    (found,) = await store.slots.between(schedule.id, slot, slot)
    return found


async def lead(store: Store, node: UUID, *, now: datetime = NOW, seconds: float = 15) -> Lease:
    """Make a node the leader."""
    lease = await store.leases.acquire(LEADER, node, "alpha", now, now + timedelta(seconds=seconds), respect=None)
    assert lease is not None
    assert lease.holder == node
    return lease


# --- behind the store's back --------------------------------------------------------------------------------------


async def query(store: Any, statement: str) -> list[tuple[Any, ...]]:
    """Run SQL that both dialects understand."""
    if store.dialect == "sqlite":
        rows: list[tuple[Any, ...]] = await store.database.write(
            lambda connection: connection.execute(statement).fetchall()
        )
        return rows
    async with store.database.connections.use() as connection:
        return [tuple(row) for row in await connection.fetch(statement)]


def as_stored(store: Store, instant: datetime) -> str:
    """An instant, as this dialect writes it in SQL."""
    micros = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return str(micros) if store.dialect == "sqlite" else f"timestamptz '{instant.isoformat()}'"


async def smuggle(store: Store, schedule: Schedule, slot: datetime, verdict: str = "skipped") -> None:
    """Put a row into the ledger that nobody decided."""
    instant = as_stored(store, slot)
    await query(
        store,
        "insert into oncue_slots (schedule_id, scheduled_for, verdict, reason, revision, decided_at)"
        f" values ({schedule.id}, {instant}, '{verdict}', 'smuggled', 1, {instant})",
    )
