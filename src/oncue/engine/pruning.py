"""Deletes what finished long ago, in bounded batches."""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.engine.service import Signal, can_wait
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

LIMIT = 1000
REQUESTS_KEPT = timedelta(days=1)
"""How long an idempotency key is remembered."""
SESSIONS_KEPT = timedelta(days=1)
"""How long a browser's session is remembered that is over."""
BREAKERS_KEPT = timedelta(days=1)
"""How long the open circuit breaker of an endpoint is remembered to which nothing more is to be sent."""


class Pruning:
    name = "pruning"

    def __init__(
        self, store: Store, telemetry: Telemetry, *, retention: float, ledger_retention: float,
        window_retention: float = 30 * 86400.0, interval: float = 60.0,
    ) -> None:  # fmt: skip
        self.signal = Signal()
        self._store = store
        self._telemetry = telemetry
        self._retention = timedelta(seconds=retention)
        # The ledger outlives the jobs that it tells of.
        self._ledger_retention = timedelta(seconds=max(ledger_retention, retention))
        self._window_retention = timedelta(seconds=max(window_retention, retention))
        self._interval = timedelta(seconds=interval)

    quiet_until = can_wait

    async def tick(self, now: datetime) -> datetime:
        gone = await self._store.jobs.prune(now - self._retention, LIMIT)
        if gone:
            self._telemetry.emit("prune", {"jobs": gone})
        slots = await self._store.slots.prune(now - self._ledger_retention, LIMIT)
        days = await self._store.windows.prune(now - self._window_retention, LIMIT)
        noted = await self._store.audit_log.prune(now - self._ledger_retention, LIMIT)
        asked = await self._store.requests.prune(now - REQUESTS_KEPT, LIMIT)
        sessions = await self._store.sessions.prune(now - SESSIONS_KEPT, LIMIT)
        tripped = await self._store.groups.forget_tripped(now - BREAKERS_KEPT, LIMIT)
        most = max(gone, slots, days, noted, asked, sessions, tripped)
        return now if most >= LIMIT else now + self._interval
