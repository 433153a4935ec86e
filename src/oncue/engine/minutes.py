"""Adds up what telemetry tells of windows and schedules, and appends a row for each minute that is over.

Each node counts for itself, in memory. About once a minute what has gathered is written by one statement. A row is sent
again until the database has answered, and says the same each time, so that a lost reply counts nothing twice. A node
that stops in good order writes its last minute too. What it had not written when it died is lost: a minute at most.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

from oncue.clock import Clock
from oncue.engine.service import Signal, can_wait
from oncue.model import Figures, Minute, MinuteKind
from oncue.policy import minutes
from oncue.policy.slots import MISFIRE
from oncue.policy.windows import ADDED_LATE
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

MOST_NAMED = 200
"""Of each kind and minute, so many names have a row; further ones are left out."""
LONGEST_KEPT = timedelta(hours=1)
"""How long rows are kept that the database does not take."""
LATER = timedelta(seconds=1)
"""How long after its end a minute is written."""

Place: TypeAlias = tuple[datetime, MinuteKind, str]

_log = logging.getLogger("oncue.telemetry")


class Minutes:
    name = "minutes"

    def __init__(self, store: Store, node: UUID, clock: Clock, telemetry: Telemetry) -> None:
        self.signal = Signal()
        self._store = store
        self._node = node
        self._clock = clock
        self._figures: dict[Place, dict[str, Any]] = {}
        for event, hear in {
            "sched.tick.stop": self._ticked, "sched.queue.depth": self._sampled, "sched.job.stop": self._stopped,
            "sched.finalize": self._finalized, "slot": self._decided, "expire": self._expired,
        }.items():  # fmt: skip
            telemetry.subscribe(hear, event)

    quiet_until = can_wait

    async def tick(self, now: datetime) -> datetime:
        """Write the minutes that are over."""
        present = minutes.minute_of(now)
        self._forget_old(present)
        await self._append([place for place in self._figures if place[0] < present])
        return present + minutes.ONE_MINUTE + LATER

    async def flush(self) -> None:
        """Write everything, the present minute too: this node measures no more."""
        await self._append(list(self._figures))

    async def _append(self, places: list[Place]) -> None:
        if places:
            await self._store.alerts.append([
                Minute(minute, self._node, kind, name, self._figures[minute, kind, name])
                for minute, kind, name in places
            ])  # fmt: skip
        for place in places:
            del self._figures[place]

    def note(self, kind: MinuteKind, name: str, figures: Figures, now: datetime) -> None:
        """What a service measured itself: it replaces what it has noted in this minute before."""
        self._figures[minutes.minute_of(now), kind, name] = dict(figures)

    def _forget_old(self, present: datetime) -> None:
        old = [place for place in self._figures if place[0] < present - LONGEST_KEPT]
        for place in old:
            del self._figures[place]
        if old:
            _log.warning("telemetry: %d rows of minutes are lost, since the database did not take them", len(old))

    # --- hearing ------------------------------------------------------------------------------------------------

    def _add(self, kind: MinuteKind, name: str, figures: Figures) -> None:
        place = minutes.minute_of(self._clock.now()), kind, name
        if place not in self._figures:
            if sum(known[:2] == place[:2] for known in self._figures) >= MOST_NAMED:
                return
            self._figures[place] = {}
        minutes.add(self._figures[place], figures)

    def _ticked(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        self._add("tick", "", {"ms": {minutes.bucket(measurements["duration_ms"]): 1}})

    def _sampled(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        running, most = metadata["in_flight"], metadata["max_concurrency"]
        is_full = most is not None and running >= most
        told = {"samples": 1, "depth": measurements["depth"], "running": running, "full": int(is_full)}
        self._add("queue", metadata["queue"], told)

    def _stopped(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        histogram = {minutes.bucket(measurements["duration_ms"]): 1}
        self._add("window", metadata["window"], {"ms": histogram, metadata["result"]: 1})

    def _finalized(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        if metadata["status"] == "missed":
            self._add("schedule", metadata["window"], {"missed": 1})
        elif metadata["reason"] != ADDED_LATE:
            self._add("window", metadata["window"], {metadata["status"]: {str(metadata["due_bucket"]): 1}})

    def _decided(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        decided = metadata["decided"]
        if decided.verdict == "missed" and decided.reason == MISFIRE:
            self._add("schedule", metadata["schedule"], {"missed": measurements["slots"]})

    def _expired(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        if metadata["change"].reason == MISFIRE:
            self._add("schedule", metadata["task"], {"missed": 1})
