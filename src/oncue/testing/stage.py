"""Where an application's jobs live during a test: one SQLite store in memory, the same for every loop and thread."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypeVar
from uuid import UUID

from oncue.application.connecting import Connection
from oncue.application.portal import at_once, refuse_inside_loop
from oncue.model import Note, OpenJob, Subject
from oncue.store import SqliteStore
from oncue.store.sqlite import values
from oncue.store.sqlite.windows import subject_fields
from oncue.store.statements import SUBJECT_COLUMNS
from oncue.testing.clock import Clock
from oncue.testing.transactions import Transactions, Written
from oncue.verbs.subjects import OwnTables, SubjectTables

T = TypeVar("T")

ONLY_OURS = "inside the test kit `app.wait` runs oncue's own verbs only"


SubjectKey: TypeAlias = tuple[int, str]

FORGET = "delete from oncue_jobs where claim_no = 0 and id in (select value from json_each(?))"
FORGET_SUBJECT = "delete from oncue_subjects where schedule_id = ? and name = ?"
RESTORE_SUBJECT = f"insert into oncue_subjects ({SUBJECT_COLUMNS}) values (:{SUBJECT_COLUMNS.replace(', ', ', :')})"
GO_ON = "update oncue_jobs set cancel_requested_at = null, visible_at = ? where id = ? and finished_at is null"


DECLARE = "update oncue_nodes set queues = ?, tasks = ? where id = ?"


class StageStore(SqliteStore):
    def declare(self, node: UUID, queues: Sequence[str], tasks: Sequence[str]) -> None:
        """This node serves these queues and knows these tasks from now on."""
        row = (json.dumps(queues), json.dumps(tasks), str(node))
        at_once(self.database.write(lambda connection: connection.execute(DECLARE, row)))

    def forget(self, written: Collection[Written]) -> None:
        """This was never written; jobs stay if they were run."""
        for step in reversed(list(written)):
            if not isinstance(step, int):
                step()
        ids = json.dumps([step for step in written if isinstance(step, int)])
        at_once(self.database.write(lambda connection: connection.execute(FORGET, (ids,))))

    def restore(self, before: Mapping[SubjectKey, Subject | None], stopped: Collection[OpenJob]) -> None:
        """Subjects are as they were; the jobs that were asked to stop go on, if they have not ended."""

        def work(connection: sqlite3.Connection) -> None:
            for key, subject in before.items():
                connection.execute(FORGET_SUBJECT, key)
                if subject is not None:
                    connection.execute(RESTORE_SUBJECT, subject_fields(subject))
            connection.executemany(GO_ON, [(values.micros(job.visible_at), job.id) for job in stopped])

        at_once(self.database.write(work))


class FollowedSubjects(OwnTables):
    """Subjects in the kit's store, as a part of a caller's transaction."""

    def __init__(self, stage: Stage, on: object) -> None:
        super().__init__(stage.connection)
        self._stage = stage
        self._on = on
        self.put = self._put

    async def _put(
        self,
        subjects: Sequence[Subject],
        now: datetime,
        notes: Sequence[Note | None] = (),
        stops: Sequence[int | None] = (),
    ) -> list[bool]:
        before: dict[SubjectKey, Subject | None] = {(one.schedule_id, one.name): None for one in subjects}
        for one in subjects:
            for known in await self.subjects(one.schedule_id, [one.name]):
                before[known.schedule_id, known.name] = known
        store = self._stage.store
        jobs = await store.windows.unfinished([job_id for job_id in stops if job_id is not None])
        took = await store.windows.put(subjects, now, notes, stops)
        await self._stage.follow(self._on, [lambda: store.restore(before, jobs)])
        return took


class StageConnection(Connection):
    """One for all threads, so that nothing may be kept here that two of them could take at once."""

    async def ids(self, count: int) -> list[int]:
        return await self.store.jobs.reserve(count)


class Stage:
    """The test kit's way to the database. Nothing that it does has to wait, so plain code needs no loop for it."""

    works = False

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.store = StageStore(":memory:", inline=True, wall=clock.now)
        self.transactions = Transactions(self.store.forget)
        self.connection = StageConnection(self.store, clock)

    async def connected(self) -> Connection:
        return self.connection

    def ready(self) -> Connection | None:
        return self.connection

    async def follow(self, on: object, ids: Sequence[Written]) -> None:
        await self.transactions.follow(on, ids)

    async def follow_subjects(self, on: object) -> SubjectTables:
        return FollowedSubjects(self, on)

    def wait(self, awaitable: Awaitable[T]) -> T:
        refuse_inside_loop(awaitable)
        return at_once(awaitable, f"{ONLY_OURS}: this one waits for something else")

    async def pause(self, seconds: float) -> None:
        """What waits for a worker waits in the test's own time, and comes to an end."""
        self.clock.advance(seconds)

    async def aclose(self) -> None:
        """The store outlives what the code under test closes: the test still wants to look at it."""

    def close(self) -> None: ...
