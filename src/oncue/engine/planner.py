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
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from oncue.clock import Clock
from oncue.engine.applying import apply_each
from oncue.engine.deciding import reserved_hooks
from oncue.engine.leadership import Leadership
from oncue.engine.service import Signal
from oncue.engine.window_events import FINALIZED, tell_finalized, tell_load
from oncue.model import FIRST_DUE, Applied, Change, DuePlace, Schedule, Subject
from oncue.policy import window_steps, windows
from oncue.policy.window_steps import DuePage, Planned
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

LIMIT = 1000
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
        page = DuePage(window, now)
        planned = await self._planned(page, due, epoch)
        self._counts.scanned += len(due)
        self._counts.eligible += sum(one.plan.opens for one in planned)
        closed = await self._close(page, [one for one in planned if one.job is not None])
        moved = await self._move(page, [one for one in planned if one.job is None], epoch)
        return closed or moved

    async def _planned(self, page: DuePage, due: Sequence[Subject], epoch: int) -> list[Planned]:
        open_jobs = [subject.job_id for subject in due if subject.job_id is not None and window_steps.is_open(subject)]
        jobs = {job.id: job for job in await self._store.windows.unfinished(open_jobs)} if open_jobs else {}
        planned, aside = [], []
        for subject in due:
            try:
                planned.append(page.planned(subject, jobs.get(subject.job_id or 0)))
            except Exception as error:  # its zone is unknown to this host, say: that does not stop the others
                self._tell_unplanned(page.window, subject, error)
                aside.append(window_steps.later(subject, page.now + self._interval))
        if aside:
            await self._store.windows.advance(aside, page.now, node=self._node, epoch=epoch)
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

    async def _close(self, page: DuePage, closing: Sequence[Planned]) -> bool:
        """End the jobs; the end of each writes its subject's day. Where more is to be done, the next pass goes on."""
        if not closing:
            return False
        cutoffs = sum(one.shared.is_cutoff for one in closing)
        hooks = iter(await reserved_hooks(self._store, cutoffs, page.window))
        changes = [page.ended(one, hooks) for one in closing]
        known = {change.id for change, one in zip(changes, closing, strict=True) if self._is_left(one)}
        took = await apply_each(self._store, changes, page.now, known=known)
        self._leave(closing, took)
        self._tell_closed(page.window, closing, changes, took)
        self._counts.finalized += sum(map(bool, took))
        self.opened.set()
        return any(took)

    def _tell_closed(
        self, window: Schedule, closing: Sequence[Planned], changes: Sequence[Change], took: Sequence[Applied]
    ) -> None:
        is_logged = _log.isEnabledFor(logging.DEBUG)
        if not is_logged and not self._telemetry.wants(FINALIZED):
            return
        for one, change, written in zip(closing, changes, took, strict=True):
            if written:
                tell_finalized(
                    self._telemetry, window.name, one.subject.cutoff_at, change.day_status or "", str(one.subject.day),
                    windows.OUTAGE if change.day_status == "missed" else None,
                )  # fmt: skip
                _log.debug("window=%s subject=%s day=%s %s", window.name, one.subject.name, one.subject.day,
                           change.reason)  # fmt: skip

    def _is_left(self, one: Planned) -> bool:
        return bool(self._left) and window_steps.key(one) in self._left

    def _leave(self, planned: Sequence[Planned], took: Sequence[Applied]) -> int:
        """Remember which subjects could not be written; how many of them were not known."""
        if not self._left and None not in took:
            return 0
        left = {window_steps.key(one) for one, written in zip(planned, took, strict=True) if written is None}
        fresh = len(left - self._left)
        self._left.difference_update(map(window_steps.key, planned))
        self._left |= left
        return fresh

    # --- the others ---------------------------------------------------------------------------------------------

    async def _move(self, page: DuePage, moving: Sequence[Planned], epoch: int) -> bool:
        if not moving:
            return False
        opening = sum(one.plan.opens for one in moving)
        closing = sum(one.plan.closes is not None and one.plan.closes.has_hook for one in moving)
        ids = iter(await self._store.jobs.reserve(opening) if opening else [])
        hooks = iter(await reserved_hooks(self._store, closing, page.window))
        steps = [page.step(one, ids, hooks) for one in moving]
        took = await self._store.windows.advance(steps, page.now, node=self._node, epoch=epoch)
        if fresh := self._leave(moving, took):
            _log.warning("another session holds a lock on %d subjects of window %s: left for a later pass", fresh,
                         page.window.name)  # fmt: skip
        for one, written in zip(moving, took, strict=True):
            if written:
                self._moved(page.window, one)
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
