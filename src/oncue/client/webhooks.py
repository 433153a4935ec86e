"""The verbs on webhooks, deliveries and executions. What is secret is sent, and never told back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import EllipsisType
from typing import Any
from uuid import UUID

from oncue.client import reading, requests
from oncue.client.requests import Page, Request, checked_key, given, moment, query, seconds, segment
from oncue.model import Receipt
from oncue.policy.deliveries import ExecutionStatus
from oncue.policy.durations import Duration
from oncue.policy.retry import Ladder
from oncue.records.webhooks import ExecutionDetail, ExecutionRecord, WebhookDetail, WebhookRecord

PREFIX, DELIVERIES, EXECUTIONS = "/api/admin/webhooks", "/api/admin/deliveries", "/api/admin/executions"

_webhook = reading.record(WebhookRecord)
_shown = reading.record(WebhookDetail)
_execution = reading.record(ExecutionRecord)


def webhooks(*, after: str = "", limit: int = 100) -> Request[list[WebhookRecord]]:
    """Webhooks by name, up to 1,000. `after` is the name to go on from."""
    wanted = query(after=after or None, limit=limit)
    return Request("GET", PREFIX, requests.rows(_webhook, "webhooks"), wanted, about="webhook")


def all_webhooks(*, page: int = 500) -> Request[Page[WebhookRecord]]:
    """Every webhook by name, fetched page by page as you go on."""
    return Request("GET", PREFIX, requests.page(_webhook, "webhooks"), query(limit=page), about="webhook")


def webhook(name: str) -> Request[WebhookDetail]:
    """One webhook with its endpoint: what waits and runs, and whether it is paused. Raises WebhookNotFound."""
    return Request("GET", _path(name), _shown, about="webhook")


# --- editing --------------------------------------------------------------------------------------------------------


def create_webhook(
    name: str,
    *,
    url: str,
    description: str | None = None,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
    content_type: str | None = None,
    body: str | None = None,
    timeout: Duration | None = None,
    secrets: str | Sequence[str] | None = None,
    retry: Ladder | Sequence[Duration] | None = None,
    redirects: int | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    enabled: bool = True,
    idempotency_key: str | None = None,
) -> Request[WebhookRecord]:
    """Make a webhook: what is not given is as `app.webhook` has it.

    A secret, and the value of a header, may be a reference to the environment of the workers: `env:ONCUE_SECRET_…`.
    Raises Conflict if the name is taken, and InvalidWebhook, which names the field.
    """
    how = _how(description, method, headers, content_type, timeout, secrets, retry, redirects)
    files = given({"body": body, "ca": ca, "certificate": certificate})
    told = requests.body({"name": name, "url": url, **how, **files, "enabled": enabled})
    return Request("POST", PREFIX, _webhook, body=told, key=checked_key(idempotency_key), about="webhook")


def change_webhook(
    name: str,
    *,
    url: str | None = None,
    description: str | None = None,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
    content_type: str | None = None,
    body: str | EllipsisType | None = ...,
    timeout: Duration | None = None,
    secrets: str | Sequence[str] | None = None,
    retry: Ladder | Sequence[Duration] | None = None,
    redirects: int | None = None,
    ca: str | EllipsisType | None = ...,
    certificate: str | EllipsisType | None = ...,
    enabled: bool | None = None,
) -> Request[WebhookRecord]:
    """Change what is given; the rest stays. `body`, `ca` and `certificate` are cleared by None.

    URL, headers, secrets, time-out and redirects hold from the next attempt on; method, content type, body and retry
    for deliveries that are made from now on. Raises Conflict if code declares it.
    """
    how = _how(description, method, headers, content_type, timeout, secrets, retry, redirects)
    files = {"body": body, "ca": ca, "certificate": certificate}
    changed = {field: value for field, value in files.items() if value is not ...}
    told = requests.body({**given({"url": url, "enabled": enabled}), **how, **changed})
    return Request("PUT", _path(name), _webhook, body=told, about="webhook")


def toggle_webhook(name: str, enabled: bool) -> Request[WebhookRecord]:
    """Enable or disable a webhook, one declared in code too. Deliveries to one that is disabled are skipped."""
    body = requests.body({"enabled": enabled})
    return Request("POST", f"{_path(name)}/toggle", _webhook, body=body, about="webhook")


def delete_webhook(name: str) -> Request[None]:
    """Delete a webhook, with its headers and secrets. Raises Conflict while a schedule has it as its target."""
    return Request("DELETE", _path(name), lambda _: None, about="webhook", gone_is_done=True)


def pause_webhook(name: str, *, until: datetime | None = None, for_: Duration | None = None) -> Request[WebhookDetail]:
    """No more deliveries to a webhook start: until an instant, for so long, or until it is resumed."""
    body = requests.body(given({"until": moment(until), "for": seconds(for_)}))
    return Request("POST", f"{_path(name)}/pause", _shown, body=body, about="webhook")


def resume_webhook(name: str) -> Request[WebhookDetail]:
    """Deliveries to a webhook start again."""
    return Request("POST", f"{_path(name)}/resume", _shown, about="webhook")


# --- delivering -----------------------------------------------------------------------------------------------------


def deliver(
    name: str,
    payload: Any = None,
    *,
    key: str | None = None,
    delay: Duration | None = None,
    at: datetime | None = None,
    priority: int | None = None,
    idempotency_key: str | None = None,
) -> Request[Receipt]:
    """Deliver a payload to a webhook; the receipt's uid is the id of the execution.

    `key` is the delivery's: at most one unfinished delivery has it. `idempotency_key` is the call's, as for `enqueue`.
    Raises WebhookNotFound, InvalidWebhook and InvalidJob.
    """
    body = requests.body(_delivery(payload, key, delay, at, priority))
    path, call = f"{_path(name)}/deliveries", checked_key(idempotency_key)
    return Request("POST", path, reading.receipt, body=body, key=call, about="webhook")


def deliver_to_url(
    url: str,
    payload: Any = None,
    *,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
    content_type: str | None = None,
    body: str | None = None,
    timeout: Duration | None = None,
    secrets: str | Sequence[str] | None = None,
    retry: Ladder | Sequence[Duration] | None = None,
    redirects: int | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    delay: Duration | None = None,
    at: datetime | None = None,
    priority: int | None = None,
    idempotency_key: str | None = None,
) -> Request[Receipt]:
    """Deliver a payload to a URL that no webhook stands for. Its token needs the scope `operate`.

    Secrets and the values of headers are references (`env:ONCUE_SECRET_…`): jobs show their arguments.
    """
    how = _how(None, method, headers, content_type, timeout, secrets, retry, redirects)
    files = given({"body": body, "ca": ca, "certificate": certificate})
    told = requests.body({"url": url, **how, **files, **_delivery(payload, key, delay, at, priority)})
    return Request("POST", DELIVERIES, reading.receipt, body=told, key=checked_key(idempotency_key), about="webhook")


# --- executions -----------------------------------------------------------------------------------------------------


def executions(
    name: str | None = None, *, status: ExecutionStatus | None = None, before: int | None = None, limit: int = 100
) -> Request[list[ExecutionRecord]]:
    """The deliveries to a webhook, or all of them, newest first, up to 1,000. `before` is the number to go on from.
    With a `status`, those only that are `emitted` (not ended), `delivered` or `failed`."""
    read = requests.rows(_execution, "executions")
    return Request("GET", _executions(name), read, query(status=status, before=before, limit=limit), about="webhook")


def all_executions(
    name: str | None = None, *, status: ExecutionStatus | None = None, page: int = 500
) -> Request[Page[ExecutionRecord]]:
    """Every delivery to a webhook, or every one there is, newest first, fetched page by page as you go on. With a
    `status`, those only that have it."""
    read = requests.page(_execution, "executions")
    return Request("GET", _executions(name), read, query(status=status, limit=page), about="webhook")


def execution(ref: int | UUID) -> Request[ExecutionDetail]:
    """One delivery, by its id or its number, with its attempts one by one. Raises JobNotFound."""
    return Request("GET", f"{EXECUTIONS}/{segment(ref)}", reading.record(ExecutionDetail), about="job")


def retry_execution(ref: int | UUID) -> Request[ExecutionRecord]:
    """Repeat a delivery that has ended, by a new one, with `retry_of`. Raises Conflict if it has not ended."""
    return Request("POST", f"{EXECUTIONS}/{segment(ref)}/retry", _execution, about="job")


# --- what these stand on --------------------------------------------------------------------------------------------


def _path(name: str) -> str:
    return f"{PREFIX}/{segment(name)}"


def _executions(name: str | None) -> str:
    return EXECUTIONS if name is None else f"{_path(name)}/executions"


def _how(
    description: str | None, method: str | None, headers: Mapping[str, str] | None, content_type: str | None,
    timeout: Duration | None, secrets: str | Sequence[str] | None, retry: Ladder | Sequence[Duration] | None,
    redirects: int | None,
) -> dict[str, Any]:  # fmt: skip
    steps = retry.steps if isinstance(retry, Ladder) else retry
    return given(
        {
            "description": description,
            "method": method,
            "headers": None if headers is None else dict(headers),
            "content_type": content_type,
            "timeout": seconds(timeout),
            "secrets": secrets if secrets is None or isinstance(secrets, str) else list(secrets),
            "retry": None if steps is None else [seconds(step) for step in steps or ()],
            "redirects": redirects,
        }
    )


def _delivery(
    payload: Any, key: str | None, delay: Duration | None, at: datetime | None, priority: int | None
) -> dict[str, Any]:
    told = {"payload": payload, "key": key, "delay": seconds(delay), "at": moment(at), "priority": priority}
    return given(told)
