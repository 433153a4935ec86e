"""`oncue explain`: why a job, a schedule, a slot or a subject's day is as it is, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from oncue.cli import output, values
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.policy.explain import Explanation
from oncue.records.jobs import explanation_record


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="ID|NAME", help="A job's id or uid, or the name of a schedule or window.", show_default=False
        ),
    ],
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="INSTANT", help=f"One slot of the schedule: {values.INSTANT}."),
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="Of a window: the day of this subject.")
    ] = None,
    day: Annotated[
        str | None, typer.Option("--day", metavar="DATE", help="Which day of the subject. \\[default: today's]")
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Say why a job waits, runs or ended so; why a schedule does not fire; what became of a slot or a day.

    `oncue explain 42` is about a job, `oncue explain nightly` about a schedule, `oncue explain nightly --at
    2030-01-31T09:00:00Z` about one of its slots, `oncue explain morning_digest --subject ann --day 2030-01-31` about
    a day of a window's subject. The answer comes from the database alone.
    """  # fmt: skip
    moment = None if at is None else values.moment(at, "--at")
    wanted_day = None if day is None else values.day(day, "--day")
    if subject is None and day is not None:
        raise typer.BadParameter("expected --subject too: whose day", param_hint="--day")
    if subject is not None and at is not None:
        raise typer.BadParameter("expected either --at, for a slot, or --subject, for a day", param_hint="--at")
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> Explanation:
        if subject is not None:
            return await found.windows.explain(what, subject, wanted_day)
        if moment is not None:
            return await found.schedules.explain_slot(what, moment.at(await found.now()))
        return await (found.jobs.explain(values.reference(what)) if _is_job(what) else found.schedules.explain(what))

    with values.naming(at="--at"):
        explanation = ask(found, work)
    if as_json:
        output.show_json(explanation_record(explanation))
    else:
        show_explanation(explanation)


def _is_job(what: str) -> bool:
    try:
        values.reference(what)
    except typer.BadParameter:
        return False
    return True


def show_explanation(explanation: Explanation) -> None:
    output.show(f"[bold]{escape(explanation.subject)}[/]: {escape(explanation.status.replace('_', ' '))}")
    show_findings(explanation)


def show_findings(explanation: Explanation) -> None:
    for finding in explanation.findings:
        output.show(f"  {escape(finding.text)}")
        if finding.suggestion is not None:
            output.show(f"    [cyan]→ {escape(finding.suggestion)}[/]")


def register(cli: typer.Typer) -> None:
    cli.command("explain")(explain)
