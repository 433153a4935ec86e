"""Executions: deliveries with their attempts, to webhooks and to URLs that no webhook stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncue.errors import InvalidWebhook, WebhookNotFound
from oncue.model import Job, Webhook
from oncue.policy import options
from oncue.policy.deliveries import EXECUTION_STATUSES, ExecutionStatus, Form, execution_status, form_of
from oncue.policy.headers import HIDDEN
from oncue.policy.retry import Ladder
from oncue.policy.templates import DeliveryFacts, rendered
from oncue.server.api.problems import invalid
from oncue.server.api.references import job_ref
from oncue.server.dashboard.deeds import Done
from oncue.server.dashboard.endpoints import URL_MARK, attempt_lines, climbed, execution_line, kind_of
from oncue.webhooks.secrets import redacted, redacted_secrets

if TYPE_CHECKING:
    from oncue.server.dashboard.deeds import Deed
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

PAGE = 50


def add(dashboard: Dashboard) -> None:
    _add_pages(dashboard)
    _add_actions(dashboard)


def _add_pages(dashboard: Dashboard) -> None:
    @dashboard.page("/executions", "executions.html", title="Executions", room="webhooks")
    async def executions(view: View) -> dict[str, Any]:
        """Of all endpoints, or of one: a webhook (a deleted one too), or scheme, host and port of a URL."""
        status, before = filtered(view)
        endpoint = view.text("endpoint")
        jobs = await view.app.webhooks.executions(
            endpoint=endpoint, status=status, before=before, limit=PAGE + 1, whole=False
        )
        names = await view.app.webhooks.schedules_of(jobs[:PAGE])
        return {
            "lines": [execution_line(job, names.get(job.schedule_id or 0)) for job in jobs[:PAGE]],
            "next": jobs[PAGE - 1].id if len(jobs) > PAGE else None, "status": status, "endpoint": endpoint,
            "is_bare": endpoint is not None and URL_MARK in endpoint,
        }  # fmt: skip

    @dashboard.page("/executions/{id}", "execution.html", title="Execution", room="webhooks")
    async def execution(view: View) -> dict[str, Any]:
        job, attempts = await view.app.webhooks.execution(job_ref(view.parameters["id"]))
        names = await view.app.webhooks.schedules_of([job])
        webhook = await _webhook_of(view, job)
        ladder = options.read(job.options).retry
        return {
            "title": f"Execution {job.id}", "job": job, "line": execution_line(job, names.get(job.schedule_id or 0)),
            "status": execution_status(job.state), "kind": kind_of(job), "webhook": webhook,
            "rungs": climbed(job, attempts, ladder.steps if isinstance(ladder, Ladder) else ()),
            "attempts": attempt_lines(attempts), "request": request_of(job, webhook),
            "why": await view.app.jobs.explain(job.id),
        }  # fmt: skip


def _add_actions(dashboard: Dashboard) -> None:
    @dashboard.action("/executions/replay", needs="operate")
    async def replay(deed: Deed) -> Done:
        old = job_ref(deed.text("id"))
        job = await deed.app.webhooks.retry(old, by=deed.by)
        message = f"Execution {job.id} is made: it repeats execution {job.retry_of or old}."
        return Done(message, go=f"/executions/{job.uid}" if deed.has("go") else None)

    @dashboard.action("/executions/cancel", needs="operate")
    async def cancel(deed: Deed) -> Done:
        job, _ = await deed.app.webhooks.execution(job_ref(deed.text("id")))
        job = await deed.app.jobs.cancel(job.id, by=deed.by)
        asked = "asked to stop" if job.state == "running" else "cancelled"
        return Done(f"Execution {job.id} is {asked}.")


# --- what a page needs ----------------------------------------------------------------------------------------------


def filtered(view: View) -> tuple[ExecutionStatus | None, int | None]:
    """The status that is asked for, and the number to go on from."""
    status = view.text("status")
    if status is not None and status not in EXECUTION_STATUSES:
        raise invalid("status", f"expected one of {', '.join(EXECUTION_STATUSES)}, not {status!r:.60}")
    return status, view.number("before")


async def _webhook_of(view: View, job: Job) -> Webhook | None:
    name = job.args.get("webhook")
    if not isinstance(name, str):
        return None
    try:
        return await view.app.webhooks.get(name)
    except WebhookNotFound:
        return None


def request_of(job: Job, webhook: Webhook | None) -> dict[str, Any]:
    """What is sent, as far as it is known: the form of the request is the delivery's, the rest is the webhook's now."""
    form, args = form_of(job.options), job.args
    headers = dict(webhook.headers) if webhook is not None else _texts(args.get("headers"))
    secrets = webhook.secrets if webhook is not None else tuple(args.get("secrets") or ())
    body, problem = _body(job, form)
    return {
        "method": form.method, "url": webhook.url if webhook is not None else args.get("url"),
        "headers": redacted(headers), "content_type": None if body is None else form.content_type, "id": str(job.uid),
        "signatures": len(secrets), "secrets": redacted_secrets(map(str, secrets)), "hidden": HIDDEN, "body": body,
        "problem": problem, "template": form.body,
    }  # fmt: skip


def _texts(headers: object) -> dict[str, str]:
    return {str(name): str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}


def _body(job: Job, form: Form) -> tuple[str | None, str | None]:
    """The body as it is sent, as a text; or why there can be none."""
    name, payload = job.args.get("webhook"), job.args.get("payload")
    webhook = name if isinstance(name, str) else None
    facts = DeliveryFacts(str(job.uid), webhook, job.scheduled_for, job.created_at, payload)
    try:
        body = rendered(form.method, form.content_type, form.body, facts)
    except InvalidWebhook as error:
        return None, str(error)
    return (None if body is None else body.decode(errors="replace")), None
