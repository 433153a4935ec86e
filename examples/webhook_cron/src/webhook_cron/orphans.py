"""Executions that were emitted and never attempted, ended by an operator's command.

oncue loses none: what waits so long waits for room, for a paused queue, or for a worker. So this is for what nobody
wants to be delivered any more. A record that was ended is `failed`, and is deleted with the others after a week.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

from oncue import Conflict, Job, Oncue
from oncue.model import DELIVER, WEBHOOKS_QUEUE
from webhook_cron.app import NAME

PAGE = 1000
BY = f"{NAME} prune-orphans"


async def prune(app: Oncue, older_than: float, *, dry_run: bool = False) -> list[str]:
    """End every execution that is an orphan; a line about each."""
    lines: list[str] = []
    async for job in _orphans(app, timedelta(seconds=older_than)):
        if not dry_run:
            try:
                await app.jobs.cancel(job.id, by=BY)
            except Conflict:  # it has ended by itself
                continue
        lines.append(f"execution={job.uid} job={job.group} scheduled_at={(job.scheduled_for or job.created_at)}")
    return lines


async def _orphans(app: Oncue, age: timedelta) -> AsyncIterator[Job]:
    """What was emitted so long ago, is due, and was never attempted."""
    before, created_before = None, await app.now() - age
    while True:
        page = await app.jobs.list(
            ("queued",), queue=WEBHOOKS_QUEUE, task=DELIVER, before=before, limit=PAGE, whole=False
        )
        for job in page:
            if job.state == "queued" and job.attempt == 0 and job.created_at < created_before:
                yield job
        if len(page) < PAGE:
            return
        before = page[-1].id
