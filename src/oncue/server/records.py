"""Jobs, attempts, queues and nodes as JSON documents: the same for the shell and over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from oncue.model import STATES, Attempt, Job, Node, Queue, State

ALIASES: dict[str, State] = {"crawling": "running", "success": "succeeded"}


def state_named(name: str) -> State:
    """A state by its name, or by the name that the crawler's operators know. Raises ValueError."""
    word = name.strip().lower()
    for state in STATES:
        if word in (state, *(alias for alias, meant in ALIASES.items() if meant == state)):
            return state
    raise ValueError(f"expected one of {', '.join((*STATES, *ALIASES))}, not {name!r}")


def instant(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def job_record(job: Job) -> dict[str, Any]:
    duration = job.duration
    return {
        "id": job.id,
        "uid": str(job.uid),
        "task": job.task,
        "target": job.task,
        "args": job.args,
        "key": job.key,
        "queue": job.queue,
        "status": job.state,
        "reason": job.reason,
        "priority": job.priority,
        "enqueued_by": job.enqueued_by,
        "created_at": instant(job.created_at),
        "updated_at": instant(job.updated_at),
        "visible_at": instant(job.visible_at),
        "deadline_at": instant(job.deadline_at),
        "last_attempt": instant(job.started_at or job.claimed_at),
        "duration_ms": None if duration is None else round(duration * 1000, 3),
        "attempts": job.attempt,
        "retry_count": job.retry_count,
        "max_retries": job.max_retries,
        "next_retry_at": instant(job.visible_at) if job.state == "retrying" else None,
        "max_runtime": job.max_runtime,
        "crashes": job.crashes,
        "claim_no": job.claim_no,
        "node_id": None if job.node_id is None else str(job.node_id),
        "claimed_at": instant(job.claimed_at),
        "started_at": instant(job.started_at),
        "finished_at": instant(job.finished_at),
        "cancel_requested_at": instant(job.cancel_requested_at),
        "retry_of": job.retry_of,
        "result": job.result,
        "error": job.error,
    }


def attempt_record(attempt: Attempt) -> dict[str, Any]:
    finished = attempt.finished_at
    duration = None if finished is None else (finished - attempt.started_at).total_seconds() * 1000
    return {
        "attempt": attempt.attempt,
        "claim_no": attempt.claim_no,
        "outcome": attempt.outcome,
        "started_at": instant(attempt.started_at),
        "finished_at": instant(finished),
        "duration_ms": None if duration is None else round(duration, 3),
        "node_id": None if attempt.node_id is None else str(attempt.node_id),
        "error": attempt.error,
    }


def queue_record(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "paused_at": instant(queue.paused_at),
        "queued": queue.queued,
        "running": queue.running,
        "later": queue.later,
        "succeeded": queue.succeeded,
        "failed": queue.failed,
        "cancelled": queue.cancelled,
        "skipped": queue.skipped,
    }


def node_record(node: Node, now: datetime) -> dict[str, Any]:
    return {
        "id": str(node.id),
        "name": node.name,
        "alive": node.expires_at > now,
        "host": node.host,
        "pid": node.pid,
        "version": node.version,
        "queues": list(node.queues),
        "tasks": list(node.tasks),
        "concurrency": node.concurrency,
        "address": node.address,
        "started_at": instant(node.started_at),
        "beat_at": instant(node.beat_at),
        "expires_at": instant(node.expires_at),
    }
