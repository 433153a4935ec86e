"""The verbs on schedules and slots, for callers and operators. Every change is conditional on what was read."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from oncue.checks import (
    DEFAULT_GRACE,
    LATEST,
    checked_grace,
    checked_max_instances,
    checked_missed,
    checked_moment,
    checked_name,
    checked_priority,
    checked_queue,
)
from oncue.errors import Conflict, InvalidSchedule, ScheduleNotFound, SlotTaken, StoreUnavailable
from oncue.model import Decided, Missed, Revised, Revision, Schedule, Slot, Step
from oncue.policy import schedules as policy
from oncue.policy import triggers
from oncue.policy.audit import Audit, audit
from oncue.policy.durations import Duration
from oncue.policy.triggers import DstMark, DstPolicy, Rule
from oncue.store.contract import Store
from oncue.task import Task
from oncue.telemetry import Telemetry

TRIGGER, RUN_NOW, BACKFILL = "trigger", "run_now", "backfill"
BACKFILL_BATCH = 1000
MOST_BACKFILLED = 100_000
MOST_PREVIEWED = 10_000
MOST_TRIES = 20
ASK_AGAIN_SECONDS = 0.2
LEDGER_PAGE = 10_000
LONGEST_LOOK = timedelta(days=3650)
LONGEST_DESCRIPTION = 1000
LONGEST_LISTING = 100_000
AUDITED = timedelta(days=1)
EXTRA = timedelta(seconds=1)
"""Within this time from now an extra slot is found for a run by hand."""

_log = logging.getLogger("oncue.schedules")


class Connected(Protocol):
    """A store that is open, the database's time, and numbers for new jobs."""

    store: Store

    def now(self) -> datetime: ...

    async def ids(self, count: int) -> list[int]: ...


class Fire(NamedTuple):
    """A slot to come, as a preview shows it."""

    scheduled_for: datetime
    local: datetime
    mark: DstMark | None


class Backfilled(NamedTuple):
    """What a backfill did: the jobs that it made, and how many slots were decided before."""

    jobs: Sequence[int]
    present: int


