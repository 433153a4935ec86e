"""Webhooks, their executions (each is the job of one delivery) and the attempts of these. No record tells a secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from oncue.identity import job_uid
from oncue.model import PARKED, WAITING, Attempt, Group, Job, State, Webhook
from oncue.policy.deliveries import ExecutionStatus, execution_status, ladder_of
from oncue.records.documents import RULES, Document, document, milliseconds, rules
from oncue.webhooks.secrets import redacted, redacted_secrets

WEBHOOK_EXAMPLE: dict[str, Any] = {
    "name": "orders",
    "url": "https://shop.example/hooks/orders",
    "headers": {"Authorization": "env:ONCUE_SECRET_SHOP_TOKEN"},
    "secrets": ["env:ONCUE_SECRET_ORDERS"],
    "timeout": 10,
    "retry": [30, 120, 600],
    "description": "Orders that were paid",
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_URL_MARK = "://"
"""What the group of a delivery to a bare URL has in it, and no webhook's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRecord:
    """A webhook: where deliveries of this name go, and how (HOOK-19)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules({"id": 3, **WEBHOOK_EXAMPLE, "enabled": True})

    id: int
    name: str
    description: str = ""
    url: str
    method: str
    headers: dict[str, str]
    """A value that may be a secret is hidden; a reference to the environment is shown."""
    content_type: str
    body: str | None
    """The template of the body; null: the payload as it is."""
    timeout: float
    """Seconds that one attempt may take."""
    secrets: tuple[str, ...] = ()
    """What signs: a reference to the environment as it is, of any other secret a fingerprint to tell two apart by."""
    retry: tuple[float, ...]
    """Seconds between the end of an attempt and the next one."""
    redirects: int = 0
    """How many are followed."""
    ca: str | None
    """The file with the certificates that its server is checked against."""
    certificate: str | None
    """The file with the certificate and the key that it shows to its server."""
    enabled: bool
    reason: str | None
    """Why it is disabled."""
    declared_by: str | None
    """The application whose code declares it; null: made at run time."""
    version: int
    """It grows with every change."""
    created_by: str
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    """When one of this name was last deleted: deliveries that were made up to then belong to that one."""


def webhook_record(webhook: Webhook) -> Document:
    return document(
        WebhookRecord(
            id=webhook.id,
            name=webhook.name,
            description=webhook.description,
            url=webhook.url,
            method=webhook.method,
            headers=redacted(webhook.headers),
            content_type=webhook.content_type,
            body=webhook.body,
            timeout=webhook.timeout,
            secrets=tuple(redacted_secrets(webhook.secrets)),
            retry=ladder_of(webhook.retry).steps,
            redirects=webhook.redirects,
            ca=webhook.ca,
            certificate=webhook.certificate,
            enabled=webhook.enabled,
            reason=webhook.reason,
            declared_by=webhook.declared_by,
            version=webhook.version,
            created_by=webhook.created_by,
            created_at=webhook.created_at,
            updated_at=webhook.updated_at,
            deleted_at=webhook.deleted_at,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDetail(WebhookRecord):
    """A webhook with its endpoint."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules({"id": 3, **WEBHOOK_EXAMPLE, "enabled": True})

    endpoint: Group
    """What waits and runs of its deliveries, its pause, and its circuit breaker (`trips`): the group of its name in the
    queue `webhooks`."""


def webhook_detail(webhook: Webhook, endpoint: Group) -> Document:
    return {**webhook_record(webhook), "endpoint": document(endpoint)}


# --- executions -----------------------------------------------------------------------------------------------------

