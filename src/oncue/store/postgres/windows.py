"""Daily windows on PostgreSQL. The statements are in windows.sql."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

from oncue.model import FIRST_DUE, DayCount, DuePlace, Note, OpenJob, Schedule, Slot, Subject, SubjectStep
from oncue.store.postgres import values
from oncue.store.postgres.database import Database
from oncue.store.postgres.jobs import jobs_document
from oncue.store.shared import midnight, note_columns, subject_of, subject_row


class PostgresWindows:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def all(self) -> list[Schedule]:
        return [values.schedule(row) for row in await self._db.fetch("windows")]

    async def subjects(self, schedule_id: int, names: Sequence[str]) -> list[Subject]:
        return [subject_of(*row) for row in await self._db.fetch("subjects", schedule_id, names)] if names else []

    async def page(self, schedule_id: int, after: str = "", limit: int = 100) -> list[Subject]:
        return [subject_of(*row) for row in await self._db.fetch("subjects_page", schedule_id, after, limit)]

    async def put(
        self,
        subjects: Sequence[Subject],
        now: datetime,
        notes: Sequence[Note | None] = (),
        stops: Sequence[int | None] = (),
    ) -> list[bool]:
        if not subjects:
            return []
        ((won,),) = await self._db.fetch("put_subjects", *put_columns(subjects, now, notes, stops))
        taken = frozenset(won)
        self._db.notifications.send()
        return [number in taken for number in range(1, len(subjects) + 1)]

    async def due(self, schedule_id: int, now: datetime, limit: int, after: DuePlace = FIRST_DUE) -> list[Subject]:
        return [subject_of(*row) for row in await self._db.fetch("due_subjects", schedule_id, now, limit, *after)]

    async def next_at(self) -> datetime | None:
        found: datetime | None = (await self._db.fetch("next_subject"))[0][0]
        return found

    async def unfinished(self, job_ids: Sequence[int]) -> list[OpenJob]:
        return [OpenJob(*row) for row in await self._db.fetch("unfinished_jobs", job_ids)] if job_ids else []

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
        moved, decided, counted = (
            json.dumps(rows, default=str) for rows in (_steps(steps), _decided(steps), _tallies(steps))
        )
        documents = (moved, decided, _jobs(steps), counted)
        ((won, locked, made),) = await self._db.fetch("advance", now, node, epoch, *documents, *note_columns(notes))
        if made:
            self._db.notifications.send()
        answers: dict[int, bool | None] = dict.fromkeys(won, True) | dict.fromkeys(locked)
        return [answers.get(number, False) for number in range(1, len(steps) + 1)]

    async def ledger(self, schedule_id: int, name: str, start: datetime, end: datetime, limit: int) -> list[Slot]:
        return [Slot(*row) for row in await self._db.fetch("subject_slots", schedule_id, name, start, end, limit)]

    async def ledgers(
        self, schedule_id: int, names: Sequence[str], start: datetime, end: datetime
    ) -> list[tuple[str, Slot]]:
        rows = await self._db.fetch("subjects_slots", schedule_id, names, start, end)
        return [(name, Slot(*row)) for name, *row in rows]

    async def day(self, schedule_id: int, day: date) -> list[DayCount]:
        return [DayCount(*row) for row in await self._db.fetch("window_day", schedule_id, day)]

    async def fold(self, limit: int) -> int:
        folded: int = (await self._db.fetch("fold_windows", limit))[0][0]
        return folded

    async def prune(self, before: datetime, limit: int) -> int:
        pruned: int = (await self._db.fetch("prune_days", before, limit, before.date()))[0][0]
        return pruned


def put_columns(
    subjects: Sequence[Subject], now: datetime, notes: Sequence[Note | None], stops: Sequence[int | None]
) -> list[Any]:
    """What `put_subjects` is told."""
    given = [{"ordinal": number, **subject_row(one)} for number, one in enumerate(subjects, 1)]
    return [now, json.dumps(given, default=str, ensure_ascii=False), *note_columns(notes), list(stops)]


def _steps(steps: Sequence[SubjectStep]) -> list[dict[str, Any]]:
    return [
        {
            "ordinal": number, "schedule_id": step.schedule_id, "name": step.name, "version": step.version,
            "day": step.day.date, "opens_at": step.day.opens_at, "cutoff_at": step.day.cutoff_at,
            "next_at": step.next_at, "job_id": step.job_id, "last_date": step.last_date, "status": step.status,
            "reason": step.reason,
        }
        for number, step in enumerate(steps, 1)
    ]  # fmt: skip


def _decided(steps: Sequence[SubjectStep]) -> list[dict[str, Any]]:
    return [
        {
            "ordinal": number, "scheduled_for": one.scheduled_for, "verdict": one.verdict, "reason": one.reason,
            "job_id": one.job_id, "until": one.until, "slots": one.slots,
        }
        for number, step in enumerate(steps, 1) for one in step.decided
    ]  # fmt: skip


def _jobs(steps: Sequence[SubjectStep]) -> str | None:
    """The jobs of days, and those of cutoffs, which have no slot."""
    made = (
        ({"ordinal": number, "slot": slot, "id": batch.ids[0], "args": batch.args[0]}, batch)
        for number, step in enumerate(steps, 1)
        for slot, batch in ((midnight(step.day.date), step.job), (None, step.hook))
        if batch is not None
    )
    return jobs_document(made)


def _tallies(steps: Sequence[SubjectStep]) -> list[dict[str, Any]]:
    return [
        {"ordinal": number, "day": tally.date, "bucket": tally.bucket, "event": tally.event}
        for number, step in enumerate(steps, 1)
        for tally in step.tallies
    ]
