"""Jobs, queues, nodes, schedules and slots as JSON documents: the same for the shell and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from oncue.model import Attempt, AuditEntry, Job, Lease, Node, Queue, Revision, Schedule, Slot, Stats, Token
from oncue.policy import options, suspicion
from oncue.policy.statuses import ALIASES as ALIASES
from oncue.policy.statuses import state_named as state_named

if TYPE_CHECKING:
    from oncue.policy.audit import Audit, Fate
    from oncue.policy.explain import Explanation
    from oncue.verbs.jobs import Handled
    from oncue.verbs.schedules import Fire


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
        "max_crashes": options.read(job.options).max_crashes,
        "isolation": suspicion.NAMES[suspicion.isolation_of(job)],
        "claim_no": job.claim_no,
        "node_id": None if job.node_id is None else str(job.node_id),
        "claimed_at": instant(job.claimed_at),
        "started_at": instant(job.started_at),
        "finished_at": instant(job.finished_at),
        "cancel_requested_at": instant(job.cancel_requested_at),
        "retry_of": job.retry_of,
        "schedule_id": job.schedule_id,
        "scheduled_for": instant(job.scheduled_for),
        "progress": job.progress,
        "progress_note": job.progress_note,
        "result": job.result,
        "error": job.error,
        "shortened": dict(job.shortened or {}),
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
        "global_limit": queue.global_limit,
        "node_limit": queue.node_limit,
        "counted_at": instant(queue.counted_at),
    }


def node_record(node: Node, now: datetime, leases: Iterable[Lease] = ()) -> dict[str, Any]:
    return {
        "id": str(node.id),
        "name": node.name,
        "alive": node.expires_at > now,
        "holds": [lease.name for lease in leases if lease.holder == node.id and lease.expires_at > now],
        "exclusive": node.exclusive,
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


# --- operators ------------------------------------------------------------------------------------------------------


def token_record(token: Token) -> dict[str, Any]:
    """A token as anybody may see it: nothing of its secret, not even the digest."""
    return {
        "id": token.id,
        "name": token.name,
        "scopes": list(token.scopes),
        "created_by": token.created_by,
        "created_at": instant(token.created_at),
        "expires_at": instant(token.expires_at),
        "revoked_at": instant(token.revoked_at),
        "last_used_at": instant(token.last_used_at),
    }


def audit_entry_record(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": instant(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "before": entry.before,
        "after": entry.after,
    }


def stats_record(stats: Stats) -> dict[str, Any]:
    return {
        "queued": stats.queued,
        "running": stats.running,
        "failed": stats.failed,
        "completed": stats.completed,
        "cancelled": stats.cancelled,
        "skipped": stats.skipped,
        "counted_at": instant(stats.counted_at),
    }


def handled_record(handled: Handled) -> dict[str, Any]:
    """What a verb on many jobs did to one of them."""
    return {
        "id": handled.id if isinstance(handled.id, int) else str(handled.id),
        "outcome": handled.outcome,
        "message": handled.message,
        "status": handled.state,
    }


def explanation_record(explanation: Explanation) -> dict[str, Any]:
    return {
        "subject": explanation.subject,
        "status": explanation.status,
        "findings": [
            {"code": finding.code, "text": finding.text, "suggestion": finding.suggestion}
            for finding in explanation.findings
        ],
    }


# --- schedules ------------------------------------------------------------------------------------------------------


def schedule_record(schedule: Schedule) -> dict[str, Any]:
    return {
        "id": schedule.id,
        "name": schedule.name,
        "description": schedule.description,
        "task": schedule.task,
        "target": schedule.task,
        "args": json.loads(schedule.args),
        "cron_expression": schedule.expression,
        "tz": schedule.tz,
        "dst": schedule.dst,
        "missed": schedule.missed,
        "grace": schedule.grace,
        "max_instances": schedule.max_instances,
        "max_retries": schedule.max_retries,
        "key": schedule.key,
        "queue": schedule.queue,
        "priority": schedule.priority,
        "enabled": schedule.enabled,
        "reason": schedule.reason,
        "declared_by": schedule.declared_by,
        "revision": schedule.revision,
        "started_at": instant(schedule.started_at),
        "next_run_at": instant(schedule.next_run_at),
        "last_run_at": instant(schedule.last_run_at),
        "horizon": instant(schedule.horizon),
        "created_by": schedule.created_by,
        "created_at": instant(schedule.created_at),
        "updated_at": instant(schedule.updated_at),
    }


def revision_record(revision: Revision) -> dict[str, Any]:
    return {
        "revision": revision.revision,
        "started_at": instant(revision.started_at),
        "changed_by": revision.changed_by,
        "enabled": revision.enabled,
        "reason": revision.reason,
        "cron_expression": revision.expression,
        "tz": revision.tz,
        "dst": revision.dst,
        "task": revision.task,
        "args": json.loads(revision.args),
        "queue": revision.queue,
        "priority": revision.priority,
        "missed": revision.missed,
        "grace": revision.grace,
        "max_instances": revision.max_instances,
    }


def slot_record(slot: Slot) -> dict[str, Any]:
    """A row of the ledger. `until` and `slots` tell of a run of slots that share one fate."""
    duration = slot_duration(slot)
    return {
        "scheduled_for": instant(slot.scheduled_for),
        "until": instant(slot.until),
        "slots": slot.slots,
        "verdict": slot.verdict,
        "reason": slot.reason,
        "job_id": slot.job_id,
        "blocked_by": slot.blocked_by,
        "revision": slot.revision,
        "decided_at": instant(slot.decided_at),
        "decided_by": None if slot.decided_by is None else str(slot.decided_by),
        "epoch": slot.epoch,
        "outcome": slot.state,
        "outcome_reason": slot.state_reason,
        "started_at": instant(slot.started_at),
        "finished_at": instant(slot.finished_at),
        "duration_ms": None if duration is None else round(duration * 1000, 3),
        "worker": slot.worker,
        "error": slot.error,
    }


def slot_duration(slot: Slot) -> float | None:
    """Seconds that the slot's run took, once it ended."""
    if slot.started_at is None or slot.finished_at is None:
        return None
    return (slot.finished_at - slot.started_at).total_seconds()


def fate_record(fate: Fate) -> dict[str, Any]:
    """What an audit says of a slot or of a run of them, with the ledger's row if there is one."""
    return {
        "scheduled_for": instant(fate.scheduled_for),
        "until": instant(fate.until),
        "slots": fate.slots,
        "verdict": fate.verdict,
        "reason": fate.reason,
        "holds": fate.holds,
        "row": None if fate.row is None else slot_record(fate.row),
    }


def audit_record(name: str, found: Audit, fates: Sequence[Fate]) -> dict[str, Any]:
    return {
        "schedule": name,
        "from": instant(found.start),
        "to": instant(found.end),
        "holds": found.holds,
        "counts": found.counts(),
        "notes": list(found.notes),
        "fates": [fate_record(fate) for fate in fates],
    }


def fire_record(fire: Fire, tz: str, instead_of: Sequence[datetime] = ()) -> dict[str, Any]:
    """A slot to come. `instead_of` are the local times that it stands for because they never come."""
    return {
        "scheduled_for": instant(fire.scheduled_for),
        "local": fire.local.isoformat(),
        "tz": tz,
        "mark": fire.mark,
        "instead_of": [time.isoformat() for time in instead_of],
    }
