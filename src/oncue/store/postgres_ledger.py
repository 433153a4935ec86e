"""Schedules, slots and leases on PostgreSQL. The statements are in postgres_ledger.sql."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from oncue.errors import Conflict, NameClash, RowLocked, StoreRefused, StoreUnavailable
from oncue.model import (
    LONGEST_LISTING,
    PARKED,
    STATES,
    Change,
    Due,
    DuePosition,
    Job,
    Lease,
    Node,
    Note,
    Revised,
    Revision,
    Schedule,
    Slot,
    State,
    Step,
)
from oncue.store import statements
from oncue.store.connections import Connections
from oncue.store.hints import Debounce
from oncue.store.tables import BEGINNING, is_plain_step, loaded, note_columns, note_row, sizes

T = TypeVar("T")

MOST_LOCKED = 3
MOST_TAKEN = 10
"""How often a key may be taken between the look at it and the write of a job that has it."""


class PostgresLedger:
    """The half of the store that keeps schedules, their slots, and who may do what alone."""

    _connections: Connections
    _sql: Mapping[str, str]
    _hints: Debounce

    # --- schedules ----------------------------------------------------------------------------------------------

    async def schedule(self, name: str) -> Schedule | None:
        rows = await self._fetch("schedule", name)
        return _schedule(rows[0]) if rows else None

    async def schedule_by_id(self, schedule_id: int) -> Schedule | None:
        rows = await self._fetch("schedule_by_id", schedule_id)
        return _schedule(rows[0]) if rows else None

    async def schedules(self, after: str = "", limit: int = 100) -> list[Schedule]:
        return [_schedule(row) for row in await self._fetch("schedules", after, limit)]

    async def declared(self, application: str) -> list[Schedule]:
        return [_schedule(row) for row in await self._fetch("declared", application)]

    async def revise(self, changes: Sequence[Revised], now: datetime, notes: Sequence[Note | None] = ()) -> list[bool]:
        pairs = zip(changes, notes or [None] * len(changes), strict=True)
        took = [await self._revised(change, now, note) for change, note in pairs]
        self._hints.send()
        return took

    async def _revised(self, change: Revised, now: datetime, note: Note | None) -> bool:
        revision = [None] * 15 if change.revision is None else _revision_row(change.revision)[1:]
        given_up_in = change.schedule.revision - (change.revision is not None)
        rows = [(d.scheduled_for, d.until, d.slots, d.verdict, d.reason) for d in change.decided]
        slots = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(5)]
        fields = (*_schedule_row(change.schedule), *revision, given_up_in, *slots)
        if change.version == 0:
            return await self._noted("create_schedule", now, note, *fields)
        return await self._noted("change_schedule", now, note, *fields, change.version, change.schedule.id)

    async def revisions(self, schedule_id: int) -> list[Revision]:
        rows = await self._fetch("revisions", schedule_id)
        return [Revision(**{**row, "grace": row["grace"].total_seconds()}) for row in map(dict, rows)]

    # --- slots --------------------------------------------------------------------------------------------------

    async def due(self, now: datetime, limit: int, after: DuePosition | None = None) -> list[Due]:
        rows = await self._fetch("due", now, limit, PARKED, *(after or BEGINNING))
        return [Due._make((*row[:12], row[12] or (), row[13] or (), *row[14:])) for row in rows]

    async def next_run(self) -> datetime | None:
        rows = await self._fetch("next_run")
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
                won, locked = await _untangled(lambda: self._decided_past_locks(ordered, author, by, entry))
            elif not parked and not notes and all(map(is_plain_step, ordered)):
                won = await _untangled(lambda: self._decided_plainly(ordered, author, by))
            else:
                won = await _untangled(lambda: self._decided(ordered, author, by, entry, by_schedule))
        except RowLocked:
            if notes:
                raise
            ask = partial(self.decide, now=now, by=by, node=node, epoch=epoch, parked=parked, past_locks=True)
            return await (_decided_one_by_one(steps, ask) if past_locks else ask(steps))
        if won and any(decided.job_id is not None for step in steps for decided in step.decided):
            self._hints.send()
        return [None if step.schedule_id in locked else step.schedule_id in won for step in steps]

    async def _decided_plainly(self, steps: Sequence[Step], author: tuple[Any, ...], by: str) -> set[int]:
        ids, versions, cursors, next_runs, *_ = zip(*steps, strict=True)
        jobs = [step.decided[0].job_id for step in steps]
        try:
            async with self._connections.use() as connection:
                won = await connection.fetchval(
                    self._sql["decide_plain"], *author, ids, versions, cursors, next_runs, jobs, by
                )
        except StoreRefused as error:
            if getattr(error.__cause__, "constraint_name", None) != "oncue_slots_pkey":
                raise
            # A row was put into the ledger behind our back: the longer statement leaves that slot out.
            return await self._decided(steps, author, by, ("queued", author[0]))
        return set(won)

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
        ((won,),) = await self._fetch(name, *columns)
        return set(won)

    async def _decided_past_locks(
        self, steps: Sequence[Step], author: tuple[Any, ...], by: str, entry: tuple[State, datetime]
    ) -> tuple[set[int], set[int]]:
        """The schedules that were decided, and those that another session holds."""
        ((won, locked),) = await self._fetch("decide_free", *_step_columns(steps, author, by, entry))
        return set(won), set(locked)

    async def unfinished(self, schedule_id: int, limit: int) -> list[int]:
        return [row[0] for row in await self._fetch("unfinished", schedule_id, PARKED, limit)]

    async def release_parked(self, now: datetime, limit: int) -> int:
        rows = await self._fetch("with_room", limit)
        return await _untangled(lambda: self._released(rows, now, limit)) if rows else 0

    async def _released(self, rows: Sequence[asyncpg.Record], now: datetime, limit: int) -> int:
        schedules, versions = (list(column) for column in zip(*rows, strict=True))
        async with self._connections.use() as connection:
            status = await connection.execute(self._sql["release_parked"], now, schedules, versions, limit)
        self._hints.send()
        return int(status.split()[-1])

    async def rerun(
        self, schedule: Schedule, job: Job, again: Change | int, now: datetime, *, by: str, note: Note | None = None
    ) -> bool:
        seen, version = (job.id, job.state, job.claim_no), (schedule.id, schedule.version)
        try:
            if isinstance(again, int):
                made = await self._noted("repeat", now, note, *seen, again, *version, by)
            else:
                columns = ([value] for value in again)
                ((took,),) = await self._fetch("apply_noted", now, *columns, *note_columns([note]), *version)
                made = bool(took)
        except StoreRefused as error:
            if getattr(error.__cause__, "constraint_name", None) == "oncue_jobs_key":
                raise Conflict("another unfinished job of this task has the same key") from error
            raise
        self._hints.send()
        return made

    async def retries(self, job_id: int) -> list[Job]:
        return [job_of(row) for row in await self._fetch("retries", job_id)]

    async def slots(self, schedule_id: int, start: datetime, end: datetime, limit: int = LONGEST_LISTING) -> list[Slot]:
        return [Slot(*row) for row in await self._fetch("slots", schedule_id, start, end, limit)]

    async def latest_slots(self, schedule_id: int, limit: int) -> list[Slot]:
        return [Slot(*row) for row in reversed(await self._fetch("latest_slots", schedule_id, limit))]

    async def doubled(self, schedule_id: int, start: datetime, end: datetime) -> list[datetime]:
        return [row[0] for row in await self._fetch("doubled", schedule_id, start, end)]

    async def prune_slots(self, before: datetime, limit: int) -> int:
        async def pruned() -> int:
            async with self._connections.use() as connection:
                status = await connection.execute(self._sql["prune_slots"], before, limit)
            return int(status.split()[-1])

        return await _untangled(pruned)

    # --- leases -------------------------------------------------------------------------------------------------

    async def acquire(
        self, name: str, holder: UUID, holder_name: str, now: datetime, expires_at: datetime, *, respect: str | None
    ) -> Lease | None:
        rows = await self._fetch("acquire", name, holder, holder_name, now, expires_at, respect)
        return Lease(*rows[0]) if rows else await self.lease(name)

    async def renew(
        self, name: str, holder: UUID, epoch: int, now: datetime, expires_at: datetime, *, respect: str | None
    ) -> bool:
        return bool(await self._fetch("renew", name, holder, epoch, now, expires_at, respect))

    async def yield_lease(self, name: str, holder: UUID, epoch: int, now: datetime) -> None:
        await self._fetch("yield_lease", name, holder, epoch, now)
        self._hints.send()

    async def lease(self, name: str) -> Lease | None:
        rows = await self._fetch("lease", name)
        return Lease(*rows[0]) if rows else None

    # --- the dead -----------------------------------------------------------------------------------------------

    async def namesakes(self, node: Node) -> list[Node]:
        return [node_of(row) for row in await self._fetch("namesakes", node.name, node.id)]

    async def node_names(self, ids: Sequence[UUID]) -> dict[UUID, str]:
        return {row[0]: row[1] for row in await self._fetch("node_names", list(ids))}

    async def declare_lost(self, node: UUID, now: datetime) -> bool:
        return bool(await self._fetch("declare_lost", node, now))

    # --- looking ------------------------------------------------------------------------------------------------

    async def ahead(self, job: Job, limit: int) -> int:
        rows = await self._fetch("ahead", job.queue, job.priority, job.order_at, job.id, limit)
        count: int = rows[0][0]
        return count

    async def create_views(self) -> list[str]:
        views = statements.views("postgres")
        async with self._connections.use() as connection, connection.transaction():
            for name, script in views.items():
                is_ours = await connection.fetchval(
                    "select c.relkind = 'v' and coalesce(obj_description(c.oid, 'pg_class'), '') = 'made by oncue' "
                    "from pg_class c where c.oid = to_regclass($1)", name
                )  # fmt: skip
                if is_ours is False:
                    raise NameClash(f"{name}: the database has a table or view of this name that is not oncue's")
                await connection.execute(script)
        return list(views)

    async def _noted(self, name: str, now: datetime, note: Note | None, *parameters: Any) -> bool:
        """Make a change by a statement that returns a row if it takes, and that writes its line of the audit log."""
        line = [None] * 5 if note is None else note_row(note)
        return bool(await self._fetch(name, now, *line, *parameters))

    async def _fetch_past_locks(self, name: str, *parameters: Any) -> list[asyncpg.Record]:
        """Ask by the plain statement. If a lock is in its way for too long, by the one that passes over locked rows."""
        try:
            return await self._fetch(name, *parameters)
        except RowLocked:
            return await self._fetch(f"{name}_free", *parameters)

    async def _fetch(self, name: str, *parameters: Any) -> list[asyncpg.Record]:
        async with self._connections.use() as connection:
            return await connection.fetch(self._sql[name], *parameters)


async def _untangled(work: Callable[[], Awaitable[T]]) -> T:
    """Begin again what was undone: one of two batches that waited for each other, or one whose key was just taken."""
    taken = 0
    while True:
        try:
            return await work()
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, asyncpg.DeadlockDetectedError):
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


_DURATIONS = ("grace", "max_runtime", "deadline")


def _schedule(row: asyncpg.Record) -> Schedule:
    values = dict(row)
    for name in _DURATIONS:
        values[name] = None if values[name] is None else values[name].total_seconds()
    return Schedule(**values)


def _row_of(value: Schedule | Revision, columns: str) -> list[Any]:
    values = [getattr(value, name) for name in columns.split(", ")]
    names = columns.split(", ")
    return [
        timedelta(seconds=found) if name in _DURATIONS and found is not None else found
        for name, found in zip(names, values, strict=True)
    ]


def _schedule_row(schedule: Schedule) -> list[Any]:
    return _row_of(schedule, statements.SCHEDULE_FIELDS)


def _revision_row(revision: Revision) -> list[Any]:
    return _row_of(revision, statements.REVISION_COLUMNS)


def node_of(row: asyncpg.Record) -> Node:
    values = dict(row)
    for name in ("queues", "tasks", "schedules"):
        values[name] = tuple(values[name])
    return Node(**values)


def job_of(row: asyncpg.Record) -> Job:
    values = dict(row)
    assert values["state"] in STATES
    values["args"], values["result"] = loaded(values["args"]), loaded(values["result"])
    if values["max_runtime"] is not None:
        values["max_runtime"] = values["max_runtime"].total_seconds()
    if "args_bytes" in values:
        values["shortened"] = sizes(*(values.pop(f"{name}_bytes") for name in ("args", "result", "error")))
    return Job(**values)
