"""What schedules there are, what they have been and done, and what they will do. Nothing here writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from oncue.errors import Conflict, InvalidSchedule, ScheduleNotFound
from oncue.model import DuePosition, Revision, Schedule, Slot
from oncue.policy.audit import Audit, audit
from oncue.policy.checks import checked_moment
from oncue.policy.triggers import TICK, DstMark, Trigger, trigger_of
from oncue.policy.windows import is_window
from oncue.store.contract import Store
from oncue.verbs.base import NounVerbs, checked_before, checked_limit

Listing: TypeAlias = list[Schedule]
Revisions: TypeAlias = list[Revision]
Ledger: TypeAlias = list[Slot]

MOST_PREVIEWED = 10_000
MOST_LOOKED_AT, SEARCH_PAGE = 1000, 250
"""A search by name or state looks at so many schedules, then says where it would go on."""
LEDGER_PAGE = 10_000
AUDITED = timedelta(days=1)


class Fire(NamedTuple):
    """A slot to come, as a preview shows it."""

    scheduled_for: datetime
    local: datetime
    mark: DstMark | None


Fires: TypeAlias = list[Fire]


class FoundSchedules(NamedTuple):
    """What a search found, and the name after which it would go on; None: there is no more."""

    schedules: Listing
    go_on: str | None


class ScheduleReading(NounVerbs):
    async def list(self, *, after: str = "", limit: int = 100) -> Listing:
        """Schedules by name. `after` is the name to go on from."""
        return await (await self._connected()).store.schedules.page(after, checked_limit(limit, "limit"))

    async def find(
        self, *, prefix: str = "", enabled: bool | None = None, after: str = "", limit: int = 100
    ) -> FoundSchedules:
        """Schedules whose names begin so, or that are enabled or not, by name. A search that finds few ends after
        `MOST_LOOKED_AT` names, and says where to go on."""
        checked_limit(limit, "limit")
        store = (await self._connected()).store
        seen: Listing = []
        if prefix and not after:  # a name is never before its own beginning
            exact = await store.schedules.get(prefix)
            seen += [] if exact is None or exact.deleted_at is not None else [exact]
            after = prefix
        found: Listing = []
        for _ in range(MOST_LOOKED_AT // SEARCH_PAGE):
            page = await store.schedules.page(after, SEARCH_PAGE)
            for one in (*seen, *page):
                if one.name.startswith(prefix) and (enabled is None or one.enabled == enabled):
                    if len(found) == limit:
                        return FoundSchedules(found, found[-1].name)
                    found.append(one)
            if len(page) < SEARCH_PAGE:
                return FoundSchedules(found, None)
            seen, after = [], page[-1].name
        return FoundSchedules(found, after)

    async def coming(self, *, limit: int = 100, after: DuePosition | None = None) -> Listing:
        """Enabled schedules by their next slot, the soonest first. `after` is the place to go on from: the next slot
        and the id of the last one."""
        return await (await self._connected()).store.schedules.coming(checked_limit(limit, "limit"), after)

    async def get(self, name: str, *, deleted: bool = False) -> Schedule:
        """One schedule; one that is deleted only if it is wanted too. Raises ScheduleNotFound."""
        found = await self._any(name)
        if found.deleted_at is not None and not deleted:
            raise self.no_schedule(name)
        return found

    async def _any(self, name: str) -> Schedule:
        """One schedule, a deleted one too: its ledger is still there."""
        found = await (await self._connected()).store.schedules.get(name)
        if found is None:
            raise self.no_schedule(name)
        return found

    def no_schedule(self, name: str) -> ScheduleNotFound:
        """The error for a name that no schedule has. A schedule that only the code knows so far is told apart."""
        task = self._app.tasks.get(name)
        if task is None or task.schedule is None:
            return ScheduleNotFound(f"there is no schedule {name!r:.200}")
        return ScheduleNotFound(
            f"there is no schedule {name!r} yet: the application declares it, and the next worker that starts makes it "
            "so"
        )

    async def revisions(self, name: str, *, before: int | None = None, limit: int = 100) -> Revisions:
        """What a schedule has been, newest first; of a deleted one too. The last `limit` revisions, or the last ones
        before the revision with the number `before`."""
        checked_limit(limit)
        checked_before(before, "a revision")
        store = (await self._connected()).store
        return (await store.schedules.revisions((await self._any(name)).id, before=before, limit=limit))[::-1]

    async def slots(self, name: str, start: datetime, end: datetime, limit: int = 1000) -> Ledger:
        """The ledger's rows from `start` to `end`, oldest first."""
        store = (await self._connected()).store
        schedule = await self._any(name)
        first, last = checked_moment(start, "start"), checked_moment(end, "end")
        return await store.slots.between(schedule.id, first, last, checked_limit(limit, "limit"))

    async def latest_slots(self, name: str, count: int = 10, before: datetime | None = None) -> Ledger:
        """The ledger's last rows, or the last ones before an instant, oldest first; of slots to come that were taken by
        hand too."""
        store, schedule = (await self._connected()).store, await self._any(name)
        start = None if before is None else checked_moment(before, "before")
        return await store.slots.latest(schedule.id, checked_limit(count, "count"), start)

    async def latest_slots_of(self, schedules: Sequence[Schedule], count: int = 10) -> dict[int, Ledger]:
        """The ledger's last rows of each of these schedules, by its id, oldest first."""
        ids = [schedule.id for schedule in schedules]
        found: dict[int, Ledger] = {one: [] for one in ids}
        if ids:
            store = (await self._connected()).store
            for slot in await store.slots.latest_of(ids, checked_limit(count, "count")):
                found[slot.schedule_id].append(slot)
        return found

    async def _with_slots(self, name: str) -> Schedule:
        """A schedule that is no window: a window's days belong to its subjects. Raises Conflict."""
        schedule = await self.get(name)
        if is_window(schedule.expression):
            how = f"`oncue subjects run {schedule.name} SUBJECT` opens the day of one of its subjects"
            raise Conflict(f"{schedule.name!r} is a daily window, which has no slots of its own: {how}")
        return schedule

    async def preview(self, name: str, count: int = 10, start: datetime | None = None) -> Fires:
        """The next slots of a schedule, or those from `start` on, whether it is enabled or not."""
        schedule = await self.get(name)
        now = (await self._connected()).now()
        after = max(now, schedule.cursor) if start is None else checked_moment(start, "start") - TICK
        return fires(trigger_of(schedule), schedule.tz, after, count)

    async def audit(self, name: str, start: datetime | None = None, end: datetime | None = None) -> Audit:
        """What became of every slot that the schedule should have had, by default in the last day."""
        return (await self.evidence(name, start, end))()

    async def evidence(
        self, name: str, start: datetime | None = None, end: datetime | None = None
    ) -> Callable[[], Audit]:
        """All that an audit needs. Calling it works out every slot: of very many, do that in a thread."""
        connected, schedule = await self._connected(), await self._any(name)
        now = connected.now()
        end = now if end is None else min(checked_moment(end, "end"), now)
        start = end - AUDITED if start is None else checked_moment(start, "start")
        if start > end:
            raise InvalidSchedule("start", f"expected an instant before {end.isoformat()}, not {start.isoformat()}")
        # The cursor was read first, so that what is decided meanwhile is pending at worst. Revisions are read after the
        # rows that may be theirs, and the horizon last: nothing that was edited or pruned while we read is held against
        # the ledger.
        rows = [row async for page in pages(connected.store, schedule.id, start, end) for row in page]
        doubled = await connected.store.slots.doubled(schedule.id, start, end)
        revisions = await connected.store.schedules.revisions(schedule.id)
        horizon = (await self._any(name)).horizon
        return partial(audit, revisions, rows, schedule.cursor, horizon, start, end, doubled=doubled)


def fires(trigger: Trigger, tz: str, after: datetime, count: int) -> list[Fire]:
    """The next slots after an instant, with their local time and what the time zone does to them."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_PREVIEWED:
        raise InvalidSchedule("count", f"expected a whole number from 1 to {MOST_PREVIEWED:,}, not {count!r}")
    found: list[Fire] = []
    slot = trigger.after(after)
    while slot is not None and len(found) < count:
        found.append(Fire(slot, slot.astimezone(ZoneInfo(tz)), trigger.mark(slot)))
        slot = trigger.after(slot)
    return found


async def pages(store: Store, schedule_id: int, start: datetime, end: datetime) -> AsyncIterator[list[Slot]]:
    """All rows of the ledger that touch this span, however many."""
    seen: datetime | None = None
    while True:
        page = await store.slots.between(schedule_id, start, end, LEDGER_PAGE)
        yield [row for row in page if seen is None or row.scheduled_for > seen]
        if len(page) < LEDGER_PAGE:
            return
        seen = page[-1].scheduled_for
        start = seen + TICK
