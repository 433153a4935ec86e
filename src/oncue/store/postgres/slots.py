"""Slots on PostgreSQL. The statements are in slots.sql."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from oncue.errors import Conflict, RowLocked, StoreRefused, StoreUnavailable
from oncue.model import (
    LONGEST_LISTING,
    PARKED,
    Change,
    Due,
    DuePosition,
    Job,
    Note,
    Schedule,
    Slot,
    State,
    Step,
)
from oncue.store.postgres.connections import undone_by_deadlock
from oncue.store.postgres.database import Database
from oncue.store.postgres.jobs import change_columns
from oncue.store.shared import (
    BEGINNING,
    endings,
    is_plain_step,
    note_columns,
)

T = TypeVar("T")

MOST_LOCKED = 3
MOST_TAKEN = 10
"""How often a key may be taken between the look at it and the write of a job that has it."""


class PostgresSlots:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def due(self, now: datetime, limit: int, after: DuePosition | None = None) -> list[Due]:
        rows = await self._db.fetch("due", now, limit, PARKED, *(after or BEGINNING))
        return [Due._make((*row[:12], row[12] or (), row[13] or (), *row[14:])) for row in rows]

    async def next_run(self) -> datetime | None:
        rows = await self._db.fetch("next_run")
        found: datetime | None = rows[0][0]
        return found

    async def decide(
        self,
        steps: Sequence[Step],
        now: datetime,
        *,
        by: str,
        node: UUID | None = None,
        epoch: int | None = None,
        parked: bool = False,
        notes: Sequence[Note | None] = (),
        past_locks: bool = False,
    ) -> list[bool | None]:
        if not steps:
            return []
        by_schedule = {step.schedule_id: note for step, note in zip(steps, notes, strict=True)} if notes else {}
        ordered = sorted(steps, key=lambda step: step.schedule_id)
        author = (now, node, epoch)
        entry: tuple[State, datetime] = ("scheduled", PARKED) if parked else ("queued", now)
        locked: set[int] = set()
        try:
            if past_locks:
                won, locked = await untangled(lambda: self._decided_past_locks(ordered, author, by, entry))
            elif not parked and not notes and all(map(is_plain_step, ordered)):
                won = await untangled(lambda: self._decided_plainly(ordered, author, by))
            else:
                won = await untangled(lambda: self._decided(ordered, author, by, entry, by_schedule))
        except RowLocked:
            if notes:
                raise
            ask = partial(self.decide, now=now, by=by, node=node, epoch=epoch, parked=parked, past_locks=True)
            return await (_decided_one_by_one(steps, ask) if past_locks else ask(steps))
        if won and any(decided.job_id is not None for step in steps for decided in step.decided):
            self._db.notifications.send()
        return [None if step.schedule_id in locked else step.schedule_id in won for step in steps]

    async def _decided(
        self,
        steps: Sequence[Step],
        author: tuple[Any, ...],
        by: str,
        entry: tuple[State, datetime],
        notes: Mapping[int, Note | None] | None = None,
    ) -> set[int]:
        name, columns = "decide", _step_columns(steps, author, by, entry)
        if notes:
            name, columns = "decide_noted", [*columns, *note_columns([notes[step.schedule_id] for step in steps])]
        ((won,),) = await self._db.fetch(name, *columns)
        return set(won)

    async def _decided_past_locks(
        self, steps: Sequence[Step], author: tuple[Any, ...], by: str, entry: tuple[State, datetime]
    ) -> tuple[set[int], set[int]]:
        """The schedules that were decided, and those that another session holds."""
        ((won, locked),) = await self._db.fetch("decide_free", *_step_columns(steps, author, by, entry))
        return set(won), set(locked)

    async def _decided_plainly(self, steps: Sequence[Step], author: tuple[Any, ...], by: str) -> set[int]:
        ids, versions, cursors, next_runs, *_ = zip(*steps, strict=True)
        jobs = [step.decided[0].job_id for step in steps]
        try:
            async with self._db.use() as connection:
                won = await connection.fetchval(
                    self._db.sql["decide_plain"], *author, ids, versions, cursors, next_runs, jobs, by
                )
        except StoreRefused as error:
            if getattr(error.__cause__, "constraint_name", None) != "oncue_slots_pkey":
                raise
            # A row was put into the ledger behind our back: the longer statement leaves that slot out.
            return await self._decided(steps, author, by, ("queued", author[0]))
        return set(won)

    async def unfinished(self, schedule_id: int, limit: int) -> list[int]:
        return [row[0] for row in await self._db.fetch("unfinished", schedule_id, PARKED, limit)]

    async def release_parked(self, now: datetime, limit: int) -> int:
        rows = await self._db.fetch("with_room", limit)
        return await untangled(lambda: self._released(rows, now, limit)) if rows else 0

    async def _released(self, rows: Sequence[asyncpg.Record], now: datetime, limit: int) -> int:
        schedules, versions = (list(column) for column in zip(*rows, strict=True))
        ((released,),) = await self._db.fetch("release_parked", now, schedules, versions, limit)
        self._db.notifications.send()
        return int(released)

    async def rerun(
        self,
        schedule: Schedule | None,
        job: Job,
        again: Change | int,
        now: datetime,
        *,
        by: str,
        note: Note | None = None,
    ) -> bool:
        seen = (job.id, job.state, job.claim_no)
        version = (None, None) if schedule is None else (schedule.id, schedule.version)
        try:
            if isinstance(again, int):
                made = await self._db.noted("repeat", now, note, *seen, again, *version, by)
            else:
                columns = change_columns(endings([again], now))
                ((took,),) = await self._db.fetch("apply_noted", now, *columns, *note_columns([note]), *version)
                made = bool(took)
        except StoreRefused as error:
            if getattr(error.__cause__, "constraint_name", None) == "oncue_jobs_key":
                raise Conflict("another unfinished job of this task has the same key") from error
            raise
        self._db.notifications.send()
        return made

    async def between(
        self, schedule_id: int, start: datetime, end: datetime, limit: int = LONGEST_LISTING
    ) -> list[Slot]:
        return [Slot(*row) for row in await self._db.fetch("slots", schedule_id, start, end, limit)]

    async def latest(self, schedule_id: int, limit: int, before: datetime | None = None) -> list[Slot]:
        rows = await self._db.fetch("latest_slots", schedule_id, limit, before or PARKED)
        return [Slot(*row) for row in reversed(rows)]

    async def latest_of(self, schedule_ids: Sequence[int], limit: int) -> list[Slot]:
        return [Slot(*row) for row in await self._db.fetch("latest_slots_of", list(schedule_ids), limit)]

    async def doubled(self, schedule_id: int, start: datetime, end: datetime) -> list[datetime]:
        return [row[0] for row in await self._db.fetch("doubled", schedule_id, start, end)]

    async def prune(self, before: datetime, limit: int) -> int:
        async def pruned() -> int:
            async with self._db.use() as connection:
                status = await connection.execute(self._db.sql["prune_slots"], before, limit)
            return int(status.split()[-1])

        return await untangled(pruned)


async def untangled(work: Callable[[], Awaitable[T]]) -> T:
    """Begin again what was undone: one of two batches that waited for each other, or one whose key was just taken."""
    taken = 0
    while True:
        try:
            return await work()
        except StoreUnavailable as error:
            if not undone_by_deadlock(error):
                raise
        except StoreRefused as error:
            taken += 1
            if getattr(error.__cause__, "constraint_name", None) != "oncue_jobs_key" or taken == MOST_TAKEN:
                raise


async def _decided_one_by_one(
    steps: Sequence[Step], ask: Callable[[Sequence[Step]], Awaitable[list[bool | None]]]
) -> list[bool | None]:
    """Past locked schedules it is a key that an open transaction has taken, or a table that is locked.

    Steps with keys are asked for one by one, so that only those wait whose key is taken; after a few in a row that had
    to, the rest is left for the next pass.
    """
    if len(steps) == 1 or any(step.key is None for step in steps):
        return [None] * len(steps)
    took: list[bool | None] = []
    while len(took) < len(steps) and took[-MOST_LOCKED:] != [None] * MOST_LOCKED:
        took += await ask([steps[len(took)]])
    return took + [False] * (len(steps) - len(took))


def _step_columns(steps: Sequence[Step], author: tuple[Any, ...], by: str, entry: tuple[State, datetime]) -> list[Any]:
    """What `decide` gets for these steps, which are ordered by their schedules."""
    ids, versions, cursors, next_runs, *_ = zip(*steps, strict=True)
    fires = [any(decided.job_id is not None for decided in step.decided) for step in steps]
    rows = [(step.schedule_id, *decided) for step in steps for decided in step.decided]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(8)]
    return [*author, ids, versions, cursors, next_runs, fires, by, *columns, *entry]
