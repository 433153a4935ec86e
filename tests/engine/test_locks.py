"""What the services of a node do while another session holds a row in PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from oncue.clock import VirtualClock
from oncue.engine import node as node_module
from oncue.engine.executor import Executor
from oncue.engine.leadership import Leadership
from oncue.engine.outcomes import SizeLimits
from oncue.engine.recovery import Recovery
from oncue.engine.scheduler import Scheduler
from oncue.engine.seating import Seating
from oncue.errors import RowLocked
from oncue.model import Limits
from oncue.store import PostgresStore
from oncue.store.contract import LEADER
from oncue.store.postgres import connections
from oncue.telemetry import Telemetry
from tests.engine.rig import SteppingClock
from tests.engine.test_drain import a_plant, until
from tests.store.scene import NOW, a_node, all_slots, at, plan, put, take


@pytest.fixture
def store(postgres_url: str, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    monkeypatch.setattr(connections, "LOCK_SECONDS", 0.1)
    store = PostgresStore(postgres_url)
    runner.run(store.open())
    yield store
    runner.run(store.close())


class Holder:
    """Another session, and what it holds until it lets go."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None

    async def hold(self, rows: str) -> None:
        self._connection = await asyncpg.connect(self._url)
        await self._connection.execute("begin")
        assert await self._connection.fetch(f"select * from {rows} for update")

    async def let_go(self) -> None:
        await self._connection.close()


@pytest.fixture
def holder(postgres_url: str) -> Holder:
    return Holder(postgres_url)


async def test_a_drain_writes_what_is_not_held_and_waits_for_the_rest(store: Any, holder: Holder) -> None:
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()

    async with a_plant(work, store=store, concurrency=4) as plant:
        first, *others = await plant.enqueue("work", 4)
        await until(lambda: plant.node.executor.running == 4)
        await holder.hold(f"oncue_jobs where id = {first}")
        draining = asyncio.ensure_future(plant.process.drain(60))
        gate.set()
        await until(lambda: [ended.claim.id for ended in plant.node.in_flight.locked] == [first])
        assert [(await plant.job(job_id)).state for job_id in others] == ["succeeded"] * 3
        assert [claim.id for claim in plant.node.in_flight.claims.values()] == [first], "it is still in hand"
        assert not draining.done()
        await holder.let_go()
        await draining
        assert (await plant.job(first)).state == "succeeded"
        assert not plant.node.in_flight.claims


async def test_a_drain_says_in_the_end_what_it_could_not_write_and_why(
    store: Any, holder: Holder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "SETTLE_SECONDS", 0.3)
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()

    async with a_plant(work, store=store, concurrency=4) as plant:
        first, *others = await plant.enqueue("work", 4)
        await until(lambda: plant.node.executor.running == 4)
        await holder.hold(f"oncue_jobs where id = {first}")
        gate.set()
        with caplog.at_level(logging.ERROR):
            await plant.process.drain(0.1)
        assert [(await plant.job(job_id)).state for job_id in others] == ["succeeded"] * 3
        assert f"the outcome of job {first} could not be written" in caplog.text
        assert "another session holds a lock" in caplog.text
        await holder.let_go()


async def test_a_leader_whose_lease_is_held_leads_up_to_its_end(store: PostgresStore, holder: Holder) -> None:
    clock, node = SteppingClock(NOW), a_node()
    leadership = Leadership(store, node, clock, Telemetry(), lambda: True, lease=15.0, poll=0.5)
    await leadership.tick(NOW)
    assert leadership.epoch == 1
    await holder.hold("oncue_leases")
    clock.set_to(NOW + timedelta(seconds=5))
    with pytest.raises(RowLocked):
        await leadership.tick(clock.now())
    assert leadership.epoch == 1, "it is known that it was not renewed; it is not over yet"
    await holder.let_go()
    await leadership.tick(clock.now())
    lease = await store.leases.get(LEADER)
    assert lease is not None
    assert (lease.epoch, lease.expires_at) == (1, NOW + timedelta(seconds=20))


async def test_seats_are_taken_in_the_queues_that_nobody_holds(store: PostgresStore, holder: Holder) -> None:
    node = a_node()
    await store.nodes.register(node)
    for queue in ("a", "b"):
        await store.queues.set_limits(queue, Limits(), Limits(2), NOW)
        await put(store, 3, queue=queue)
    executor = Executor({}, VirtualClock(NOW), Telemetry(), 4, SizeLimits(), lambda _: None)
    seating = Seating(store, node.id, ["a", "b"], ["send"], executor, lambda: True, poll=0.5)
    await holder.hold("oncue_queues where name = 'a'")
    for seconds in range(3):
        await seating.tick(NOW + timedelta(seconds=seconds))
    assert (seating.allowed.get("a", 0), seating.allowed["b"]) == (0, 2)
    claims = await store.jobs.claim(node.id, ["b"], ["send"], 9, NOW, rooms={"b": seating.allowed["b"]})
    assert len(claims) == 2
    await holder.let_go()
    await seating.tick(NOW + timedelta(seconds=9))
    assert seating.allowed["a"] == 2


