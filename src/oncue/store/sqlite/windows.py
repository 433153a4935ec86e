"""Daily windows on SQLite. The statements are in windows.sql."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

from oncue.model import FIRST_DUE, DayCount, DuePlace, Note, OpenJob, Schedule, Slot, Subject, SubjectStep
from oncue.store import statements
from oncue.store.shared import DAYS_OFF, alike, days_off_of, midnight
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database
from oncue.store.sqlite.jobs import SqliteJobs

_COLUMNS = statements.SUBJECT_COLUMNS.split(", ")
_INSTANTS = [name for name in _COLUMNS if name.endswith("_at") or name == "since"]
_DATES = ("day", "last_date")
_INSTANT_PLACES, _DATE_PLACES = ([_COLUMNS.index(name) for name in names] for names in (_INSTANTS, _DATES))


class SqliteWindows:
    def __init__(self, database: Database, jobs: SqliteJobs) -> None:
        self._db = database
        self._jobs = jobs

    async def all(self) -> list[Schedule]:
        return [values.schedule(row) for row in await self._db.rows("windows")]

    async def subjects(self, schedule_id: int, names: Sequence[str]) -> list[Subject]:
        rows = await self._db.rows("subjects", schedule_id=schedule_id, names=json.dumps(list(names)))
        return subjects_of(rows)

    async def page(self, schedule_id: int, after: str = "", limit: int = 100) -> list[Subject]:
        rows = await self._db.rows("subjects_page", schedule_id=schedule_id, after=after, limit=limit)
        return subjects_of(rows)

    async def put(
        self,
        subjects: Sequence[Subject],
        now: datetime,
        notes: Sequence[Note | None] = (),
        stops: Sequence[int | None] = (),
    ) -> list[bool]:
        if not subjects:
            return []

        def work(connection: sqlite3.Connection) -> list[bool]:
            took = [self._put(connection, subject, now) for subject in subjects]
            for job_id, wrote in zip(stops, took, strict=bool(stops)):
                if wrote and job_id is not None:
                    connection.execute(self._db.sql["stop_job"], {"id": job_id, "now": values.micros(now)})
            if notes:
                self._db.add_notes(connection, [note for note, wrote in zip(notes, took, strict=True) if wrote], now)
            return took

        return await self._db.write(work)

    def _put(self, connection: sqlite3.Connection, subject: Subject, now: datetime) -> bool:
        statement = self._db.sql["change_subject" if subject.version else "add_subject"]
        return connection.execute(statement, {**subject_fields(subject), "now": values.micros(now)}).rowcount == 1

    async def due(self, schedule_id: int, now: datetime, limit: int, after: DuePlace = FIRST_DUE) -> list[Subject]:
        rows = await self._db.rows(
            "due_subjects", schedule_id=schedule_id, now=values.micros(now), limit=limit,
            after_at=values.micros(after.next_at), after_name=after.name,
        )  # fmt: skip
        return subjects_of(rows)

    async def next_at(self) -> datetime | None:
        return values.instant_or_none(await self._db.value("next_subject"))

    async def unfinished(self, job_ids: Sequence[int]) -> list[OpenJob]:
        return values.open_jobs(await self._db.rows("unfinished_jobs", ids=json.dumps(list(job_ids))))

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
            moved = set(connection.execute(self._db.sql["move_subjects"], {**common, "steps": _rows(steps)}).fetchall())
            took: list[bool | None] = [(step.schedule_id, step.name) in moved for step in steps]
            self._decide(connection, [step for step, wrote in zip(steps, took, strict=True) if wrote], common)
            if notes:
                self._db.add_notes(connection, [note for note, wrote in zip(notes, took, strict=True) if wrote], now)
            return took

        return await self._db.write(work)

    def _decide(self, connection: sqlite3.Connection, steps: Sequence[SubjectStep], common: dict[str, Any]) -> None:
        """Write the slots and the jobs of subjects that have moved, and count their days."""
        decided = connection.execute(self._db.sql["decide_days"], {**common, "decided": _slots(steps)})
        fired = {job_id for (job_id,) in decided.fetchall()}
        for _, batch in alike((step, step.hook) for step in steps if step.hook is not None):
            self._jobs.insert(connection, batch)
        days = [(step, step.job) for step in steps if step.job is not None]
        for whose, batch in alike((step, job) for step, job in days if job.retry_of is not None or job.ids[0] in fired):
            jobs = zip(batch.ids, batch.args, map(_day_of, whose), strict=True)
            told = {**values.batch(batch), "jobs": json.dumps([(job_id, args, *day) for job_id, args, day in jobs])}
            connection.execute(self._db.sql["enqueue_days"], told)
        for step, job in days:
            if job.retry_of is not None:
                slot = {"schedule_id": step.schedule_id, "name": step.name, "scheduled_for": _day_of(step)[1]}
                connection.execute(self._db.sql["repeat_day"], {**slot, "id": job.ids[0]})
        tallies = Counter(
            (step.schedule_id, tally.date.isoformat(), tally.bucket, tally.event)
            for step in steps
            for tally in step.tallies
        )
        connection.executemany(self._db.sql["tally"], values.tallies(tallies))

    async def ledger(self, schedule_id: int, name: str, start: datetime, end: datetime, limit: int) -> list[Slot]:
        rows = await self._db.rows(
            "subject_slots", schedule_id=schedule_id, name=name, start=values.micros(start), end=values.micros(end),
            limit=limit,
        )  # fmt: skip
        return [values.slot(row) for row in rows]

    async def ledgers(
        self, schedule_id: int, names: Sequence[str], start: datetime, end: datetime
    ) -> list[tuple[str, Slot]]:
        rows = await self._db.rows(
            "subjects_slots", schedule_id=schedule_id, names=json.dumps(list(names)), start=values.micros(start),
            end=values.micros(end),
        )  # fmt: skip
        return [(row[0], values.slot(row[1:])) for row in rows]

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


def _rows(steps: Sequence[SubjectStep]) -> str:
    return json.dumps([
        (
            step.schedule_id, step.name, step.version, step.day.date, values.micros(step.day.opens_at),
            values.micros(step.day.cutoff_at), values.micros_or_none(step.next_at), step.job_id, step.last_date,
            step.status, step.reason,
        )
        for step in steps
    ], default=str)  # fmt: skip


def _slots(steps: Sequence[SubjectStep]) -> str:
    return json.dumps([
        (
            step.schedule_id, step.name, values.micros(one.scheduled_for), values.micros_or_none(one.until), one.slots,
            one.verdict, one.reason, one.job_id,
        )
        for step in steps for one in step.decided
    ])  # fmt: skip


def _day_of(step: SubjectStep) -> tuple[int, int, str]:
    """Whose day it is: of a job, the window, the slot and the subject."""
    return step.schedule_id, values.micros(midnight(step.day.date)), step.name


def subjects_of(rows: Iterable[Sequence[Any]]) -> list[Subject]:
    """Subjects that are read together have most of their instants and dates in common."""
    columns: list[Iterable[Any]] = list(zip(*rows, strict=True))
    if not columns:
        return []
    instants, dates = values.Instants(), _Dates()
    for place in _INSTANT_PLACES:
        columns[place] = map(instants.__getitem__, columns[place])
    for place in _DATE_PLACES:
        columns[place] = map(dates.__getitem__, columns[place])
    columns[DAYS_OFF] = map(days_off_of, columns[DAYS_OFF])
    return list(map(Subject, *columns))


class _Dates(dict[str | None, date | None]):
    """Texts to dates."""

    def __missing__(self, text: str | None) -> date | None:
        made = self[text] = None if text is None else date.fromisoformat(text)
        return made


def subject_fields(subject: Subject) -> dict[str, Any]:
    """The parameters that a row of this subject needs."""
    fields = {name: getattr(subject, name) for name in _COLUMNS}
    instants = {name: values.micros_or_none(fields[name]) for name in _INSTANTS}
    dates = {name: None if fields[name] is None else fields[name].isoformat() for name in _DATES}
    return {**fields, **instants, **dates, "days_off": json.dumps([day.isoformat() for day in subject.days_off])}
