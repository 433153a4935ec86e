"""Opens and closes the days of windows: plans, enqueues and finalizes cutoffs, and never waits for a job.

Each pass reads the subjects whose opening or cutoff has come, window by window, and `policy/windows.py` says what is to
be done about each. A day that begins gets its slot and its job; a day whose cutoff has passed is over:

    the day's job has not ended    the job is ended, and its end writes the day: a success that comes first wins
    there is no such job           the subject's own version decides
    the day is decided             the subject moves on to its next day

Each write is conditional, so two planners at once do nothing twice. A pass costs what is due, not what there is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from oncue.clock import Clock
from oncue.engine.applying import apply_each
from oncue.engine.leadership import Leadership
from oncue.engine.service import Signal
from oncue.model import Change, Day, Decided, Job, Schedule, Subject, SubjectStep, Tally
from oncue.policy import options, windows
from oncue.policy.lifecycle import close_day
from oncue.policy.windows import DayPlan, DayTerms, WindowRule
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

LIMIT = 1000
AUTHOR = "window"

_log = logging.getLogger("oncue.windows")


@dataclass(slots=True)
class TickCounts:
    """What a tick has done so far. It may take several passes."""

    scanned: int = 0
    eligible: int = 0
    enqueued: int = 0
    finalized: int = 0


class PassOver(NamedTuple):
    """What came of a pass over one window."""

    moved: bool
    """Whether anything was written: then there may be more to do at once."""
    is_left: bool
    """Whether something is due. If nothing was written, another session holds it, or another node was faster."""


class Planned(NamedTuple):
    """A subject whose time has come, what is to be done about it, and the job of its day if that has not ended."""

    subject: Subject
    plan: DayPlan
    job: Job | None


class Planner:
    name = "planner"

    def __init__(
        self,
        store: Store,
        node: UUID,
        leadership: Leadership,
        clock: Clock,
        telemetry: Telemetry,
        *,
        interval: float,
        poll: float,
    ) -> None:
        self.signal = Signal()
        self.opened = Signal()
        """Jobs were made: of days that began, or of cutoffs."""
        self._store = store
        self._node = node
        self._leadership = leadership
        self._clock = clock
        self._telemetry = telemetry
        self._interval = timedelta(seconds=interval)
        self._poll = timedelta(seconds=poll)
        self._counts = TickCounts()
        self._began: float | None = None
        self._unplanned: set[tuple[int, str]] = set()
        """The subjects whose days could not be worked out."""
        leadership.followers.append(self.signal)

    async def tick(self, now: datetime) -> datetime:
        epoch = self._leadership.epoch
        if epoch is None:
            return now + self._interval
        if self._began is None:
            self._began = self._clock.monotonic()
        passes = [await self._pass(window, epoch, now) for window in await self._store.windows.all() if window.enabled]
        if any(one.moved for one in passes):
            return now
        self._tell()
        if any(one.is_left for one in passes):
            return now + self._poll
        upcoming = await self._store.windows.next_at()
        return now + self._interval if upcoming is None else min(max(upcoming, now), now + self._interval)

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        return None if self._leadership.epoch is None else await store.windows.next_at()

    async def _pass(self, window: Schedule, epoch: int, now: datetime) -> PassOver:
        due = await self._store.windows.due(window.id, now, LIMIT)
        if not due:
            return PassOver(moved=False, is_left=False)
        planned = await self._planned(window, due, now)
        self._counts.scanned += len(due)
        self._counts.eligible += sum(one.plan.opens for one in planned)
        closed = await self._close(window, [one for one in planned if one.job is not None], now)
        moved = await self._move(window, [one for one in planned if one.job is None], epoch, now)
        return PassOver(moved=closed or moved, is_left=True)

    async def _planned(self, window: Schedule, due: Sequence[Subject], now: datetime) -> list[Planned]:
        rule = windows.rule_of(window.expression)
        open_jobs = [subject.job_id for subject in due if subject.job_id is not None and _is_open(subject)]
        jobs = {job.id: job for job in await self._store.windows.unfinished(open_jobs)} if open_jobs else {}
        since = await self._enabled_since(window, due)
        planned = []
        for subject in due:
            try:
                planned.append(self._planned_one(window, rule, since, subject, jobs, now))
            except Exception as error:  # its zone is unknown to this host, say: that does not stop the others
                self._put_aside(window, subject, error)
        return planned

    async def _enabled_since(self, window: Schedule, due: Sequence[Subject]) -> datetime:
        """A revision that began before every cutoff that is due tells enough; else all revisions are read."""
        if all(subject.cutoff_at > window.started_at for subject in due):
            return window.started_at
        return windows.enabled_since(await self._store.schedules.revisions(window.id))

    def _put_aside(self, window: Schedule, subject: Subject, error: Exception) -> None:
        """It stays due, and is looked at again and again; the log says so once."""
        if (window.id, subject.name) not in self._unplanned:
            self._unplanned.add((window.id, subject.name))
            _log.error("planner: a day of window %s cannot be worked out, and waits: %s", window.name, error)
            _log.debug("window=%s subject=%s day=%s waits", window.name, subject.name, subject.day)
            self._telemetry.emit("schedule.error", {}, schedule=window.name, error=error)

    def _planned_one(
        self,
        window: Schedule,
        rule: WindowRule,
        since: datetime,
        subject: Subject,
        jobs: dict[int, Job],
        now: datetime,
    ) -> Planned:
        terms: DayTerms = windows.terms_of(subject, rule, window.tz)
        plan = windows.plan(subject, terms, since, now)
        is_over = now >= subject.cutoff_at and _is_open(subject)
        return Planned(subject, plan, jobs.get(subject.job_id or 0) if is_over else None)

    # --- days whose job has not ended ---------------------------------------------------------------------------

    async def _close(self, window: Schedule, closing: Sequence[Planned], now: datetime) -> bool:
        """End the jobs; the end of each writes its subject's day. The next pass moves the subjects on."""
        if not closing:
            return False
        hooks = iter(await self._reserved(sum(_is_cutoff_of_row(one) for one in closing), window))
        changes = [self._ended(window, one, hooks, now) for one in closing]
        took = await apply_each(self._store, changes, now)
        for one, change, written in zip(closing, changes, took, strict=True):
            if written:
                self._finalized(window, one.subject.cutoff_at, change.day_status or "", str(one.subject.day))
                _log.debug("window=%s subject=%s day=%s %s", window.name, one.subject.name, one.subject.day,
                           change.reason)  # fmt: skip
        self._counts.finalized += sum(map(bool, took))
        self.opened.set()
        return any(took)

    def _ended(self, window: Schedule, one: Planned, hooks: Iterator[int], now: datetime) -> Change:
        assert one.job is not None
        if not _is_cutoff_of_row(one):
            return close_day(one.job, now, "missed", windows.OUTAGE)
        told = options.read(window.options).window
        ids = list(islice(hooks, 1))
        hook = None if told is None else windows.hook_of(told, one.subject.name, one.subject.day, ids, now, AUTHOR)
        return close_day(one.job, now, windows.CUTOFF_REACHED, windows.CUTOFF_REACHED, () if hook is None else (hook,))

    # --- the others ---------------------------------------------------------------------------------------------

    async def _move(self, window: Schedule, moving: Sequence[Planned], epoch: int, now: datetime) -> bool:
        if not moving:
            return False
        opening = sum(one.plan.opens for one in moving)
        closing = sum(one.plan.closes is not None and one.plan.closes.has_hook for one in moving)
        ids = iter(await self._store.jobs.reserve(opening) if opening else [])
        hooks = iter(await self._reserved(closing, window))
        steps = [_step(window, one, ids, hooks, now) for one in moving]
        took = await self._store.windows.advance(steps, now, node=self._node, epoch=epoch)
        for one, written in zip(moving, took, strict=True):
            if written:
                self._moved(window, one)
        if opening or closing:
            self.opened.set()
        return any(took)

    def _moved(self, window: Schedule, one: Planned) -> None:
        subject, plan = one.subject, one.plan
        for day in plan.missed:
            self._finalized(window, day.cutoff_at, "missed", str(day.date))
        if plan.closes is not None and plan.closes.reason != windows.ADDED_LATE:
            self._counts.finalized += 1
            self._finalized(window, plan.closes.day.cutoff_at, plan.closes.status, str(plan.closes.day.date))
        _log.debug(
            "window=%s subject=%s day=%s %s", window.name, subject.name, plan.day.date,
            "enqueued" if plan.opens else f"next look {plan.next_at.isoformat()}",
        )  # fmt: skip
        self._counts.enqueued += plan.opens

    async def _reserved(self, hooks: int, window: Schedule) -> Sequence[int]:
        told = options.read(window.options).window
        return [] if told is None or told.hook is None or not hooks else await self._store.jobs.reserve(hooks)

    # --- telling ------------------------------------------------------------------------------------------------

    def _finalized(self, window: Schedule, cutoff_at: datetime, status: str, day: str) -> None:
        self._telemetry.emit(
            "sched.finalize", {}, status=status, due_bucket=windows.bucket_of(cutoff_at), today=day, window=window.name
        )

    def _tell(self) -> None:
        """A tick is over: all that was due is done."""
        began, done = self._began, self._counts
        self._began, self._counts = None, TickCounts()
        duration = 0.0 if began is None else (self._clock.monotonic() - began) * 1000
        self._telemetry.emit(
            "sched.tick.stop",
            {
                "duration_ms": duration,
                "users_scanned": done.scanned,
                "eligible_in_window": done.eligible,
                "enqueued": done.enqueued,
                "cutoff_finalized": done.finalized,
            },
        )