async def test_a_worker_starts_though_the_row_of_its_predecessor_is_held(store: PostgresStore, holder: Holder) -> None:
    gone = a_node("same", expires_at=NOW + timedelta(seconds=1))
    await store.nodes.register(gone)
    (job_id,) = await put(store)
    assert await take(store, gone.id)
    await holder.hold("oncue_nodes where name = 'same'")
    recovery = Recovery(store, a_node("same"), Random(1), Telemetry(), lambda _: True)
    await recovery.tick(NOW)
    job = await store.jobs.get(job_id)
    assert job is not None
    assert job.state == "running", "it waits for its lease's end, and a rescuer"
    await holder.let_go()


async def test_a_claim_waits_for_nothing_that_is_held(store: PostgresStore, holder: Holder) -> None:
    node = a_node()
    await store.nodes.register(node)
    first, second = await put(store, 2)
    await store.queues.pause("other", NOW)
    await store.leases.acquire(LEADER, uuid4(), "x", NOW, NOW + timedelta(seconds=5), respect=None)
    tables = f"oncue_nodes, oncue_queues, oncue_leases, (select * from oncue_jobs where id = {first}) as held"
    await holder.hold(tables)
    assert [claim.id for claim in await take(store, node.id)] == [second]
    await holder.let_go()


async def a_scheduler(store: PostgresStore) -> Scheduler:
    """One that leads, at noon."""
    node = a_node()
    leadership = Leadership(store, node, SteppingClock(NOW), Telemetry(), lambda: True, lease=3600.0, poll=0.5)
    await leadership.tick(NOW)
    return Scheduler(store, node.id, leadership, Random(1), Telemetry(), interval=30.0, poll=0.5)


async def test_a_key_that_is_held_keeps_no_schedule_of_another_task_waiting(
    store: PostgresStore, postgres_url: str
) -> None:
    """Two tasks with a key for each community: the keys are the same, and have nothing to do with each other."""
    scheduler = await a_scheduler(store)
    crawls, cleans = [await plan(store, task, task=task, key="7") for task in ("crawl", "clean")]
    (job_id,) = await put(store, task="crawl", keys=["7"])
    other = await asyncpg.connect(postgres_url)
    await other.execute(f"update oncue_jobs set state = 'succeeded', finished_at = created_at where id = {job_id}")
    await other.execute("begin")
    await other.execute(f"update oncue_jobs set state = 'queued', finished_at = null where id = {job_id}")
    for second in range(3):
        await scheduler.tick(at(1) + timedelta(seconds=second))
    assert [len(await all_slots(store, one)) for one in (crawls, cleans)] == [0, 1]
    await other.execute("rollback")
    await other.close()
    await scheduler.tick(at(1) + timedelta(seconds=3))
    assert [len(await all_slots(store, one)) for one in (crawls, cleans)] == [1, 1]


async def test_a_schedule_that_was_held_and_is_no_longer_due_is_forgotten(
    store: PostgresStore, holder: Holder, postgres_url: str
) -> None:
    """Whoever held it has put it off: until the next slot of any schedule there is nothing to ask for."""
    scheduler = await a_scheduler(store)
    await plan(store)
    await holder.hold("oncue_schedules")
    await scheduler.tick(at(1))
    assert await scheduler.tick(at(1) + timedelta(seconds=1)) == at(1) + timedelta(seconds=1.5)
    await holder.let_go()
    other = await asyncpg.connect(postgres_url)
    await other.execute("update oncue_schedules set version = version + 1, next_run_at = $1", at(3))
    await other.close()
    assert await scheduler.tick(at(1) + timedelta(seconds=2)) == at(1) + timedelta(seconds=32)
    assert await scheduler.tick(at(2) + timedelta(seconds=40)) == at(3), "to the very instant"


async def test_hints_are_no_reason_to_ask_for_a_schedule_that_is_held(store: PostgresStore, holder: Holder) -> None:
    scheduler = await a_scheduler(store)
    await plan(store)
    await scheduler.tick(NOW)
    await holder.hold("oncue_schedules")
    await scheduler.tick(at(1))
    a_hint = at(1) + timedelta(seconds=0.1)
    assert await scheduler.tick(a_hint) == at(1) + timedelta(seconds=0.5), "it did not look"
    await holder.let_go()
