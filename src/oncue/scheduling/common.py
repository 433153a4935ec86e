"""What the verbs on schedules stand on: the application behind them, another try, and the ledger page by page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

from oncue.errors import Conflict, StoreUnavailable
from oncue.model import Slot
from oncue.policy.triggers import TICK
from oncue.reach import Connected
from oncue.store.contract import Store
from oncue.task import Task
from oncue.telemetry import Telemetry

T = TypeVar("T")

MOST_TRIES = 20
ASK_AGAIN_SECONDS = 0.2
LEDGER_PAGE = 10_000

log = logging.getLogger("oncue.schedules")


class Application:
    """What the verbs ask of the application that they belong to."""

    name: str
    tasks: dict[str, Task[Any, Any]]
    telemetry: Telemetry

    async def connected(self) -> Connected:
        raise NotImplementedError

    async def _rest(self, seconds: float) -> None:
        """Wait, before the database is asked again."""
        await asyncio.sleep(seconds)

    def find(self, name: str) -> Task[Any, Any]:
        raise NotImplementedError

    def carried(self, task: Task[Any, Any]) -> dict[str, Any]:
        """What a task's own options say of every job that a schedule makes for it."""
        raise NotImplementedError


async def tried(
    name: str,
    attempt: Callable[[], Awaitable[T | None]],
    *,
    in_doubt: Callable[[float], Awaitable[None]] | None = None,
) -> T:
    """Read a schedule and change it, until nobody else comes in between: then an attempt's answer is not None.

    An attempt that can tell whether an earlier one was written is repeated `in_doubt` too, while the database is away:
    that is how to wait for it.
    """
    for left in reversed(range(MOST_TRIES)):
        try:
            answer = await attempt()
        except StoreUnavailable:
            if in_doubt is None or not left:
                raise
            await in_doubt(ASK_AGAIN_SECONDS)
        else:
            if answer is not None:
                return answer
    raise Conflict(f"schedule {name!r} is being changed by others at this moment: try again")


async def pages(store: Store, schedule_id: int, start: datetime, end: datetime) -> AsyncIterator[list[Slot]]:
    """All rows of the ledger that touch this span, however many."""
    seen: datetime | None = None
    while True:
        page = await store.slots(schedule_id, start, end, LEDGER_PAGE)
        yield [row for row in page if seen is None or row.scheduled_for > seen]
        if len(page) < LEDGER_PAGE:
            return
        seen = page[-1].scheduled_for
        start = seen + TICK
