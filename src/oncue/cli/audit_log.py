"""`oncue audit-log`: what was changed by hand, and by whom."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

import typer

from oncue.cli import output
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.model import AuditEntry
from oncue.records.access import audit_entry_record


def show_audit_log(
    actor: Annotated[str | None, typer.Option("--actor", metavar="NAME", help="Only what this one did.")] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="SUBJECT", help="Only this, such as job:17 or queue:mail.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most so many.")] = 50,
    before: Annotated[int | None, typer.Option("--before", metavar="ID", min=1, help="Older than this entry.")] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show what was changed by hand, newest first: who, what, and from what to what.

    What became of the slots of a schedule is another matter: `oncue audit`.
    """
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[list[AuditEntry], datetime]:
        entries = await found.audit_log.list(actor=actor, subject=subject, before=before, limit=limit)
        return entries, await found.now()

    entries, now = ask(found, work)
    if as_json:
        output.show_json([audit_entry_record(entry) for entry in entries])
    elif entries:
        _show(entries, now, full=len(entries) == limit)
    else:
        output.show("No entry matches." if actor or subject or before else "Nothing was changed by hand yet.")


def _show(entries: list[AuditEntry], now: datetime, *, full: bool) -> None:
    table = output.table("id", "at (UTC)", "", "actor", "action", "subject", "before", "after", right=("id",))
    for entry in entries:
        table.add_row(
            str(entry.id), f"{entry.at:%Y-%m-%d %H:%M:%S}", output.when(entry.at, now), escape(entry.actor),
            escape(entry.action), escape(entry.subject), escape(_short(entry.before)), escape(_short(entry.after)),
        )  # fmt: skip
    output.show(table)
    if full:
        output.show(f"[dim]There may be more: --before {entries[-1].id}[/]")


def _short(fact: Any) -> str:
    if fact is None:
        return ""
    if not isinstance(fact, dict):
        return json.dumps(fact, ensure_ascii=False)
    return " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in fact.items())


def register(cli: typer.Typer) -> None:
    cli.command("audit-log")(show_audit_log)
