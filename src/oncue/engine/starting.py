"""A start waits for its database, for a while: hosts boot in any order, and a database restarts now and then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from oncue.clock import Clock
from oncue.engine.runner import pause_after
from oncue.errors import StoreUnavailable, StoreUnusable
from oncue.policy.durations import describe

T = TypeVar("T")

_log = logging.getLogger("oncue.node")


class Patience:
    """How long all steps of a start together may wait. It counts from when it is made."""

    def __init__(self, clock: Clock, timeout: float) -> None:
        self._clock = clock
        self._timeout = timeout
        self._began_at = clock.monotonic()

    @property
    def _left(self) -> float:
        return self._began_at + self._timeout - self._clock.monotonic()

    async def take(self, step: Callable[[], Awaitable[T]]) -> T:
        """Take a step, again and again while the database is away; raise what waiting does not cure at once."""
        failures = 0
        while True:
            try:
                done = await step()
            except StoreUnusable:
                raise
            except StoreUnavailable as error:
                failures += 1
                if self._left <= 0:
                    raise
                if failures == 1:
                    _log.warning("%s; waiting for it for up to %s", error, describe(self._timeout))
                await asyncio.sleep(min(pause_after(failures), self._left))
            else:
                if failures:
                    _log.warning("the database answers, after %d tries in vain", failures)
                return done


async def unless(stopped: Coroutine[Any, Any, object], work: Coroutine[Any, Any, T]) -> T | None:
    """Do some work, or return None if `stopped` ends before it: a start that waits must not outlast its stop."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stopped)
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
