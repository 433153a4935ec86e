"""Opens and closes the days of windows: plans, enqueues and finalizes cutoffs, and never waits for a job.

Each pass reads the subjects whose opening or cutoff has come, window by window, and `policy/windows.py` says what is to
be done about each. A day that begins gets its slot and its job; a day whose cutoff has passed is over:

    the day's job has not ended    the job is ended, and its end writes the day: a success that comes first wins
    there is no such job           the subject's own version decides
    it was removed, and added      its job was asked to stop: once that has ended, the day gets another one
    the day is decided             the subject moves on to its next day

Each write is conditional, so two planners at once do nothing twice. A pass costs what is due, not what there is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from oncue.clock import Clock
from oncue.engine.applying import apply_each
from oncue.engine.leadership import Leadership
from oncue.engine.service import Signal
from oncue.engine.window_events import tell_finalized, tell_load
from oncue.model import (
    FIRST_DUE,
    Applied,
    Change,
    Day,
    Decided,
    DuePlace,
    NextDay,
    OpenJob,
    Schedule,
    Subject,
    SubjectStep,
    Tally,
)
from oncue.policy import options, windows
from oncue.policy.lifecycle import close_day
from oncue.policy.windows import DayPlan, DayTerms, JobOfDay, WindowRule
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

LIMIT = 1000
AUTHOR = "window"
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)

_log = logging.getLogger("oncue.windows")


@dataclass(slots=True)
class TickCounts:
    """What a tick has done so far. It may take several passes."""

    scanned: int = 0
    eligible: int = 0
    enqueued: int = 0
    finalized: int = 0


@dataclass(slots=True)
class Walk:
    """A walk over all subjects of a window that are due, a page at a time: what one page leaves stops no other."""

    after: DuePlace = FIRST_DUE
    moved: bool = False
    """Whether anything was written: then there may be more to do at once."""
    is_left: bool = False
    """Whether something was due. If nothing was written, another session holds it, or another node was faster."""
    is_over: bool = False


class Planned(NamedTuple):
    """A subject whose time has come, what is to be done about it, and the job of its day if that has not ended."""

    subject: Subject
    plan: DayPlan
    job: OpenJob | None


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
        self._left: set[tuple[int, str]] = set()
        """The windows and names of subjects that earlier passes had to leave, since another session holds a row of
        theirs, say: the next pass does not wait for it, and the log has told of them."""
        self._is_woken = False
        self._looked_at = self._tick_at = BEGINNING
        self._walks: dict[int, Walk] = {}
        self._unplanned: set[tuple[int, str]] = set()
        """The windows and zones of subjects whose days could not be worked out."""
        leadership.followers.append(self.signal)

    def wake(self) -> None:
        """Something changed in the database, perhaps: a subject was added whose day has begun already."""
        self._is_woken = True
        self.signal.set()

    async def tick(self, now: datetime) -> datetime:
        epoch = self._leadership.epoch
        if epoch is None:
            return now + self._interval
        if self._is_woken and now < self._tick_at:
            later = await self._looked(now)
            if later is not None:
                return later
        self._is_woken, self._looked_at = False, now
        self._tick_at = await self._tick(epoch, now)
        return self._tick_at

    async def _looked(self, now: datetime) -> datetime | None:
        """A hint came before the next tick is due, so look for something sooner, at most once a poll. When to come
        back; None: something is due."""
        if now < self._looked_at + self._poll:
            return min(self._looked_at + self._poll, self._tick_at)
        self._is_woken, self._looked_at = False, now
        upcoming = await self._store.windows.next_at()
        self._tick_at = self._tick_at if upcoming is None else min(self._tick_at, upcoming)
        return self._tick_at if self._tick_at > now else None

    async def _tick(self, epoch: int, now: datetime) -> datetime:
        if self._began is None:
            self._began = self._clock.monotonic()
        enabled = [window for window in await self._store.windows.all() if window.enabled]
        walks = [await self._pass(window, epoch, now) for window in enabled]
        if any(walk.moved or not walk.is_over for walk in walks):
            return now
        self._tell()
        await tell_load(self._store, self._telemetry, enabled, now)
        if any(walk.is_left for walk in walks):
            return now + self._poll
        self._left.clear()
        upcoming = await self._store.windows.next_at()
        return now + self._interval if upcoming is None else min(max(upcoming, now), now + self._interval)

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        return None if self._leadership.epoch is None else await store.windows.next_at()

    async def _pass(self, window: Schedule, epoch: int, now: datetime) -> Walk:
        """Look at the next page of a window's subjects that are due."""
        walk = self._walks.setdefault(window.id, Walk())
        due = await self._store.windows.due(window.id, now, LIMIT, walk.after)
        if due:
            walk.is_left = True
            walk.moved = await self._decide(window, due, epoch, now) or walk.moved
        walk.is_over = len(due) < LIMIT
        if walk.is_over:
            del self._walks[window.id]
        else:
            walk.after = DuePlace(due[-1].next_at or now, due[-1].name)
        return walk

    async def _decide(self, window: Schedule, due: Sequence[Subject], epoch: int, now: datetime) -> bool:
        """Do what is to be done about these subjects. Whether anything was written."""
        planned = await self._planned(window, due, epoch, now)
        self._counts.scanned += len(due)
        self._counts.eligible += sum(one.plan.opens for one in planned)
        closed = await self._close(window, [one for one in planned if one.job is not None], now)
        moved = await self._move(window, [one for one in planned if one.job is None], epoch, now)
        return closed or moved

    async def _planned(self, window: Schedule, due: Sequence[Subject], epoch: int, now: datetime) -> list[Planned]:
        rule = windows.rule_of(window.expression)
        open_jobs = [subject.job_id for subject in due if subject.job_id is not None and _is_open(subject)]
        jobs = {job.id: job for job in await self._store.windows.unfinished(open_jobs)} if open_jobs else {}
        planned, aside = [], []
        for subject in due:
            try:
                planned.append(_planned(window, rule, subject, jobs, now))
            except Exception as error:  # its zone is unknown to this host, say: that does not stop the others
                self._tell_unplanned(window, subject, error)
                aside.append(_later(subject, now + self._interval))
        if aside:
            await self._store.windows.advance(aside, now, node=self._node, epoch=epoch)
        return planned

    def _tell_unplanned(self, window: Schedule, subject: Subject, error: Exception) -> None:
        """The planner looks at it again and again; the log says so once for each zone."""
        _log.debug("window=%s subject=%s day=%s waits", window.name, subject.name, subject.day)
        zone = subject.tz or window.tz
        if (window.id, zone) not in self._unplanned:
            self._unplanned.add((window.id, zone))
            _log.error("planner: days of window %s in %s cannot be worked out, and wait: %s", window.name, zone, error)
            self._telemetry.emit("schedule.error", {}, schedule=window.name, error=error)

    # --- days whose job has not ended ---------------------------------------------------------------------------

    async def _close(self, window: Schedule, closing: Sequence[Planned], now: datetime) -> bool:
        """End the jobs; the end of each writes its subject's day. Where more is to be done, the next pass goes on."""
        if not closing:
            return False
        hooks = iter(await _reserved(self._store, sum(_is_cutoff_of_row(one) for one in closing), window))
        changes = [_ended(window, one, hooks, now) for one in closing]
        known = {change.id for change, one in zip(changes, closing, strict=True) if _key(one) in self._left}
        took = await apply_each(self._store, changes, now, known=known)
        self._leave(closing, took)
        for one, change, written in zip(closing, changes, took, strict=True):
            if written:
                tell_finalized(
                    self._telemetry, window.name, one.subject.cutoff_at, change.day_status or "", str(one.subject.day),
                    windows.OUTAGE if change.day_status == "missed" else None,
                )  # fmt: skip
                _log.debug("window=%s subject=%s day=%s %s", window.name, one.subject.name, one.subject.day,
                           change.reason)  # fmt: skip
        self._counts.finalized += sum(map(bool, took))
        self.opened.set()
        return any(took)

    def _leave(self, planned: Sequence[Planned], took: Sequence[Applied]) -> int:
        """Remember which subjects could not be written; how many of them were not known."""
        left = {_key(one) for one, written in zip(planned, took, strict=True) if written is None}
        fresh = len(left - self._left)
        self._left.difference_update(map(_key, planned))
        self._left |= left
        return fresh

    # --- the others ---------------------------------------------------------------------------------------------

    async def _move(self, window: Schedule, moving: Sequence[Planned], epoch: int, now: datetime) -> bool:
        if not moving:
            return False
        opening = sum(one.plan.opens for one in moving)
        closing = sum(one.plan.closes is not None and one.plan.closes.has_hook for one in moving)
        ids = iter(await self._store.jobs.reserve(opening) if opening else [])
        hooks = iter(await _reserved(self._store, closing, window))
        steps = [_step(window, one, ids, hooks, now) for one in moving]
        took = await self._store.windows.advance(steps, now, node=self._node, epoch=epoch)
        if fresh := self._leave(moving, took):
            _log.warning("another session holds a lock on %d subjects of window %s: left for a later pass", fresh,
                         window.name)  # fmt: skip
        for one, written in zip(moving, took, strict=True):
            if written:
                self._moved(window, one)
        if opening or closing:
            self.opened.set()
        return any(took)

    def _moved(self, window: Schedule, one: Planned) -> None:
        subject, plan = one.subject, one.plan
        tell, name = self._telemetry, window.name
        for day in plan.missed:
            tell_finalized(tell, name, day.cutoff_at, "missed", str(day.date), windows.OUTAGE)
        if plan.closes is not None:
            day, closes = plan.closes.day, plan.closes
            self._counts.finalized += closes.reason != windows.ADDED_LATE
            tell_finalized(tell, name, day.cutoff_at, closes.status, str(day.date), closes.reason)
        _log.debug(
            "window=%s subject=%s day=%s %s", window.name, subject.name, plan.day.date,
            "enqueued" if plan.opens else f"next look {plan.next_at.isoformat()}",
        )  # fmt: skip
        self._counts.enqueued += plan.opens

    # --- telling ------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """A tick is over: all that was due is done."""
        began, done = self._began, self._counts
        self._began, self._counts = None, TickCounts()
        duration = 0.0 if began is None else (self._clock.monotonic() - began) * 1000
        self._telemetry.emit(
            "sched.tick.stop", {"duration_ms": duration},
            users_scanned=done.scanned, eligible_in_window=done.eligible, enqueued=done.enqueued,
            cutoff_finalized=done.finalized,
        )  # fmt: skip


