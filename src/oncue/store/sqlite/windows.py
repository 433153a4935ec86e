"""Daily windows on SQLite. The statements are in windows.sql."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

from oncue.model import DayCount, Job, Note, Schedule, Slot, Subject, SubjectStep
from oncue.store import statements
from oncue.store.shared import step_jobs, subject_of
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database
from oncue.store.sqlite.jobs import SqliteJobs

_COLUMNS = statements.SUBJECT_COLUMNS.split(", ")
_INSTANTS = [name for name in _COLUMNS if name.endswith("_at") or name == "since"]
_DATES = ("day", "last_date")


class SqliteWindows:
    def __init__(self, database: Database, jobs: SqliteJobs) -> None:
        self._db = database
        self._jobs = jobs

    async def all(self) -> list[Schedule]:
        return [values.schedule(row) for row in await self._db.rows("windows")]

    async def subjects(self, schedule_id: int, names: Sequence[str]) -> list[Subject]:
        rows = await self._db.rows("subjects", schedule_id=schedule_id, names=json.dumps(list(names)))
        return [_subject(row) for row in rows]

    async def page(self, schedule_id: int, after: str = "", limit: int = 100) -> list[Subject]:
        rows = await self._db.rows("subjects_page", schedule_id=schedule_id, after=after, limit=limit)
        return [_subject(row) for row in rows]

    async def put(self, subjects: Sequence[Subject], now: datetime, notes: Sequence[Note | None] = ()) -> list[bool]:
        if not subjects:
            return []

        def work(connection: sqlite3.Connection) -> list[bool]:
            took = [self._put(connection, subject, now) for subject in subjects]
            if notes:
                self._db.add_notes(connection, [note for note, wrote in zip(notes, took, strict=True) if wrote], now)
            return took

        return await self._db.write(work)

    def _put(self, connection: sqlite3.Connection, subject: Subject, now: datetime) -> bool:
        statement = self._db.sql["change_subject" if subject.version else "add_subject"]
        return connection.execute(statement, {**subject_fields(subject), "now": values.micros(now)}).rowcount == 1

    async def due(self, schedule_id: int, now: datetime, limit: int) -> list[Subject]:
        rows = await self._db.rows("due_subjects", schedule_id=schedule_id, now=values.micros(now), limit=limit)
        return [_subject(row) for row in rows]

    async def next_at(self) -> datetime | None:
        return values.instant_or_none(await self._db.value("next_subject"))

    async def unfinished(self, job_ids: Sequence[int]) -> list[Job]:
        return [values.job(row) for row in await self._db.rows("unfinished_jobs", ids=json.dumps(list(job_ids)))]

    async def advance(
        self,
        steps: Sequence[SubjectStep],
        now: datetime,
        *,
        node: UUID | None = None,
        epoch: int | None = None,
        notes: Sequence[Note | None] = (),
    ) -> list[bool | None]:
        if not steps:
            return []
        common = {"now": values.micros(now), "node": None if node is None else str(node), "epoch": epoch}

        def work(connection: sqlite3.Connection) -> list[bool | None]:
            if epoch is not None and not connection.execute(self._db.sql["leads"], common).fetchall():
                return [False] * len(steps)
            connection.execute(self._db.sql["raise_high_water"], {"now": common["now"]})
            took: list[bool | None] = [self._advanced(connection, step, common) for step in steps]
            written = [step for step, wrote in zip(steps, took, strict=True) if wrote]
            tallies = Counter(
                (step.schedule_id, tally.date.isoformat(), tally.bucket, tally.event)
                for step in written
                for tally in step.tallies
            )
            connection.executemany(self._db.sql["tally"], values.tallies(tallies))
            if notes:
                self._db.add_notes(connection, [note for note, wrote in zip(notes, took, strict=True) if wrote], now)
            return took

        return await self._db.write(work)

    def _advanced(self, connection: sqlite3.Connection, step: SubjectStep, common: dict[str, Any]) -> bool:
        whose = {**common, "schedule_id": step.schedule_id, "name": step.name}
        row = {
            **whose, "version": step.version, "day": step.day.date.isoformat(),
            "opens_at": values.micros(step.day.opens_at), "cutoff_at": values.micros(step.day.cutoff_at),
            "next_at": values.micros_or_none(step.next_at), "job_id": step.job_id,
            "last_date": None if step.last_date is None else step.last_date.isoformat(), "status": step.status,
            "reason": step.reason,
        }  # fmt: skip
        if not connection.execute(self._db.sql["move_subject"], row).rowcount:
            return False
        fired: set[int | None] = set()
        for one in step.decided:
            told = {
                "scheduled_for": values.micros(one.scheduled_for), "until": values.micros_or_none(one.until),
                "slots": one.slots, "verdict": one.verdict, "reason": one.reason, "job_id": one.job_id,
            }  # fmt: skip
            if connection.execute(self._db.sql["decide_day"], {**whose, **told}).rowcount:
                fired.add(one.job_id)
        for _, is_hook, scheduled_for, batch in step_jobs([step]):
            if not is_hook and batch.retry_of is None and batch.ids[0] not in fired:
                continue
            self._jobs.insert(connection, batch)
            if scheduled_for is not None:
                day = {"id": batch.ids[0], "scheduled_for": values.micros(scheduled_for)}
                connection.execute(self._db.sql["mark_day"], {**whose, **day})
                if batch.retry_of is not None:
                    connection.execute(self._db.sql["repeat_day"], {**whose, **day})
        return True

    async def ledger(self, schedule_id: int, name: str, start: datetime, end: datetime, limit: int) -> list[Slot]:
        rows = await self._db.rows(
            "subject_slots", schedule_id=schedule_id, name=name, start=values.micros(start), end=values.micros(end),
            limit=limit,
        )  # fmt: skip
        return [values.slot(row) for row in rows]

    async def day(self, schedule_id: int, day: date) -> list[DayCount]:
        rows = await self._db.rows("window_day", schedule_id=schedule_id, day=day.isoformat())
        return [DayCount(*row) for row in rows]

    async def fold(self, limit: int) -> int:
        def work(connection: sqlite3.Connection) -> int:
            connection.execute(self._db.sql["fold_windows"], {"limit": limit})
            return connection.execute(self._db.sql["forget_window_deltas"], {"limit": limit}).rowcount

        return await self._db.write(work) if await self._db.value("any_window_delta") else 0

    async def prune(self, before: datetime, limit: int) -> int:
        asked = {"before": values.micros(before), "limit": limit}

        def work(connection: sqlite3.Connection) -> int:
            pruned = connection.execute(self._db.sql["prune_days"], asked).rowcount
            day = {"day": before.date().isoformat(), "limit": limit}
            connection.execute(self._db.sql["prune_day_counts"], day)
            connection.execute(self._db.sql["forget_subjects"], asked)
            return pruned

        ((is_any,),) = await self._db.rows("any_old_day", **asked, day=before.date().isoformat())
        return await self._db.write(work) if is_any else 0


def _subject(row: Sequence[Any]) -> Subject:
    columns = dict(zip(_COLUMNS, row, strict=True))
    for name in _INSTANTS:
        columns[name] = values.instant_or_none(columns[name])
    for name in _DATES:
        columns[name] = None if columns[name] is None else date.fromisoformat(columns[name])
    return subject_of(columns)


def subject_fields(subject: Subject) -> dict[str, Any]:
    """The parameters that a row of this subject needs."""
    fields = {name: getattr(subject, name) for name in _COLUMNS}
    instants = {name: values.micros_or_none(fields[name]) for name in _INSTANTS}
    dates = {name: None if fields[name] is None else fields[name].isoformat() for name in _DATES}
    return {**fields, **instants, **dates, "days_off": json.dumps([day.isoformat() for day in subject.days_off])}