def _is_open(subject: Subject) -> bool:
    """Whether its day has a job, and no outcome yet."""
    return subject.job_id is not None and (subject.last_date is None or subject.last_date < subject.day)


def _is_cutoff_of_row(one: Planned) -> bool:
    """Whether the day of the row comes to its cutoff, noticed while its date lasts."""
    closes = one.plan.closes
    return closes is not None and closes.day.date == one.subject.day and closes.has_hook


def _step(window: Schedule, one: Planned, ids: Iterator[int], hooks: Iterator[int], now: datetime) -> SubjectStep:
    """The write for a subject whose day has no job that could still succeed."""
    subject, plan = one.subject, one.plan
    decided, tallies = [*_missed(subject, plan)], [*_tallies(plan)]
    closes = plan.closes
    last = (subject.last_date, subject.status, subject.reason)
    if plan.missed:
        last = (plan.missed[-1].date, "missed", windows.OUTAGE)
    if closes is not None:
        last = (closes.day.date, closes.status, closes.reason)
        reason = closes.reason or windows.CUTOFF_REACHED
        decided.append(Decided(windows.slot_of(closes.day.date), "skipped", reason, _job_of(subject, closes.day)))
    hook = None
    told = options.read(window.options).window
    if closes is not None and closes.has_hook and told is not None:
        hook_ids = list(islice(hooks, 1))
        hook = windows.hook_of(told, subject.name, closes.day.date, hook_ids, now, AUTHOR)
    job, job_id = None, subject.job_id if plan.day.date == subject.day else None
    if plan.opens:
        job_id = next(ids)
        job = windows.job_of(window, subject, plan.day, job_id, now, AUTHOR)
        decided.append(Decided(windows.slot_of(plan.day.date), "fired", job_id=job_id))
    return SubjectStep(
        subject.schedule_id, subject.name, subject.version, plan.day, plan.next_at, job_id, *last,
        decided=tuple(decided), job=job, hook=hook, tallies=tuple(tallies),
    )  # fmt: skip