class Scheduling:
    """The verbs on schedules. In plain code: `app.wait(app.trigger("nightly", at))`."""

    name: str
    tasks: dict[str, Task[Any, Any]]
    telemetry: Telemetry

    async def connected(self) -> Connected:
        raise NotImplementedError

    def find(self, name: str) -> Task[Any, Any]:
        raise NotImplementedError

    def carried(self, task: Task[Any, Any]) -> dict[str, Any]:
        """What a task's own options say of every job that a schedule makes for it."""
        raise NotImplementedError

    # --- looking ------------------------------------------------------------------------------------------------

    async def schedules(self, *, after: str = "", limit: int = 100) -> list[Schedule]:
        """Schedules by name. `after` is the name to go on from."""
        return await (await self.connected()).store.schedules(after, _checked_limit(limit))

    async def schedule(self, name: str) -> Schedule:
        """One schedule. Raises ScheduleNotFound."""
        found = await (await self.connected()).store.schedule(name)
        if found is None or found.deleted_at is not None:
            raise ScheduleNotFound(f"there is no schedule {name!r}")
        return found

    async def revisions(self, name: str) -> list[Revision]:
        """Everything that a schedule has been, oldest first; of a deleted one too."""
        return await (await self.connected()).store.revisions((await self._any(name)).id)

    async def slots(self, name: str, start: datetime, end: datetime, limit: int = 1000) -> list[Slot]:
        """The ledger's rows from `start` to `end`, oldest first."""
        store = (await self.connected()).store
        schedule = await self._any(name)
        first, last = checked_moment(start, "start"), checked_moment(end, "end")
        return await store.slots(schedule.id, first, last, _checked_limit(limit))

    async def latest_slots(self, name: str, count: int = 10) -> list[Slot]:
        """The ledger's last rows, oldest first; of slots to come that were taken by hand too."""
        connected, schedule = await self.connected(), await self._any(name)
        now, span = connected.now(), timedelta(minutes=1)
        while True:  # the ledger is read forwards: look back further and further until there is enough
            rows = await _ledger(connected.store, schedule.id, now - span, LATEST)
            if len(rows) >= count or span > LONGEST_LOOK:
                return rows[-count:]
            span *= 8

    async def preview(self, name: str, count: int = 10, start: datetime | None = None) -> list[Fire]:
        """The next slots of a schedule, or those from `start` on, whether it is enabled or not."""
        schedule = await self.schedule(name)
        now = (await self.connected()).now()
        after = max(now, schedule.cursor) if start is None else checked_moment(start, "start") - policy.TICK
        return fires(policy.trigger_of(schedule), schedule.tz, after, count)

    async def audit(self, name: str, start: datetime | None = None, end: datetime | None = None) -> Audit:
        """What became of every slot that the schedule should have had, by default in the last day."""
        connected, schedule = await self.connected(), await self._any(name)
        now = connected.now()
        end = now if end is None else min(checked_moment(end, "end"), now)
        start = end - AUDITED if start is None else checked_moment(start, "start")
        if start > end:
            raise InvalidSchedule("start", f"expected an instant before {end.isoformat()}, not {start.isoformat()}")
        # The cursor was read first, so that what is decided meanwhile is pending at worst. Revisions are read after the
        # rows that may be theirs, and the horizon last: nothing that was edited or pruned while we read is held against
        # the ledger.
        rows = await _ledger(connected.store, schedule.id, start, end)
        doubled = await connected.store.doubled(schedule.id, start, end)
        revisions = await connected.store.revisions(schedule.id)
        horizon = (await self._any(name)).horizon
        return audit(revisions, rows, schedule.cursor, horizon, start, end, doubled=doubled)

    # --- changing -----------------------------------------------------------------------------------------------

    async def create_schedule(
        self,
        name: str,
        rule: Rule | str,
        task: Task[Any, Any] | str,
        args: Mapping[str, Any] | None = None,
        *,
        description: str = "",
        queue: str | None = None,
        priority: int | None = None,
        missed: Missed = "latest",
        grace: Duration = DEFAULT_GRACE,
        max_instances: int = 1,
        enabled: bool = True,
        created_by: str = "system",
    ) -> Schedule:
        """Make a schedule. Its first slot is the first one after now. Raises Conflict if the name is taken."""
        wanted = self._wanted(
            name, _rule(rule), self._target(task), _checked_args({} if args is None else args), description, queue,
            priority, missed, grace, max_instances,
        )  # fmt: skip
        if not _checked_enabled(enabled):
            wanted = dataclasses.replace(wanted, enabled=False, reason=policy.BY_HAND)
        connected = await self.connected()
        by = checked_name(created_by, "created_by")
        for _ in range(MOST_TRIES):
            current, now = await connected.store.schedule(wanted.name), connected.now()
            if current is not None and current.deleted_at is None:
                raise Conflict(f"there is a schedule {wanted.name!r} already")
            change = await self._created_or_revived(connected, current, wanted, now, by)
            if change is not None and await _took(connected, change, now):
                return await self.schedule(wanted.name)
        raise Conflict(f"schedule {wanted.name!r} is being changed by others at this moment: try again")

    async def change_schedule(
        self,
        name: str,
        *,
        rule: Rule | str | None = None,
        tz: str | None = None,
        dst: DstPolicy | None = None,
        task: Task[Any, Any] | str | None = None,
        args: Mapping[str, Any] | None = None,
        description: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        missed: Missed | None = None,
        grace: Duration | None = None,
        max_instances: int | None = None,
        changed_by: str = "system",
    ) -> Schedule:
        """Change what is given; the rest stays. The edit is a new revision and starts from now.

        A rule that is only an expression keeps the time zone and the DST policy, unless they are given too.
        """

        def edit(current: Schedule) -> Schedule:
            _refuse_code(current)
            wanted = self._wanted(
                current.name,
                _changed_rule(current, rule, tz, dst),
                self._target(current.task if task is None else task),
                json.loads(current.args) if args is None else _checked_args(args),
                current.description if description is None else description,
                current.queue if queue is None else queue,
                current.priority if priority is None else priority,
                current.missed if missed is None else missed,
                current.grace if grace is None else grace,
                current.max_instances if max_instances is None else max_instances,
            )
            kept = {"enabled": current.enabled, "reason": current.reason, "declared_by": current.declared_by}
            return dataclasses.replace(wanted, **kept)  # type: ignore[arg-type]

        return await self._edited(name, edit, changed_by)

    async def toggle_schedule(self, name: str, enabled: bool, *, changed_by: str = "system") -> Schedule:
        """Enable or disable a schedule, one declared in code too. What was due meanwhile is not fired later."""

        def edit(current: Schedule) -> Schedule:
            if current.enabled == _checked_enabled(enabled):
                return current
            # What no code declares any more, and somebody enables, is theirs from now on.
            declared_by = None if current.reason == policy.UNDECLARED else current.declared_by
            reason = None if enabled else policy.BY_HAND
            return dataclasses.replace(current, enabled=enabled, reason=reason, declared_by=declared_by)

        return await self._edited(name, edit, changed_by)

    async def delete_schedule(self, name: str, *, changed_by: str = "system") -> None:
        """Delete a schedule. Its slots stay in the ledger, so that no later one of its name fires them again."""

        def edit(current: Schedule) -> Schedule:
            _refuse_code(current)
            return policy.deleted(current, now())

        now = (await self.connected()).now
        await self._edited(name, edit, changed_by)

    def _target(self, task: Task[Any, Any] | str) -> Task[Any, Any]:
        if not isinstance(task, Task | str):
            raise InvalidSchedule("task", f"expected a task or the name of one, not {task!r}")
        return self.find(task) if isinstance(task, str) else task

    def _wanted(
        self, name: str, rule: Rule, task: Task[Any, Any], args: dict[str, Any], description: str,
        queue: str | None, priority: int | None, missed: Missed, grace: Duration, max_instances: int,
    ) -> Schedule:  # fmt: skip
        return Schedule(
            id=0, name=checked_name(name, "name"), description=_checked_description(description), task=task.name,
            args=task.arguments.dump_for_slots(args, self.carried(task)["max_args"]),
            queue=task.queue if queue is None else checked_queue(queue),
            priority=task.priority if priority is None else checked_priority(priority),
            expression=rule.expression, tz=rule.tz, dst=rule.dst, missed=checked_missed(missed),
            grace=checked_grace(grace), max_instances=checked_max_instances(max_instances), enabled=True,
            options=self.carried(task)["options"], max_retries=task.max_retries,
            max_runtime=self.carried(task)["max_runtime"], deadline=task.deadline, declared_by=None, reason=None,
            revision=0, started_at=_LONG_AGO, version=0, cursor=_LONG_AGO, next_run_at=None, last_run_at=None,
            horizon=None, created_by="", created_at=_LONG_AGO, updated_at=_LONG_AGO, deleted_at=None,
        )  # fmt: skip

    async def _edited(self, name: str, edit: Callable[[Schedule], Schedule], changed_by: str) -> Schedule:
        connected = await self.connected()
        by = checked_name(changed_by, "changed_by")
        for _ in range(MOST_TRIES):
            current, now = await self.schedule(name), connected.now()
            change = await self._changed(connected, current, edit(current), now, by)
            if change is None:
                return current
            if await _took(connected, change, now):
                return await self._any(name)
        raise Conflict(f"schedule {name!r} is being changed by others at this moment: try again")

    async def _created_or_revived(
        self, connected: Connected, current: Schedule | None, wanted: Schedule, now: datetime, by: str
    ) -> Revised | None:
        if current is None:
            return policy.created(wanted, now, by)
        return await self._changed(connected, current, wanted, now, by)

    async def _changed(
        self, connected: Connected, current: Schedule, wanted: Schedule, now: datetime, by: str
    ) -> Revised | None:
        taken = await connected.store.slots(current.id, current.cursor + policy.TICK, max(now, current.cursor))
        return policy.changed(current, wanted, now, by, [slot.scheduled_for for slot in taken])

    async def _any(self, name: str) -> Schedule:
        """One schedule, a deleted one too: its ledger is still there."""
        found = await (await self.connected()).store.schedule(name)
        if found is None:
            raise ScheduleNotFound(f"there is no schedule {name!r}")
        return found

    # --- synchronising ------------------------------------------------------------------------------------------

    async def synchronise(self, connected: Connected | None = None) -> None:
        """Make the stored schedules what the code declares. Those that it no longer declares are disabled.

        A worker does this when it starts.
        """
        connected = connected or await self.connected()
        declared = [task for task in self.tasks.values() if task.schedule is not None]
        for task in declared:
            try:
                await self._declare(connected, task)
            except Conflict as error:  # one schedule that cannot be declared does not keep a worker from working
                _log.error("schedule %s cannot be declared: %s", task.name, error)
                self.telemetry.emit("schedule.error", {}, schedule=task.name, error=error)
        await self.disown(connected)

    async def disown(self, connected: Connected | None = None) -> None:
        """Disable what this application declared once and no live worker of any version declares now.

        In a rolling deployment that is when the last worker of the old version is gone, so workers look again and
        again.
        """
        connected = connected or await self.connected()
        ours = {task.name for task in self.tasks.values() if task.schedule is not None}
        stored = [one.name for one in await connected.store.declared(self.name) if one.enabled and one.name not in ours]
        if not stored:
            return
        now = connected.now()
        living = {name for node in await connected.store.nodes() if node.expires_at > now for name in node.schedules}
        for name in stored:
            if name not in living:
                await self._disown(connected, name)

    async def _declare(self, connected: Connected, task: Task[Any, Any]) -> None:
        assert task.schedule is not None
        rule, missed, grace, max_instances, description = task.schedule
        wanted = self._wanted(task.name, rule, task, {}, description, None, None, missed, grace, max_instances)
        wanted = dataclasses.replace(wanted, declared_by=self.name)
        by = f"code:{self.name}"
        for _ in range(MOST_TRIES):
            current, now = await connected.store.schedule(wanted.name), connected.now()
            allowed = wanted if current is None else _as_operators_left_it(current, wanted)
            change = await self._created_or_revived(connected, current, allowed, now, by)
            if change is None or await _took(connected, change, now):
                if change is not None and change.revision is not None:
                    _log.info("schedule %s: %s, revision %d", wanted.name, rule.expression, change.revision.revision)
                return
        raise Conflict(f"schedule {wanted.name!r} is being changed by others at this moment: try again")

    async def _disown(self, connected: Connected, name: str) -> None:
        """Disable a schedule that is ours and declared no more. It may fire all the while: try until it holds still."""
        for _ in range(MOST_TRIES):
            stored, now = await connected.store.schedule(name), connected.now()
            if stored is None or not stored.enabled or stored.declared_by != self.name:
                return
            disabled = dataclasses.replace(stored, enabled=False, reason=policy.UNDECLARED)
            change = await self._changed(connected, stored, disabled, now, f"code:{self.name}")
            if change is not None and await _took(connected, change, now):
                _log.warning("schedule %s is disabled: the code of %r no longer declares it", name, self.name)
                return
        raise Conflict(f"schedule {name!r} is being changed by others at this moment: try again")

    # --- by hand ------------------------------------------------------------------------------------------------

    async def trigger(self, name: str, at: datetime, *, by: str = "system") -> Slot:
        """Claim the slot `at` and run it now. Raises SlotTaken if it was decided already, Conflict if a run is on."""
        at = checked_moment(at, "at")

        def slot(schedule: Schedule, now: datetime) -> datetime:
            _refuse_strange(schedule, at)
            return at

        return await self._claimed(name, slot, TRIGGER, by)

    async def run_now(self, name: str, *, by: str = "system") -> Slot:
        """Run the schedule's task now, in an extra slot: no regular one is used up. Raises Conflict if a run is on."""

        def slot(schedule: Schedule, now: datetime) -> datetime:
            return now

        return await self._claimed(name, slot, RUN_NOW, by)

    async def _claimed(self, name: str, slot: Callable[[Schedule, datetime], datetime], reason: str, by: str) -> Slot:
        """Decide one slot by hand. After a lost reply the ledger itself tells whether it was us."""
        connected = await self.connected()
        by = checked_name(by, "by")
        (job_id,) = await connected.ids(1)
        at: datetime | None = None
        for attempt in range(MOST_TRIES):
            try:
                schedule, now = await self.schedule(name), connected.now()
                at = slot(schedule, now) if at is None or reason != RUN_NOW else at
                end = at + EXTRA if reason == RUN_NOW else at
                standing = await connected.store.slots(schedule.id, at, end)
                if all(row.job_id != job_id for row in standing):
                    decided = Decided(_free(schedule, at, standing, reason), "manual", reason, job_id)
                    await self._refuse_running(connected, schedule)
                    step = Step(schedule.id, schedule.version, schedule.cursor, schedule.next_run_at, [decided])
                    await connected.store.decide([step], now, by=by)
                    standing = await connected.store.slots(schedule.id, at, end)
                ours = [row for row in standing if row.job_id == job_id]
                if ours:
                    return ours[0]
            except StoreUnavailable:
                if attempt == MOST_TRIES - 1:
                    raise
                await asyncio.sleep(ASK_AGAIN_SECONDS)
        raise Conflict(f"schedule {name!r} is being changed by others at this moment: try again")

    async def _refuse_running(self, connected: Connected, schedule: Schedule) -> None:
        unfinished = await connected.store.unfinished(schedule.id, schedule.max_instances)
        if len(unfinished) >= schedule.max_instances:
            raise Conflict(
                f"schedule {schedule.name!r} may run {schedule.max_instances} at once, and job {unfinished[0]} is not "
                "finished: no slot was taken",
                unfinished[0],
            )

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        by: str = "system",
        told: Callable[[int, int], None] | None = None,
    ) -> Backfilled:
        """Run the slots from `start` to `end` that nobody has decided. Repeating it makes nothing.

        They run oldest first, as many at once as `max_instances` allows. `told` hears how many slots are done, of how
        many.
        """
        connected, schedule = await self.connected(), await self.schedule(name)
        total, batches = _batches(schedule, start, end, connected.now())
        made: list[int] = []
        seen = 0
        for batch in batches:
            made += await self._backfilled(connected, name, batch, by)
            seen += len(batch)
            if told is not None:
                told(seen, total)
        return Backfilled(made, seen - len(made))

    async def absent(self, name: str, start: datetime, end: datetime) -> list[datetime]:
        """The slots from `start` to `end` that nobody has decided: what `backfill` would run."""
        connected, schedule = await self.connected(), await self.schedule(name)
        found: list[datetime] = []
        for batch in _batches(schedule, start, end, connected.now())[1]:
            rows = await connected.store.slots(schedule.id, batch[0], batch[-1])
            found += _undecided(batch, rows)
        return found

    async def _backfilled(self, connected: Connected, name: str, batch: Sequence[datetime], by: str) -> list[int]:
        """Decide those of these slots that are absent; the jobs that were made."""
        for _ in range(MOST_TRIES):
            schedule, now = await self.schedule(name), connected.now()
            rows = await connected.store.slots(schedule.id, batch[0], batch[-1])
            absent = _undecided(batch, rows)
            if not absent:
                return []
            jobs = await connected.ids(len(absent))
            decided = [Decided(slot, "manual", BACKFILL, job) for slot, job in zip(absent, jobs, strict=True)]
            step = Step(schedule.id, schedule.version, schedule.cursor, schedule.next_run_at, decided)
            if (await connected.store.decide([step], now, by=by, parked=True))[0]:
                return jobs
        raise Conflict(f"schedule {name!r} is being changed by others at this moment: try again")


