"""`oncue webhooks`: what there is, and changing it. Deliveries, rehearsals and switches have modules of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from shlex import quote
from typing import Annotated, Any, NamedTuple

import typer

from oncue.app import Oncue
from oncue.cli import deliveries, output, rehearsals, webhook_options, webhook_switches
from oncue.cli.actor import actor
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.cli.webhook_options import (
    Body,
    BodyFile,
    Ca,
    Certificate,
    ContentType,
    Description,
    Headers,
    Method,
    Name,
    Redirects,
    Retry,
    Secrets,
    Timeout,
)
from oncue.cli.webhook_switches import show_changed
from oncue.model import WEBHOOKS_QUEUE, GroupSettings, Job, Webhook
from oncue.policy import durations
from oncue.policy.deliveries import ladder_of
from oncue.records.documents import instant
from oncue.records.webhooks import webhook_record
from oncue.webhooks.secrets import redacted, redacted_secrets

SHOWN_EXECUTIONS = 5

group = typer.Typer()


class _Seen(NamedTuple):
    """A webhook with the state of its endpoint."""

    webhook: Webhook
    endpoint: GroupSettings


# --- looking --------------------------------------------------------------------------------------------------------


@group.callback(invoke_without_command=True)
def list_webhooks(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most so many.")] = 100,
    after: Annotated[str, typer.Option("--after", metavar="NAME", help="Go on after this one.")] = "",
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the webhooks; `show`, `add`, `edit`, `test` or `rehearse` one, `deliver` to it, list `executions`."""
    if context.invoked_subcommand is not None:
        return
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[list[_Seen], list[str], datetime]:
        webhooks = await found.webhooks.list(after=after, limit=limit)
        return [await _seen(found, webhook) for webhook in webhooks], await _unmade(found), await found.now()

    seen, unmade, now = ask(found, work)
    if as_json:
        output.show_json([webhook_record(one.webhook) for one in seen])
        return
    if seen:
        _show_list(seen, now, full=len(seen) == limit)
    elif after:
        output.show("No webhook comes after that name.")
    elif not unmade:
        output.show(
            "There are no webhooks yet. `app.webhook(NAME, url=…)` declares one in code, "
            "`oncue webhooks add NAME --url URL` makes one here."
        )
    if unmade:
        output.show(f"The application declares {escape(', '.join(unmade))}: the next worker that starts makes it so.")


async def _seen(app: Oncue, webhook: Webhook) -> _Seen:
    groups = (await app.internals.connected()).store.groups
    return _Seen(webhook, await groups.settings(WEBHOOKS_QUEUE, webhook.name))


async def _unmade(app: Oncue) -> list[str]:
    """The webhooks that the code declares and that no worker has told the database about."""
    declared = sorted(app.internals.webhooks)
    if not declared:
        return []
    stored = await (await app.internals.connected()).store.webhooks.get(declared)
    return sorted(set(declared) - {webhook.name for webhook in stored if not webhook.deleted})


def _show_list(seen: Sequence[_Seen], now: datetime, *, full: bool) -> None:
    table = output.table("name", "method", "URL", "state", "retries after", "declared", "updated")
    for one in seen:
        webhook = one.webhook
        table.add_row(
            escape(webhook.name), escape(webhook.method), escape(webhook.url), _state(one, now), _ladder(webhook),
            "at run time" if webhook.declared_by is None else "in code", output.when(webhook.updated_at, now),
        )  # fmt: skip
    output.show(table)
    if full:
        output.show(f"[dim]There may be more: --after {escape(quote(seen[-1].webhook.name))}[/]")


def _state(seen: _Seen, now: datetime) -> str:
    if not seen.webhook.enabled:
        reason = seen.webhook.reason
        return f"[yellow]disabled: {escape(reason)}[/]" if reason else "[yellow]disabled[/]"
    return output.held_back(seen.endpoint, now) or "[green]enabled[/]"


def _ladder(webhook: Webhook) -> str:
    return ", ".join(durations.describe(step) for step in ladder_of(webhook.retry).steps) or "none"


