"""Slots that an operator decides by hand: one, an extra one for now, or all undecided slots of a span.

They go into the same ledger, under the same guard as those that the leader decides, and no slot is decided twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from oncue.application.connecting import Connected
from oncue.errors import Conflict, InvalidSchedule, SlotTaken
from oncue.model import UNFINISHED, Decided, JobFilter, Schedule, Slot, Step
from oncue.policy import audit_entries, triggers
from oncue.policy.checks import checked_moment, checked_name
from oncue.policy.ledger import Decisions
from oncue.policy.schedules import extra_slot
from oncue.policy.slots import KEY_HELD
from oncue.policy.triggers import TICK, trigger_of
from oncue.store.contract import Store
from oncue.verbs.base import compare_and_set
from oncue.verbs.schedules.reading import ScheduleReading, pages

TRIGGER, RUN_NOW, BACKFILL = "trigger", "run_now", "backfill"
BACKFILL_BATCH = 1000
MOST_BACKFILLED = 100_000
EXTRA = timedelta(seconds=1)
"""Within this time from now an extra slot is found for a run by hand."""


class Backfilled(NamedTuple):
    """What a backfill did: the jobs that it made, and how many slots were decided before."""

    jobs: Sequence[int]
    present: int
    skipped: int = 0
    """Slots that are told as skipped: their jobs would have the key of the first one."""


class ByHand(ScheduleReading):
    async def trigger(self, name: str, at: datetime, *, by: str = "system") -> Slot:
        """Claim the slot `at` and run it now. Raises SlotTaken if it was decided already, Conflict if a run is on."""
        return await self._claimed(name, checked_moment(at, "at"), TRIGGER, by)

    async def run_now(self, name: str, *, by: str = "system") -> Slot:
        """Run the schedule's task now, in an extra slot: no regular one is used up. Raises Conflict if a run is on."""
        return await self._claimed(name, None, RUN_NOW, by)

    async def _claimed(self, name: str, at: datetime | None, reason: str, by: str) -> Slot:
        """Decide one slot by hand, or an extra one. After a lost reply the ledger itself tells whether it was us."""
        connected, by = await self._connected(), checked_name(by, "by")
        (job_id,) = await connected.ids(1)
        start = at or connected.now()
        end = at or start + EXTRA

        async def claim() -> Slot | None:
            schedule, now = await self._with_slots(name), connected.now()
            standing = await connected.store.slots.between(schedule.id, start, end)
            if ours := _made_as(job_id, standing):
                return ours
            slot = await _free(connected.store, schedule, at, start, standing)
            await _refuse_running(connected.store, schedule)
            await _refuse_held(connected.store, schedule)
            step = _step(schedule, [Decided(slot, "manual", reason, job_id)])
            facts = {"scheduled_for": slot.isoformat(), "reason": reason, "job": job_id}
            note = audit_entries.of_slots("schedule.trigger", by, schedule, facts)
            await connected.store.slots.decide([step], now, by=by, notes=[note])
            return _made_as(job_id, await connected.store.slots.between(schedule.id, start, end))

        return await compare_and_set(f"schedule {name!r}", claim, in_doubt=self._app.pause_before_retry)

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        by: str = "system",
        told: Callable[[int, int], None] | None = None,
    ) -> Backfilled:
        """Run the undecided slots from `start` to `end`. Repeating it makes nothing.

        They run oldest first, as many at once as `max_instances` allows. Where the task declares a key of its own, one
        job stands for all of them: the oldest slot runs, and the others are told as skipped. Raises Conflict if the key
        is held. `told` hears how many slots are done, of how many.
        """
        by = checked_name(by, "by")
        connected, schedule = await self._connected(), await self._with_slots(name)
        total, batches = _batches(schedule, start, end, connected.now())
        made: list[int] = []
        seen = skipped = 0
        for batch in batches:
            jobs, others = await self._backfilled(connected, name, batch, by, made[0] if made else None)
            made += jobs
            skipped += others
            seen += len(batch)
            if told is not None:
                told(seen, total)
        return Backfilled(made, seen - len(made) - skipped, skipped)

    async def undecided(self, name: str, start: datetime, end: datetime) -> list[datetime]:
        """The undecided slots from `start` to `end`: what `backfill` would run."""
        connected, schedule = await self._connected(), await self._with_slots(name)
        found: list[datetime] = []
        for batch in _batches(schedule, start, end, connected.now())[1]:
            found += await _undecided(connected.store, schedule, batch)
        return found

    async def _backfilled(
        self, connected: Connected, name: str, batch: Sequence[datetime], by: str, first: int | None
    ) -> tuple[list[int], int]:
        """Decide those of these slots that are absent; the jobs that were made, and how many slots were skipped.

        `first` is the job that this backfill has made already: if the schedule has a key, it stands for the rest.
        """

        async def fill() -> tuple[list[int], int] | None:
            schedule, now = await self.get(name), connected.now()
            absent = await _undecided(connected.store, schedule, batch)
            if not absent:
                return [], 0
            if first is None:
                await _refuse_held(connected.store, schedule)
            standing = None if schedule.key is None else first
            wanted = len(absent) if schedule.key is None else int(standing is None)
            jobs = await connected.ids(wanted) if wanted else []
            run = [Decided(slot, "manual", BACKFILL, job) for slot, job in zip(absent, jobs, strict=False)]
            blocked_by = standing if not jobs else jobs[0]
            rest = [Decided(slot, "skipped", KEY_HELD, blocked_by=blocked_by) for slot in absent[len(jobs) :]]
            decided = [*run, *rest]
            facts = {"from": absent[0].isoformat(), "to": absent[-1].isoformat(), "jobs": len(jobs)}
            note = audit_entries.of_slots("schedule.backfill", by, schedule, facts)
            (took,) = await connected.store.slots.decide(
                [_step(schedule, decided)], now, by=by, parked=True, notes=[note]
            )
            return (jobs, len(rest)) if took else None

        return await compare_and_set(f"schedule {name!r}", fill)


