"""Jobs: what there are, one of them in full, and changing their fate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias
from uuid import UUID

from fastapi import Query
from starlette.requests import Request

from oncue.errors import JobNotFound
from oncue.model import Job, State
from oncue.policy.statuses import state_named
from oncue.records.jobs import JobDetail, JobRecord, handled_record, job_record, stats_record
from oncue.server import details
from oncue.server.api import pages
from oncue.server.api.documents import changing, looking
from oncue.server.api.idempotency import IN_PARTS
from oncue.server.api.identity import Caller
from oncue.server.api.models.base import StatusFilter
from oncue.server.api.models.jobs import (
    Boost,
    BulkRetry,
    BulkStatus,
    HandledRecords,
    JobPage,
    PriorityChange,
    StatsRecord,
    StatusChange,
)
from oncue.server.api.moments import moment
from oncue.server.api.pages import Before, Limit, Offset
from oncue.server.api.problems import Answer, invalid
from oncue.server.api.references import JobRef, job_ref
from oncue.server.api.routing import LONG_SECONDS, Routes
from oncue.server.api.slots import WHEN
from oncue.verbs.jobs import Handled

if TYPE_CHECKING:
    from oncue.app import Oncue

PREFIX = "/api/admin/jobs"
TAG = "jobs"

Statuses = Annotated[
    list[StatusFilter] | None,
    Query(
        description="Only jobs in these states; repeat it, or separate by commas. Empty is all of them. `queued` are "
        "all that wait, as in the stats: `scheduled` and `retrying` ones too.",
        examples=["failed,queued"],
    ),
]

Since: TypeAlias = Annotated[str | None, Query(description=f"Made then or later: {WHEN}", examples=["-2h"])]
Until: TypeAlias = Annotated[str | None, Query(description=f"Made before then: {WHEN}", examples=["now"])]

Whole: TypeAlias = Annotated[
    bool,
    Query(
        description="Arguments, results and errors of over 2 KB as they are. Without it they are left out, and "
        "`shortened` tells their size."
    ),
]


def add(routes: Routes, app: Oncue) -> None:
    _add_looking(routes, app)
    _add_bulk(routes, app)  # before `/{id}/…`, which would take `bulk` for an id
    _add_changing(routes, app)


def _add_looking(routes: Routes, app: Oncue) -> None:
    @routes.get(f"{PREFIX}/stats", **looking(TAG, "How many jobs there are", StatsRecord))
    async def job_stats() -> Answer:
        """By what the jobs are doing. Where many wait they are not counted anew: then it is as of `counted_at`."""
        return Answer(stats_record(await app.jobs.stats()))

    @routes.get(PREFIX, **looking(TAG, "List jobs", JobPage))
    async def list_jobs(
        request: Request,
        status: Statuses = None,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        group: str | None = None,
        address: str | None = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = 100,
        offset: Offset = 0,
        before: Before = None,
        whole: Whole = False,
    ) -> Answer:
        """Newest first. Go on with `next`, which stays fast however far you go. A page ends early at 8 MB."""
        now = await app.now()
        found = await app.jobs.list(
            _states(status), queue=queue, task=task, key=key, group=group, address=address,
            since=moment(since, "since", now) if since else None, until=moment(until, "until", now) if until else None,
            before=before, limit=limit + 1, offset=offset, whole=False,
        )  # fmt: skip
        if whole:
            found, limit = await _whole(app, found[: limit + 1], limit)
        return await pages.answer(request, "jobs", found, limit, job_record, before=lambda job: job.id)

    @routes.get(f"{PREFIX}/{{id}}", **looking(TAG, "Show a job", JobDetail, 404))
    async def show_job(id: JobRef) -> Answer:
        """One job with its attempts, its progress, and why it waits, runs or ended as it did."""
        return Answer(await details.job(app, job_ref(id)))


def _add_changing(routes: Routes, app: Oncue) -> None:
    @routes.put(f"{PREFIX}/{{id}}/status", needs="operate", **changing(TAG, "Set a job's status", JobRecord, 404, 409))
    async def set_job_status(id: JobRef, body: StatusChange, by: Caller) -> Answer:
        """A waiting job becomes succeeded or failed; a running one queued, succeeded or failed, and its attempt is
        fenced; a finished one queued. Only a worker makes a job running: that is refused."""
        return Answer(job_record(await app.jobs.set_status(job_ref(id), body.status, by=by)))

    @routes.put(
        f"{PREFIX}/{{id}}/priority", needs="operate", **changing(TAG, "Set a job's priority", JobRecord, 404, 409)
    )
    async def set_job_priority(id: JobRef, body: PriorityChange, by: Caller) -> Answer:
        job = await app.jobs.get(job_ref(id))
        await app.jobs.prioritize(job.id, body.priority, by=by)
        return Answer(job_record(await app.jobs.get(job.id)))

    @routes.post(
        f"{PREFIX}/{{id}}/boost", needs="operate", **changing(TAG, "Raise a job's priority", JobRecord, 404, 409)
    )
    async def boost_job(id: JobRef, by: Caller, body: Boost | None = None) -> Answer:
        """Adds to the priority; it stays between 0 and 100."""
        job = await app.jobs.get(job_ref(id))
        await app.jobs.boost(job.id, (body or Boost()).boost, by=by)
        return Answer(job_record(await app.jobs.get(job.id)))

    @routes.post(f"{PREFIX}/{{id}}/retry", needs="operate", **changing(TAG, "Retry a job", JobRecord, 404, 409))
    async def retry_job(id: JobRef, by: Caller) -> Answer:
        """A finished job starts over with its whole budget of retries. The run of an at-most-once slot and a delivery
        stay as they are: the answer is a new job, with `retry_of`."""
        return Answer(job_record(await app.jobs.retry(job_ref(id), by=by)))

    @routes.post(f"{PREFIX}/{{id}}/cancel", needs="operate", **changing(TAG, "Cancel a job", JobRecord, 404, 409))
    async def cancel_job(id: JobRef, by: Caller) -> Answer:
        """A waiting job is cancelled; a running job is asked to stop, and has `cancel_requested_at` from then on."""
        return Answer(job_record(await app.jobs.cancel(job_ref(id), by=by)))


def _add_bulk(routes: Routes, app: Oncue) -> None:
    @routes.put(
        f"{PREFIX}/bulk/status", needs="operate", patience=LONG_SECONDS,
        **changing(TAG, "Set the status of jobs", HandledRecords),
    )  # fmt: skip
    async def bulk_set_status(body: BulkStatus, by: Caller) -> Answer:
        """Each job for itself; the answer tells what happened to each."""
        return _handled(await app.jobs.set_status_many(_distinct(body.job_ids), body.status, by=by))

    @routes.post(
        f"{PREFIX}/bulk/retry",
        needs="operate",
        keeping=IN_PARTS,
        patience=LONG_SECONDS,
        **changing(TAG, "Retry jobs", HandledRecords),
    )
    async def bulk_retry(body: BulkRetry, by: Caller) -> Answer:
        """Each job for itself; the answer tells what happened to each."""
        return _handled(await app.jobs.retry_many(_distinct(body.job_ids), by=by))


async def _whole(app: Oncue, found: list[Job], limit: int) -> tuple[list[Job], int]:
    """As many of these jobs as fit into a page, with everything; then the next one, if there is one, as it is."""
    fetched: list[Job] = []
    size = 0
    for job in found[:limit]:
        size += sum((job.shortened or {}).values())
        if fetched and size > pages.LARGEST_PAGE:
            break
        fetched.append(await _fetched(app, job) if job.shortened else job)
    return [*fetched, *found[len(fetched) :][:1]], len(fetched)


async def _fetched(app: Oncue, job: Job) -> Job:
    try:
        return await app.jobs.get(job.id)
    except JobNotFound:  # it was pruned a moment ago
        return job


def _states(texts: Sequence[str] | None) -> tuple[State, ...]:
    """Statuses, repeated or separated by commas; none, also as `status=`, is all of them."""
    words = [word for text in texts or () if text for word in text.split(",")]
    try:
        return tuple(dict.fromkeys(state_named(word) for word in words))
    except ValueError as error:
        raise invalid("status", str(error)) from None


def _distinct(refs: Sequence[int | UUID]) -> list[int | UUID]:
    return list(dict.fromkeys(refs))


def _handled(results: Sequence[Handled]) -> Answer:
    changed = sum(result.outcome == "changed" for result in results)
    return Answer({"results": [handled_record(result) for result in results], "changed": changed})
