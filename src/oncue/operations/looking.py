"""What jobs, queues and nodes there are, and what was changed by hand. Nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from oncue.control import AuditEntry, Stats
from oncue.errors import InvalidJob, JobNotFound
from oncue.identity import job_id_of
from oncue.model import LONGEST_LISTING, STATES, Attempt, Job, JobFilter, Node, Queue, State
from oncue.policy.statuses import listed
from oncue.reach import Connected
from oncue.store.contract import Store

LARGEST_ID = 2**63 - 1
LARGEST_OFFSET = 100_000
"""Whoever wants to see more goes on from an id: skipping rows takes longer the more there are."""


class Looking:
    async def connected(self) -> Connected:
        raise NotImplementedError

    async def job(self, ref: int | UUID) -> Job:
        """One job with its result. Raises JobNotFound."""
        ref = checked_ref(ref)
        job_id = job_id_of(ref) if isinstance(ref, UUID) else ref
        found = await (await self.connected()).store.job(job_id) if _possible(job_id) else None
        if found is None or (isinstance(ref, UUID) and found.uid != ref):
            raise JobNotFound(f"there is no job {ref}")
        return found

    async def jobs(
        self,
        states: Sequence[State] = (),
        *,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        before: int | None = None,
        limit: int = 100,
        offset: int = 0,
        whole: bool = True,
    ) -> list[Job]:
        """Jobs, newest first. `before` is the id to go on from; `offset` says how many to leave out.

        `queued` are all that wait, as in `stats`: those that are due later (`scheduled`, `retrying`) too.
        Not `whole`, large arguments, results and errors are left out, and `Job.shortened` says which.
        """
        _check_listing(limit, before, "a job")
        if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= LARGEST_OFFSET:
            raise ValueError(f"offset: expected a whole number from 0 to {LARGEST_OFFSET:,}, not {offset!r}")
        wanted = JobFilter(listed(_checked_states(states)), queue, task, key, before, limit, offset, not whole)
        return await (await self.connected()).store.jobs(wanted)

    async def attempts(self, job_id: int) -> list[Attempt]:
        """Every attempt that has ended, oldest first, the latest included."""
        job = await self.job(job_id)
        return await attempts_of((await self.connected()).store, job)

    async def queues(self, *, peek: bool = False) -> list[Queue]:
        """All queues. To `peek` costs little, however much waits: then much was counted at `counted_at`."""
        return await (await self.connected()).store.queues(peek=peek)

    async def stats(self) -> Stats:
        """How many jobs there are, in all queues together. What finished is counted for good, pruned or not."""
        queues = await self.queues(peek=True)
        return Stats(
            queued=sum(queue.queued + queue.later for queue in queues),
            running=sum(queue.running for queue in queues),
            completed=sum(queue.succeeded for queue in queues),
            failed=sum(queue.failed for queue in queues),
            cancelled=sum(queue.cancelled for queue in queues),
            skipped=sum(queue.skipped for queue in queues),
            counted_at=max((queue.counted_at for queue in queues if queue.counted_at is not None), default=None),
        )

    async def nodes(self) -> list[Node]:
        return await (await self.connected()).store.nodes()

    async def audit_log(
        self, *, actor: str | None = None, subject: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """What was changed by hand, newest first. `before` is the id of the entry to go on from."""
        _check_listing(limit, before, "an entry")
        store = (await self.connected()).store
        return await store.audit_log(actor=actor, subject=subject, before=before, limit=limit)


def checked_ref(ref: int | UUID) -> int | UUID:
    if isinstance(ref, bool) or not isinstance(ref, int | UUID):
        raise InvalidJob("ref", f"expected a job's id (a number) or uid (a UUID), not {ref!r:.100}")
    return ref


def _check_listing(limit: int, before: int | None, what: str) -> None:
    if not 1 <= limit <= LONGEST_LISTING:
        raise ValueError(f"limit: expected a whole number from 1 to {LONGEST_LISTING:,}, not {limit!r}")
    if before is not None and not _possible(before):
        raise ValueError(f"before: expected the id of {what}, not {before!r}")


def _checked_states(states: Sequence[State]) -> tuple[State, ...]:
    if isinstance(states, str) or not set(states) <= set(STATES):
        raise InvalidJob("states", f"expected a list of {', '.join(STATES)}, not {states!r}")
    return tuple(states)


def _possible(number: int) -> bool:
    """Whether a database could have such a row at all: neither of them takes a larger number."""
    return 0 < number <= LARGEST_ID


async def attempts_of(store: Store, job: Job) -> list[Attempt]:
    """Every attempt of a job that has ended: the latest is in its own row."""
    earlier = await store.attempts(job.id)
    if job.finished and job.started_at is not None and job.attempt:
        latest = Attempt(
            job.id, job.attempt, job.claim_no, job.node_id, job.started_at, job.finished_at, job.state, job.error
        )
        if all(attempt.claim_no != latest.claim_no for attempt in earlier):
            return [*earlier, latest]
    return earlier
