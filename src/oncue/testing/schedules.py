"""Fires an application's schedules inside a test, when the test's clock says so."""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.policy import slots
from oncue.store.contract import Store

LIMIT = 1000
PUNCTUAL = timedelta(seconds=30)


async def fire(store: Store, now: datetime) -> None:
    """Decide every slot that has come, as the leader does; in a test nobody else could."""
    while due := await store.due(now, LIMIT):
        plans = [slots.plan(one, now, PUNCTUAL) for one in due]
        ids = (await store.reserve(sum(planned.fires for planned in plans)))[::-1]
        for steps in slots.together([slots.step(planned, ids.pop) for planned in plans]):
            await store.decide(steps, now, by="schedule")
    await store.release_parked(now, LIMIT)


async def next_instant(store: Store, now: datetime) -> datetime | None:
    """When the next slot comes or the next job is due, if that is later than now."""
    instants = (await store.next_run(), await store.promote(now, 0))
    return min((instant for instant in instants if instant is not None and instant > now), default=None)
