"""`oncue webhooks test`: one real request now, as a worker would make it, shown with its response."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from oncue.app import Oncue
from oncue.cli import failures, output, webhook_options
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find, has_database
from oncue.cli.output import JsonOption, escape
from oncue.cli.webhook_options import Name, Payload, PayloadFile
from oncue.clock import wall
from oncue.errors import ConfigError, UnusableSecret, WebhookNotFound
from oncue.model import Webhook
from oncue.policy import http
from oncue.policy.deliveries import Form
from oncue.policy.templates import DeliveryFacts, has_body
from oncue.webhooks.secrets import redacted
from oncue.webhooks.signing import SIGNATURE_HEADER
from oncue.webhooks.transport import NotSent, Request, Response, Transport

if TYPE_CHECKING:
    pass

SHOWN_BODY = 4096


class KnownWebhook(NamedTuple):
    webhook: Webhook
    source: str


def known_webhook(app: Oncue, name: str) -> KnownWebhook:
    """What the code declares comes first: for that no database is needed, and the next worker makes it so."""
    declared = app.internals.webhooks.get(name)
    if declared is not None:
        from oncue.verbs.webhooks import webhook_of

        return KnownWebhook(webhook_of(declared.fields, wall(), app.name), f"as the code of {app.name} declares it")
    if not has_database(app):
        raise WebhookNotFound(f"there is no webhook {name!r}: no code declares it (--app), and there is no database")
    return KnownWebhook(ask(app, lambda: app.webhooks.get(name)), "as the database has it")


def found_app(app: str | None, database_url: str | None, schema: str | None) -> Oncue:
    return find(app, may_create=True, database_url=database_url, schema=schema)


def send_test(
    name: Name,
    payload: Payload = None,
    payload_file: PayloadFile = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Send one request to a webhook now, and show it with its response. Exit code 4 if it was not delivered.

    It is made and sent as a worker does it, with the settings and the
    environment of this shell (ONCUE_WEBHOOKS_ALLOW, ONCUE_SECRET_…). Nothing
    is written to the database, and nothing is tried again.
    """
    content = webhook_options.payload(payload, payload_file)
    found = found_app(app, database_url, schema)
    webhook, source = known_webhook(found, name)
    if content is not None and not has_body(webhook.method, webhook.body):
        raise typer.BadParameter(f"expected none: a {webhook.method} has no body", param_hint="--payload")
    request = _request(found, webhook, content)
    answer = asyncio.run(_sent(found.internals.make_transport(), request))
    outcome = "failed" if isinstance(answer, NotSent) else http.outcome(answer.status)
    if as_json:
        output.show_json({"webhook": name, "outcome": outcome, **_request_record(request), **_answer_record(answer)})
    else:
        _show_request(name, source, webhook, request)
        _show_answer(answer)
    if outcome != "delivered":
        raise typer.Exit(failures.CHECK)


def _request(app: Oncue, webhook: Webhook, payload: Any) -> Request:
    """The request that a worker would make now. Its id is of no execution."""
    from oncue.identity import new_node_id
    from oncue.webhooks.delivery import request_of, target_of

    now = wall()
    facts = DeliveryFacts(str(new_node_id(app.internals.dice)), webhook.name, None, now, payload)
    form = Form(webhook.method, webhook.content_type, webhook.body)
    try:
        return request_of(target_of(webhook), form, facts, os.environ, now)
    except UnusableSecret as error:
        raise ConfigError(f"{error} (here: the environment of this shell)") from None


async def _sent(transport: Transport, request: Request) -> Response | NotSent:
    from oncue.webhooks.echoes import failure_without_echo, response_without_echo

    try:
        return response_without_echo(await transport.send(request), request)
    except NotSent as error:
        return failure_without_echo(error, request)
    finally:
        await transport.close()


def _shown_headers(request: Request) -> dict[str, str]:
    """No value that may be a secret; of the signature, that it is there."""
    shown = redacted(request.headers)
    if SIGNATURE_HEADER in shown:
        count = len(request.headers[SIGNATURE_HEADER].split())
        shown[SIGNATURE_HEADER] = f"({output.plural(count, 'signature')})"
    return shown


def _body(request: Request) -> str | None:
    return None if request.body is None else request.body[:SHOWN_BODY].decode(errors="replace")


def _request_record(request: Request) -> dict[str, Any]:
    shown = {"method": request.method, "url": request.url, "headers": _shown_headers(request), "body": _body(request)}
    return {"request": {**shown, "signed": SIGNATURE_HEADER in request.headers}}


def _answer_record(answer: Response | NotSent) -> dict[str, Any]:
    if isinstance(answer, NotSent):
        return {"response": None, "failed": answer.kind, "error": answer.message}
    told = answer._asdict()
    return {"response": {**told, "headers": dict(answer.headers)}, "failed": None, "error": None}


def _show_request(name: str, source: str, webhook: Webhook, request: Request) -> None:
    output.show(f"[bold]request[/] to webhook {escape(name)}, {escape(source)}")
    lines = [f"{request.method} {request.url}", *(f"{key}: {value}" for key, value in _shown_headers(request).items())]
    output.show(output.paragraph("\n".join(lines)))
    body = _body(request)
    if body:
        more = "" if len(request.body or b"") <= SHOWN_BODY else f"\n… ({len(request.body or b''):,} bytes)"
        output.show(f"\n{output.paragraph(body + more)}")
    if SIGNATURE_HEADER not in request.headers:
        output.show("[yellow]It is not signed: the webhook has no secrets.[/]")
    if not webhook.enabled:
        output.show("[yellow]The webhook is disabled: deliveries of workers are skipped.[/]")


def _show_answer(answer: Response | NotSent) -> None:
    if isinstance(answer, NotSent):
        output.show(f"\n[bold red]not delivered[/]: {escape(answer.kind)}\n{output.paragraph(answer.message)}")
        return
    meaning = {
        "delivered": "[bold green]delivered[/]",
        "retry": "[bold red]not delivered[/]: a worker would try again",
        "failed": "[bold red]not delivered[/]: a worker would not try again",
    }[http.outcome(answer.status)]
    place = "" if answer.address is None else f" from {answer.address}"
    hops = f", {output.plural(answer.redirects, 'redirect')} followed" if answer.redirects else ""
    output.show(f"\n{meaning}\n[bold]HTTP {answer.status}[/]{escape(place)} in {output.took(answer.seconds)}{hops}")
    lines = [f"{name}: {value}" for name, value in answer.headers.items()]
    if lines:
        output.show(output.paragraph("\n".join(lines)))
    if answer.excerpt:
        output.show(f"\n{escape(answer.excerpt)}{' …' if answer.truncated else ''}")
