"""How an application reaches its database: a store per event loop, and a way in for plain code.

The test kit is the other `Connector`: one store in memory, and nothing to wait for.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from oncue.application.portal import Portal
from oncue.clock import Clock, DatabaseClock
from oncue.errors import StoreUnavailable
from oncue.model import Declaration, Owner
from oncue.store.contract import Store

if TYPE_CHECKING:
    from oncue.verbs.subjects import SubjectTables

T = TypeVar("T")

CLOCK_REFRESH_SECONDS = 30.0
LARGEST_BLOCK = 512
TRUSTED_SECONDS = 30.0


class Connected(Protocol):
    """What a verb needs: a store that is open, the database's time, and numbers for new jobs."""

    store: Store

    def now(self) -> datetime: ...

    async def ids(self, count: int) -> list[int]: ...


class KnownDeclaration(NamedTuple):
    """What was read of the schedule that code declares under a name."""

    read_at: float
    stored: Declaration | None


class Connection:
    """A store that is open, and the database's time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self._spare_ids: list[int] = []
        self._block = 1
        self.declarations: dict[str, KnownDeclaration] = {}
        self._owner: tuple[float, Owner | None] = (float("-inf"), None)

    def now(self) -> datetime:
        return self.clock.now()

    def spare_ids(self, count: int) -> list[int] | None:
        """Numbers for new jobs, if there are enough in hand."""
        if len(self._spare_ids) < count:
            return None
        taken = self._spare_ids[:count]
        del self._spare_ids[:count]
        return taken

    def forget_ids(self) -> None:
        """The numbers in hand are no good."""
        self._spare_ids.clear()

    def remembers(self, name: str) -> bool:
        """Whether it was read lately what is stored of the schedule that code declares under this name."""
        known = self.declarations.get(name)
        return known is not None and self.clock.monotonic() - known.read_at <= TRUSTED_SECONDS

    def is_undeclared(self, name: str) -> bool:
        """Whether it was read lately that no code declares a schedule under this name."""
        return self.remembers(name) and self.declarations[name].stored is None

    async def read_declaration(self, name: str) -> None:
        now, found = self.clock.monotonic(), None
        if (stored := await self.store.schedules.get(name)) is not None:
            from oncue.policy.schedules import declaration_of  # few tasks have a schedule

            found = declaration_of(stored)
        self.declarations[name] = KnownDeclaration(now, found)

    async def owner(self) -> Owner | None:
        """The application that the tables belong to; what was read lately is believed."""
        now = self.clock.monotonic()
        if now - self._owner[0] > TRUSTED_SECONDS:
            self._owner = now, await self.store.application.owner()
        return self._owner[1]

    async def ids(self, count: int) -> list[int]:
        """Numbers for new jobs. A caller that needs many fetches them in ever larger blocks, ahead of need."""
        while (taken := self.spare_ids(count)) is None:
            missing = count - len(self._spare_ids)
            self._spare_ids += await self.store.jobs.reserve(max(missing, self._block))
            self._block = min(self._block * 2, LARGEST_BLOCK)
        return taken


class Connector(Protocol):
    works: bool
    """Whether a worker of this application runs jobs; in a test it is the test that says when."""

    async def connected(self) -> Connection:
        """The store for the running event loop, opened on first use."""
        ...

    def ready(self) -> Connection | None:
        """The same, if there is nothing to wait for."""
        ...

    async def follow(self, on: object, ids: Sequence[int]) -> None:
        """These jobs belong to the transaction of a caller's connection, and were not written on it."""
        ...

    async def follow_subjects(self, on: object) -> SubjectTables:
        """The same of subjects: what is written there is part of that transaction."""
        ...

    def wait(self, awaitable: Awaitable[T]) -> T:
        """Run an asynchronous verb from plain code."""
        ...

    async def pause(self, seconds: float) -> None:
        """Let time pass before the database is asked again."""
        ...

    async def aclose(self) -> None:
        """Close the store of the running event loop."""

    def close(self) -> None:
        """Close what plain code has opened."""


class _Live(Connection):
    def __init__(self, store: Store, clock: DatabaseClock) -> None:
        super().__init__(store, clock)
        self._clock = clock
        self._learned = float("-inf")
        self.life: AsyncGenerator[None, None] | None = None

    @property
    def is_fresh(self) -> bool:
        return self._clock.monotonic() - self._learned <= CLOCK_REFRESH_SECONDS

    async def fresh(self) -> None:
        """Learn the database's time again, now and then. While it is away, what was learned must do."""
        if not self.is_fresh:
            sent = self._clock.sent()
            try:
                self._clock.learn(await self.store.time(), sent)
            except StoreUnavailable:
                if self._learned == float("-inf"):
                    raise
            else:
                self._learned = self._clock.monotonic()


class DatabaseConnector:
    """The way of production. A forked child begins anew: its parent's sockets and threads are not its own."""

    works = True

    def __init__(self, make_store: Callable[[], Store]) -> None:
        self._make_store = make_store
        self._portal = Portal()
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._connections: dict[asyncio.AbstractEventLoop, _Live] = {}
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    def wait(self, awaitable: Awaitable[T]) -> T:
        return self._portal.wait(awaitable)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def follow(self, on: object, ids: Sequence[int]) -> None:
        raise NotImplementedError("jobs of a caller's transaction are written on its own connection")

    async def follow_subjects(self, on: object) -> SubjectTables:
        raise NotImplementedError("subjects of a caller's transaction are written on its own connection")

    async def connected(self) -> Connection:
        if self._pid != os.getpid():
            self._begin()
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop) or await self._opened(loop)
        await connection.fresh()
        return connection

    def ready(self) -> Connection | None:
        connection = self._connections.get(asyncio.get_running_loop()) if self._pid == os.getpid() else None
        return connection if connection is not None and connection.is_fresh else None

    async def _opened(self, loop: asyncio.AbstractEventLoop) -> _Live:
        async with self._opening.setdefault(loop, asyncio.Lock()):
            connection = self._connections.get(loop)
            if connection is None:
                self._forget_closed_loops()
                store = await self._new_store()
                connection = self._connections[loop] = _Live(store, DatabaseClock())
                connection.life = self._lasting(loop, store)
                await anext(connection.life)
            return connection

    async def _new_store(self) -> Store:
        store = self._make_store()
        try:
            await store.open()
        except BaseException:
            await store.close()  # it may have connected before it was refused
            raise
        return store

    async def _lasting(self, loop: asyncio.AbstractEventLoop, store: Store) -> AsyncGenerator[None, None]:
        """A loop that ends in good order, as `asyncio.run` ends it, closes its open generators first: this one too.

        A program that calls `asyncio.run` again and again would otherwise leave threads or sockets behind each time.
        """
        try:
            yield
        finally:
            self._connections.pop(loop, None)
            self._opening.pop(loop, None)
            await store.close()

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._connections if loop.is_closed()]:
            del self._connections[loop]
            self._opening.pop(loop, None)

    async def aclose(self) -> None:
        connection = self._connections.get(asyncio.get_running_loop())
        if connection is not None and connection.life is not None:
            await connection.life.aclose()

    def close(self) -> None:
        if self._pid == os.getpid():
            self._portal.close(self.aclose)
