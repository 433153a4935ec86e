"""Changes of one job. Each is repeated while another change comes in between: so before and after are facts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from oncue.errors import Conflict, InvalidJob, JobNotFound
from oncue.model import MAX_PRIORITY, Applied, Change, Job, JobFilter, Note, Schedule, State
from oncue.policy import audit_entries, lifecycle
from oncue.policy.checks import checked_name, checked_priority, checked_status
from oncue.store.contract import Store
from oncue.verbs.base import compare_and_set
from oncue.verbs.jobs.reading import JobReading

CANCEL, RETRY, STATUS, PRIORITY = "job.cancel", "job.retry", "job.status", "job.priority"


class Changing(JobReading):
    async def cancel(self, ref: int | UUID, *, by: str = "system") -> Job:
        """Cancel a job that waits; ask a running one to stop. Raises Conflict if it is finished."""
        by, connected = checked_name(by, "by"), await self._connected()
        store = connected.store

        async def cancel() -> Job | None:
            job, now = await self.get(ref), connected.now()
            if job.finished:
                raise Conflict(f"job {job.id} is {job.state} already", job.id)
            if job.cancel_requested_at is not None and job.state == "running":
                return job
            change = lifecycle.cancel(job, now)
            took: Applied
            if change is None:
                note = audit_entries.of_job(CANCEL, by, job, cancel_requested=True)
                took = await store.jobs.request_cancel(job.id, job.claim_no, now, note=note)
            else:
                (took,) = await store.jobs.apply(
                    [change], now, [audit_entries.of_job(CANCEL, by, job, status=change.state)]
                )
            return await self.get(job.id) if took else None

        return await compare_and_set(f"job {ref}", cancel)

    async def retry(self, ref: int | UUID, *, by: str = "system") -> Job:
        """Start a finished job over, with its whole budget of retries. Raises Conflict if it is not finished.

        The run of an at-most-once slot stays as it is: a new job is made, which says whose retry it is, enqueued by
        `by`. Once one of these has succeeded, there are no more: Conflict. A delivery stays as it is too, and may be
        repeated as often as you like. So does the job of a window's day: the new job is the day's, if that is open
        and its cutoff has not come; else Conflict.
        """
        return await self._again(ref, checked_name(by, "by"), RETRY)

    async def set_status(self, ref: int | UUID, status: str, *, by: str = "system") -> Job:
        """Give a job another status by hand. Raises Conflict if it cannot have that one.

        A waiting job becomes succeeded or failed. A running one becomes queued, succeeded or failed, and whatever its
        attempt comes to is rejected. A finished one is queued again, as `retry` does it. A job that has the status
        already, or waits and shall be queued, stays as it is. `crawling` and `success` are understood. The success of
        a window's job decides its day, and counts before the cutoff only; a failure leaves the day to its cutoff.
        """
        job, _ = await self._with_status(ref, checked_status(status), checked_name(by, "by"))
        return job

    async def prioritize(self, job_id: int, priority: int, *, by: str = "system") -> int:
        """Set the priority of an unfinished job, 0 to 100."""
        wanted = checked_priority(priority)
        return await self._reprioritized(job_id, lambda _: wanted, by)

    async def boost(self, job_id: int, amount: int = 10, *, by: str = "system") -> int:
        """Raise the priority of an unfinished job; it stays between 0 and 100. The new one."""
        if isinstance(amount, bool) or not isinstance(amount, int):
            raise InvalidJob("boost", f"expected a whole number, not {amount!r}")
        return await self._reprioritized(job_id, lambda known: min(max(known + amount, 0), MAX_PRIORITY), by)

    async def _reprioritized(self, job_id: int, wanted: Callable[[int], int], by: str) -> int:
        by, connected = checked_name(by, "by"), await self._connected()

        async def prioritize() -> int | None:
            job, now = await self.get(job_id), connected.now()
            if job.finished:
                raise Conflict(f"job {job_id} is {job.state}: its priority matters no more", job.id)
            priority = wanted(job.priority)
            if priority == job.priority:
                return priority
            note = audit_entries.of_job(PRIORITY, by, job, priority=priority)
            took = await connected.store.jobs.prioritize(job.id, job.priority, priority, now, note=note)
            return priority if took else None

        return await compare_and_set(f"job {job_id}", prioritize)

    async def _with_status(self, ref: int | UUID, wanted: State, by: str) -> tuple[Job, bool]:
        """The job as it is afterwards, and whether it was changed."""
        connected = await self._connected()

        async def change_status() -> tuple[Job, bool] | None:
            job, now = await self.get(ref), connected.now()
            change = lifecycle.by_hand(job, wanted, now)
            if change is None:
                return job, False
            if job.finished:
                return await self._again(ref, by, STATUS), True
            (took,) = await connected.store.jobs.apply(
                [change], now, [audit_entries.of_job(STATUS, by, job, status=wanted)]
            )
            return (await self.get(job.id), True) if took else None

        return await compare_and_set(f"job {ref}", change_status)

    # --- again --------------------------------------------------------------------------------------------------

    async def _again(self, ref: int | UUID, by: str, action: str) -> Job:
        connected = await self._connected()

        async def restart() -> Job | None:
            job, now = await self.get(ref), connected.now()
            if job.finished and lifecycle.is_part(job):
                raise Conflict(f"job {job.id} is {job.state}: {lifecycle.PART_IS_FINAL}", job.id)
            if job.finished and job.subject is not None:
                return await self._day_again(job, by, action)
            if job.finished and (job.schedule_id is not None or lifecycle.is_final(job)):
                return await self._rerun(job, by, action)
            took = await self._applied(_revived(job, now), job, now, _restarted(action, by, job))
            return await self.get(job.id) if took else None

        return await compare_and_set(f"job {ref}", restart)

    async def _rerun(self, job: Job, by: str, action: str) -> Job:
        """Run a slot's job or a delivery again. Runs of one schedule do not overlap because of it: its version is the
        fence."""
        connected = await self._connected()
        store = connected.store
        new_id = (await store.jobs.reserve(1))[0] if lifecycle.is_final(job) else None
        job_id, schedule_id = job.id, job.schedule_id

        async def rerun() -> Job | None:
            schedule = None if schedule_id is None else await _free_for(store, job, schedule_id)
            seen, now = await self.get(job_id), connected.now()
            again = _revived(seen, now) if new_id is None else new_id
            note = _restarted(action, by, seen) if new_id is None else _repeated(action, by, seen, new_id)
            try:
                took = await store.slots.rerun(schedule, seen, again, now, by=by, note=note)
            except Conflict:
                raise await _key_held(store, seen) from None
            return await self.get(new_id or job_id) if took else None

        return await compare_and_set(f"job {job_id}" if schedule_id is None else f"the schedule of job {job_id}", rerun)

    async def _day_again(self, job: Job, by: str, action: str) -> Job:
        """Another job for the day of a window: the subject's version is the fence. What is finished stays so."""
        from oncue.policy import windows  # with the rules of all schedules, which other verbs on jobs do not need

        connected = await self._connected()
        store = connected.store
        assert job.schedule_id is not None
        assert job.subject is not None
        schedule_id, names = job.schedule_id, [job.subject]
        (new_id,) = await store.jobs.reserve(1)

        async def make() -> Job | None:
            window = await store.schedules.by_id(schedule_id)
            subject = next(iter(await store.windows.subjects(schedule_id, names)), None)
            known = None if subject is None else subject.job_id
            latest = None if known is None else await store.jobs.get(known)
            now = connected.now()
            refusal = windows.why_not_again(job, window, subject, latest, now)
            if subject is None or refusal is not None:
                busy = latest is not None and not latest.finished
                raise Conflict(f"job {job.id} is {job.state}: {refusal}", known if busy else job.id)
            step = windows.again(job, subject, new_id, now, by)
            (took,) = await store.windows.advance([step], now, notes=[_repeated(action, by, job, new_id)])
            return await self.get(new_id) if took else None

        return await compare_and_set(f"the day of job {job.id}", make)

    async def _applied(self, change: Change, job: Job, now: datetime, note: Note) -> bool:
        store = (await self._connected()).store
        try:
            return bool((await store.jobs.apply([change], now, [note]))[0])
        except Conflict:
            raise await _key_held(store, job) from None