_LONG_AGO = datetime.min


async def _took(connected: Connected, change: Revised, now: datetime) -> bool:
    (took,) = await connected.store.revise([change], now)
    return took


def fires(trigger: triggers.Trigger, tz: str, after: datetime, count: int) -> list[Fire]:
    """The next slots after an instant, with their local time and what the time zone does to them."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_PREVIEWED:
        raise InvalidSchedule("count", f"expected a whole number from 1 to {MOST_PREVIEWED:,}, not {count!r}")
    found: list[Fire] = []
    slot = trigger.after(after)
    while slot is not None and len(found) < count:
        found.append(Fire(slot, slot.astimezone(ZoneInfo(tz)), trigger.mark(slot)))
        slot = trigger.after(slot)
    return found


def _checked_limit(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_LISTING:
        raise ValueError(f"limit: expected a whole number from 1 to {LONGEST_LISTING:,}, not {limit!r}")
    return limit


def _checked_enabled(enabled: bool) -> bool:
    if not isinstance(enabled, bool):
        raise InvalidSchedule("enabled", f"expected True or False, not {enabled!r}")
    return enabled


def _checked_args(args: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(args, Mapping):
        raise InvalidSchedule("args", f"expected the task's arguments by name, not {args!r:.100}")
    return dict(args)


def _checked_description(text: str) -> str:
    fits = isinstance(text, str) and len(text) <= LONGEST_DESCRIPTION and "\x00" not in text
    if not fits or text.encode(errors="ignore").decode() != text:  # half a surrogate pair cannot be stored
        raise InvalidSchedule("description", f"expected a text of at most {LONGEST_DESCRIPTION} characters")
    return text


def _rule(rule: Rule | str) -> Rule:
    if isinstance(rule, Rule):
        return triggers.cron(rule.expression, tz=rule.tz, dst=rule.dst)
    return triggers.cron(rule)


def _changed_rule(current: Schedule, rule: Rule | str | None, tz: str | None, dst: DstPolicy | None) -> Rule:
    stays = Rule(current.expression, current.tz, current.dst)  # type: ignore[arg-type]
    given = rule if isinstance(rule, Rule) else stays if rule is None else dataclasses.replace(stays, expression=rule)
    wanted = dataclasses.replace(given, tz=given.tz if tz is None else tz, dst=given.dst if dst is None else dst)
    return stays if wanted == stays else _rule(wanted)


def _refuse_code(schedule: Schedule) -> None:
    if schedule.declared_by is not None and schedule.reason != policy.UNDECLARED:
        raise Conflict(
            f"schedule {schedule.name!r} is declared in the code of {schedule.declared_by!r}: change it there, or "
            "disable it"
        )


def _as_operators_left_it(current: Schedule, wanted: Schedule) -> Schedule:
    """A schedule that was disabled by hand stays so, whatever the code says."""
    made_in_code = current.created_by.startswith("code:")
    if current.deleted_at is None and current.declared_by is None and not made_in_code:
        raise Conflict(
            f"schedule {current.name!r} was made at run time by {current.created_by}, and the code declares one of the "
            "same name: delete or rename one of them"
        )
    if current.declared_by not in (None, wanted.declared_by):
        _log.warning(
            "schedule %s was declared by %s and is now declared by %s: if these are two applications, give one of the "
            "tasks another name", current.name, current.declared_by, wanted.declared_by,
        )  # fmt: skip
    if current.deleted_at is None and not current.enabled and current.reason == policy.BY_HAND:
        return dataclasses.replace(wanted, enabled=False, reason=policy.BY_HAND)
    return wanted


def _refuse_strange(schedule: Schedule, at: datetime) -> None:
    trigger = policy.trigger_of(schedule)
    if trigger.has(at):
        return
    before, after = trigger.latest(at), trigger.after(at)
    near = " and ".join(slot.isoformat() for slot in (before, after) if slot is not None)
    raise InvalidSchedule(
        "at", f"{at.isoformat()} is no slot of {schedule.name!r} ({schedule.expression}); near: {near}"
    )


def _free(schedule: Schedule, at: datetime, standing: Sequence[Slot], reason: str) -> datetime:
    """The slot to take by hand: the one that was asked for, or an extra one. Raises SlotTaken."""
    if reason == RUN_NOW:
        return policy.extra_slot(policy.trigger_of(schedule), at, {row.scheduled_for for row in standing})
    _refuse_taken(schedule, at, standing)
    return at


def _refuse_taken(schedule: Schedule, at: datetime, standing: Sequence[Slot]) -> None:
    if schedule.horizon is not None and at < schedule.horizon:
        raise SlotTaken(
            f"slot {at.isoformat()} of {schedule.name!r} is from before {schedule.horizon.isoformat()}, up to which "
            "the ledger is no longer kept: it cannot be told whether it ran"
        )
    if standing:
        (slot, *_) = standing
        job = "" if slot.job_id is None else f", as job {slot.job_id}"
        why = "" if slot.reason is None else f" ({slot.reason})"
        raise SlotTaken(
            f"slot {at.isoformat()} of {schedule.name!r} was decided at {slot.decided_at.isoformat()}: "
            f"{slot.verdict}{why}{job}",
            slot.job_id,
        )


async def _ledger(store: Store, schedule_id: int, start: datetime, end: datetime) -> list[Slot]:
    """All rows of the ledger that touch this span, however many."""
    rows: list[Slot] = []
    while True:
        page = await store.slots(schedule_id, start, end, LEDGER_PAGE)
        rows += [row for row in page if not rows or row.scheduled_for > rows[-1].scheduled_for]
        if len(page) < LEDGER_PAGE:
            return rows
        start = page[-1].scheduled_for + policy.TICK


def _batches(
    schedule: Schedule, start: datetime, end: datetime, now: datetime
) -> tuple[int, Iterator[Sequence[datetime]]]:
    """The slots that a backfill looks at: how many, and in batches. Raises InvalidSchedule."""
    after, end = checked_moment(start, "start") - policy.TICK, checked_moment(end, "end")
    trigger = policy.trigger_of(schedule)
    _refuse_span(schedule, after + policy.TICK, end, now)
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


def _undecided(slots: Sequence[datetime], rows: Sequence[Slot]) -> list[datetime]:
    """Those of these slots that no row tells of, neither as its own nor as part of a run."""
    single = {row.scheduled_for for row in rows if row.until is None}
    runs = [(row.scheduled_for, row.until) for row in rows if row.until is not None]
    return [slot for slot in slots if slot not in single and not any(first <= slot <= last for first, last in runs)]
