"""Compares what this node holds with what the database believes that it holds.

The two can differ: a claim's reply was lost (rows that nobody runs: given back), somebody took an attempt away (it is
stopped here), an operator wants one to stop. The pass also shows on the rows when long attempts began and how
far they have come.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from random import Random
from typing import Protocol
from uuid import UUID

from oncue.clock import Clock
from oncue.control import Progress
from oncue.engine.applying import apply_each, listed
from oncue.engine.service import Signal
from oncue.engine.worker import Claimer, Hands
from oncue.model import Holding, Released, Started
from oncue.policy.lifecycle import Ended, settle
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

_log = logging.getLogger("oncue.holdings")


class Attempts(Protocol):
    def claims(self) -> list[tuple[int, int]]: ...

    def newly_started(self, before: float) -> list[Started]: ...

    def mark(self, started: list[Started]) -> None: ...

    def progressed(self) -> list[Progress]: ...

    def saved(self, progress: list[Progress]) -> None: ...

    def cancel(self, job_id: int, claim_no: int) -> None: ...

    def fence(self, job_id: int, claim_no: int) -> None: ...

    def release_waiting(self, cause: str, claimed_before: datetime | None = None) -> None: ...


class Holdings:
    name = "holdings"

    def __init__(
        self,
        store: Store,
        node: UUID,
        attempts: Attempts,
        hands: Hands,
        claimer: Claimer,
        clock: Clock,
        dice: Random,
        telemetry: Telemetry,
        *,
        interval: float,
        patience: float,
    ) -> None:
        self.signal = Signal()
        self._store = store
        self._node = node
        self._attempts = attempts
        self._hands = hands
        self._claimer = claimer
        self._clock = clock
        self._dice = dice
        self._telemetry = telemetry
        self._interval = timedelta(seconds=interval)
        self._patience = timedelta(seconds=patience)
        self._strange: dict[tuple[int, int], int] = {}
        """Rows of ours that nobody here holds, and how often the claimer had asked when they were first seen."""

    async def tick(self, now: datetime) -> datetime:
        # A claim that waits for a seat has its maximum runtime counted already: long before it is over, give it back.
        self._attempts.release_waiting("waited", now - self._patience)
        claimed = self._attempts.claims()
        rows = await self._store.held(self._node)
        believed = {(row.id, row.claim_no) for row in rows}
        still = set(self._attempts.claims())  # what was settled while we asked is nobody's business any more
        for place in claimed:
            if place not in believed and place in still:
                _log.warning("job %d was taken from this node: its attempt is stopped", place[0])
                self._attempts.fence(*place)
        for row in rows:
            if row.cancel_requested:
                self._attempts.cancel(row.id, row.claim_no)
        await self._give_back_strays(rows)
        await self._mark_started()
        await self._save_progress()
        return now + self._interval

    async def _give_back_strays(self, rows: list[Holding]) -> None:
        """Release rows of ours that nobody here holds, once it is certain that no reply is still under way."""
        before, asked = self._strange, self._claimer.asked
        hands = self._hands
        ours = ((row.id, row.claim_no) for row in rows)
        strange = [place for place in ours if place not in hands.claims and place not in hands.left]
        self._strange = {place: before.get(place, asked) for place in strange}
        certain = [place for place, then in self._strange.items() if place in before and self._is_answered(then)]
        if not certain:
            return
        claims = await self._store.running([job_id for job_id, _ in certain])
        strays = [claim for claim in claims if (claim.id, claim.claim_no) in certain]
        if not strays:
            return
        now = self._clock.now()
        changes = [settle(Ended(claim, Released("stray"), claim.started_at, now), self._dice) for claim in strays]
        took = await apply_each(self._store, changes, now)
        given = [claim.id for claim, written in zip(strays, took, strict=True) if written]
        if given:
            _log.warning("gave back %s whose claim was never answered", listed(given))
        self._telemetry.emit("release", {"jobs": len(given)}, node=self._node, cause="stray")

    def _is_answered(self, call: int) -> bool:
        """Whether a call of the claimer is over, and so are those before it. Not a matter of time, which may be set."""
        return not self._claimer.asking or self._claimer.asked > call

    async def _mark_started(self) -> None:
        fresh = self._attempts.newly_started(self._clock.monotonic() - self._interval.total_seconds())
        if fresh:
            locked = await self._store.mark_started(fresh)
            self._attempts.mark([started for started in fresh if started.id not in locked])

    async def _save_progress(self) -> None:
        told = self._attempts.progressed()
        if told:
            await self._store.report_progress(told)
            self._attempts.saved(told)
