"""One job in full: with its attempts, where they ran, what repeats it, and why it is as it is."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from oncue.app import Oncue
from oncue.records.jobs import attempt_record, explanation_record, job_record


async def job(app: Oncue, ref: int | UUID) -> dict[str, Any]:
    """A job with everything that belongs to it. Raises JobNotFound."""
    store, found = (await app.internals.connected()).store, await app.jobs.get(ref)
    attempts, retries = await app.jobs.attempts(found.id), await store.jobs.retries_of(found.id)
    nodes = {node for node in (found.node_id, *(attempt.node_id for attempt in attempts)) if node is not None}
    names = await store.nodes.names(sorted(nodes))
    schedule = None if found.schedule_id is None else await store.schedules.by_id(found.schedule_id)

    def worker(node: UUID | None) -> str | None:
        """A node's name, whether it lives or not; its id if it is forgotten."""
        return None if node is None else names.get(node, str(node))

    return {
        **job_record(found),
        "worker": worker(found.node_id),
        "schedule": None if schedule is None else schedule.name,
        "retried_as": [{"id": retry.id, "status": retry.state} for retry in retries],
        "attempt_list": [attempt_record(attempt, worker(attempt.node_id)) for attempt in attempts],
        "explanation": explanation_record(await app.jobs.explain(found.id)),
    }
