"""Runs the checks and shows them beside the settings and where each of those came from."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any

import typer

from oncue.app import Oncue
from oncue.cli import failures, output
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, find, imported
from oncue.cli.output import JsonOption, escape
from oncue.doctor.checks import declared
from oncue.doctor.effective import value_of
from oncue.doctor.examining import examine, unknown_variables
from oncue.doctor.findings import Check
from oncue.errors import ConfigError
from oncue.settings import Settings
from oncue.store.addresses import hidden

MARKS = {"ok": "[green]ok[/]", "warn": "[yellow]warn[/]", "fail": "[red]fail[/]"}


def doctor(
    every: Annotated[bool, typer.Option("--all", help="Show the settings that are left at their default too.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Check settings, database, nodes, queues and jobs, and say what to do. Exit code 4 if a check fails."""
    found = find(app, may_create=True, database_url=database_url, schema=schema)
    checks = [_application(found), *unknown_variables(os.environ), *asyncio.run(examine(found))]
    failed = sum(check.status == "fail" for check in checks)
    if as_json:
        output.show_json(_document(found.settings, checks, ok=not failed))
    else:
        _show(found.settings, checks, every=every)
    raise typer.Exit(failures.CHECK if failed else 0)


def _application(app: Oncue) -> Check:
    tasks, webhooks = len(app.tasks), len(app.internals.webhooks)
    if not tasks and not webhooks and app.settings.app is not None:
        try:
            imported(app.settings.app, app.settings.origin("app"))
        except ConfigError as error:
            return Check("application", "fail", str(error), "mend it: no worker can start")
    return declared(app)


def _show(settings: Settings, checks: list[Check], *, every: bool) -> None:
    table = output.table("setting", "value", "from")
    for name in Settings.names():
        origin = settings.origin(name)
        if every or origin != "default" or name == "database_url":
            table.add_row(name, escape(str(value_of(settings, name))), escape(origin))
    output.show(table)
    lines = output.table("check", "", "what was found", "what to do")
    for check in checks:
        lines.add_row(check.name, MARKS[check.status], escape(check.detail), escape(check.advice))
    output.show(lines)
    output.show(_verdict(checks))


def _verdict(checks: list[Check]) -> str:
    failed = sum(check.status == "fail" for check in checks)
    warned = sum(check.status == "warn" for check in checks)
    if failed:
        return f"[red]{output.plural(failed, 'check')} failed.[/]"
    return f"[yellow]{output.plural(warned, 'warning')}.[/]" if warned else "[green]All is well.[/]"


def _document(settings: Settings, checks: list[Check], *, ok: bool) -> dict[str, Any]:
    return {
        "ok": ok,
        "settings": {
            name: {"value": value_of(settings, name), "origin": settings.origin(name)} for name in Settings.names()
        },
        "checks": [
            {"name": c.name, "status": c.status, "detail": hidden(c.detail), "advice": c.advice} for c in checks
        ],
    }


def register(cli: typer.Typer) -> None:
    cli.command("doctor")(doctor)