async def _free_for(store: Store, job: Job, schedule_id: int) -> Schedule:
    """The schedule of a job that shall run again. Raises Conflict if its runs would overlap, or were done."""
    schedule = await store.schedules.by_id(schedule_id)
    if schedule is None:
        raise JobNotFound(f"the schedule of job {job.id} is gone")
    unfinished = await store.slots.unfinished(schedule_id, schedule.max_instances)
    if not lifecycle.is_delivery(job):
        # Asked after what is not finished: no retry can end in between and be seen by neither.
        retries = await store.jobs.retries_of(await _first(store, job))
        done = next((one.id for one in retries if one.state == "succeeded" and one.id != job.id), None)
        if done is not None:
            raise Conflict(f"job {job.id} was retried as job {done}, which succeeded", done)
    if len(unfinished) >= schedule.max_instances:
        raise Conflict(f"job {job.id}: job {unfinished[0]} of the same schedule is not finished", unfinished[0])
    return schedule


async def _key_held(store: Store, job: Job) -> Conflict:
    unfinished: tuple[State, ...] = ("scheduled", "queued", "running", "retrying")
    holders = await store.jobs.find(JobFilter(unfinished, task=job.task, key=job.key, limit=1))
    holder = holders[0].id if holders else None
    return Conflict(f"job {job.id}: its key {job.key!r} is held by job {holder}", holder)


async def _first(store: Store, job: Job) -> int:
    """The job that was retried first. A retry of it may have succeeded that is not one of this job."""
    number, found = job.id, job.retry_of
    while found is not None:
        earlier, number = await store.jobs.get(found), found
        found = None if earlier is None else earlier.retry_of
    return number


def _revived(job: Job, now: datetime) -> Change:
    change = lifecycle.revive(job, now)
    if change is None:
        raise Conflict(f"job {job.id} is {job.state}: only finished jobs are retried", job.id)
    return change


def _restarted(action: str, by: str, job: Job) -> Note:
    return audit_entries.of_job(action, by, job, status="queued", retry_count=0)


def _repeated(action: str, by: str, job: Job, new_id: int) -> Note:
    return audit_entries.of_job(action, by, job, retried_as=new_id)
