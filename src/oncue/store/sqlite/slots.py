"""Slots on SQLite. The statements are in slots.sql."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.errors import Conflict, StoreRefused
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
    Step,
)
from oncue.store.shared import (
    BEGINNING,
    endings,
)
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database, rows_of
from oncue.store.sqlite.jobs import SqliteJobs

_PARKED = values.micros(PARKED)


class SqliteSlots:
    def __init__(self, database: Database, jobs: SqliteJobs) -> None:
        self._db = database
        self._jobs = jobs

    async def due(self, now: datetime, limit: int, after: DuePosition | None = None) -> list[Due]:
        instant, number = after or BEGINNING
        rows = await self._db.rows(
            "due", now=values.micros(now), limit=limit, parked=_PARKED, instant=values.micros(instant), number=number
        )
        return [values.due(row) for row in rows]

    async def next_run(self) -> datetime | None:
        return values.instant_or_none(await self._db.value("next_run"))

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

        common = {
            "now": values.micros(now),
            "by": by,
            "node": None if node is None else str(node),
            "epoch": epoch,
            "state": "scheduled" if parked else "queued",
            "visible_at": _PARKED if parked else values.micros(now),
        }

        def work(connection: sqlite3.Connection) -> set[int]:
            won = self._decided(connection, steps, common)
            if notes:
                written = [note for step, note in zip(steps, notes, strict=True) if step.schedule_id in won]
                self._db.add_notes(connection, written, now)
            return won

        won = await self._db.write(work)
        return [step.schedule_id in won for step in steps]

    def _decided(self, connection: sqlite3.Connection, steps: Sequence[Step], common: dict[str, Any]) -> set[int]:
        if common["epoch"] is not None and not connection.execute(self._db.sql["leads"], common).fetchall():
            return set()
        connection.execute(
            self._db.sql["raise_high_water"], {"now": common["now"]}
        )  # no later process is told an earlier time
        moves = {**common, "steps": json.dumps([_move_row(step) for step in steps])}
        won = set(rows_of(connection, self._db.sql["current_steps"], moves))
        rows = [
            [step.schedule_id, *values.decided_row(decided)]
            for step in steps
            if step.schedule_id in won
            for decided in step.decided
        ]
        connection.execute(
            self._db.sql["move"], {**moves, "steps": json.dumps([_move_row(s) for s in steps if s.schedule_id in won])}
        )
        connection.execute(self._db.sql["decide"], {**common, "decided": json.dumps(rows)})
        fired = {**common, "decided": json.dumps([row for row in rows if row[4]])}
        connection.execute(self._db.sql["make_jobs"], fired)
        if connection.execute(self._db.sql["any_grouped_schedule"]).fetchone()[0]:
            connection.execute(self._db.sql["wake_decided"], fired)
        return won

    async def unfinished(self, schedule_id: int, limit: int) -> list[int]:
        rows = await self._db.rows("unfinished", schedule_id=schedule_id, parked=_PARKED, limit=limit)
        return [row[0] for row in rows]

    async def release_parked(self, now: datetime, limit: int) -> int:
        with_room = self._db.sql["with_room"], {"limit": limit}
        if not await self._db.read(lambda connection: rows_of(connection, *with_room)):
            return 0

        def work(connection: sqlite3.Connection) -> int:
            schedules, released = rows_of(connection, *with_room), 0
            connection.execute(self._db.sql["hold_schedules"], {"ids": json.dumps(schedules)})
            for schedule in schedules:
                parameters = {"schedule_id": schedule, "now": values.micros(now), "limit": limit - released}
                released += connection.execute(self._db.sql["release_parked"], parameters).rowcount
                connection.execute(self._db.sql["wake_released"], parameters)
            return released

        return await self._db.write(work)

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
        def holds(connection: sqlite3.Connection) -> bool:
            if schedule is None:
                return True
            guard = {"id": schedule.id, "version": schedule.version}
            return bool(connection.execute(self._db.sql["hold_version"], guard).rowcount)

        def made(connection: sqlite3.Connection) -> bool:
            if not holds(connection):
                return False
            if not isinstance(again, int):
                return bool(self._jobs.write_changes(connection, endings([again], now), now))
            parameters = {"id": job.id, "state": job.state, "claim_no": job.claim_no}
            new = {"new_id": again, "now": values.micros(now), "by": by}
            if connection.execute(self._db.sql["repeat"], {**parameters, **new}).rowcount != 1:
                return False
            connection.execute(self._db.sql["wake_repeated"], new)
            return True

        def work(connection: sqlite3.Connection) -> bool:
            took = made(connection)
            if took:
                self._db.add_notes(connection, [note], now)
            return took

        try:
            return await self._db.write(work)
        except StoreRefused as error:
            if getattr(error.__cause__, "sqlite_errorname", None) == "SQLITE_CONSTRAINT_UNIQUE":
                raise Conflict("another unfinished job of this task has the same key") from error
            raise

    async def between(
        self, schedule_id: int, start: datetime, end: datetime, limit: int = LONGEST_LISTING
    ) -> list[Slot]:
        rows = await self._db.rows(
            "slots", schedule_id=schedule_id, start=values.micros(start), end=values.micros(end), limit=limit
        )
        return [values.slot(row) for row in rows]

    async def latest(self, schedule_id: int, limit: int, before: datetime | None = None) -> list[Slot]:
        end = _PARKED if before is None else values.micros(before)
        rows = await self._db.rows("latest_slots", schedule_id=schedule_id, before=end, limit=limit)
        return [values.slot(row) for row in reversed(rows)]

    async def latest_of(self, schedule_ids: Sequence[int], limit: int) -> list[Slot]:
        rows = await self._db.rows("latest_slots_of", ids=json.dumps(list(schedule_ids)), limit=limit)
        return [values.slot(row) for row in rows]

    async def doubled(self, schedule_id: int, start: datetime, end: datetime) -> list[datetime]:
        rows = await self._db.rows(
            "doubled", schedule_id=schedule_id, start=values.micros(start), end=values.micros(end)
        )
        return [values.instant(row[0]) for row in rows]

    async def prune(self, before: datetime, limit: int) -> int:
        old_slots = self._db.sql["old_slots"], {"before": values.micros(before), "limit": limit}
        if not await self._db.read(lambda connection: rows_of(connection, *old_slots)):
            return 0

        def work(connection: sqlite3.Connection) -> int:
            parameters = {"before": values.micros(before), "slots": json.dumps(rows_of(connection, *old_slots))}
            connection.execute(self._db.sql["raise_horizon"], parameters)
            return connection.execute(self._db.sql["prune_slots"], parameters).rowcount

        return await self._db.write(work)


def _move_row(step: Step) -> list[Any]:
    fires = any(decided.job_id is not None for decided in step.decided)
    next_run_at = values.micros_or_none(step.next_run_at)
    return [step.schedule_id, step.version, values.micros(step.cursor), next_run_at, fires]
