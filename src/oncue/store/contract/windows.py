"""Daily windows: their subjects, the days of these, and how many came to what.

A subject's day is ended by the end of its job: the `Change` that ends the job says what the day comes to
(`Change.day_status`), and `jobs.apply` writes both. Jobs are locked before subjects. Without a job, the subject's own
version decides. A window is a schedule whose rule is `daily(…)`; it has no slots but those of its subjects.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from oncue.model import FIRST_DUE, DayCount, DuePlace, Note, OpenJob, Schedule, Slot, Subject, SubjectStep


class Windows(Protocol):
    async def all(self) -> list[Schedule]:
        """The windows that are not deleted, by name."""
        ...

    async def subjects(self, schedule_id: int, names: Sequence[str]) -> list[Subject]:
        """Those of these names that there are, removed ones too."""
        ...

    async def page(self, schedule_id: int, after: str = "", limit: int = 100) -> list[Subject]:
        """The subjects of a window that are not removed, by name; `after` is the name to go on from."""
        ...

    async def put(
        self,
        subjects: Sequence[Subject],
        now: datetime,
        notes: Sequence[Note | None] = (),
        stops: Sequence[int | None] = (),
    ) -> list[bool]:
        """Write each subject whose row still has the version that it was read with, 0 for one that has no row yet.

        The new version is one more. Each takes or not by itself; `notes`, if there are any, are as many, and are
        written with those that took. `stops`, if there are any, are as many too: jobs that are asked to stop with the
        write of their subjects. No attempt of such a job starts any more.
        """
        ...

    async def due(self, schedule_id: int, now: datetime, limit: int, after: DuePlace = FIRST_DUE) -> list[Subject]:
        """Subjects of a window that the planner has to look at, the longest waiting first, from `after` on."""
        ...

    async def next_at(self) -> datetime | None:
        """When the next subject of any enabled window is due."""
        ...

    async def unfinished(self, job_ids: Sequence[int]) -> list[OpenJob]:
        """Those of these jobs that have not ended."""
        ...

    async def advance(
        self,
        steps: Sequence[SubjectStep],
        now: datetime,
        *,
        node: UUID | None = None,
        epoch: int | None = None,
        notes: Sequence[Note | None] = (),
    ) -> list[bool | None]:
        """Move each subject whose guard holds, write its slots, make its jobs and count its days: in one transaction.
        The slot of a day tells its latest job.

        With an epoch, nothing is written unless `node` still leads under it. None: another session holds the row.
        `notes` are as in `put`.
        """
        ...

    async def ledger(self, schedule_id: int, name: str, start: datetime, end: datetime, limit: int) -> list[Slot]:
        """The ledger's rows of one subject that touch this span of time, oldest first."""
        ...

    async def ledgers(
        self, schedule_id: int, names: Sequence[str], start: datetime, end: datetime
    ) -> list[tuple[str, Slot]]:
        """The same of several subjects: each row with its subject, by name, oldest first."""
        ...

    async def day(self, schedule_id: int, day: date) -> list[DayCount]:
        """How many subjects came to what on a day, by the minute of their cutoff in UTC."""
        ...

    async def fold(self, limit: int) -> int:
        """Add up to `limit` counts of days together; how many rows were there."""
        ...

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` slots of subjects from before this instant whose jobs are gone, the counts of days
        before it, and the subjects that were removed before it and have nothing left. How many slots."""
        ...
