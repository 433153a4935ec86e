"""Jobs: making, reading, claiming, settling and looking after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from oncue.model import (
    Applied,
    Attempt,
    Batch,
    Change,
    Claim,
    HeldClaim,
    Job,
    JobCount,
    JobFilter,
    Note,
    Outlook,
    PriorityLevel,
    Progress,
    Receipt,
    Started,
    ToldDetails,
)


class Jobs(Protocol):
    async def reserve(self, count: int) -> list[int]:
        """Numbers for new jobs, ascending. No other caller ever gets them."""
        ...

    async def enqueue(self, batches: Sequence[Batch], *, in_doubt: bool = False) -> list[Receipt]:
        """Write all jobs or none; one receipt each, in order.

        A job whose (task, key) is held by an unfinished one is not written: its receipt names the one that stands.
        After an unknown reply the same batches are sent again with `in_doubt`: what is there already is written to
        (so that a synchronous standby confirms it), not doubled. A job that another one stands for is then written as
        skipped, reason `duplicate`: with its id taken, the first call is refused if it arrives after all. Whoever asks
        once more is told the same.
        """
        ...

    async def get(self, job_id: int) -> Job | None: ...

    async def find(self, wanted: JobFilter) -> list[Job]: ...

    async def newest(self, wanted: JobFilter) -> list[int]:
        """The ids of the newest jobs with these states, of this queue and this task, whatever their key and group:
        `limit` of them, older than `before`."""
        ...

    async def among(self, ids: Sequence[int], wanted: JobFilter) -> list[Job]:
        """Those of these jobs that have this key and group, newest first: `limit` of them."""
        ...

    async def count(self, wanted: JobFilter, look: int) -> JobCount:
        """How many jobs match. Not more than `look` of those with these states, of this queue and this task are looked
        at."""
        ...

    async def attempts(self, job_id: int) -> list[Attempt]:
        """The ended attempts before the latest, oldest first."""
        ...

    async def retries_of(self, job_id: int) -> list[Job]:
        """The jobs that were made to repeat this one, and those that repeat them; oldest first."""
        ...

    async def count_ahead(self, job: Job, limit: int) -> int:
        """How many queued jobs of its queue are claimed before it; of a job with a group or an address, how many of its
        group or with its address. The count ends at `limit`."""
        ...

    async def promote(self, now: datetime, limit: int) -> datetime | None:
        """Queue up to `limit` scheduled and retrying jobs that are due. When the next one will be, if any is."""
        ...

    async def claim(
        self,
        node: UUID,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        now: datetime,
        *,
        few: int = 0,
        alone: datetime | None = None,
        rooms: Mapping[str, int] | None = None,
        epoch: int | None = None,
    ) -> list[Claim]:
        """Take up to `limit` queued jobs of these queues and tasks: priority first, then age.

        Of the jobs with an address it takes those for this node: for the name that is leased to it, and, if it leads
        under `epoch` at this moment, for the leader.

        `rooms` are the limited queues that the node knows of, and how many jobs it has room for in each. From a
        limited queue that it does not know of it gets none.

        Nothing comes from a paused queue, and nothing goes to a node whose lease is over or that has to stand by
        because another one is exclusive.

        Jobs that are kept apart (`isolation`) come before the others, so that they need not age: up to `few` of those
        that run in a cohort, or one that runs alone, if it could have been claimed since the instant `alone`. That one
        comes without any others, and its maximum runtime counts from when it begins.
        """
        ...

    async def apply(
        self,
        changes: Sequence[Change],
        now: datetime,
        notes: Sequence[Note | None] = (),
        *,
        past_locks: bool = False,
        latest: datetime | None = None,
    ) -> list[Applied]:
        """Write each change whose guard holds. True where it did, in order. Raises Conflict if a key is taken.

        `late`: only its instant was over, by `latest`, the upper bound of the database's time (without it: `now`).
        `released`: only its epoch does not lead any more. That ending was written. The jobs that follow from what was
        written are written with it; one whose key is taken is left out.

        None: another session has held the row for too long, or the key of a job that follows. Nothing was written
        there, the others were: ask again later. With `past_locks` no such row is waited for.

        `notes`, if there are any, are as many as the changes; those of the changes that took are written with them.
        Then a row that is held keeps all of them from being written, and raises RowLocked.
        """
        ...

    async def mark_started(self, started: Sequence[Started]) -> list[int]:
        """Show on the rows when attempts that take a while began. The jobs that another session holds: not on these."""
        ...

    async def begin(self, started: Sequence[Started]) -> list[bool | None]:
        """Write down that these attempts begin, before they do. True where the claim still held, in order.

        None: another session holds the row, so that nothing was written.
        """
        ...

    async def held(self, node: UUID) -> list[HeldClaim]:
        """What the database believes that this node is running."""
        ...

    async def running(self, ids: Sequence[int]) -> list[Claim]:
        """Those of these jobs that are running, on any node."""
        ...

    async def orphaned(self, now: datetime, limit: int) -> list[Claim]:
        """Running jobs whose node is not alive."""
        ...

    async def overdue(self, before: datetime, limit: int) -> list[Claim]:
        """Running jobs whose maximum runtime ended before this instant."""
        ...

    async def expired(self, now: datetime, limit: int, among: Sequence[int] | None = None) -> list[Job]:
        """Waiting jobs whose deadline is over, or, before their first attempt, their slot's grace; of these, or of all.

        Without the parked ones.
        """
        ...

    async def outlook(self) -> Outlook:
        """What will have to be done about jobs, and when."""
        ...

    async def levels(self) -> list[PriorityLevel]:
        """The (queue, priority) pairs in which something is queued, highest priority first, below the highest."""
        ...

    async def age(
        self, level: PriorityLevel, round_no: int, waiting_since: datetime, gain: int, limit: int, now: datetime
    ) -> int:
        """Raise up to `limit` jobs of a level that have waited since then, once per round. How many were raised."""
        ...

    async def prune(self, before: datetime, limit: int, *, noted: tuple[Note, datetime] | None = None) -> int:
        """Delete up to `limit` jobs that finished before this instant, with their attempts. How many.

        The ledger keeps what became of a slot's job. As many attempts that ended before this instant go too, of jobs
        that are still not finished. `noted` is the note of whoever wants this, if anything goes, and when; how many
        went is added to it.
        """
        ...

    async def prioritize(
        self, job_id: int, known: int, priority: int, now: datetime, *, note: Note | None = None
    ) -> bool:
        """Set the priority of an unfinished job that still has the one that is known."""
        ...

    async def request_cancel(self, job_id: int, claim_no: int, now: datetime, *, note: Note | None = None) -> bool:
        """Ask the node that runs this claim to stop it, if it was not asked yet."""
        ...

    async def report_details(self, told: Sequence[ToldDetails]) -> list[int]:
        """Keep what attempts tell while they still hold their jobs. The jobs that another session holds: not of
        these."""
        ...

    async def report_progress(self, progress: Sequence[Progress]) -> None:
        """Show how far attempts have come that still hold their jobs."""
