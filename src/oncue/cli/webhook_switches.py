"""`oncue webhooks enable`, `disable`, `pause` and `resume`: whether deliveries go out, and when."""

from __future__ import annotations

from shlex import quote
from typing import Annotated, Any

import typer

from oncue.cli import output, values
from oncue.cli.actor import actor
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.cli.webhook_options import Name
from oncue.model import Webhook
from oncue.records.webhooks import webhook_record


def show_changed(webhook: Webhook, sentence: str, as_json: bool) -> None:
    if as_json:
        output.show_json(webhook_record(webhook))
        return
    output.show(sentence)
    if not webhook.enabled:
        enable = f"`oncue webhooks enable {escape(quote(webhook.name))}`"
        output.show(f"It is disabled: its deliveries are skipped until {enable}.")


def enable_webhook(
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Deliver again, from now on. What was skipped meanwhile is not made up for."""
    _toggle(name, True, as_json, app, database_url, schema)


def disable_webhook(
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Skip the deliveries of a webhook, one declared in code too. `pause` holds them back instead."""
    _toggle(name, False, as_json, app, database_url, schema)


def _toggle(
    name: str, enabled: bool, as_json: bool, app: str | None, database_url: str | None, schema: str | None
) -> None:
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Webhook, Webhook]:
        before = await found.webhooks.get(name)
        return before, await found.webhooks.toggle(name, enabled, changed_by=actor())

    before, after = ask(found, work)
    word = "enabled" if enabled else "disabled"
    said = f"was {word} already" if before.version == after.version else f"is {word}"
    show_changed(after, f"webhook {escape(name)} {said}.", as_json)


def pause_webhook(
    name: Name,
    for_: Annotated[str | None, typer.Option("--for", metavar="DURATION", help="For so long, such as 10m.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="INSTANT", help="Until then, in ISO 8601.")] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Hold the deliveries to a webhook back. They wait, and go out when it is resumed or the pause ends."""
    if for_ is not None and until is not None:
        raise typer.BadParameter("give either --for or --until, not both", param_hint="--until")
    end: dict[str, Any] = {
        "for_": None if for_ is None else values.duration(for_, "--for"),
        "until": None if until is None else values.instant(until, "--until"),
    }
    found = find(app, database_url=database_url, schema=schema)
    ask(found, lambda: found.webhooks.pause(name, **end, by=actor()))
    if as_json:
        output.show_json({"name": name, "paused": True})
        return
    ends = "" if for_ is None and until is None else f" for {for_}" if for_ is not None else f" until {until}"
    resume = f"`oncue webhooks resume {escape(quote(name))}`"
    before = f"until {resume}" if not ends else f"before, unless you run {resume}"
    output.show(f"webhook {escape(name)} is paused{escape(ends)}: nothing is sent to it {before}")


def resume_webhook(
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Send what waits, and what comes."""
    found = find(app, database_url=database_url, schema=schema)
    ask(found, lambda: found.webhooks.resume(name, by=actor()))
    if as_json:
        output.show_json({"name": name, "paused": False})
    else:
        output.show(f"webhook {escape(name)} is resumed: what waits is sent")


def add_to(group: typer.Typer) -> None:
    group.command("enable")(enable_webhook)
    group.command("disable")(disable_webhook)
    group.command("pause")(pause_webhook)
    group.command("resume")(resume_webhook)
