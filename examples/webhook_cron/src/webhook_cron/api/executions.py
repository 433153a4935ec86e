"""Executions: what became of each slot of a job, attempt by attempt, in the words of the views of the same names."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias
from uuid import UUID

from fastapi import Path

from oncue import Job, JobNotFound, Oncue
from oncue.model import DELIVER, WEBHOOKS_QUEUE, Attempt
from oncue.records.documents import instant
from oncue.server.api.pages import Before, Limit
from oncue.server.api.problems import Answer
from oncue.server.api.routing import Routes
from webhook_cron.api import jobs

STATUSES = {"succeeded": "delivered", "failed": "failed", "cancelled": "failed", "skipped": "failed"}

ExecutionId: TypeAlias = Annotated[str, Path(description="The execution's id: the header webhook-id of its requests.")]


def add(routes: Routes, app: Oncue) -> None:
    @routes.get("/jobs/{id}/executions", tags=["executions"], summary="List executions", response_model=None)
    async def list_executions(id: jobs.JobId, limit: Limit = 100, before: Before = None) -> Answer:
        """Newest first, of a deleted job too; `number` of the last one is the `before` of the next page."""
        schedule = await jobs.find(app, id, deleted=True)
        found = await app.jobs.list(
            queue=WEBHOOKS_QUEUE, task=DELIVER, group=schedule.name, before=before, limit=limit, whole=False
        )
        job_id = str(jobs.uid(schedule))
        return Answer({"executions": [_record(one, job_id) for one in found]})

    @routes.get("/executions/{id}", tags=["executions"], summary="Show an execution", response_model=None)
    async def show_execution(id: ExecutionId) -> Answer:
        """With every attempt that was started."""
        job = await _found(app, id)
        attempts = [_attempt(one) for one in await app.jobs.attempts(job.id)]
        if job.state == "running" and job.started_at is not None:
            attempts.append(_under_way(job))
        return Answer({**_record(job, await _job_id(app, job)), "attempts": attempts})


async def _found(app: Oncue, text: str) -> Job:
    try:
        job = await app.jobs.get(UUID(text))
    except ValueError:
        raise JobNotFound(f"there is no execution {text!r:.100}: expected a UUID") from None
    if job.task != DELIVER:
        raise JobNotFound(f"there is no execution {text}")
    return job


async def _job_id(app: Oncue, job: Job) -> str | None:
    store = (await app.internals.connected()).store
    schedule = None if job.schedule_id is None else await store.schedules.by_id(job.schedule_id)
    return None if schedule is None else str(jobs.uid(schedule))


def _record(job: Job, job_id: str | None) -> dict[str, Any]:
    return {
        "id": str(job.uid),
        "number": job.id,
        "job_id": job_id,
        "scheduled_at": instant(job.scheduled_for or job.created_at),
        "status": STATUSES.get(job.state, "emitted"),
        "reason": job.reason,
        "error": job.error,
        "next_attempt_at": instant(job.visible_at) if job.state in ("scheduled", "retrying") else None,
        "created_at": instant(job.created_at),
        "finished_at": instant(job.finished_at),
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    details = attempt.details or {}
    return {
        "attempt": attempt.attempt,
        "status_code": details.get("status"),
        "error": attempt.error,
        "response": details.get("excerpt"),
        "started_at": instant(attempt.started_at),
        "finished_at": instant(attempt.finished_at),
    }


def _under_way(job: Job) -> dict[str, Any]:
    return {
        "attempt": job.attempt + 1, "status_code": None, "error": None, "response": None,
        "started_at": instant(job.started_at), "finished_at": None,
    }  # fmt: skip
