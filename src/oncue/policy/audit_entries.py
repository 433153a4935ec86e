"""The lines of the audit log: who changed what, and what it was before. Every change is conditional on just that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from oncue.model import PARKED, GroupSettings, Job, Limits, Note, Owner, Rate, Schedule


def of_job(action: str, by: str, job: Job, **after: Any) -> Note:
    """A change of a job. `after` names what changes; what that was before is read off the job."""
    known = {
        "status": job.state,
        "priority": job.priority,
        "retry_count": job.retry_count,
        "cancel_requested": job.cancel_requested_at is not None,
        "retried_as": None,
    }
    return Note(by, action, f"job:{job.id}", {name: known[name] for name in after}, after)


def of_pause(by: str, queue: str, *, paused: bool) -> Note:
    action = "queue.pause" if paused else "queue.resume"
    return Note(by, action, f"queue:{queue}", {"paused": not paused}, {"paused": paused})


def of_limits(by: str, queue: str, before: Limits, after: Limits) -> Note:
    return Note(by, "queue.limits", f"queue:{queue}", *_different(_limits(before), _limits(after)))


def _different(was: dict[str, Any], becomes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What changes: before and after."""
    changed = [name for name in was if was[name] != becomes[name]]
    return {name: was[name] for name in changed}, {name: becomes[name] for name in changed}


def _limits(limits: Limits) -> dict[str, int | str | None]:
    return {
        "globally": limits.globally,
        "per_node": limits.per_node,
        "per_group": limits.per_group,
        "rate": _rate(limits.rate),
        "rate_per_group": _rate(limits.rate_per_group),
    }


def _rate(rate: Rate | None) -> str | None:
    return None if rate is None else str(rate)


def of_group(action: str, by: str, queue: str, group: str, before: GroupSettings, after: GroupSettings) -> Note:
    """A change of what is set for one group of a queue."""
    was, becomes = _different(_group(before), _group(after))
    return Note(by, f"group.{action}", f"queue:{queue}", {"group": group, **was}, {"group": group, **becomes})


def _group(settings: GroupSettings) -> dict[str, int | str | None]:
    return {
        "per_group": settings.limit,
        "rate_per_group": _rate(settings.rate),
        "paused_until": _until(settings.paused_until),
    }


def _until(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return "resumed" if moment == PARKED else moment.isoformat()


def of_owner(by: str, before: Owner | None, name: str) -> Note:
    """The tables belong to the application of another name from now on."""
    was = None if before is None else {"name": before.name}
    return Note(by, "application.rename", "application", was, {"name": name})


def of_schedule(action: str, by: str, before: Schedule | None, after: Schedule | None) -> Note:
    """A change of a schedule: all of it if it is made or deleted, else what is different."""
    was, becomes = _terms(before), _terms(after)
    named = after or before
    assert named is not None
    if was is not None and becomes is not None:
        was, becomes = _different(was, becomes)
    return Note(by, action, f"schedule:{named.name}", was, becomes)


def _terms(schedule: Schedule | None) -> dict[str, Any] | None:
    if schedule is None:
        return None
    from oncue.policy.schedules import CARRIED, TERMS  # with the time zones; most commands are not about schedules

    terms = {name: getattr(schedule, name) for name in (*TERMS, *CARRIED)}
    return {**terms, "args": json.loads(schedule.args), "options": json.loads(schedule.options)}


def of_webhook(action: str, by: str, name: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> Note:
    """A change of a webhook, from what may be shown of it: all of it if it is made or deleted, else what differs."""
    if before is not None and after is not None:
        before, after = _different(before, after)
    return Note(by, action, f"webhook:{name}", before, after)


def of_slots(action: str, by: str, schedule: Schedule, after: Mapping[str, Any]) -> Note:
    """Slots that were decided by hand."""
    return Note(by, action, f"schedule:{schedule.name}", None, dict(after))
