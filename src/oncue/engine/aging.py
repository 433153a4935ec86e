"""Raises what has waited for long, so that nothing starves.

A round goes through the levels of priority from the highest down. What it raises moves up, into a level that it has
left behind, so that no job is looked at twice however many there are.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.engine.service import Signal
from oncue.model import PriorityLevel
from oncue.policy import aging
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

LIMIT = 1000


class Aging:
    name = "aging"

    def __init__(self, store: Store, telemetry: Telemetry, rules: aging.Rules) -> None:
        self.signal = Signal()
        self._store = store
        self._telemetry = telemetry
        self._rules = rules
        self._levels: list[PriorityLevel] = []

    async def tick(self, now: datetime) -> datetime:
        """One bounded step of a round: some of a lane, or the next lane."""
        if not self._rules.gain:
            return aging.next_round(now, self._rules)
        if not self._levels:
            self._levels = await self._store.jobs.levels()
        if self._levels and await self._raised(self._levels[0], now) < LIMIT:
            self._levels.pop(0)
        return now if self._levels else aging.next_round(now, self._rules)

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        if self._levels:
            return now
        return aging.next_round(now, self._rules) if (await store.jobs.outlook()).waiting else None

    async def _raised(self, lane: PriorityLevel, now: datetime) -> int:
        rules = self._rules
        since, round_no = now - timedelta(seconds=rules.after), aging.round_of(now, rules)
        raised = await self._store.jobs.age(lane, round_no, since, rules.gain, LIMIT, now)
        if raised:
            self._telemetry.emit("age", {"jobs": raised})
        return raised