async def decide_days(store: Store, window: Schedule, subject: Subject, now: datetime) -> bool:
    """Decide the days of one subject that are over, in the planner's stead: its terms are about to change, and the
    planner would go by the new ones. Whether there was something to decide; then there may be more of it."""
    jobs = await store.windows.unfinished([subject.job_id]) if subject.job_id is not None and _is_open(subject) else []
    one = _planned(window, windows.rule_of(window.expression), subject, {job.id: job for job in jobs}, now)
    if not windows.is_behind(one.plan, now):
        return False
    if one.job is not None:
        hooks = await _reserved(store, int(_is_cutoff_of_row(one)), window)
        await store.jobs.apply([_ended(window, one, iter(hooks), now)], now)
    else:
        ids = await store.jobs.reserve(1) if one.plan.opens else []
        hooks = await _reserved(store, int(one.plan.closes is not None and one.plan.closes.has_hook), window)
        await store.windows.advance([_step(window, one, iter(ids), iter(hooks), now)], now)
    return True


async def _reserved(store: Store, hooks: int, window: Schedule) -> Sequence[int]:
    told = options.read(window.options).window
    return [] if told is None or told.hook is None or not hooks else await store.jobs.reserve(hooks)


def _planned(window: Schedule, rule: WindowRule, subject: Subject, jobs: dict[int, OpenJob], now: datetime) -> Planned:
    terms: DayTerms = windows.terms_of(subject, rule, window.tz)
    job = jobs.get(subject.job_id or 0)
    plan = windows.plan(subject, terms, window.started_at, now, job=_standing(job))
    is_over = now >= subject.cutoff_at and _is_open(subject)
    return Planned(subject, plan, job if is_over else None)


