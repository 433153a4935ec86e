"""Compares the claims of this node with the rows that the database has for it.

The two can differ. The reply to a claim was lost: the rows are given back. Another node took a job away: its attempt is
stopped here. An operator wants a job to stop. The pass also writes when long attempts began,
how far they have come and what they tell of themselves.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from oncue.clock import Clock
from oncue.engine.applying import apply_each, listed
from oncue.engine.claimer import Claimer
from oncue.engine.execution import Execution
from oncue.engine.in_flight import InFlight
from oncue.engine.job_lines import level_of
from oncue.engine.service import Signal
from oncue.model import HeldClaim, Released
from oncue.policy.lifecycle import Ended, settle
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

_log = logging.getLogger("oncue.reconciler")


class Reconciler:
    name = "reconciler"

    def __init__(
        self,
        store: Store,
        node: UUID,
        executor: Execution[Any],
        in_flight: InFlight,
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
        self._executor = executor
        self._in_flight = in_flight
        self._claimer = claimer
        self._clock = clock
        self._dice = dice
        self._telemetry = telemetry
        self._interval = timedelta(seconds=interval)
        self._patience = timedelta(seconds=patience)
        self._unknown: dict[tuple[int, int], int] = {}
        """Rows of this node without a claim here, and how often the claimer had asked when they were first seen."""

    async def tick(self, now: datetime) -> datetime:
        # A claim that waits for a seat has its maximum runtime counted already: long before it is over, give it back.
        self._executor.release_waiting("waited", now - self._patience)
        claimed = self._executor.claims()
        rows = await self._store.jobs.held(self._node)
        believed = {(row.id, row.claim_no) for row in rows}
        still = set(self._executor.claims())  # some may have been settled during the call
        for place in claimed:
            if place not in believed and place in still:
                _log.log(self._level(place), "job %d was taken from this node: its attempt is stopped", place[0])
                self._executor.fence(*place)
        for row in rows:
            if row.cancel_requested:
                self._executor.cancel(row.id, row.claim_no)
        await self._release_unknown(rows)
        await self._mark_started()
        await self._save_progress()
        await self._save_details()
        return now + self._interval

    def _level(self, place: tuple[int, int]) -> int:
        """The cutoff of a window takes the jobs of many users away. That is no news."""
        claim = self._in_flight.claims.get(place)
        return logging.WARNING if claim is None else level_of(claim, logging.WARNING)

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        """When long attempts began may be told later."""
        rows = await store.jobs.held(self._node)
        if not rows and not self._in_flight.claims:
            return None
        ours = {(row.id, row.claim_no) for row in rows} - self._in_flight.refused
        if ours != self._in_flight.claims.keys() or self._executor.progressed() or self._executor.told_details():
            return now
        for row in rows:
            if row.cancel_requested and not self._executor.is_told(row.id, row.claim_no):
                return now
        return None

    async def _release_unknown(self, rows: list[HeldClaim]) -> None:
        """Release rows of this node without a claim here, once it is certain that no reply is still under way."""
        before, asked = self._unknown, self._claimer.asked
        ours = ((row.id, row.claim_no) for row in rows)
        unknown = [
            place for place in ours if place not in self._in_flight.claims and place not in self._in_flight.refused
        ]
        self._unknown = {place: before.get(place, asked) for place in unknown}
        certain = [place for place, then in self._unknown.items() if place in before and self._is_answered(then)]
        if not certain:
            return
        claims = await self._store.jobs.running([job_id for job_id, _ in certain])
        lost = [claim for claim in claims if (claim.id, claim.claim_no) in certain]
        if not lost:
            return
        now = self._clock.now()
        changes = [settle(Ended(claim, Released("stray"), claim.started_at, now), self._dice) for claim in lost]
        took = await apply_each(self._store, changes, now)
        given = [claim.id for claim, written in zip(lost, took, strict=True) if written]
        if given:
            _log.warning("gave back %s whose claim was never answered", listed(given))
        self._telemetry.emit("release", {"jobs": len(given)}, node=self._node, cause="stray")

    def _is_answered(self, call: int) -> bool:
        """Whether a call of the claimer is over, and so are those before it. Not a matter of time, which may be set."""
        return not self._claimer.asking or self._claimer.asked > call

    async def _mark_started(self) -> None:
        fresh = self._executor.newly_started(self._clock.monotonic() - self._interval.total_seconds())
        if fresh:
            locked = await self._store.jobs.mark_started(fresh)
            self._executor.mark([started for started in fresh if started.id not in locked])

    async def _save_progress(self) -> None:
        told = self._executor.progressed()
        if told:
            await self._store.jobs.report_progress(told)
            self._executor.saved(told)

    async def _save_details(self) -> None:
        told = self._executor.told_details()
        if told:
            locked = await self._store.jobs.report_details(told)
            self._executor.saved_details([one for one in told if one.job_id not in locked])
