"""The database behind the nouns of the SQLite store: its connections, its statements, and how a change is noted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from oncue.clock import wall
from oncue.errors import NameClash, StoreError
from oncue.model import Note
from oncue.store import statements
from oncue.store.contract import Wake
from oncue.store.shared import note_row
from oncue.store.sqlite import file, values
from oncue.store.sqlite.identity import MEMORY, check_files
from oncue.store.sqlite.threads import Access, ConnectionThread, InlineConnection, Work

T = TypeVar("T")

DIALECT = "sqlite"
OLDEST_SQLITE = (3, 38, 0)
BUSY_SECONDS = 30.0
NOTICE_SECONDS = 0.02


class Database:
    """One file. `inline` keeps everything in the caller's thread."""

    def __init__(
        self,
        path: str,
        *,
        inline: bool = False,
        wall: Callable[[], datetime] = wall,
        migrate: bool = True,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.sql = statements.load(DIALECT)
        self._file = path if path == MEMORY else os.path.abspath(path)  # the process may change its folder
        self._inline = inline
        self._wall = wall
        self._migrate = migrate
        self._busy_seconds = busy_seconds
        self._rounds = 1 if inline or busy_seconds >= BUSY_SECONDS else max(1, round(busy_seconds / file.HURRY_SECONDS))
        self._writer: Access
        self._reader: Access
        self._opened: list[Access] = []
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            wanted = ".".join(map(str, OLDEST_SQLITE))
            raise StoreError(f"oncue needs SQLite {wanted} or newer, this Python has {sqlite3.sqlite_version}")
        if self._inline:
            connection = self._connect()
            if self._migrate and self._file == MEMORY:
                file.in_memory(statements.migrations(DIALECT)).backup(connection)
            self._writer = self._reader = InlineConnection(connection)
            self._opened.append(self._writer)
        else:
            self._writer = await self._thread("oncue-writer", checkpoints=True)
            self._reader = await self._thread("oncue-reader", checkpoints=False)
        if self._migrate:
            await self.migrate()
        statements.check_version(DIALECT, await self.version())

    async def _thread(self, name: str, *, checkpoints: bool) -> ConnectionThread:
        thread = ConnectionThread(lambda: self._connect(checkpoints), name, self._rounds, check_files)
        await thread.open()
        self._opened.append(thread)
        return thread

    def _connect(self, checkpoints: bool = True) -> sqlite3.Connection:
        return file.connect(self._file, self._busy_seconds, checkpoints=checkpoints, hurried=self._rounds > 1)

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        while self._opened:
            await self._opened.pop().close()

    # --- statements ---------------------------------------------------------------------------------------------

    async def write(self, work: Work[T]) -> T:
        """Do work in a transaction; it is durable when this returns."""
        return await self._writer.write(work)

    async def read(self, work: Work[T]) -> T:
        return await self._reader.read(work)

    async def rows(self, statement: str, **parameters: Any) -> list[Any]:
        return await self._reader.read(
            lambda connection: connection.execute(self.sql[statement], parameters).fetchall()
        )

    async def value(self, statement: str) -> Any:
        return (await self.rows(statement))[0][0]

    async def execute(self, statement: str, **parameters: Any) -> int:
        """Write by one statement; how many rows it touched."""
        return await self._writer.write(lambda connection: connection.execute(self.sql[statement], parameters).rowcount)

    async def noted(self, statement: str, now: datetime, note: Note | None, /, **parameters: Any) -> bool:
        """Make a change by a statement that touches a row if it takes, and note it."""

        def work(connection: sqlite3.Connection) -> bool:
            took = connection.execute(self.sql[statement], {**parameters, "now": values.micros(now)}).rowcount > 0
            if took:
                self.add_notes(connection, [note], now)
            return took

        return await self._writer.write(work)

    def add_notes(self, connection: sqlite3.Connection, notes: Sequence[Note | None], now: datetime) -> None:
        """Write the lines of the audit log that there are, in the transaction of their changes."""
        rows = [note_row(note) for note in notes if note is not None]
        if rows:
            connection.execute(self.sql["add_notes"], {"now": values.micros(now), "notes": json.dumps(rows)})

    # --- the tables ---------------------------------------------------------------------------------------------

    async def version(self) -> int:
        """The number of the last migration, 0 on an empty database."""
        return await self._reader.read(file.version)

    async def migrate(self) -> list[str]:
        known = statements.migrations(DIALECT)
        if await self.version() >= known[-1].number:
            return []
        return await self._writer.write(lambda connection: file.migrated(connection, known))

    async def create_views(self) -> list[str]:
        views = statements.views(DIALECT)

        def work(connection: sqlite3.Connection) -> list[str]:
            for name, script in views.items():
                look = "select type, sql from sqlite_master where name = ? collate nocase"
                standing = connection.execute(look, (name,)).fetchall()
                if any(kind != "view" or "made by oncue" not in sql for kind, sql in standing):
                    raise NameClash(f"{name}: the database has a table or view of this name that is not oncue's")
                connection.execute(f"drop view if exists {name}")
                connection.execute(script)
            return list(views)

        return await self._writer.write(work)

    # --- time and waking ----------------------------------------------------------------------------------------

    async def time(self) -> datetime:
        mark = await self.value("high_water")
        return max(self._wall(), values.instant(mark))

    async def watch(self, wake: Wake) -> None:
        if not self._inline and self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._notice(wake))

    async def _notice(self, wake: Wake) -> None:
        """SQLite counts the commits of other connections. Reading that count takes microseconds and no lock."""
        seen = None
        while True:
            with contextlib.suppress(StoreError):  # a caller that writes gets the error; here it only delays a hint
                version = await self._reader.read(file.data_version)
                if version != seen:
                    seen = version
                    wake(True)
            await asyncio.sleep(NOTICE_SECONDS)


def rows_of(connection: sqlite3.Connection, sql: str, parameters: dict[str, Any]) -> list[Any]:
    """The rows of a statement that returns them as one JSON array."""
    rows: list[Any] = json.loads(array_of(connection, sql, parameters))
    return rows


def array_of(connection: sqlite3.Connection, sql: str, parameters: dict[str, Any]) -> str:
    """The same, not parsed yet: every caller waits for the writer, so a caller parses large ones itself."""
    text: str = connection.execute(sql, parameters).fetchone()[0]
    return text
