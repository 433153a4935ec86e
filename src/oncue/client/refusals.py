"""What the API refuses, as the exceptions that the Python API raises for the same reason."""

from __future__ import annotations

import json
from typing import Any

from oncue.client.requests import About, Request
from oncue.client.transport import Reply
from oncue.errors import (
    ApiError,
    Conflict,
    InvalidJob,
    InvalidSchedule,
    InvalidSubject,
    InvalidWebhook,
    JobNotFound,
    NotAllowed,
    NotLeader,
    OncueError,
    RowLocked,
    ScheduleNotFound,
    StoreUnavailable,
    SubjectNotFound,
    TokenNotFound,
    UnknownTask,
    WebhookNotFound,
)

MEDIA_TYPE = "application/problem+json"
NOT_FOUND = "not-found"
ROW_LOCKED = "row-locked"
NOT_LEADER = "not-leader"
STILL_BEING_ANSWERED = "still-being-answered"
LONGEST_TEXT = 200

MISSING: dict[About, type[OncueError]] = {
    "job": JobNotFound, "schedule": ScheduleNotFound, "webhook": WebhookNotFound,
    "subject": SubjectNotFound, "token": TokenNotFound,
}  # fmt: skip
NAMES = {
    "cron_expression": "expression", "from": "start", "to": "end", "global": "globally",
    "for": "for_", "Idempotency-Key": "idempotency_key",
}  # fmt: skip
"""Fields that the arguments of our verbs call otherwise."""
RULES = ("expression", "tz", "dst", "missed", "grace", "max_instances", "description", "enabled", "webhook")
SLOTS = ("at", "start", "end", "count")
"""What a schedule is refused for as a schedule; its queue, priority and arguments are those of the jobs it makes."""


DELIVERIES = ("key", "delay", "at", "priority", "until", "for_", "idempotency_key")
"""What a delivery or a pause is refused for as a job; the rest is the webhook's."""


def error_of(reply: Reply, request: Request[Any]) -> OncueError:
    """The exception that a refusal stands for; its note says what was asked."""
    error = _error(reply, _document(reply), request)
    error.add_note(f"{request.method} {request.path} was answered with {reply.status}")
    return error


def kind_of(reply: Reply) -> str:
    """The sort of problem, in the API's own word; nothing if somebody else has answered."""
    return _slug(_document(reply))


def unreadable(reply: Reply, why: str) -> ApiError:
    return ApiError(reply.status, "The answer cannot be read", f"{why}; is this the address of an oncue server?")


def _error(reply: Reply, document: dict[str, Any], request: Request[Any]) -> OncueError:
    detail = str(document.get("detail", ""))
    match _slug(document), reply.status:
        case "not-found", _ if request.about in MISSING:
            return MISSING[request.about](detail)
        case "conflict", _:
            return Conflict(detail, document.get("job_id"))
        case "unknown-task", _:
            return UnknownTask(detail)
        case "invalid-field", _ if document.get("errors"):
            return _invalid(document["errors"], request.about)
        case "row-locked", _:
            return RowLocked(detail)
        case "not-leader", _:
            return _not_leader(document)
        case _, 401 | 403:
            return NotAllowed(reply.status, *_said(reply, document), needed_scope=document.get("needed_scope"))
        case _, 503:
            return StoreUnavailable(detail or ": ".join(_said(reply, document)))
    return ApiError(reply.status, *_said(reply, document))


def leader_of(reply: Reply) -> NotLeader | None:
    """Who leads instead of the node that has answered, if that is why it refused."""
    document = _document(reply)
    return _not_leader(document) if _slug(document) == NOT_LEADER else None


def _not_leader(document: dict[str, Any]) -> NotLeader:
    leader = document.get("leader")
    told = leader if isinstance(leader, dict) else {}
    name, address = told.get("name"), told.get("address")
    return NotLeader(None if name is None else str(name), None if address is None else str(address))


def _invalid(errors: list[dict[str, Any]], about: About) -> OncueError:
    first, more = errors[0], len(errors) - 1
    field = NAMES.get(first["field"], first["field"])
    message = first["message"] + (f" (and {more} more)" if more else "")
    if about == "schedule" and field in (*RULES, *SLOTS):
        return InvalidSchedule(field, message, first.get("position"))
    if about == "webhook" and field not in DELIVERIES:
        return InvalidWebhook(field, message)
    if about == "subject" and field != "idempotency_key":
        return InvalidSubject(field, message)
    return InvalidJob(field, message)


def _said(reply: Reply, document: dict[str, Any]) -> tuple[str, str]:
    """Title and detail; of somebody else's answer, what it begins with."""
    if document:
        return str(document.get("title", "")), str(document.get("detail", ""))
    place = f"it leads to {reply.header('location')}; " if reply.header("location") else ""
    text = " ".join(reply.body[:LONGEST_TEXT].decode("utf-8", "replace").split())
    return reply.reason or "An error", f"not an answer of oncue: {place}{text}"


def _document(reply: Reply) -> dict[str, Any]:
    if (reply.header("content-type") or "").partition(";")[0].strip() != MEDIA_TYPE:
        return {}
    try:
        found = json.loads(reply.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _slug(document: dict[str, Any]) -> str:
    return str(document.get("type", "")).rpartition("/")[2]
