"""Subjects of windows on a caller's connection: read and written by the statements of the stores, inside its
transaction. The time is the one at which the call began."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from oncue.model import Note, Schedule, Subject
from oncue.store import statements
from oncue.store.callers.connections import CallerConnection
from oncue.store.postgres import values as postgres_values
from oncue.store.postgres.windows import put_columns
from oncue.store.shared import note_row, subject_of
from oncue.store.sqlite import values
from oncue.store.sqlite.windows import subject_fields, subjects_of

SCHEDULE, SUBJECT = statements.SCHEDULE_COLUMNS.split(", "), statements.SUBJECT_COLUMNS.split(", ")
DOCUMENTS = ("args", "days_off")


class SubjectsOnPostgres:
    def __init__(self, connection: CallerConnection, schema: str, now: datetime) -> None:
        self._connection = connection
        self._sql = statements.load("postgres", schema)
        self._now = now

    def now(self) -> datetime:
        return self._now

    async def window(self, name: str) -> Schedule | None:
        rows = await self._connection.fetch(self._sql["schedule"], name)
        return postgres_values.schedule(_named(SCHEDULE, rows[0])) if rows else None

    async def subjects(self, schedule_id: int, names: Sequence[str]) -> list[Subject]:
        rows = await self._connection.fetch(self._sql["subjects"], schedule_id, list(names))
        return [subject_of(*_named(SUBJECT, row).values()) for row in rows]

    async def decide_days(self, window: Schedule, subject: Subject, now: datetime) -> bool:
        """The planner does that, on a connection of its own: the row keeps its day until then."""
        return False

    async def put(
        self,
        subjects: Sequence[Subject],
        now: datetime,
        notes: Sequence[Note | None] = (),
        stops: Sequence[int | None] = (),
    ) -> list[bool]:
        """One statement, so that it is all or nothing also where every statement is committed alone."""
        if not subjects:
            return []
        columns = put_columns(subjects, now, notes, stops)
        ((won,),) = await self._connection.fetch(self._sql["put_subjects"], *columns)
        return [number in won for number in range(1, len(subjects) + 1)]


def _named(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """A row whose instants are in UTC, and whose documents are texts: drivers differ in both."""
    return {name: _value(name, value) for name, value in zip(columns, row, strict=True)}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return json.dumps(value, ensure_ascii=False) if name in DOCUMENTS and not isinstance(value, str) else value


class SubjectsOnSqlite:
    def __init__(self, connection: CallerConnection, now: datetime) -> None:
        self._connection = connection
        self._sql = statements.load("sqlite")
        self._now = now

    def now(self) -> datetime:
        return self._now

    async def window(self, name: str) -> Schedule | None:
        rows = await self._connection.fetch(self._sql["schedule"], {"name": name})
        return values.schedule(rows[0]) if rows else None

    async def subjects(self, schedule_id: int, names: Sequence[str]) -> list[Subject]:
        asked = {"schedule_id": schedule_id, "names": json.dumps(list(names))}
        return subjects_of(await self._connection.fetch(self._sql["subjects"], asked))

    async def decide_days(self, window: Schedule, subject: Subject, now: datetime) -> bool:
        """The planner does that, on a connection of its own: the row keeps its day until then."""
        return False

    async def put(
        self,
        subjects: Sequence[Subject],
        now: datetime,
        notes: Sequence[Note | None] = (),
        stops: Sequence[int | None] = (),
    ) -> list[bool]:
        """The file belongs to this transaction, which has written already: what was read is what there is."""
        took = [await self._put(subject, now) for subject in subjects]
        for job_id, wrote in zip(stops, took, strict=bool(stops)):
            if wrote and job_id is not None:
                await self._connection.fetch(self._sql["stop_job"], {"id": job_id, "now": values.micros(now)})
        lines = [note_row(note) for note, wrote in zip(notes, took, strict=bool(notes)) if wrote and note is not None]
        if lines:
            told = {"now": values.micros(now), "notes": json.dumps(lines)}
            await self._connection.fetch(self._sql["add_notes"], told)
        return took

    async def _put(self, subject: Subject, now: datetime) -> bool:
        statement = self._sql["change_subject" if subject.version else "add_subject"]
        await self._connection.fetch(statement, {**subject_fields(subject), "now": values.micros(now)})
        ((changes,),) = await self._connection.fetch("select changes()")
        return bool(changes)
