"""The steps of an enqueue on a caller's connection to SQLite."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from typing import Any

from oncue.clock import wall
from oncue.errors import FileGone, InvalidJob, SchemaMismatch
from oncue.model import Batch, Declaration, Owner, Receipt
from oncue.store import statements
from oncue.store.callers.connections import CallerConnection, Rows
from oncue.store.sqlite import values

DECLARATION = """
select reason, options from oncue_schedules where name = :name and declared_by is not null and deleted_at is null
"""


class OnSqlite:
    def __init__(self, connection: CallerConnection, path: str, wall: Callable[[], datetime] = wall) -> None:
        self._connection = connection
        self._path = path
        self._wall = wall
        self._sql = statements.load("sqlite")

    async def reserve(self, count: int) -> tuple[list[int], datetime]:
        """Numbers for new jobs, and the time. A transaction that is rolled back gives its numbers back.

        The numbers come first, since that is a write. A transaction that begins with a read cannot write any more as
        soon as another connection has written; a transaction that begins with a write waits for its turn.
        """
        self._check_file(await self._connection.fetch("pragma database_list"))
        ((last,),) = await self._numbers(count)
        ((mark,),) = await self._connection.fetch(self._sql["high_water"])
        return list(range(last - count + 1, last + 1)), max(self._wall(), values.instant(mark))

    async def version(self) -> int:
        ((number,),) = await self._connection.fetch("pragma user_version")
        return int(number)

    async def declaration(self, name: str) -> Declaration | None:
        """What is stored of the schedule that code declares under this name."""
        rows = await self._connection.fetch(DECLARATION, {"name": name})
        return Declaration(*rows[0]) if rows else None

    async def owner(self) -> Owner | None:
        """The application that the tables belong to."""
        rows = await self._connection.fetch(self._sql["owner"])
        return Owner(rows[0][0], bool(rows[0][1]), values.instant(rows[0][2])) if rows else None

    async def enqueue(self, batch: Batch) -> list[Receipt]:
        """Write a batch. Workers notice by themselves that the file has changed."""
        await self._connection.fetch(self._sql["enqueue"], values.batch(batch))
        if values.wakes_group(batch):
            await self._connection.fetch(self._sql["wake_group"], {"queue": batch.queue, "group_name": batch.group})
        if batch.keys is None:
            return [Receipt(job_id, batch.created_at, True) for job_id in batch.ids]
        written = {job_id: None for job_id, _ in await self._listed("written", values.identity(batch))}
        return values.receipts(batch, written, await self._listed("standing", values.keys(batch)))

    async def _listed(self, name: str, parameters: dict[str, Any]) -> list[Any]:
        """The rows of a statement that returns them as one JSON array."""
        ((rows,),) = await self._connection.fetch(self._sql[name], parameters)
        listed: list[Any] = json.loads(rows)
        return listed

    async def _numbers(self, count: int) -> Rows:
        try:
            return await self._connection.fetch(self._sql["reserve"], {"count": count})
        except Exception as error:  # each driver has its own, and they all tell it in SQLite's words
            if "no such table: oncue_job_ids" in str(error):
                raise SchemaMismatch(f"on: {self._path} has no oncue tables: run `oncue migrate`") from error
            raise

    def _check_file(self, databases: Rows) -> None:
        """Tables of the same names in another file would take the job, and no worker would ever see it."""
        main = next(os.fsdecode(file or "") for _, name, file in databases if os.fsdecode(name) == "main")
        if main and not os.path.exists(self._path):
            raise FileGone(
                f"on: the SQLite file {self._path} was deleted or moved away: put it back, then connect anew"
            )
        if not _same(main, self._path):
            raise InvalidJob(
                "on", f"expected a connection to the application's database {self._path}, not {main or 'one in memory'}"
            )


def _same(file: str, other: str) -> bool:
    try:
        return os.path.samefile(file, other)
    except OSError:
        return False
