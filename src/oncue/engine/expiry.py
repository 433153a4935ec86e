"""Ends jobs that have waited past their time, also when no node claims them: no free seat, or no node for the queue.

A node that claims such a job refuses it, by the same rule (`policy/lifecycle.py`). Until then it would look like work
that will be done, and a slot's job would be in the way of the next slots of its schedule. So the leader looks every
second, for what is due and no more; the scheduler looks itself before a slot is skipped. A claim that comes first is
fine: the write then changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from oncue.engine.applying import apply_each
from oncue.engine.service import Signal
from oncue.model import Change, Job
from oncue.policy.lifecycle import expire
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

LIMIT = 1000

_log = logging.getLogger("oncue.expiry")


class Expiry:
    name = "expiry"

    def __init__(self, store: Store, telemetry: Telemetry, *, interval: float = 1.0) -> None:
        self.signal = Signal()
        self._store = store
        self._telemetry = telemetry
        self._interval = timedelta(seconds=interval)

    async def tick(self, now: datetime) -> datetime:
        expired = await end_expired(self._store, self._telemetry, now, LIMIT)
        return now if len(expired) >= LIMIT else now + self._interval

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        return (await store.jobs.outlook()).expires_at


async def end_expired(
    store: Store, telemetry: Telemetry, now: datetime, limit: int, among: Sequence[int] | None = None
) -> set[int]:
    """End up to `limit` jobs (among these, or all) that have waited past their time; which are not as they were."""
    found = await store.jobs.expired(now, limit, among)
    ending = [(job, change) for job in found if (change := expire(job, now)) is not None]
    if not ending:
        return set()
    took = await apply_each(store, [change for _, change in ending], now)
    for (job, change), written in zip(ending, took, strict=True):
        if written:
            _tell(telemetry, job, change)
    return {job.id for (job, _), written in zip(ending, took, strict=True) if written is not None}


def _tell(telemetry: Telemetry, job: Job, change: Change) -> None:
    slot = "" if job.scheduled_for is None else f" slot={job.scheduled_for.isoformat()}"
    _log.info(
        "job %d %s task=%s queue=%s attempt=%d%s reason=%s: it has waited past its time",
        job.id, change.state, job.task, job.queue, job.attempt, slot, change.reason,
    )  # fmt: skip
    telemetry.emit("expire", {}, job=job, change=change, task=job.task, queue=job.queue)
