"""What jobs there are, and what became of them. Nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from oncue.engine.counting import counted_queues
from oncue.errors import InvalidJob, JobNotFound
from oncue.identity import job_id_of
from oncue.model import STATES, Attempt, ClusterJob, Job, JobFilter, State, Stats
from oncue.policy import lifecycle
from oncue.policy.statuses import listed
from oncue.store.contract import Store
from oncue.verbs.base import NounVerbs, checked_before, checked_limit, is_possible

Attempts: TypeAlias = list[Attempt]
Listing: TypeAlias = list[Job]

LARGEST_OFFSET = 100_000
"""A longer listing goes on from an id (`before`): to skip rows takes longer the more there are."""


class JobReading(NounVerbs):
    async def get(self, ref: int | UUID) -> Job:
        """One job with its result. Raises JobNotFound."""
        ref = checked_ref(ref)
        job_id = job_id_of(ref) if isinstance(ref, UUID) else ref
        found = await (await self._connected()).store.jobs.get(job_id) if is_possible(job_id) else None
        if found is None or (isinstance(ref, UUID) and found.uid != ref):
            raise JobNotFound(f"there is no job {ref}")
        return found

    async def list(
        self,
        states: Sequence[State] = (),
        *,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        group: str | None = None,
        address: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: int | None = None,
        limit: int = 100,
        offset: int = 0,
        whole: bool = True,
    ) -> Listing:
        """Jobs, newest first. `before` is the id to go on from; `offset` says how many to leave out. `since` and
        `until` are about when they were made.

        `queued` are all that wait, as in `stats`: those that are due later (`scheduled`, `retrying`) too.
        Not `whole`, large arguments, results, errors and details are left out, and `Job.shortened` says which.
        """
        checked_limit(limit)
        checked_before(before, "a job")
        if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= LARGEST_OFFSET:
            raise ValueError(f"offset: expected a whole number from 0 to {LARGEST_OFFSET:,}, not {offset!r}")
        wanted = JobFilter(
            listed(checked_states(states)),
            queue,
            task,
            key,
            before,
            limit,
            offset,
            not whole,
            group,
            address,
            since,
            until,
        )
        return await (await self._connected()).store.jobs.find(wanted)

    async def attempts(self, job_id: int) -> Attempts:
        """Every attempt that has ended, oldest first, the latest included."""
        job = await self.get(job_id)
        return await attempts_of((await self._connected()).store, job)

    async def stats(self) -> Stats:
        """How many jobs there are, in all queues together. What finished is counted for good, pruned or not."""
        connected = await self._connected()
        queues = await counted_queues(connected.store, connected.now())
        return Stats(
            queued=sum(queue.queued + queue.later for queue in queues),
            running=sum(queue.running for queue in queues),
            completed=sum(queue.succeeded for queue in queues),
            failed=sum(queue.failed for queue in queues),
            cancelled=sum(queue.cancelled for queue in queues),
            skipped=sum(queue.skipped for queue in queues),
            counted_at=max((queue.counted_at for queue in queues if queue.counted_at is not None), default=None),
        )


def checked_ref(ref: int | UUID) -> int | UUID:
    if isinstance(ref, bool) or not isinstance(ref, int | UUID):
        raise InvalidJob("ref", f"expected a job's id (a number) or uid (a UUID), not {ref!r:.100}")
    return ref


def checked_states(states: Sequence[State]) -> tuple[State, ...]:
    if isinstance(states, str) or not set(states) <= set(STATES):
        raise InvalidJob("states", f"expected a list of {', '.join(STATES)}, not {states!r}")
    return tuple(states)


async def attempts_of(store: Store, job: Job) -> list[Attempt]:
    """Every attempt of a job that has ended: the latest is in its own row."""
    earlier = await store.jobs.attempts(job.id)
    if job.finished and job.started_at is not None and job.attempt:
        latest = Attempt(
            job.id, job.attempt, job.claim_no, job.node_id, job.started_at, job.finished_at, job.state, job.error,
            job.details,
        )  # fmt: skip
        if all(attempt.claim_no != latest.claim_no for attempt in earlier):
            return [*earlier, latest]
    return earlier


async def cluster_job_of(store: Store, job: Job, now: datetime) -> ClusterJob | None:
    """The cluster job that a job is, or of which it is a part."""
    job_id: int | None = job.id
    if not lifecycle.is_cluster_job(job):
        job_id = (await store.cluster.whole_of([job.id])).get(job.id) if lifecycle.is_part(job) else None
    found = [] if job_id is None else await store.cluster.get([job_id], now)
    return found[0] if found else None
