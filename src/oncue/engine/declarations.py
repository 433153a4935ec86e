"""Looks now and then for schedules that code declared once, and that no live worker declares any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from oncue.engine.service import Signal


class Declarations:
    name = "declarations"

    def __init__(self, disable_undeclared: Callable[[], Awaitable[None]], *, interval: float) -> None:
        self.signal = Signal()
        self._disable_undeclared = disable_undeclared
        self._interval = timedelta(seconds=interval)

    async def tick(self, now: datetime) -> datetime:
        await self._disable_undeclared()
        return now + self._interval
