"""Finds deliveries that are overdue and that no node would look at, and has them looked at again.

Every enqueue and every settled attempt tells of its group in the same transaction, so there should be none. This
service is for what got lost all the same: rows written by hand, a restored backup, a bug. It changes no delivery: no
state, no attempt count. What waits for room, rate, pause or breaker is no orphan.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from oncue.engine.service import Signal
from oncue.errors import StoreError
from oncue.model import PARKED, Orphan
from oncue.policy.durations import go_style
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

_log = logging.getLogger("oncue.orphans")


class OrphanRules(NamedTuple):
    """How often deliveries are looked for, after how many seconds of waiting, and how many in one cycle."""

    enabled: bool = True
    interval: float = 300.0
    threshold: float = 600.0
    batch: int = 100


class Orphans:
    name = "orphans"

    def __init__(self, store: Store, telemetry: Telemetry, rules: OrphanRules) -> None:
        self.signal = Signal()
        self._store = store
        self._telemetry = telemetry
        self._rules = rules
        self._interval = timedelta(seconds=rules.interval)
        self._next_at: datetime | None = None

    async def tick(self, now: datetime) -> datetime:
        if not self._rules.enabled:
            return now + self._interval
        if self._next_at is None:
            self._tell_of_the_start()
            self._next_at = now + self._interval
        elif not now < self._next_at <= now + self._interval:  # later than that: the clock was set back
            self._next_at = now + self._interval
            await self._cycle(now)
        return self._next_at

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        if not self._rules.enabled or not await store.webhooks.orphans(PARKED, 0, 1):
            return None
        return now if self._next_at is None else max(self._next_at, now)

    def _tell_of_the_start(self) -> None:
        rules = self._rules
        _log.info(
            "reconciler: started (interval=%s, threshold=%s, batch=%d)",
            go_style(rules.interval), go_style(rules.threshold), rules.batch,
        )  # fmt: skip

    async def _cycle(self, now: datetime) -> None:
        """One bounded look. What an error of the database leaves over is found in the next cycle."""
        before = now - timedelta(seconds=self._rules.threshold)
        try:
            found = await self._store.webhooks.orphans(before, 0, self._rules.batch)
        except StoreError as error:
            _log.warning("reconciler: the database could not be asked, the next cycle asks again: %s", error)
            return
        if found:
            _log.warning("reconciler: found %d orphaned executions", len(found))
            re_emitted, failed = await self._re_emit(found, now)
            _log.info("reconciler: cycle complete, re-emitted=%d, failed=%d", re_emitted, failed)
            self._telemetry.emit("orphans", {"found": len(found), "re_emitted": re_emitted, "failed": failed})

    async def _re_emit(self, found: Sequence[Orphan], now: datetime) -> tuple[int, int]:
        """How many were emitted again, and how many could not be. What runs or has ended by now is neither."""
        try:
            still_queued = set(await self._store.webhooks.re_emit([orphan.id for orphan in found], now))
        except StoreError as error:
            _log.warning("reconciler: re-emit failed, the next cycle tries again: %s", error)
            return 0, len(found)
        for orphan in found:
            if orphan.id in still_queued:
                _log.info(
                    "reconciler: re-emitted execution=%s job=%s scheduled_at=%s (age=%s)",
                    orphan.uid, orphan.group, (orphan.scheduled_for or orphan.due_at).isoformat(),
                    go_style((now - orphan.due_at).total_seconds()),
                )  # fmt: skip
        return len(still_queued), 0
