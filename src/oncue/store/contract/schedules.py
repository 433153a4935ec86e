"""Schedules and their slots.

A slot is decided once. The node that decides it, or an operator, has read the schedule's `version`; the write takes
effect only if that still stands, and raises it. The primary key of the ledger has the last word: a slot that is there
already makes no job.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from oncue.model import (
    LONGEST_LISTING,
    Change,
    Due,
    DuePosition,
    Job,
    Note,
    Revised,
    Revision,
    Schedule,
    Slot,
    Step,
)


class Schedules(Protocol):
    async def get(self, name: str) -> Schedule | None:
        """One schedule by its name, a deleted one too."""
        ...

    async def by_id(self, schedule_id: int) -> Schedule | None:
        """One schedule by its number, a deleted one too."""
        ...

    async def page(self, after: str = "", limit: int = 100) -> list[Schedule]:
        """Schedules that are not deleted, by name; `after` is the name to go on from."""
        ...

    async def coming(self, limit: int, after: DuePosition | None = None) -> list[Schedule]:
        """Enabled schedules by their next slot, the soonest first; `after` is the place to go on from."""
        ...

    async def declared(self) -> list[Schedule]:
        """The schedules that code declared at some time, and that are not deleted."""
        ...

    async def delivering_to(self, webhook: str, after: str = "", limit: int = 100) -> list[Schedule]:
        """The schedules whose target is this webhook, those that are not deleted, by name, from `after` on."""
        ...

    async def revise(self, changes: Sequence[Revised], now: datetime, notes: Sequence[Note | None] = ()) -> list[bool]:
        """Write schedules whose guard holds, each with its revision and the slots that it gives up on, all or none.

        Several changes are written one after the other: one that is refused ends that.
        `notes`, if there are any, are as many as the changes; those of the changes that took are written with them.
        """
        ...

    async def revisions(
        self, schedule_id: int, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        """The last `limit` revisions with a smaller number than `before`, oldest first; without these, all of them."""
        ...


class Slots(Protocol):
    async def due(self, now: datetime, limit: int, after: DuePosition | None = None) -> list[Due]:
        """Schedules whose next slot has come, the longest waiting first; `after` is the place to go on from."""
        ...

    async def next_run(self) -> datetime | None:
        """When the next slot of any schedule comes."""
        ...

    async def decide(
        self,
        steps: Sequence[Step],
        now: datetime,
        *,
        by: str,
        node: UUID | None = None,
        epoch: int | None = None,
        parked: bool = False,
        notes: Sequence[Note | None] = (),
        past_locks: bool = False,
    ) -> list[bool | None]:
        """Move each schedule whose guard holds, write its slots, and make their jobs: all in one transaction.

        None, and `past_locks`, are as in `apply`: another session holds the schedule.
        With an epoch, nothing is written unless `node` still leads under it. A fired job must start within its grace.
        A step with a key that makes a job is refused while an unfinished job has that key: the caller looks again.
        Steps of one call have different keys (`policy/slots.py`, `together`).
        Parked jobs are not due until `release_parked` says so. `notes` are as in `revise`, one for each step.
        """
        ...

    async def unfinished(self, schedule_id: int, limit: int) -> list[int]:
        """The schedule's jobs that are not finished, without the parked ones; the count ends at `limit`."""
        ...

    async def release_parked(self, now: datetime, limit: int) -> int:
        """Queue up to `limit` parked jobs, each schedule's oldest slot first, as far as its `max_instances` leaves
        room. How many.

        A schedule whose job is released gets a new version: who was about to decide a slot of it has to look again.
        """
        ...

    async def rerun(
        self,
        schedule: Schedule | None,
        job: Job,
        again: Change | int,
        now: datetime,
        *,
        by: str,
        note: Note | None = None,
    ) -> bool:
        """Run a finished job of this schedule again, if the schedule is still as it was read; None: it has none.

        `again` is the change that starts it over in place, or the id of a new job like it, which `by` has enqueued;
        then it stays as it is.
        Raises Conflict if its key is taken.
        """
        ...

    async def between(
        self, schedule_id: int, start: datetime, end: datetime, limit: int = LONGEST_LISTING
    ) -> list[Slot]:
        """The ledger's rows that touch this span of time, oldest first."""
        ...

    async def latest(self, schedule_id: int, limit: int, before: datetime | None = None) -> list[Slot]:
        """The ledger's last rows, or the last ones that begin before an instant, oldest first."""
        ...

    async def latest_of(self, schedule_ids: Sequence[int], limit: int) -> list[Slot]:
        """The last rows of several schedules, up to `limit` of each; those of one schedule are oldest first."""
        ...

    async def doubled(self, schedule_id: int, start: datetime, end: datetime) -> list[datetime]:
        """Slots in this span that more than one job was made for. There are none, unless the promise was broken."""
        ...

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` slots from before this instant whose jobs are gone, and raise the horizon with them.

        That gives their schedules a new version: who did not see those slots any more must see the horizon.
        """
        ...