def _missed(subject: Subject, plan: DayPlan) -> list[Decided]:
    """The days of an outage, as one row. One that had a job has a row of its own already, which gets the reason."""
    days = [day for day in plan.missed if _job_of(subject, day) is None]
    begun = [
        Decided(windows.slot_of(day.date), "missed", windows.OUTAGE, job_id)
        for day in plan.missed
        if (job_id := _job_of(subject, day)) is not None
    ]
    if not days:
        return begun
    first, last = windows.slot_of(days[0].date), windows.slot_of(days[-1].date)
    return [*begun, Decided(first, "missed", windows.OUTAGE, until=last if len(days) > 1 else None, slots=len(days))]


def _job_of(subject: Subject, day: Day) -> int | None:
    """The job of a day, which ended and did not decide it."""
    return subject.job_id if day.date == subject.day else None


def _tallies(plan: DayPlan) -> list[Tally]:
    found = [Tally(day.date, windows.bucket_of(day.cutoff_at), "missed") for day in plan.missed]
    if plan.closes is not None:
        late = plan.closes.reason == windows.ADDED_LATE
        bucket = windows.bucket_of(plan.closes.day.cutoff_at)
        found.append(Tally(plan.closes.day.date, bucket, "added_late" if late else "cutoff_reached"))
    if plan.opens:
        found.append(Tally(plan.day.date, windows.bucket_of(plan.day.cutoff_at), "opened"))
    return found
