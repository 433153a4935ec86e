"""What operators and callers do to jobs and queues that exist. Every change is conditional on what was read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from oncue.checks import checked_name, checked_priority, checked_queue
from oncue.errors import Conflict, InvalidJob, JobNotFound
from oncue.identity import job_id_of
from oncue.model import LONGEST_LISTING, MAX_PRIORITY, STATES, Attempt, Change, Job, JobFilter, Node, Queue, State
from oncue.policy import lifecycle
from oncue.policy.durations import Duration, seconds
from oncue.reach import Connected

PRUNE_BATCH = 1000
LARGEST_ID = 2**63 - 1


class Operations:
    """The verbs on jobs, queues and nodes. In plain code: `app.wait(app.cancel(7))`."""

    async def connected(self) -> Connected:
        raise NotImplementedError

    async def job(self, ref: int | UUID) -> Job:
        """One job with its result. Raises JobNotFound."""
        if isinstance(ref, bool) or not isinstance(ref, int | UUID):
            raise InvalidJob("ref", f"expected a job's id (a number) or uid (a UUID), not {ref!r}")
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
    ) -> list[Job]:
        """Jobs, newest first. `before` is the id to go on from."""
        if not 1 <= limit <= LONGEST_LISTING:
            raise ValueError(f"limit: expected a whole number from 1 to {LONGEST_LISTING:,}, not {limit!r}")
        if before is not None and not _possible(before):
            raise ValueError(f"before: expected the id of a job, not {before!r}")
        wanted = JobFilter(_checked_states(states), queue, task, key, before, limit)
        return await (await self.connected()).store.jobs(wanted)

    async def attempts(self, job_id: int) -> list[Attempt]:
        """Every attempt that has ended, oldest first, the latest included."""
        connected = await self.connected()
        job = await self.job(job_id)
        earlier = await connected.store.attempts(job.id)
        if job.finished and job.started_at is not None and job.attempt:
            latest = Attempt(
                job.id, job.attempt, job.claim_no, job.node_id, job.started_at, job.finished_at, job.state, job.error
            )
            if all(attempt.claim_no != latest.claim_no for attempt in earlier):
                return [*earlier, latest]
        return earlier

    async def cancel(self, ref: int | UUID) -> Job:
        """Cancel a job that waits; ask a running one to stop. Raises Conflict if it is finished."""
        connected = await self.connected()
        while True:
            job, now = await self.job(ref), connected.now()
            if job.finished:
                raise Conflict(f"job {job.id} is {job.state} already", job.id)
            change = lifecycle.cancel(job, now)
            if change is None:
                took = await connected.store.request_cancel(job.id, job.claim_no, now)
            else:
                (took,) = await connected.store.apply([change], now)
            if took:
                return await self.job(job.id)
            await asyncio.sleep(0)

    async def retry(self, ref: int | UUID, *, by: str = "system") -> Job:
        """Start a finished job over, with its whole budget of retries. Raises Conflict if it is not finished.

        The run of an at-most-once slot stays as it is: a new job is made, which says whose retry it is, enqueued by
        `by`. Once one of these has succeeded, there are no more: Conflict.
        """
        by = checked_name(by, "by")
        connected = await self.connected()
        job, now = await self.job(ref), connected.now()
        if job.finished and job.schedule_id is not None:
            return await self._rerun(job, job.schedule_id, by)
        change = lifecycle.revive(job, now)
        if change is None or not await self._revived(change, job, now):
            raise Conflict(f"job {job.id} is {(await self.job(job.id)).state}: only finished jobs are retried", job.id)
        return await self.job(job.id)

    async def _rerun(self, job: Job, schedule_id: int, by: str) -> Job:
        """Run a slot's job again. Runs of one schedule do not overlap because of it: its version is the fence."""
        connected = await self.connected()
        store = connected.store
        new_id = (await store.reserve(1))[0] if lifecycle.is_final(job) else None
        while (schedule := await store.schedule_by_id(schedule_id)) is not None:
            unfinished = await store.unfinished(schedule_id, schedule.max_instances)
            # Asked after what is not finished: no retry can end in between and be seen by neither.
            done = next((retry.id for retry in await store.retries(job.id) if retry.state == "succeeded"), None)
            if done is not None:
                raise Conflict(f"job {job.id} was retried as job {done}, which succeeded", done)
            if len(unfinished) >= schedule.max_instances:
                raise Conflict(f"job {job.id}: job {unfinished[0]} of the same schedule is not finished", unfinished[0])
            job, now = await self.job(job.id), connected.now()
            again = lifecycle.revive(job, now) if new_id is None else new_id
            if again is None:
                raise Conflict(f"job {job.id} is {job.state}: only finished jobs are retried", job.id)
            if await store.rerun(schedule, job, again, now, by=by):
                return await self.job(new_id or job.id)
            await asyncio.sleep(0)
        raise JobNotFound(f"the schedule of job {job.id} is gone")

    async def _revived(self, change: Change, job: Job, now: datetime) -> bool:
        store = (await self.connected()).store
        try:
            return (await store.apply([change], now))[0]
        except Conflict:
            unfinished: tuple[State, ...] = ("scheduled", "queued", "running", "retrying")
            holders = await store.jobs(JobFilter(unfinished, task=job.task, key=job.key, limit=1))
            holder = holders[0].id if holders else None
            raise Conflict(f"job {job.id}: its key {job.key!r} is held by job {holder}", holder) from None

    async def prioritize(self, job_id: int, priority: int) -> int:
        """Set the priority of an unfinished job, 0 to 100."""
        return await self._reprioritized(job_id, checked_priority(priority), add=False)

    async def boost(self, job_id: int, by: int = 10) -> int:
        """Raise the priority of an unfinished job; it stays between 0 and 100. The new one."""
        if isinstance(by, bool) or not isinstance(by, int):
            raise InvalidJob("boost", f"expected a whole number, not {by!r}")
        return await self._reprioritized(job_id, min(max(by, -MAX_PRIORITY), MAX_PRIORITY), add=True)

    async def _reprioritized(self, job_id: int, priority: int, *, add: bool) -> int:
        connected, written = await self.connected(), None
        if _possible(job_id):
            written = await connected.store.prioritize(job_id, priority, add=add, now=connected.now())
        if written is None:
            job = await self.job(job_id)
            raise Conflict(f"job {job_id} is {job.state}: its priority matters no more", job_id)
        return written

    async def pause(self, queue: str) -> None:
        """No more jobs of this queue start, on any node. Those that run go on."""
        connected = await self.connected()
        await connected.store.pause(checked_queue(queue), connected.now())

    async def resume(self, queue: str) -> None:
        connected = await self.connected()
        await connected.store.resume(checked_queue(queue), connected.now())

    async def queues(self) -> list[Queue]:
        return await (await self.connected()).store.queues()

    async def nodes(self) -> list[Node]:
        return await (await self.connected()).store.nodes()

    async def prune(self, older_than: Duration, told: Callable[[int], None] | None = None) -> int:
        """Delete finished jobs older than this, in batches; how many. `told` hears the count after each batch."""
        connected = await self.connected()
        before = connected.now() - timedelta(seconds=seconds(older_than, "older_than"))
        total = 0
        while gone := await connected.store.prune(before, PRUNE_BATCH):
            total += gone
            if told is not None:
                told(total)
        return total


def _checked_states(states: Sequence[State]) -> tuple[State, ...]:
    if isinstance(states, str) or not set(states) <= set(STATES):
        raise InvalidJob("states", f"expected a list of {', '.join(STATES)}, not {states!r}")
    return tuple(states)


def _possible(job_id: int) -> bool:
    """Whether a database could have such a row at all: neither of them takes a larger number."""
    return 0 < job_id <= LARGEST_ID
