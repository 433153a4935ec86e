"""`oncue audit`: every slot that a schedule should have had, and what became of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, NamedTuple

import typer
from rich.markup import escape

from oncue.app import Oncue
from oncue.cli import failures, output, slots, values
from oncue.cli.finding import AppOption, DatabaseOption, ask, find
from oncue.cli.output import JsonOption
from oncue.cli.values import INSTANT
from oncue.errors import ScheduleNotFound
from oncue.policy.audit import Audit, Fate
from oncue.server.records import audit_record, instant

MOST_NAMED = 20
PAGE = 1000


class Audited(NamedTuple):
    name: str
    tz: str
    found: Audit


def audit_slots(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The schedule.", show_default=False)] = None,
    start: Annotated[str, typer.Option("--from", metavar="INSTANT", help=f"The first slot: {INSTANT}.")] = "-24h",
    end: Annotated[str, typer.Option("--to", metavar="INSTANT", help="The last slot.")] = "now",
    problems: Annotated[bool, typer.Option("--problems", help="Only what should not be.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Every schedule, one line each.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
) -> None:
    """Tell what became of every slot that a schedule should have had.

    By default of the last 24 hours. The slots are worked out again from the
    schedule's revisions and laid beside the ledger. If one is doubled,
    unaccounted for, lost or unexpected, it is named on the standard error and
    the exit code is 4. A removed schedule can be audited by its name.
    """
    if (name is None) != every:
        wanted = "expected the name of a schedule, or --all for every one" + ("" if name is None else ", not both")
        raise typer.BadParameter(wanted, param_hint="NAME")
    since, until = values.moment(start, "--from"), values.moment(end, "--to")
    found = find(app, database_url=database_url)
    with values.naming(start="--from", end="--to"):
        audits = ask(found, lambda: _audited(found, name, since, until))
    if as_json:
        records = [audit_record(a.name, a.found, _chosen(a.found, problems)) for a in audits]
        output.show_json(records if every else records[0])
    elif every:
        _show_all(audits)
    else:
        _show_one(audits[0], problems)
    _judge(audits)


async def _audited(app: Oncue, name: str | None, since: values.Moment, until: values.Moment) -> list[Audited]:
    now = (await app.connected()).now()
    start, end = since.at(now), until.at(now)
    if name is not None:
        return [Audited(name, await _zone(app, name), await app.audit(name, start, end))]
    audits: list[Audited] = []
    with output.progress(known=False) as bar:
        line = bar.add_task("auditing", total=None)
        while page := await app.schedules(after=audits[-1].name if audits else "", limit=PAGE):
            for schedule in page:
                audits.append(Audited(schedule.name, schedule.tz, await app.audit(schedule.name, start, end)))
                bar.update(line, completed=len(audits))
    return audits


async def _zone(app: Oncue, name: str) -> str:
    """The zone of its last revision: a removed schedule has one too."""
    try:
        return (await app.schedule(name)).tz
    except ScheduleNotFound:
        return (await app.revisions(name))[-1].tz


def _chosen(found: Audit, problems: bool) -> Sequence[Fate]:
    return found.problems if problems else found.fates


# --- showing --------------------------------------------------------------------------------------------------------


def _show_one(audited: Audited, problems: bool) -> None:
    found, chosen = audited.found, _chosen(audited.found, problems)
    if chosen:
        output.show(slots.table(chosen, audited.tz))
    span = f"from {_stamp(found.start)} to {_stamp(found.end)}"
    total = sum(fate.slots for fate in found.fates)
    if total:
        output.show(f"{escape(audited.name)} {span}: {_totals(found)}.")
    else:
        output.show(
            f"{escape(audited.name)} had no slots {span}. `oncue preview {escape(audited.name)}` shows the next ones."
        )
    for note in found.notes:
        output.show(f"[yellow]Note: {escape(note)}.[/]")
    if found.holds and total:
        output.show("[green]Every slot is accounted for, once.[/]")


def _show_all(audits: Sequence[Audited]) -> None:
    if not audits:
        output.show("There are no schedules to audit. `oncue schedules add NAME EXPRESSION TASK` makes one.")
        return
    table = output.table("schedule", "slots", "fates", "verdict", right=("slots",))
    for audited in audits:
        total = sum(fate.slots for fate in audited.found.fates)
        bad = len(audited.found.problems)
        verdict = f"[bold red]{output.plural(bad, 'problem')}[/]" if bad else "[green]holds[/]"
        table.add_row(escape(audited.name), f"{total:,}", _totals(audited.found), verdict)
    output.show(table)


def _totals(found: Audit) -> str:
    return ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(found.counts().items()))


def _stamp(moment: datetime) -> str:
    return f"{output.stamp(moment.replace(microsecond=0))} UTC"


def _judge(audits: Sequence[Audited]) -> None:
    """Name what should not be, and end accordingly."""
    named = [(audited.name, fate) for audited in audits for fate in audited.found.problems]
    if not named:
        return
    sys.stdout.flush()
    for name, fate in named[:MOST_NAMED]:
        print(f"oncue: {name}: slot {instant(fate.scheduled_for)}: {fate.verdict}: {fate.reason}", file=sys.stderr)
    if len(named) > MOST_NAMED:
        print(f"oncue: and {len(named) - MOST_NAMED:,} more: --problems lists them", file=sys.stderr)
    raise typer.Exit(failures.CHECK)


def register(cli: typer.Typer) -> None:
    cli.command("audit")(audit_slots)
