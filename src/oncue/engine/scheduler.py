"""Fires schedules: from the stored cursor, never from "now".

Each pass reads the schedules whose next slot has come, decides everything that is due for them (`policy/slots.py`) and
writes slots, jobs and cursors in one transaction, conditional on this node's epoch and on each schedule's version. What
somebody else decided meanwhile is rejected, and that is normal. A pass costs what is due, not what there is.

Before a slot is skipped because a run is in its way, that run is looked at: one that is over its maximum runtime is
settled first, and the slot is decided by the next pass, which follows at once and sees what is left in its way.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

from oncue.engine.leadership import Leadership
from oncue.engine.outages import Outage, described
from oncue.engine.service import Signal
from oncue.model import Claim, Due, Step
from oncue.policy import options, slots
from oncue.policy.lifecycle import overran, settle
from oncue.policy.slots import Plan
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

LIMIT = 1000
AUTHOR = "schedule"
MOST_SPARE_IDS = 10_000

_log = logging.getLogger("oncue.scheduler")


class Scheduler:
    name = "scheduler"

    def __init__(
        self,
        store: Store,
        node: UUID,
        leadership: Leadership,
        dice: Random,
        telemetry: Telemetry,
        *,
        interval: float,
        poll: float,
    ) -> None:
        self.signal = Signal()
        self.fired = Signal()
        self._store = store
        self._node = node
        self._leadership = leadership
        self._dice = dice
        self._telemetry = telemetry
        self._interval = timedelta(seconds=interval)
        self._poll = timedelta(seconds=poll)
        self._spare: list[int] = []
        self._known_next: datetime | None = None
        self._looked_at: datetime | None = None
        self._more = False
        self._outage: Outage | None = None
        leadership.elected.listen(self._elected)

    def _elected(self) -> None:
        self._looked_at = None
        self._outage = self._leadership.outage
        self.signal.set()

    async def tick(self, now: datetime) -> datetime:
        """One pass over what is due, up to LIMIT schedules."""
        epoch = self._leadership.epoch
        if epoch is None:
            return now + self._interval
        if self._too_soon(now):
            return self._next_tick(now, (self._looked_at or now) + self._poll)
        self._looked_at = now
        due = await self._store.due(now, LIMIT)
        if due:
            await self._fire(due, epoch, now)
        self._more = len(due) == LIMIT
        if self._more:
            return now
        self._known_next = await self._store.next_run()
        if self._known_next is None or self._known_next > now:
            self._report_outage()
        return self._next_tick(now, now + self._interval)

    def _report_outage(self) -> None:
        """Everything that came due in it is decided by now."""
        if self._outage is not None and self._outage.slots:
            self._outage.report(_log)
        self._outage = None

    def _too_soon(self, now: datetime) -> bool:
        """A hint says only that something has changed; unless a slot has come, that is not looked up at every hint."""
        if self._more or self._looked_at is None or (self._known_next is not None and self._known_next <= now):
            return False
        return self._looked_at <= now < self._looked_at + self._poll

    def _next_tick(self, now: datetime, later: datetime) -> datetime:
        return later if self._known_next is None else min(max(self._known_next, now), later)

    async def _fire(self, due: Sequence[Due], epoch: int, now: datetime) -> None:
        due = await self._without_overrun(due, now)
        if not due:
            return
        plans = [self._planned(schedule, now) for schedule in due]
        await self._reserve(sum(planned.fires for planned in plans))
        steps = [slots.step(planned, self._spare.pop) for planned in plans]
        took = await self._store.decide(steps, now, by=AUTHOR, node=self._node, epoch=epoch)
        for planned, step, won in zip(plans, steps, took, strict=True):
            if won:
                self._tell(planned, step, now)
        self.fired.set()

    def _planned(self, due: Due, now: datetime) -> Plan:
        """One schedule that cannot be decided (its zone is unknown to this host, say) does not stop the others."""
        try:
            return slots.plan(due, now, self._interval)
        except Exception as error:
            _log.error("scheduler: the slots of %s cannot be worked out, and wait: %s", due.name, error)
            self._telemetry.emit("schedule.error", {}, schedule=due.name, error=error)
            return slots.put_off(due, now + self._interval)

    async def _reserve(self, count: int) -> None:
        """Ids are handed out before the rows are written: from the end, so they are kept reversed."""
        if len(self._spare) < count:
            wanted = max(count - len(self._spare), min(count * 2, MOST_SPARE_IDS))
            self._spare = [*reversed(await self._store.reserve(wanted)), *self._spare]

    async def _without_overrun(self, due: Sequence[Due], now: datetime) -> Sequence[Due]:
        """Settle the runs that are in a slot's way and over their maximum runtime; the schedules that have none.

        The others are still due, so the next pass comes at once. It reads anew what is in their way: a run may have
        ended by itself meanwhile, one that is settled may be due for a retry, and behind it there may be another.
        """
        in_the_way = [job for schedule in due if _is_blocked(schedule) for job in schedule.unfinished]
        if not in_the_way:
            return due
        claims = [claim for claim in await self._store.running(in_the_way) if _is_over(claim, now)]
        if not claims:
            return due
        changes = [settle(overran(claim, now), self._dice) for claim in claims]
        took = await self._store.apply(changes, now)
        for claim, change, written in zip(claims, changes, took, strict=True):
            if written:
                _log.warning("overrun: job %d (%s) is now %s", claim.id, claim.task, change.state)
                self._telemetry.emit("overrun", {}, claim=claim, change=change)
        touched = {claim.id for claim in claims}
        return [one for one in due if not (_is_blocked(one) and touched.intersection(one.unfinished))]

    def _tell(self, planned: Plan, step: Step, now: datetime) -> None:
        name = planned.due.name
        if planned.cut:
            _log.warning("scheduler: %s has more than %d slots due; the rest follows", name, slots.MOST)
        for decided in step.decided:
            if self._outage is not None:
                self._outage.add(name, decided)
            self._telemetry.emit(
                "slot",
                {"slots": decided.slots, "late": (now - decided.scheduled_for).total_seconds()},
                schedule=name, schedule_id=planned.due.id, decided=decided, node=self._node,
            )  # fmt: skip
            fired = decided.verdict == "fired"
            if _log.isEnabledFor(logging.DEBUG if fired else logging.INFO):
                _log.log(
                    logging.DEBUG if fired else logging.INFO,
                    "scheduler: %sjob=%s %s", "emitted " if fired else "", name, described(decided),
                )  # fmt: skip


def _is_blocked(due: Due) -> bool:
    return len(due.unfinished) >= due.max_instances


def _is_over(claim: Claim, now: datetime) -> bool:
    longest = options.read(claim.options).max_runtime
    return longest is not None and claim.claimed_at + timedelta(seconds=longest) <= now