@group.command("show")
def show_webhook(
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show one webhook, the state of its endpoint, and its last executions. No secret is shown."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[_Seen, list[Job], dict[int, str], datetime]:
        seen = await _seen(found, await found.webhooks.get(name))
        jobs = await found.webhooks.executions(name, limit=SHOWN_EXECUTIONS)
        return seen, jobs, await found.webhooks.schedules_of(jobs), await found.now()

    seen, jobs, names, now = ask(found, work)
    if as_json:
        endpoint = {"paused_until": instant(seen.endpoint.paused_until), "trips": seen.endpoint.trips}
        executions = [deliveries.record(job, names) for job in jobs]
        output.show_json({**webhook_record(seen.webhook), "endpoint": endpoint, "execution_list": executions})
        return
    output.show(output.details(_lines(seen, now)))
    if jobs:
        output.show(deliveries.table(jobs, now))
    else:
        output.show(f"It has no executions yet. `oncue webhooks deliver {escape(quote(name))}` makes one.")


def _lines(seen: _Seen, now: datetime) -> list[tuple[str, Any]]:
    webhook = seen.webhook
    headers = "\n".join(f"{name}: {value}" for name, value in redacted(webhook.headers).items())
    return [
        ("webhook", escape(webhook.name)),
        ("description", escape(webhook.description)),
        ("request", escape(f"{webhook.method} {webhook.url}")),
        ("headers", output.paragraph(headers)),
        ("content type", escape(webhook.content_type)),
        ("body", None if webhook.body is None else escape(webhook.body)),
        ("secrets", escape(", ".join(redacted_secrets(webhook.secrets))) or "none: its requests are not signed"),
        ("time-out", durations.describe(webhook.timeout)),
        ("retries after", _ladder(webhook)),
        ("redirects", f"at most {webhook.redirects} are followed" if webhook.redirects else "not followed"),
        ("private CA", webhook.ca and escape(webhook.ca)),
        ("certificate", webhook.certificate and escape(webhook.certificate)),
        ("state", _state(seen, now)),
        (
            "declared",
            "at run time" if webhook.declared_by is None else f"in the code of {escape(webhook.declared_by)}",
        ),
        ("created", f"{output.full(webhook.created_at, now)} by {escape(webhook.created_by)}"),
        ("updated", f"{output.full(webhook.updated_at, now)}, version {webhook.version}"),
    ]


# --- changing -------------------------------------------------------------------------------------------------------


@group.command("add")
def create_webhook(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it shall be called.", show_default=False)],
    url: Annotated[str, typer.Option("--url", metavar="URL", help="Where deliveries go.", show_default=False)],
    method: Method = None,
    header: Headers = None,
    content_type: ContentType = None,
    body: Body = None,
    body_file: BodyFile = None,
    timeout: Timeout = None,
    secret: Secrets = None,
    retry: Retry = None,
    redirects: Redirects = None,
    ca: Ca = None,
    certificate: Certificate = None,
    description: Description = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Skip its deliveries until it is enabled.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Make a webhook: `oncue webhooks add orders --url https://shop.example/hook --secret env:ONCUE_SECRET_ORDERS`.

    A secret that is typed here stays in the history of the shell: give
    `env:ONCUE_SECRET_…`, which workers read from their environment, or `-`,
    which reads it from the standard input. `oncue webhooks secret` makes one.
    """
    fields = webhook_options.given(
        method=method, content_type=content_type, timeout=timeout, redirects=redirects, ca=ca, certificate=certificate,
        description=description,
        headers=None if header is None else webhook_options.headers(header),
        secrets=None if secret is None else webhook_options.secrets(secret),
        body=webhook_options.body(body, body_file),
        retry=None if retry is None else webhook_options.ladder(retry),
    )  # fmt: skip
    found = find(app, may_create=True, database_url=database_url, schema=schema)
    made = ask(
        found,
        lambda: found.webhooks.create(name, url=url, enabled=not disabled, created_by=actor(), **fields),
    )
    show_changed(made, f"webhook {escape(name)} is made.", as_json)
    if not as_json:
        output.show(f"`oncue webhooks test {escape(quote(name))}` sends it one request now.")


@group.command("edit")
def change_webhook(
    name: Name,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="Where deliveries go.")] = None,
    method: Method = None,
    header: Headers = None,
    remove_header: Annotated[
        list[str] | None, typer.Option("--remove-header", metavar="NAME", help="Send this header no more; repeat it.")
    ] = None,
    content_type: ContentType = None,
    body: Body = None,
    body_file: BodyFile = None,
    no_body: Annotated[bool, typer.Option("--no-body", help="No template: the body is the payload.")] = False,
    timeout: Timeout = None,
    secret: Secrets = None,
    add_secret: Annotated[
        list[str] | None,
        typer.Option("--add-secret", metavar="SECRET", help="Sign with this one too; it comes first. Like --secret."),
    ] = None,
    drop_secret: Annotated[
        list[str] | None,
        typer.Option(
            "--drop-secret",
            metavar="SECRET",
            help="Sign no more with this one: its env:ONCUE_SECRET_…, or its fingerprint in `show`.",
        ),
    ] = None,
    retry: Retry = None,
    redirects: Redirects = None,
    ca: Ca = None,
    certificate: Certificate = None,
    description: Description = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Change what is given; the rest stays. `--header` sets this header, `--secret` replaces all secrets.

    URL, headers, secrets, time-out and redirects hold from the next attempt
    on, also of deliveries that wait; method, content type, body and retries
    for deliveries that are made from now on. `--ca none` and
    `--certificate none` remove a file.
    """
    fields = webhook_options.given(
        url=url, method=method, content_type=content_type, timeout=timeout, redirects=redirects,
        description=description,
        ca=ca, certificate=certificate,
        secrets=None if secret is None else webhook_options.secrets(secret),
        body=webhook_options.body(body, body_file),
        retry=None if retry is None else webhook_options.ladder(retry),
    )  # fmt: skip
    fields |= {file: None for file in ("ca", "certificate") if fields.get(file) == "none"}
    if no_body:
        if "body" in fields:
            raise typer.BadParameter("give either a body or --no-body, not both", param_hint="--no-body")
        fields["body"] = None
    new_headers = webhook_options.headers(header or [])
    new_secrets = webhook_options.secrets(add_secret or [])
    if not (fields or new_headers or remove_header or new_secrets or drop_secret):
        raise typer.BadParameter("expected what to change, such as --url or --timeout", param_hint="options")
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Webhook, Webhook]:
        before = await found.webhooks.get(name)
        merged = dict(fields)
        if new_headers or remove_header:
            merged["headers"] = _merged_headers(before.headers, new_headers, remove_header or [])
        if new_secrets or drop_secret:
            merged["secrets"] = _merged_secrets(merged.get("secrets", before.secrets), new_secrets, drop_secret or [])
        return before, await found.webhooks.change(name, changed_by=actor(), **merged)

    before, after = ask(found, work)
    is_same = before.version == after.version
    show_changed(
        after, f"webhook {escape(name)} is {'as it was: nothing was changed' if is_same else 'changed'}.", as_json
    )


def _merged_headers(known: Mapping[str, str], new: Mapping[str, str], removed: Sequence[str]) -> dict[str, str]:
    """A name is the same in any case."""
    names = {name.lower() for name in known}
    for name in removed:
        if name.lower() not in names:
            raise typer.BadParameter(f"expected one of its headers, not {name!r}", param_hint="--remove-header")
    gone = {name.lower() for name in (*new, *removed)}
    return {**{name: value for name, value in known.items() if name.lower() not in gone}, **new}


def _merged_secrets(known: Sequence[str], new: Sequence[str], dropped: Sequence[str]) -> tuple[str, ...]:
    shown = dict(zip(known, redacted_secrets(known), strict=True))
    for text in dropped:
        if not any(_is_called(one, text) for one in shown.values()):
            expected = "the fingerprint or the reference of one of its secrets, as `oncue webhooks show` tells it"
            raise typer.BadParameter(f"expected {expected}", param_hint="--drop-secret")
    kept = (secret for secret in known if not any(_is_called(shown[secret], text) for text in dropped))
    return tuple(dict.fromkeys((*new, *kept)))


def _is_called(shown: str, text: str) -> bool:
    return text in (shown, shown.rpartition(" ")[2])


@group.command("remove")
def delete_webhook(
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Delete a webhook, with its headers and secrets. Deliveries that wait fail, as `webhook_deleted`."""
    found = find(app, database_url=database_url, schema=schema)
    ask(found, lambda: found.webhooks.delete(name, changed_by=actor()))
    if as_json:
        output.show_json({"name": name, "deleted": True})
    else:
        output.show(f"webhook {escape(name)} is deleted. What was delivered stays: `oncue webhooks executions`.")


webhook_switches.add_to(group)


@group.command("secret")
def make_secret() -> None:
    """Print a fresh signing secret: `export ONCUE_SECRET_ORDERS=$(oncue webhooks secret)`.

    It is kept nowhere: hand it to the workers and to the receiver.
    """
    from oncue.webhooks import new_secret

    output.show_plain(new_secret(os.urandom))


deliveries.add_to(group)
rehearsals.add_to(group)


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="webhooks")