def _ended(window: Schedule, one: Planned, hooks: Iterator[int], now: datetime) -> Change:
    """The end of a job whose day is over."""
    assert one.job is not None
    if not _is_cutoff_of_row(one):
        return close_day(one.job, now, "missed", windows.OUTAGE)
    told = options.read(window.options).window
    ids = list(islice(hooks, 1))
    hook = None if told is None else windows.hook_of(told, one.subject.name, one.subject.day, ids, now, AUTHOR)
    hooked = () if hook is None else (hook,)
    return close_day(one.job, now, windows.CUTOFF_REACHED, windows.CUTOFF_REACHED, hooked, _next_day(one))


def _key(one: Planned) -> tuple[int, str]:
    return one.subject.schedule_id, one.subject.name


def _later(subject: Subject, next_at: datetime) -> SubjectStep:
    """The same row, to be looked at later."""
    return SubjectStep(
        subject.schedule_id, subject.name, subject.version, Day(subject.day, subject.opens_at, subject.cutoff_at),
        next_at, subject.job_id, subject.last_date, subject.status, subject.reason,
    )  # fmt: skip


def _is_open(subject: Subject) -> bool:
    """Whether its day has a job, and no outcome yet."""
    return subject.job_id is not None and (subject.last_date is None or subject.last_date < subject.day)


