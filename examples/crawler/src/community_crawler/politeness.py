"""Waiting for one's turn at a site: no more requests at once than allowed, and a pause between any two of them.

The database decides for all workers together (`sites.py`). Inside a process only one crawl at a time asks it, the
others stand behind that one, so that it is asked once for each request however many are waiting.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from sqlalchemy import Engine

from community_crawler import sites

LONGEST_WAIT = 5.0
"""Who has to wait for longer than this, in seconds, gives the worker's seat to somebody else."""
GRACE = 1.0
"""A request that was given up is over for its server a moment later."""


class NotYet(Exception):
    """It will take a while until the site may be visited: come back after so many seconds."""

    def __init__(self, after: float, reason: str) -> None:
        super().__init__(reason)
        self.after = after


class Politeness:
    """One process's manners. `now` is the time that all processes share: the database's."""

    def __init__(self, engine: Engine, at_once: int, longest: float, now: Callable[[], Awaitable[datetime]]) -> None:
        self._engine = engine
        self._at_once = at_once
        self._longest = longest + GRACE
        self._now = now
        self._seats: dict[int, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))
        self._doors: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def visit(self, site: int, delay: float) -> AsyncIterator[None]:
        """Wait for a turn at a site, and hold it inside the `async with` block. Raises NotYet."""
        async with self._seats[site]:
            async with self._doors[site]:
                visit = await self._admitted(site, delay)
            try:
                yield
            finally:
                await asyncio.to_thread(sites.end_visit, self._engine, site, visit, await self._now())

    async def _admitted(self, site: int, delay: float) -> int:
        waited = 0.0
        while True:
            turn = await asyncio.to_thread(
                sites.take_turn, self._engine, site, await self._now(),
                delay=delay, at_once=self._at_once, longest=self._longest,
            )  # fmt: skip
            if turn.visit is not None:
                return turn.visit
            waited += turn.wait
            if waited > LONGEST_WAIT:
                raise NotYet(turn.wait, "the site is not to be visited yet")
            await asyncio.sleep(turn.wait)

    async def leave_alone(self, site: int, seconds: float) -> None:
        """Nobody visits this site for so long: it has asked for patience."""
        until = await self._now() + timedelta(seconds=seconds)
        await asyncio.to_thread(sites.leave_alone, self._engine, site, until)
