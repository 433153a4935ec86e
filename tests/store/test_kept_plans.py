"""PostgreSQL keeps the plan of a statement until its tables are analysed: also one from when there was next to nothing.

A new deployment imports a million subjects in its first minutes, before anything is analysed. What is counted is the
rows that were read, of whole tables or by their indexes, not time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

import asyncpg
import pytest

from oncue.clock import DatabaseClock
from oncue.engine.planner import Planner
from oncue.engine.service import Signal
from oncue.model import EVERY_DAY, Claim, Failed, Progress, Started, Subject
from oncue.policy.options import Options, WindowOptions
from oncue.store import PostgresStore
from oncue.telemetry import Telemetry
from tests.store.scene import NOW, a_batch, a_node, change, lead, plan, settle, take

NODE = UUID(int=7)
TABLES = ("oncue_jobs", "oncue_slots", "oncue_subjects")
READ = "select sum(seq_tup_read + idx_tup_fetch) from pg_stat_user_tables where relname = any($1)"
CUTOFF = NOW + timedelta(hours=1)
OFTEN = 8
"""PostgreSQL keeps a plan from the sixth time on."""
MANY = 3000


class Leading:
    """What a planner asks of its leadership."""

    epoch = 1
    followers: ClassVar[list[Signal]] = []


class Days:
    """Days of a window on one connection: each goes by once, whatever its subjects."""

    def __init__(self, store: PostgresStore) -> None:
        leadership: Any = Leading()
        self._store = store
        self._planner = Planner(store, NODE, leadership, DatabaseClock(), Telemetry(), interval=60.0, poll=0.5)

    async def prepare(self) -> None:
        await self._store.nodes.register(replace(a_node(), id=NODE))
        await lead(self._store, NODE)
        told = Options(window=WindowOptions(retry=600.0, subject="user")).stored()
        window = await plan(
            self._store, "digest", expression="@window 1h retry 10m", queue="windows", next_run_at=None, options=told
        )
        self._blank = Subject(
            schedule_id=window.id, name="", due=780, tz=None, weekdays=EVERY_DAY, days_off=(), args="{}", version=0,
            since=NOW, day=NOW.date(), opens_at=NOW, cutoff_at=CUTOFF, next_at=NOW, job_id=None, last_date=None,
            status=None, reason=None, last_run_at=None, created_at=NOW, updated_at=NOW, removed_at=None,
        )  # fmt: skip

    async def go_by(self, names: Sequence[str]) -> None:
        """Add subjects, open their days, let some fail and some succeed, and close the others at the cutoff."""
        store = self._store
        for first in range(0, len(names), 1000):
            some = names[first : first + 1000]
            await store.windows.put([replace(self._blank, name=name) for name in some], NOW)
            known = await store.windows.subjects(self._blank.schedule_id, some)
            await store.windows.put(known, NOW, stops=[None] * len(known))
        await self._plan(NOW)
        for _ in range(len(names) // 300 or 1):
            await self._work(await take(store, NODE, 100, queues=["windows"], now=NOW))
        await self._plan(CUTOFF)

    async def _plan(self, now: datetime) -> None:
        while await self._planner.tick(now) <= now:
            pass

    async def _work(self, claims: Sequence[Claim]) -> None:
        if not claims:
            return
        await self._store.jobs.mark_started([Started(claim.id, claim.claim_no, NOW) for claim in claims])
        await self._store.jobs.report_progress([Progress(claim.id, claim.claim_no, 0.5, "", NOW) for claim in claims])
        half = len(claims) // 2
        await settle(self._store, claims[:half], Failed("boom", delay=7200.0))
        changes = [change(claim)._replace(day_status="success") for claim in claims[half:]]
        assert all(await self._store.jobs.apply(changes, NOW))


async def plain_jobs(store: PostgresStore, count: int) -> None:
    """Jobs of no window, beside it: claimed, begun and settled."""
    await store.jobs.enqueue([a_batch(count)])
    while claims := await take(store, NODE, 100):
        await store.jobs.mark_started([Started(claim.id, claim.claim_no, NOW) for claim in claims])
        assert all(await settle(store, claims))


async def upkeep(store: PostgresStore) -> None:
    """What comes once in a while, whatever there is."""
    for _ in range(OFTEN):
        await store.jobs.held(NODE)
        await store.jobs.orphaned(NOW, 100)
        await store.jobs.overdue(NOW, 100)
        await store.jobs.expired(NOW, 100)
        await store.jobs.prune(NOW - timedelta(days=30), 100)
        await store.windows.prune(NOW - timedelta(days=30), 100)
        await store.windows.next_at()
        await store.windows.fold(1000)


@pytest.mark.contract("WIN-19")
@pytest.mark.parametrize("subjects", [0, 1, 40])
@pytest.mark.parametrize("is_analysed", [True, False])
async def test_plans_from_when_there_were_few_subjects_do_not_read_all_of_many(
    empty_postgres: str, subjects: int, is_analysed: bool
) -> None:
    connection, store = await asyncpg.connect(empty_postgres), PostgresStore(empty_postgres, size=1)
    await store.migrate()
    days = Days(store)
    try:
        await days.prepare()
        if subjects:
            await days.go_by([f"known{number}" for number in range(subjects)])
        if is_analysed:
            await connection.execute("vacuum analyze")
        for number in range(OFTEN):
            await days.go_by([f"first{number}"] if subjects else [])
            await plain_jobs(store, 1)
        await upkeep(store)
        async with store.database.use() as session:
            await session.execute("select pg_stat_force_next_flush()")
        before_it = int(await connection.fetchval(READ, TABLES))
        await days.go_by([f"user{number}" for number in range(MANY)])
        await plain_jobs(store, MANY)
        await upkeep(store)
    finally:
        await store.close()  # then the server counts what its session has read
    try:
        read = int(await connection.fetchval(READ, TABLES)) - before_it
    finally:
        await connection.close()
    assert read < 45 * MANY
