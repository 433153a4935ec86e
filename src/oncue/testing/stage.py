"""Where an application's jobs live during a test: one SQLite store in memory, the same for every loop and thread."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Collection, Sequence
from typing import TypeVar

from oncue.application.connecting import Connection
from oncue.application.portal import at_once, refuse_inside_loop
from oncue.store import SqliteStore
from oncue.testing.clock import Clock
from oncue.testing.transactions import Transactions

T = TypeVar("T")

ONLY_OURS = "inside the test kit `app.wait` runs oncue's own verbs only"


FORGET = "delete from oncue_jobs where claim_no = 0 and id in (select value from json_each(?))"


class StageStore(SqliteStore):
    def forget(self, ids: Collection[int]) -> None:
        """These jobs were never there, unless they were run."""
        at_once(self.database.write(lambda connection: connection.execute(FORGET, (json.dumps(list(ids)),))))


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

    async def follow(self, on: object, ids: Sequence[int]) -> None:
        await self.transactions.follow(on, ids)

    def wait(self, awaitable: Awaitable[T]) -> T:
        refuse_inside_loop(awaitable)
        return at_once(awaitable, f"{ONLY_OURS}: this one waits for something else")

    async def pause(self, seconds: float) -> None:
        """What waits for a worker waits in the test's own time, and comes to an end."""
        self.clock.advance(seconds)

    async def aclose(self) -> None:
        """The store outlives what the code under test closes: the test still wants to look at it."""

    def close(self) -> None: ...
