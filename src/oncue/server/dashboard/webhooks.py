"""Webhooks: where deliveries go, how it is with each endpoint, and what was delivered lately."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from oncue.model import WEBHOOKS_QUEUE, Group, Job, Queue, Webhook
from oncue.policy.deliveries import ladder_of
from oncue.server.dashboard import executions, webhook_changes, webhook_forms
from oncue.server.dashboard.endpoints import (
    URL_MARK,
    EndpointState,
    ExecutionLine,
    execution_line,
    ladder,
    state_of,
)
from oncue.webhooks.secrets import redacted, redacted_secrets

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

PAGE, EXECUTIONS = 25, 20
RECENT = 14
"""So many executions stand beside a webhook in the list."""
MOST_HELD_BACK, MOST_BARE, MOST_SCHEDULES = 1000, 25, 50
BEFORE_URLS = "http:"
"""What stands before every URL in the order of names."""


class WebhookLine(NamedTuple):
    """A webhook in the list."""

    webhook: Webhook
    state: EndpointState
    endpoint: Group
    recent: Sequence[Job]
    """Its latest executions, oldest first."""


class EndpointLine(NamedTuple):
    """An endpoint that no webhook stands for."""

    endpoint: Group
    state: EndpointState


def add(dashboard: Dashboard) -> None:
    @dashboard.page("/webhooks", "webhooks.html", title="Webhooks", room="webhooks")
    async def webhooks(view: View) -> dict[str, Any]:
        return await _one(view) if view.name else await _all(view)

    @dashboard.page("/webhooks/{name:path}", "webhook.html", title="Webhook", room="webhooks")
    async def webhook(view: View) -> dict[str, Any]:
        return await _one(view)

    executions.add(dashboard)
    webhook_forms.add(dashboard)
    webhook_changes.add(dashboard)


# --- all of them ----------------------------------------------------------------------------------------------------


async def _all(view: View) -> dict[str, Any]:
    app, now, after = view.app, await view.app.now(), view.query.get("after", "")
    found = await app.webhooks.list(after=after, limit=PAGE + 1)
    lines = await asyncio.gather(*(_line(view, webhook, now) for webhook in found[:PAGE]))
    held = [group for group in await app.queues.held_back(limit=MOST_HELD_BACK) if group.queue == WEBHOOKS_QUEUE]
    queue = next((one for one in await app.queues.list() if one.name == WEBHOOKS_QUEUE), None)
    return {
        "now": now, "lines": lines, "next": found[PAGE - 1].name if len(found) > PAGE else None, "after": after,
        "queue": queue or Queue(WEBHOOKS_QUEUE, None, 0, 0, 0, 0, 0, 0, 0), "bare": await _bare(view, now),
        "held": len(held), "held_more": len(held) == MOST_HELD_BACK,
        "opened": [(group, state_of(group, now)) for group in held if not group.by_hand],
    }  # fmt: skip


async def _line(view: View, webhook: Webhook, now: datetime) -> WebhookLine:
    endpoint = await view.app.queues.group(WEBHOOKS_QUEUE, webhook.name)
    recent = await view.app.webhooks.executions(endpoint=webhook.name, limit=RECENT, whole=False)
    return WebhookLine(webhook, state_of(endpoint, now, webhook), endpoint, recent[::-1])


async def _bare(view: View, now: datetime) -> list[EndpointLine]:
    """Endpoints of URLs without a webhook, of which something waits or runs, or that are held back."""
    groups = await view.app.queues.groups(WEBHOOKS_QUEUE, after=BEFORE_URLS, limit=MOST_BARE)
    return [EndpointLine(group, state_of(group, now)) for group in groups if URL_MARK in group.name]


# --- one of them ----------------------------------------------------------------------------------------------------


async def _one(view: View) -> dict[str, Any]:
    app, now = view.app, await view.app.now()
    webhook = await app.webhooks.get(view.name)
    endpoint = await app.webhooks.endpoint(webhook.name)
    lines = await _executions(view, webhook)
    schedules = await app.webhooks.schedules(webhook.name, limit=MOST_SCHEDULES + 1)
    return {
        "template": "webhook.html", "title": webhook.name, "now": now, "webhook": webhook, "endpoint": endpoint,
        "state": state_of(endpoint, now, webhook), "rungs": ladder(ladder_of(webhook.retry).steps),
        "headers": redacted(webhook.headers), "secrets": list(map(shown_secret, redacted_secrets(webhook.secrets))),
        "schedules": schedules[:MOST_SCHEDULES], "more_schedules": len(schedules) > MOST_SCHEDULES,
        "lines": lines[:EXECUTIONS], "status": view.text("status"),
        "next": lines[EXECUTIONS - 1].job.id if len(lines) > EXECUTIONS else None,
        "is_ours": webhook.declared_by is not None and webhook.name in app.internals.webhooks,
    }  # fmt: skip


async def _executions(view: View, webhook: Webhook) -> list[ExecutionLine]:
    status, before = executions.filtered(view)
    jobs = await view.app.webhooks.executions(
        webhook.name, status=status, before=before, limit=EXECUTIONS + 1, whole=False
    )
    names = await view.app.webhooks.schedules_of(jobs)
    return [execution_line(job, names.get(job.schedule_id or 0)) for job in jobs]


def shown_secret(told: str) -> str:
    """A reference as it is; of any other secret that it is set, and by which fingerprint two are told apart."""
    return told if told.startswith("env:") else f"set ({told.rpartition(' ')[2]})"
