"""Bare batched slot inserts: what any ledger must do, and nothing else."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime

import asyncpg

from bench import database, timing

BATCH = 1000
# What a ledger cannot do without: whose slot, which one, what became of it and why, its job, who decided it and when.
CREATE = """
create table slots (
    schedule_id bigint not null, subject text not null, scheduled_for timestamptz not null, verdict text not null,
    reason text, job_id bigint, decided_at timestamptz not null, decided_by uuid not null,
    primary key (schedule_id, subject, scheduled_for))
"""
INSERT = """
insert into slots
select schedule_id, '', scheduled_for, verdict, null, job_id, $5, $6
  from unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::bigint[])
       as s (schedule_id, scheduled_for, verdict, job_id)
    on conflict do nothing
"""


def insert(dsn: str, slots: int) -> float:
    """Slots per second, in batches of a thousand, each committed."""
    database.execute(dsn, CREATE)
    return timing.run(_insert(dsn, slots))


async def _insert(dsn: str, slots: int) -> float:
    connection = await asyncpg.connect(dsn)
    statement = await connection.prepare(INSERT)
    now, node = datetime.now(UTC), uuid.uuid4()
    started = time.monotonic()
    for start in range(0, slots, BATCH):
        ids = list(range(start, min(start + BATCH, slots)))
        await statement.fetch(ids, [now] * len(ids), ["fired"] * len(ids), ids, now, node)
    elapsed = time.monotonic() - started
    await connection.close()
    return slots / elapsed
