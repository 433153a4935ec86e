"""Where an application's jobs live during a test: one SQLite store in memory, the same for every loop and thread."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from oncue.connecting import Connection
from oncue.portal import at_once, refuse_inside_loop
from oncue.store import SqliteStore
from oncue.testing.clock import Clock

T = TypeVar("T")

ONLY_OURS = "inside the test kit `app.wait` runs oncue's own verbs only"


class StageConnection(Connection):
    """One for all threads, so that nothing may be kept here that two of them could take at once."""

    async def ids(self, count: int) -> list[int]:
        return await self.store.reserve(count)


class Stage:
    """The test kit's way to the database. Nothing that it does has to wait, so plain code needs no loop for it."""

    works = False

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.store = SqliteStore(":memory:", inline=True, wall=clock.now)
        self.connection = StageConnection(self.store, clock)

    async def connected(self) -> Connection:
        return self.connection

    def wait(self, awaitable: Awaitable[T]) -> T:
        refuse_inside_loop(awaitable)
        return at_once(awaitable, f"{ONLY_OURS}: this one waits for something else")

    async def aclose(self) -> None:
        """The store outlives what the code under test closes: the test still wants to look at it."""

    def close(self) -> None: ...
