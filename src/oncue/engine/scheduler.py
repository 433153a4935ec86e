"""Fires schedules: from the stored cursor, never from "now".

Each pass reads the schedules whose next slot has come, decides everything that is due for them (`policy/slots.py`) and
writes slots, jobs and cursors in one transaction, conditional on this node's epoch and on each schedule's version. A
slot that another leader or an operator has decided meanwhile is rejected, and that is normal. A pass costs what is due,
not what there is.

When more is due than one pass takes, `SlotWriter` writes what a pass has decided while the next one reads: the database
works on one pass while this process works on another.

Before a slot is skipped because a run is in its way, that run is looked at: one that is over its maximum runtime, or
has waited past its time, is settled first, and the slot is decided by the next pass, which follows at once and sees
what is left in its way.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple
from uuid import UUID

from oncue.engine.applying import apply_each
from oncue.engine.expiry import end_expired
from oncue.engine.leadership import Leadership
from oncue.engine.outages import Outage, described
from oncue.engine.service import Signal
from oncue.model import Claim, Due, DuePosition, Step
from oncue.policy import options, slots
from oncue.policy.lifecycle import overran, settle
from oncue.policy.slots import Plan
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

LIMIT = 4000
MOST_NAMED = 10
AUTHOR = "schedule"
MOST_SPARE_IDS = 10_000
MOST_PASSES = 2

_log = logging.getLogger("oncue.scheduler")


class Pass(NamedTuple):
    """What a pass has decided."""

    plans: Sequence[Plan]
    epoch: int
    now: datetime


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
        self.handed_over = Signal()
        self.backlog: deque[Pass] = deque()
        """Passes that are still to be written; there are some only while there is more due than one pass takes."""
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
        self._read_until: DuePosition | None = None
        self._outage: Outage | None = None
        self._locked: set[int] = set()
        """The schedules that another session held when they were last asked for."""
        leadership.elected.listen(self._elected)

    def _elected(self) -> None:
        self._start_over()
        self._outage = self._leadership.outage
        self.signal.set()

    async def tick(self, now: datetime) -> datetime:
        """One pass over what is due, up to LIMIT schedules."""
        epoch = self._leadership.epoch
        if epoch is None:
            return now + self._interval
        if self._too_soon(now):
            return self._next_tick(now, (self._looked_at or now) + self._poll)
        if self._waits_for_writer():
            return now + self._poll  # or when the writer has taken one
        self._looked_at = now
        due = await self._store.slots.due(now, LIMIT, self._read_until)
        self._more = len(due) == LIMIT
        if self._more:
            self._hand_over(await self._decided(due, epoch, now), due[-1])
            return now
        if self._read_until is None:  # then this is all that is due: what else was locked is so no longer
            self._locked.intersection_update(schedule.id for schedule in due)
        self._read_until = None
        if due and not await self.write(await self._decided(due, epoch, now)):
            return now + self._poll
        if self._locked:
            # What is locked is still due: it waits for its turn, and hints from others are no reason to ask for it.
            self._known_next = None
            return now + self._poll
        if self.backlog:
            self._more = True
            return now + self._poll
        self._known_next = await self._store.slots.next_run()
        if self._known_next is None or self._known_next > now:
            self._report_outage()
        return self._next_tick(now, now + self._interval)

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        if self._leadership.epoch is None:
            return None
        return now if self.backlog else await store.slots.next_run()

    def _waits_for_writer(self) -> bool:
        """What is still to be written is still due: reading from the beginning, one would only read it again."""
        return len(self.backlog) >= (MOST_PASSES if self._read_until is not None else 1)

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

    def _hand_over(self, decided: Pass, last: Due) -> None:
        self.backlog.append(decided)
        self._read_until = (last.next_run_at, last.id)
        self.handed_over.set()

    def _start_over(self) -> None:
        """Read everything that is due again: what was not written is still there."""
        self._looked_at, self._read_until = None, None
        self.backlog.clear()

    async def write_next(self) -> None:
        """Write the oldest pass of the backlog. If that fails, the whole of what is due is looked at anew."""
        oldest = self.backlog[0]
        try:
            await self.write(oldest)
        except BaseException:
            self._start_over()
            raise
        if self.backlog and self.backlog[0] is oldest:  # unless this node was elected anew meanwhile
            self.backlog.popleft()
        self.signal.set()

    async def _decided(self, due: Sequence[Due], epoch: int, now: datetime) -> Pass:
        free = await self._with_a_free_way(due, now)
        return Pass([self._planned(schedule, now) for schedule in free], epoch, now)

    async def write(self, decided: Pass) -> bool:
        """Write what was decided; whether any of it took. If not, this node may have lost the lead without a word."""
        ids = await self._ids(sum(planned.fires for planned in decided.plans))
        steps = [slots.step(planned, ids.pop) for planned in decided.plans]
        took: dict[int, bool | None] = {}
        for group in slots.together(steps):
            took |= await self._written(group, decided)
        self._tell_all(decided, steps, took)
        self.fired.set()
        if any(took.values()) or None in took.values() or not took:
            return True
        self._leadership.signal.set()
        return False

    async def _written(self, steps: Sequence[Step], decided: Pass) -> dict[int, bool | None]:
        """While a schedule is known to be locked, no other one waits for it: it comes last, and is passed over."""
        steps = sorted(steps, key=lambda step: step.schedule_id in self._locked)
        took = await self._store.slots.decide(
            steps, decided.now, by=AUTHOR, node=self._node, epoch=decided.epoch, past_locks=bool(self._locked)
        )
        return {step.schedule_id: written for step, written in zip(steps, took, strict=True)}

    def _tell_all(self, decided: Pass, steps: Sequence[Step], took: Mapping[int, bool | None]) -> None:
        locked: dict[int, str] = {}
        for planned, step in zip(decided.plans, steps, strict=True):
            written = took.get(step.schedule_id, False)
            if written:
                self._tell(planned, step, decided.now)
            elif written is None:
                locked[step.schedule_id] = planned.due.name
        new = [name for schedule_id, name in locked.items() if schedule_id not in self._locked]
        if new:
            others = f" and {len(new) - MOST_NAMED:,} more" if len(new) > MOST_NAMED else ""
            names = ", ".join(new[:MOST_NAMED]) + others
            _log.warning("scheduler: another session holds a lock; these schedules wait for it: %s", names)
        self._locked.difference_update(step.schedule_id for step in steps)
        self._locked.update(locked)

    def _planned(self, due: Due, now: datetime) -> Plan:
        """One schedule that cannot be decided (its zone is unknown to this host, say) does not stop the others."""
        try:
            return slots.plan(due, now, self._interval)
        except Exception as error:
            _log.error("scheduler: the slots of %s cannot be worked out, and wait: %s", due.name, error)
            self._telemetry.emit("schedule.error", {}, schedule=due.name, error=error)
            return slots.put_off(due, now + self._interval)

    async def _ids(self, count: int) -> list[int]:
        """Numbers for so many jobs, to be used from the end. They are handed out before the rows are written."""
        while len(self._spare) < count:
            self._spare += await self._store.jobs.reserve(max(count, min(count * 2, MOST_SPARE_IDS)))
        taken = self._spare[:count]
        del self._spare[:count]
        return taken[::-1]

    async def _with_a_free_way(self, due: Sequence[Due], now: datetime) -> Sequence[Due]:
        """Settle the runs that are in a slot's way and over their time; the schedules that have none.

        The others are still due, so the next pass comes at once. It reads anew what is in their way: a run may have
        ended by itself meanwhile, one that is settled may be due for a retry, and behind it there may be another.
        """
        in_the_way = [job for schedule in due for job in _in_the_way(schedule)]
        if not in_the_way:
            return due
        touched = await self._settle_overrun(in_the_way, now)
        touched |= await end_expired(self._store, self._telemetry, now, len(in_the_way), in_the_way)
        return [one for one in due if not touched.intersection(_in_the_way(one))]

    async def _settle_overrun(self, in_the_way: Sequence[int], now: datetime) -> set[int]:
        claims = [claim for claim in await self._store.jobs.running(in_the_way) if _is_over(claim, now)]
        if not claims:
            return set()
        changes = [settle(overran(claim, now), self._dice) for claim in claims]
        took = await apply_each(self._store, changes, now)
        for claim, change, written in zip(claims, changes, took, strict=True):
            if written:
                _log.warning("overrun: job %d (%s) is now %s", claim.id, claim.task, change.state)
                self._telemetry.emit("overrun", {}, claim=claim, change=change)
        return {claim.id for claim, written in zip(claims, took, strict=True) if written is not None}

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


class SlotWriter:
    """Writes what the scheduler has decided, while it goes on."""

    name = "slot-writer"

    def __init__(self, scheduler: Scheduler, *, interval: float) -> None:
        self.signal = scheduler.handed_over
        self._scheduler = scheduler
        self._interval = timedelta(seconds=interval)

    async def tick(self, now: datetime) -> datetime:
        if not self._scheduler.backlog:
            return now + self._interval
        await self._scheduler.write_next()
        return now

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        return now if self._scheduler.backlog else None


def _in_the_way(due: Due) -> Sequence[int]:
    """The jobs that keep its next slot from firing."""
    if len(due.unfinished) >= due.max_instances:
        return due.unfinished
    return () if due.holder is None else (due.holder,)


def _is_over(claim: Claim, now: datetime) -> bool:
    longest = options.read(claim.options).max_runtime
    return longest is not None and (claim.started_at or claim.claimed_at) + timedelta(seconds=longest) <= now
