"""Executions: the deliveries that there are, one of them with its attempts, and repeating it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

from fastapi import Query
from starlette.requests import Request

from oncue.model import Job
from oncue.policy.deliveries import ExecutionStatus
from oncue.records.webhooks import ExecutionDetail, ExecutionRecord, execution_detail, execution_record
from oncue.server.api import pages
from oncue.server.api.documents import changing, looking
from oncue.server.api.identity import Caller
from oncue.server.api.models.webhooks import ExecutionPage
from oncue.server.api.pages import Before, Limit
from oncue.server.api.problems import Answer
from oncue.server.api.references import JobRef, job_ref
from oncue.server.api.routing import Routes

if TYPE_CHECKING:
    from oncue.app import Oncue

PREFIX = "/api/admin/executions"
TAG = "webhooks"

Status: TypeAlias = Annotated[
    ExecutionStatus | None, Query(description="Only those that are `emitted` (not ended), `delivered` or `failed`.")
]


def add(routes: Routes, app: Oncue) -> None:
    @routes.get(PREFIX, **looking(TAG, "List executions", ExecutionPage))
    async def list_executions(
        request: Request, status: Status = None, limit: Limit = 100, before: Before = None
    ) -> Answer:
        """Deliveries to all webhooks and to bare URLs, newest first. `before` is the number of one."""
        return await page(app, request, None, status, before, limit)

    @routes.get(f"{PREFIX}/{{id}}", **looking(TAG, "Show an execution", ExecutionDetail, 404))
    async def show_execution(id: JobRef) -> Answer:
        """One delivery with the attempts that were started, one by one."""
        job, attempts = await app.webhooks.execution(job_ref(id))
        return Answer(execution_detail(job, await _schedule_of(app, job), attempts))

    @routes.post(
        f"{PREFIX}/{{id}}/retry", needs="operate",
        **changing(TAG, "Repeat an execution", ExecutionRecord, 404, 409, status=201),
    )  # fmt: skip
    async def retry_execution(request: Request, id: JobRef, by: Caller) -> Answer:
        """One that has ended stays as it is: the answer is a new one, with `retry_of`. Its body and its retries are
        those of the first; its URL, headers and secrets those of the webhook at the time of each attempt."""
        job = await app.webhooks.retry(job_ref(id), by=by)
        headers = {"Location": place_of(request, job)}
        return Answer(execution_record(job, await _schedule_of(app, job)), 201, headers=headers)


def place_of(request: Request, execution: Job) -> str:
    return f"{request.scope.get('root_path', '')}{PREFIX}/{execution.uid}"


async def page(
    app: Oncue, request: Request, webhook: str | None, status: Status, before: int | None, limit: int
) -> Answer:
    """A page of the deliveries to a webhook, or of all of them."""
    names: dict[int, str] = {}

    async def read(last: Job | None, most: int) -> Sequence[Job]:
        reached = before if last is None else last.id
        found = await app.webhooks.executions(webhook, status=status, before=reached, limit=most, whole=False)
        names.update(await app.webhooks.schedules_of(job for job in found if job.schedule_id not in names))
        return found

    return await pages.in_parts(
        request, "executions", read, limit,
        lambda job: execution_record(job, names.get(job.schedule_id or 0)), before=lambda job: job.id,
    )  # fmt: skip


async def _schedule_of(app: Oncue, job: Job) -> str | None:
    return (await app.webhooks.schedules_of([job])).get(job.schedule_id or 0)
