"""A real worker in a real event loop: how it stops, and what becomes of what it held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from oncue.clock import DatabaseClock
from oncue.engine.node import Pace, WorkerNode, WorkerProcess, handlers_executor
from oncue.engine.outcomes import SizeLimits
from oncue.model import Batch, Claim, Job, Lease, Node
from oncue.policy.options import Options
from oncue.store import SqliteStore
from oncue.store.contract import LEADER
from oncue.store.sqlite.jobs import SqliteJobs
from oncue.store.sqlite.leases import SqliteLeases
from oncue.telemetry import Telemetry
from tests.engine.stage import PlainHandler, settle


class Plant:
    """One worker process without its heartbeat: the lease is good for a day."""

    def __init__(self, store: SqliteStore, *functions: Callable[..., Any], concurrency: int = 2) -> None:
        self.store = store
        self.clock = DatabaseClock()
        now = self.clock.now()
        handlers = {function.__name__: PlainHandler(function.__name__, function) for function in functions}
        node = Node(
            id=uuid4(), name="plant", host="host", pid=1, boot_id="", version="0", queues=("default",),
            tasks=tuple(handlers), concurrency=concurrency, address=None, started_at=now, beat_at=now,
            expires_at=now + timedelta(days=1),
        )  # fmt: skip
        telemetry, pace = Telemetry(), Pace()
        self.node = WorkerNode(
            store, store, node, self.clock, Random(1), telemetry, pace,
            handlers_executor(handlers, self.clock, telemetry, concurrency, SizeLimits()),  # type: ignore[arg-type]
        )  # fmt: skip
        self.process = WorkerProcess(self.node, store, self.clock, telemetry, pace)

    async def enqueue(self, task: str, count: int = 1, options: Options | None = None) -> list[int]:
        now = self.clock.now()
        batch = Batch(
            task=task, queue="default", priority=0, state="queued", options=(options or Options()).stored(),
            max_retries=3, max_runtime=None, created_at=now, visible_at=now, deadline_at=None, enqueued_by="tests",
            retry_of=None, ids=await self.store.jobs.reserve(count), args=["{}"] * count,
        )  # fmt: skip
        receipts = await self.store.jobs.enqueue([batch])
        self.node.wake()
        return [receipt.id for receipt in receipts]

    async def job(self, job_id: int) -> Job:
        job = await self.store.jobs.get(job_id)
        assert job is not None
        return job


@asynccontextmanager
async def a_plant(
    *functions: Callable[..., Any], store: SqliteStore | None = None, concurrency: int = 2
) -> AsyncIterator[Plant]:
    store = store or SqliteStore(":memory:", inline=True)
    await store.open()
    plant = Plant(store, *functions, concurrency=concurrency)
    await plant.node.membership.tick(plant.clock.now())
    await plant.process.start()
    yield plant
    await plant.process.abort()
    await store.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_what_runs_may_finish_and_its_outcome_is_written() -> None:
    release = asyncio.Event()

    async def work() -> str:
        await release.wait()
        return "done"

    async with a_plant(work) as plant:
        (job_id,) = await plant.enqueue("work")
        await until(lambda: plant.node.executor.running == 1)
        draining = asyncio.ensure_future(plant.process.drain(20))
        await settle()
        (late,) = await plant.enqueue("work")
        release.set()
        await draining
        job = await plant.job(job_id)
        assert (job.state, job.result) == ("succeeded", "done")
        assert (await plant.job(late)).claim_no == 0, "nothing is claimed any more"


async def test_what_does_not_finish_in_time_is_given_back_uncharged() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    async with a_plant(work) as plant:
        ids = await plant.enqueue("work", 2)
        once = await plant.enqueue("work", 1, Options("at_most_once"))
        await until(lambda: plant.node.executor.running == 2)
        await plant.process.drain(0.01)
        for job_id in ids:
            job = await plant.job(job_id)
            assert (job.state, job.retry_count, job.crashes) == ("queued", 0, 0)
            assert [attempt.outcome for attempt in await plant.store.jobs.attempts(job_id)] == ["shutdown"]
        assert (await plant.job(once[0])).state == "queued", "it never started, so it may start elsewhere"


class SlowClaims(SqliteJobs):
    """Answers a claim when it is told to; the claim itself has happened by then."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store.database)
        self.answer = asyncio.Event()
        self.asked = 0

    async def claim(self, node: UUID, *rest: Any, **named: Any) -> list[Claim]:
        claims = await super().claim(node, *rest, **named)
        if claims:
            self.asked += 1
            await self.answer.wait()
        return claims


async def test_a_claim_under_way_is_not_forgotten() -> None:
    """Cut off in the middle, it would leave a job to be rescued from a node that is gone, as a suspect."""
    done = []

    async def work() -> None:
        done.append(1)

    store = SqliteStore(":memory:", inline=True)
    store.jobs = slow = SlowClaims(store)
    async with a_plant(work, store=store) as plant:
        (job_id,) = await plant.enqueue("work")
        await until(lambda: slow.asked == 1)
        draining = asyncio.ensure_future(plant.process.drain(20))
        await settle()
        slow.answer.set()
        await draining
        job = await plant.job(job_id)
        assert (job.state, job.crashes, done) == ("succeeded", 0, [1])


class SlowElections(SqliteLeases):
    """Answers a node that stands for leader when it is told to; it is elected by then."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store.database)
        self.answer = asyncio.Event()
        self.asked = 0

    async def acquire(self, name: str, *rest: Any, **named: Any) -> Lease | None:
        lease = await super().acquire(name, *rest, **named)
        if name == LEADER:
            self.asked += 1
            await self.answer.wait()
        return lease


@pytest.mark.contract("HOOK-7", "SLOT-16")
async def test_an_election_under_way_does_not_leave_the_lead_vacant() -> None:
    """Cut off in the middle, it would leave the lead to a node that is gone, and nobody could take it for a lease."""
    store = SqliteStore(":memory:", inline=True)
    store.leases = slow = SlowElections(store)
    async with a_plant(store=store) as plant:
        await until(lambda: slow.asked == 1)
        draining = asyncio.ensure_future(plant.process.drain(20))
        await settle()
        assert "scheduler" not in plant.process._runner._tasks, "it is the first to stop, and waits for nobody"
        slow.answer.set()
        await draining
        lease = await store.leases.get(LEADER)
        assert lease is not None
        assert lease.expires_at <= plant.clock.now()
        assert slow.asked == 1


async def test_a_stopped_worker_starts_nothing_more() -> None:
    begun = []

    async def work() -> None:
        begun.append(1)
        await asyncio.Event().wait()

    async with a_plant(work, concurrency=1) as plant:
        await plant.enqueue("work", 5)
        await until(lambda: plant.node.executor.running == 1)
        plant.node.executor.submit([claim_like(plant)])
        await plant.process.abort()
        await settle()
        assert begun == [1]


def claim_like(plant: Plant) -> Claim:
    """Another claim that waits for a seat."""
    (claim,) = plant.node.in_flight.claims.values()
    return claim._replace(id=claim.id + 1000)


async def test_a_thousand_jobs_on_a_few_seats() -> None:
    seen = []

    async def work() -> None:
        seen.append(1)

    async with a_plant(work, concurrency=4) as plant:
        ids = await plant.enqueue("work", 1000)
        await until(lambda: len(seen) == 1000)
        await plant.process.drain(20)
        assert {(await plant.job(job_id)).state for job_id in ids} == {"succeeded"}
        assert plant.node.in_flight.claims == {}