def _standing(job: OpenJob | None) -> JobOfDay:
    """How it is with the job of an open day; None: it has ended."""
    if job is None:
        return "ended"
    return "under_way" if job.cancel_requested_at is None else "stopping"


def _reopens(one: Planned) -> bool:
    """Whether the day had a job before: its subject was removed and added again. That is no second day."""
    return one.plan.opens and one.subject.job_id is not None and one.plan.day.date == one.subject.day


def _is_cutoff_of_row(one: Planned) -> bool:
    """Whether the day of the row comes to its cutoff, noticed while its date lasts."""
    closes = one.plan.closes
    return closes is not None and closes.day.date == one.subject.day and closes.has_hook


def _next_day(one: Planned) -> NextDay | None:
    """The day that a subject moves on to with the end of its job, if that is all: its next opening is ahead."""
    subject, plan = one.subject, one.plan
    if plan.missed or plan.opens or plan.next_at != plan.day.opens_at:
        return None
    return NextDay(subject.version, plan.day, windows.bucket_of(subject.cutoff_at))


def _step(window: Schedule, one: Planned, ids: Iterator[int], hooks: Iterator[int], now: datetime) -> SubjectStep:
    """The write for a subject whose day has no job that could still succeed."""
    subject, plan = one.subject, one.plan
    decided, tallies = [*_missed(subject, plan)], [*_tallies(one)]
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
        job_id, before = next(ids), subject.job_id if _reopens(one) else None
        job = windows.job_of(window, subject, plan.day, job_id, now, AUTHOR, before)
        if before is None:
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


def _tallies(one: Planned) -> list[Tally]:
    plan = one.plan
    found = [Tally(day.date, windows.bucket_of(day.cutoff_at), "missed") for day in plan.missed]
    if plan.closes is not None:
        late = plan.closes.reason == windows.ADDED_LATE
        bucket = windows.bucket_of(plan.closes.day.cutoff_at)
        found.append(Tally(plan.closes.day.date, bucket, "added_late" if late else "cutoff_reached"))
    if plan.opens and not _reopens(one):
        found.append(Tally(plan.day.date, windows.bucket_of(plan.day.cutoff_at), "opened"))
    return found
