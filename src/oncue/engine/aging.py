"""Raises what has waited for long, so that nothing starves."""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.engine.service import Signal
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

    async def tick(self, now: datetime) -> datetime:
        rules, round_no = self._rules, aging.round_of(now, self._rules)
        raised = await self._store.age(round_no, now - timedelta(seconds=rules.after), rules.gain, LIMIT, now)
        if raised:
            self._telemetry.emit("age", {"jobs": raised})
        return now if raised >= LIMIT else aging.next_round(now, rules)