def _step(schedule: Schedule, decided: Sequence[Decided]) -> Step:
    """The write of what is decided by hand: the schedule itself goes on as it was."""
    return Step(schedule.id, schedule.version, schedule.cursor, schedule.next_run_at, decided, schedule.key)


# --- one slot -------------------------------------------------------------------------------------------------------


def _made_as(job_id: int, rows: Sequence[Slot]) -> Slot | None:
    return next((row for row in rows if row.job_id == job_id), None)


async def _free(
    store: Store, schedule: Schedule, at: datetime | None, start: datetime, standing: Sequence[Slot]
) -> datetime:
    """The slot to take: the one that was asked for, or an extra one from `start` on. Raises SlotTaken."""
    if at is None:
        return extra_slot(trigger_of(schedule), start, {row.scheduled_for for row in standing})
    _refuse_strange(schedule, at)
    _refuse_taken(schedule, at, (await _decisions(store, schedule, standing)).row_of(at))
    return at


def _refuse_strange(schedule: Schedule, at: datetime) -> None:
    trigger = trigger_of(schedule)
    if trigger.has(at):
        return
    before, after = trigger.latest(at), trigger.after(at)
    near = " and ".join(slot.isoformat() for slot in (before, after) if slot is not None)
    raise InvalidSchedule(
        "at", f"{at.isoformat()} is no slot of {schedule.name!r} ({schedule.expression}); near: {near}"
    )


def _refuse_taken(schedule: Schedule, at: datetime, row: Slot | None) -> None:
    if schedule.horizon is not None and at < schedule.horizon:
        raise SlotTaken(
            f"slot {at.isoformat()} of {schedule.name!r} is from before {schedule.horizon.isoformat()}, up to which "
            "the ledger is no longer kept: it cannot be told whether it ran"
        )
    if row is not None:
        job = "" if row.job_id is None else f", as job {row.job_id}"
        why = "" if row.reason is None else f" ({row.reason})"
        raise SlotTaken(
            f"slot {at.isoformat()} of {schedule.name!r} was decided at {row.decided_at.isoformat()}: "
            f"{row.verdict}{why}{job}",
            row.job_id,
        )


async def _refuse_running(store: Store, schedule: Schedule) -> None:
    unfinished = await store.slots.unfinished(schedule.id, schedule.max_instances)
    if len(unfinished) >= schedule.max_instances:
        raise Conflict(
            f"schedule {schedule.name!r} may run {schedule.max_instances} at once, and job {unfinished[0]} is not "
            "finished: no slot was taken",
            unfinished[0],
        )


async def _refuse_held(store: Store, schedule: Schedule) -> None:
    if schedule.key is None:
        return
    wanted = JobFilter(tuple(UNFINISHED), task=schedule.task, key=schedule.key, limit=1)
    for holder in await store.jobs.find(wanted):
        raise Conflict(
            f"job {holder.id} is not finished and has the key {schedule.key!r}, which the jobs of schedule "
            f"{schedule.name!r} share: no slot was taken",
            holder.id,
        )


# --- a span of slots ------------------------------------------------------------------------------------------------


def _batches(
    schedule: Schedule, start: datetime, end: datetime, now: datetime
) -> tuple[int, Iterator[Sequence[datetime]]]:
    """The slots that a backfill looks at: how many, and in batches. Raises InvalidSchedule."""
    after, end = checked_moment(start, "start") - TICK, checked_moment(end, "end")
    trigger = trigger_of(schedule)
    _refuse_span(schedule, after + TICK, end, now)
    total = trigger.count(after, end)
    if total > MOST_BACKFILLED:
        raise InvalidSchedule(
            "start", f"expected a span with at most {MOST_BACKFILLED:,} slots; this one has {total:,}: take it in parts"
        )
    slots = triggers.between(trigger, after, end)
    return total, iter(lambda: list(islice(slots, BACKFILL_BATCH)), [])


def _refuse_span(schedule: Schedule, start: datetime, end: datetime, now: datetime) -> None:
    if end > now:
        raise InvalidSchedule("end", f"expected an instant that is not in the future, not {end.isoformat()}")
    if start > end:
        raise InvalidSchedule("start", f"expected an instant before {end.isoformat()}, not {start.isoformat()}")
    if schedule.horizon is not None and start < schedule.horizon:
        raise InvalidSchedule(
            "start", f"expected {schedule.horizon.isoformat()} or later: before, the ledger is not kept"
        )


async def _undecided(store: Store, schedule: Schedule, batch: Sequence[datetime]) -> list[datetime]:
    """Those of these slots that no row decides. Rows of another rule between them may be many, and are not kept."""
    wanted = set(batch)
    telling: list[Slot] = []
    async for page in pages(store, schedule.id, batch[0], batch[-1]):
        telling += [row for row in page if row.until is not None or row.scheduled_for in wanted]
    decisions = await _decisions(store, schedule, telling)
    return [slot for slot in batch if decisions.row_of(slot) is None]


async def _decisions(store: Store, schedule: Schedule, rows: Sequence[Slot]) -> Decisions:
    """What these rows decide. Only runs of slots need to know their rule."""
    has_runs = any(row.until is not None for row in rows)
    return Decisions(rows, await store.schedules.revisions(schedule.id) if has_runs else ())
