"""`oncue preview`: when a schedule will run, or when an expression would."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from oncue.app import Oncue
from oncue.cli import output, values
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find, has_database
from oncue.cli.output import JsonOption, escape
from oncue.cli.values import INSTANT
from oncue.clock import wall
from oncue.errors import ScheduleNotFound
from oncue.policy.checks import checked_moment
from oncue.policy.clock_changes import told
from oncue.policy.moments import Moment
from oncue.policy.triggers import DST_POLICIES, TICK, Rule, cron, swallowed, trigger
from oncue.records.schedules import fire_record
from oncue.verbs.schedules import MOST_PREVIEWED, Fire, fires

FIRST_OF_AN_EXPRESSION = "@*?0123456789"


def preview(
    wanted: Annotated[
        str,
        typer.Argument(
            metavar="NAME_OR_EXPRESSION", help="A schedule, or an expression such as '30 2 * * *'.", show_default=False
        ),
    ],
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=MOST_PREVIEWED, help="So many.")] = 10,
    tz: Annotated[
        str | None, typer.Option("--tz", metavar="ZONE", help="The time zone of an expression. \\[default: UTC]")
    ] = None,
    dst: Annotated[
        str | None,
        typer.Option("--dst", metavar="POLICY", help=f"Of an expression, at clock changes: {', '.join(DST_POLICIES)}."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="INSTANT", help=f"From then on: {INSTANT}. Else from now.")
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show the next runs of a schedule, or of an expression that is none yet: no database is needed for that."""
    since = None if start is None else values.moment(start, "--from")
    with values.naming(start="--from", tz="--tz", dst="--dst", count="--count"):
        if _is_expression(wanted):
            rule = cron(wanted, tz=tz or "UTC", dst=dst or "debian")  # type: ignore[arg-type]
            now = wall()
            found, note = _fires(rule, now, since, count), _anchored(rule, "now" if since is None else "then")
        else:
            rule, found, now, note = _of_schedule(wanted, tz, dst, since, count, find_app(app, database_url, schema))
    if as_json:
        output.show_json([fire_record(fire, rule.tz, _instead_of(rule, fire)) for fire in found])
    else:
        _show(rule, found, now, note)


def find_app(app: str | None, database_url: str | None, schema: str | None) -> Oncue:
    return find(app, may_create=True, database_url=database_url, schema=schema)


def _is_expression(text: str) -> bool:
    """An expression has a blank and begins like this, or begins with an @; names of schedules do not."""
    text = text.strip()
    return not text or text[0] == "@" or (text[0] in FIRST_OF_AN_EXPRESSION and len(text.split()) > 1)


def _fires(rule: Rule, now: datetime, since: Moment | None, count: int) -> list[Fire]:
    start = now if since is None else checked_moment(since.at(now), "start")
    return fires(trigger(rule, start), rule.tz, start - TICK, count)


def _anchored(rule: Rule, moment: str) -> str:
    if not rule.expression.startswith("@every"):
        return ""
    return f"An @every counts from the moment at which its schedule is made or changed; here it counts from {moment}."


def _of_schedule(
    name: str, tz: str | None, dst: str | None, since: Moment | None, count: int, app: Oncue
) -> tuple[Rule, list[Fire], datetime, str]:
    for option, given in (("--tz", tz), ("--dst", dst)):
        if given is not None:
            wanted = f"the schedule {name!r} has its own: try another one with its expression instead of its name"
            raise typer.BadParameter(wanted, param_hint=option)

    async def work() -> tuple[Rule, list[Fire], datetime, str]:
        schedule, now = await app.schedules.get(name), await app.now()
        rule = Rule(schedule.expression, schedule.tz, schedule.dst)  # type: ignore[arg-type]
        found = await app.schedules.preview(name, count, None if since is None else since.at(now))
        reason = f" ({schedule.reason})" if schedule.reason else ""
        return rule, found, now, "" if schedule.enabled else f"It is disabled{reason}: it will not run."

    declared = app.tasks[name].schedule if name in app.tasks else None
    try:
        if not has_database(app):
            raise ScheduleNotFound(f"there is no schedule {name!r}, and no database yet")
        return ask(app, work)
    except ScheduleNotFound:
        if declared is None:
            raise
    now, rule = wall(), declared.rule
    note = "The application declares it, and no worker has made it so yet: it will not run before one starts."
    return rule, _fires(rule, now, since, count), now, note


def _show(rule: Rule, found: Sequence[Fire], now: datetime, note: str) -> None:
    output.show(f"[bold]{escape(rule.expression)}[/]  {rule.tz}, at clock changes: {rule.dst}")
    table = output.table("", "local time", "zone", "UTC", "", "clock change", right=("",))
    for number, fire in enumerate(found, 1):
        table.add_row(
            str(number), f"{fire.local:%a} {output.local(fire.scheduled_for, rule.tz)}", rule.tz,
            f"{output.stamp(fire.scheduled_for)} UTC", output.when(fire.scheduled_for, now),
            told(rule, fire.scheduled_for, fire.local, fire.mark),
        )  # fmt: skip
    if found:
        output.show(table)
    else:
        output.show("It has no slots from then on.")
    if note:
        output.show(f"[yellow]{escape(note)}[/]")


def _instead_of(rule: Rule, fire: Fire) -> list[datetime]:
    return swallowed(rule, fire.scheduled_for) if fire.mark == "gap" else []


def register(cli: typer.Typer) -> None:
    cli.command("preview")(preview)