EXECUTION_EXAMPLE: dict[str, Any] = {
    "id": "01960f3c-7c00-8000-8000-00000000002a",
    "number": 42,
    "webhook": "orders",
    "url": None,
    "schedule": "orders-hourly",
    "scheduled_at": "2030-01-31T09:00:00Z",
    "status": "emitted",
    "state": "retrying",
    "reason": None,
    "error": "HTTP 503",
    "created_at": "2030-01-31T09:00:00Z",
    "finished_at": None,
    "attempts": 1,
    "next_attempt_at": "2030-01-31T09:00:30Z",
    "retry_of": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRecord:
    """A delivery: to a webhook, or to a bare URL (HOOK-16, HOOK-22)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(EXECUTION_EXAMPLE)

    id: UUID
    """The uid of its job: the same in every attempt, and what is sent as `webhook-id`."""
    number: int
    """The id of its job, under which it is found among the jobs."""
    webhook: str | None
    """The webhook that it is for; null: it goes to a bare URL."""
    url: str | None
    """Only of a delivery to a bare URL; of one with a large payload a listing tells scheme, host and port."""
    schedule: str | None
    """The name of the schedule that it was made for; null: made by hand or by code."""
    scheduled_at: datetime
    """The slot that it was made for; of one that was not made for a slot, when it was made."""
    status: ExecutionStatus
    """`emitted` until it ends; then `delivered` after a 2xx, else `failed`."""
    state: State
    """The state of its job, which tells more: whether it waits, runs, or was skipped or cancelled."""
    reason: str | None
    """Why it ended so, if it was not simply delivered or refused."""
    error: str | None
    created_at: datetime
    finished_at: datetime | None
    attempts: int = 0
    """How many attempts have started."""
    next_attempt_at: datetime | None
    """When the next attempt is due; it may wait longer for its endpoint's share, rate, pause or circuit breaker."""
    retry_of: int | None
    """The number of the execution that it repeats."""


def execution_record(job: Job, schedule: str | None) -> Document:
    """A delivery; `schedule` is the name of the one that it was made for."""
    return document(ExecutionRecord(**_execution(job, schedule)))


def _execution(job: Job, schedule: str | None) -> dict[str, Any]:
    group = job.group or ""
    is_bare = _URL_MARK in group
    return {
        "id": job.uid,
        "number": job.id,
        "webhook": None if is_bare else group,
        "url": job.args.get("url", group) if is_bare else None,
        "schedule": schedule,
        "scheduled_at": job.scheduled_for or job.created_at,
        "status": execution_status(job.state),
        "state": job.state,
        "reason": job.reason,
        "error": job.error,
        "created_at": job.created_at,
        "finished_at": job.finished_at if job.finished else None,
        "attempts": job.attempt + (1 if _is_under_way(job) else 0),
        "next_attempt_at": job.visible_at if job.state in WAITING and job.visible_at < PARKED else None,
        "retry_of": job.retry_of,
    }


def _is_under_way(job: Job) -> bool:
    return job.state == "running" and job.started_at is not None


# --- attempts -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttemptRecord:
    """An attempt of a delivery that was started (HOOK-16)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = RULES

    id: UUID
    """The same as in the view `delivery_attempts`."""
    attempt: int
    status_code: int | None
    """What the endpoint answered; null: nothing."""
    error: str | None
    failed: str | None
    """Why there is no answer: timeout, network, refused (by the egress guard) or invalid."""
    started_at: datetime
    finished_at: datetime | None
    ms: float | None
    """How long the request took; of one without an answer, the attempt."""
    address: str | None
    """The address that was dialled."""
    redirects: int = 0
    """How many were followed."""
    excerpt: str | None
    """The beginning of what was answered."""
    truncated: bool = False
    """Whether there was more of it."""


def delivery_attempt_record(attempt: Attempt) -> Document:
    return document(_attempt(attempt))


def _attempt(attempt: Attempt) -> DeliveryAttemptRecord:
    told = attempt.details or {}
    return DeliveryAttemptRecord(
        id=job_uid(attempt.job_id, _EPOCH + attempt.claim_no * _MILLISECOND),
        attempt=attempt.attempt,
        status_code=told.get("status"),
        error=_error_of(attempt),
        failed=told.get("failed"),
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        ms=told.get("ms", milliseconds(attempt.started_at, attempt.finished_at)),
        address=told.get("address"),
        redirects=told.get("redirects", 0),
        excerpt=told.get("excerpt"),
        truncated=told.get("truncated", False),
    )


def _error_of(attempt: Attempt) -> str | None:
    """As the view has it: an attempt that was lost or released says so."""
    return None if attempt.outcome in ("succeeded", "running") else attempt.error or attempt.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionDetail(ExecutionRecord):
    """A delivery with its attempts, one by one, and what it carries."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules(EXECUTION_EXAMPLE)

    payload: Any
    attempt_list: tuple[DeliveryAttemptRecord, ...]
    """Those that were started, oldest first; one that is under way has no end yet."""


def execution_detail(job: Job, schedule: str | None, attempts: Sequence[Attempt]) -> Document:
    return document(
        ExecutionDetail(
            **_execution(job, schedule),
            payload=job.args.get("payload"),
            attempt_list=tuple(map(_attempt, attempts)),
        )
    )
