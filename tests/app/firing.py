"""Fires the slots that are due, as a leader does, without one."""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.policy import slots
from oncue.store.contract import Store

LIMIT = 1000
PUNCTUAL = timedelta(seconds=30)


async def fire(store: Store, now: datetime) -> None:
    """Decide every slot that has come."""
    while due := await store.slots.due(now, LIMIT):
        plans = [slots.plan(one, now, PUNCTUAL) for one in due]
        ids = (await store.jobs.reserve(sum(planned.fires for planned in plans)))[::-1]
        for steps in slots.together([slots.step(planned, ids.pop) for planned in plans]):
            await store.slots.decide(steps, now, by="schedule")
