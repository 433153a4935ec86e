"""Webhooks: what there are, making and changing them, and deliveries. No answer tells a secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import Path, Query
from starlette.requests import Request

from oncue.application.webhooks import FIELDS, bare_call
from oncue.errors import InvalidJob, InvalidWebhook
from oncue.model import DELIVER, Webhook
from oncue.policy.checks import LONGEST_NAME
from oncue.records.webhooks import WebhookRecord, webhook_detail, webhook_record
from oncue.server.api import executions, moments, pages
from oncue.server.api.documents import changing, looking
from oncue.server.api.enqueueing import STANDS, instant_to_come, receipt_record, written
from oncue.server.api.idempotency import REPEATABLE, Keeping
from oncue.server.api.identity import Caller
from oncue.server.api.models.jobs import ReceiptRecord
from oncue.server.api.models.schedules import Toggle
from oncue.server.api.models.webhooks import (
    BareDelivery,
    ExecutionPage,
    HowSent,
    NewDelivery,
    NewWebhook,
    ShownWebhook,
    WebhookChange,
    WebhookPage,
    WebhookPause,
)
from oncue.server.api.pages import Before, Limit
from oncue.server.api.problems import Answer
from oncue.server.api.routing import Routes
from oncue.task import Call
from oncue.webhooks.egress import Allowed, check_at_save

if TYPE_CHECKING:
    from oncue.app import Oncue

PREFIX, DELIVERIES = "/api/admin/webhooks", "/api/admin/deliveries"
TAG = "webhooks"
CLEARED_BY_NULL = ("body", "ca", "certificate")
ONE_JOB = Keeping(repeats=True, jobs=lambda body: 1)

Name = Annotated[str, Path(description="The webhook's name.", examples=["orders"])]
After = Annotated[str, Query(max_length=LONGEST_NAME, description="Only names that come after this one.")]


def add(routes: Routes, app: Oncue) -> None:
    _add_looking(routes, app)
    _add_changing(routes, app)
    _add_control(routes, app)
    _add_delivering(routes, app)


def _add_looking(routes: Routes, app: Oncue) -> None:
    @routes.get(PREFIX, **looking(TAG, "List webhooks", WebhookPage))
    async def list_webhooks(request: Request, limit: Limit = 100, after: After = "") -> Answer:
        """By name. Go on with `next`."""

        async def read(last: Webhook | None, most: int) -> list[Webhook]:
            return await app.webhooks.list(after=after if last is None else last.name, limit=most)

        return await pages.in_parts(
            request, "webhooks", read, limit, webhook_record, after=lambda webhook: webhook.name
        )

    @routes.get(f"{PREFIX}/{{name:path}}/executions", **looking(TAG, "List a webhook's executions", ExecutionPage, 404))
    async def list_webhook_executions(
        request: Request, name: Name, status: executions.Status = None, limit: Limit = 100, before: Before = None
    ) -> Answer:
        """The deliveries to it, newest first. `before` is the number of one."""
        return await executions.page(app, request, name, status, before, limit)

    @routes.get(f"{PREFIX}/{{name:path}}", **looking(TAG, "Show a webhook", ShownWebhook, 404))
    async def show_webhook(name: Name) -> Answer:
        """One webhook with its endpoint: what waits and runs, and whether it is paused or its breaker is open."""
        return await _shown(app, name)


def _add_changing(routes: Routes, app: Oncue) -> None:
    @routes.post(PREFIX, needs="operate", **changing(TAG, "Make a webhook", WebhookRecord, 409, status=201))
    async def create_webhook(request: Request, body: NewWebhook, by: Caller) -> Answer:
        """Secrets that are not references to the environment are kept, and never told again."""
        enabled = body.enabled is not False
        made = await app.webhooks.create(body.name, url=body.url, enabled=enabled, created_by=by, **_given(body))
        place = f"{request.scope['path']}/{quote(made.name, safe='')}"
        return Answer(webhook_record(made), 201, headers={"Location": place})

    @routes.put(
        f"{PREFIX}/{{name:path}}", needs="operate", **changing(TAG, "Change a webhook", WebhookRecord, 404, 409)
    )
    async def change_webhook(name: Name, body: WebhookChange, by: Caller) -> Answer:
        """Fields that are absent keep their value. URL, headers, secrets, time-out and redirects hold from the next
        attempt on; method, content type, body and retries for deliveries that are made from now on. A webhook that code
        declares can only be enabled and disabled here."""
        fields = _given(body) | {field: None for field in CLEARED_BY_NULL if _is_null(body, field)}
        if body.url is not None:
            fields["url"] = body.url
        if fields and body.enabled is not None:
            fields["enabled"] = body.enabled
        if fields:
            return Answer(webhook_record(await app.webhooks.change(name, changed_by=by, **fields)))
        if body.enabled is not None:  # of a webhook that code declares this much may be changed
            return Answer(webhook_record(await app.webhooks.toggle(name, body.enabled, changed_by=by)))
        return Answer(webhook_record(await app.webhooks.get(name)))

    @routes.delete(
        f"{PREFIX}/{{name:path}}", needs="operate", **changing(TAG, "Delete a webhook", WebhookRecord, 404, 409)
    )
    async def delete_webhook(name: Name, by: Caller) -> Answer:
        """With its headers and secrets. Deliveries that were made for it fail as `webhook_deleted`. Refused while a
        schedule has it as its target. The answer is the webhook as it was."""
        webhook = await app.webhooks.get(name)
        await app.webhooks.delete(webhook.name, changed_by=by)
        return Answer(webhook_record(webhook))


def _add_control(routes: Routes, app: Oncue) -> None:
    @routes.post(
        f"{PREFIX}/{{name:path}}/toggle", needs="operate", keeping=REPEATABLE,
        **changing(TAG, "Enable or disable a webhook", WebhookRecord, 404, 409),
    )  # fmt: skip
    async def toggle_webhook(name: Name, body: Toggle, by: Caller) -> Answer:
        """Deliveries to one that is disabled are skipped. To hold them back, pause it."""
        return Answer(webhook_record(await app.webhooks.toggle(name, body.enabled, changed_by=by)))

    @routes.post(
        f"{PREFIX}/{{name:path}}/pause", needs="operate", keeping=REPEATABLE,
        **changing(TAG, "Pause a webhook", ShownWebhook, 404),
    )  # fmt: skip
    async def pause_webhook(name: Name, by: Caller, body: WebhookPause | None = None) -> Answer:
        """No more deliveries to it start: until an instant, for so long, or until it is resumed."""
        wanted = WebhookPause.model_validate({}) if body is None else body
        with _naming():
            until = None if wanted.until is None else moments.instant(wanted.until, "until")
            await app.webhooks.pause(name, until=until, for_=wanted.for_, by=by)
        return await _shown(app, name)

    @routes.post(
        f"{PREFIX}/{{name:path}}/resume", needs="operate", keeping=REPEATABLE,
        **changing(TAG, "Resume a webhook", ShownWebhook, 404),
    )  # fmt: skip
    async def resume_webhook(name: Name, by: Caller) -> Answer:
        """Deliveries to it start again."""
        await app.webhooks.resume(name, by=by)
        return await _shown(app, name)


def _add_delivering(routes: Routes, app: Oncue) -> None:
    one = changing(TAG, "Deliver to a webhook", ReceiptRecord, 404, 409, status=201)
    one["responses"][200] = STANDS

    @routes.post(f"{PREFIX}/{{name:path}}/deliveries", needs="enqueue", keeping=ONE_JOB, **one)
    async def deliver(request: Request, name: Name, by: Caller, body: NewDelivery | None = None) -> Answer:
        """Writes a delivery, which is a job of the queue `webhooks`; its uid is the execution's id. If its key is held
        by an unfinished one, nothing is written, and the answer names that one."""
        wanted = NewDelivery.model_validate({}) if body is None else body
        with _naming():
            call, arguments = await app.webhooks.call(name, wanted.payload, await _options(app, wanted, by))
        return await _delivered(app, request, call, arguments)

    bare = changing(TAG, "Deliver to a URL", ReceiptRecord, 409, status=201)
    bare["responses"][200] = STANDS

    @routes.post(DELIVERIES, needs="operate", keeping=ONE_JOB, **bare)
    async def deliver_to_url(request: Request, body: BareDelivery, by: Caller) -> Answer:
        """The same for a URL that no webhook stands for. Where requests go is for those to say who may make webhooks: a
        token that may only enqueue delivers to webhooks."""
        with _naming():
            options = await _options(app, body, by)
            task = app.internals.builtin[DELIVER]
            call, arguments = bare_call(task, body.url, body.payload, _given(body), options)
            check_at_save(arguments["url"], Allowed.parse(app.settings.webhooks_allow))
        return await _delivered(app, request, call, arguments)


async def _options(app: Oncue, body: NewDelivery, by: str) -> dict[str, Any]:
    at = None if body.at is None else instant_to_come(body.at, await app.now(), "at")
    return {"key": body.key, "delay": body.delay, "at": at, "priority": body.priority, "enqueued_by": by}


async def _delivered(app: Oncue, request: Request, call: Call[Any], arguments: Mapping[str, Any]) -> Answer:
    with _naming():
        call.task.arguments.dump((), arguments, app.settings.max_args_bytes)
    (receipt,) = await written(app, request, [(call, ((), arguments))])
    place = f"{request.scope.get('root_path', '')}{executions.PREFIX}/{receipt.uid}"
    return Answer(receipt_record(receipt), 201 if receipt.created else 200, headers={"Location": place})


async def _shown(app: Oncue, name: str) -> Answer:
    webhook = await app.webhooks.get(name)
    return Answer(webhook_detail(webhook, await app.webhooks.endpoint(webhook.name)))


def _given(body: HowSent) -> dict[str, Any]:
    """What a body says of how requests are sent, and the description; without what is null."""
    told = {field: getattr(body, field, None) for field in FIELDS}
    return {field: value for field, value in told.items() if value is not None}


def _is_null(body: HowSent, field: str) -> bool:
    return field in body.model_fields_set and getattr(body, field) is None


@contextmanager
def _naming() -> Iterator[None]:
    """A complaint names the field as requests spell it. All that is too large of the arguments is the payload."""
    try:
        yield
    except InvalidWebhook:
        raise
    except InvalidJob as error:
        field = {"for_": "for", "arguments": "payload"}.get(error.field, error.field)
        raise InvalidJob(field, str(error).removeprefix(f"{error.field}: ")) from None
