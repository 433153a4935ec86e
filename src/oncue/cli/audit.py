"""`oncue audit`: every slot that a schedule should have had, and what became of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Annotated, NamedTuple

import typer

from oncue.app import Oncue
from oncue.cli import failures, output, slots, values
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.cli.values import INSTANT
from oncue.errors import ScheduleNotFound
from oncue.policy.audit import Audit, Fate
from oncue.policy.moments import Moment
from oncue.records.documents import instant
from oncue.records.schedules import audit_record

MOST_NAMED = 20
PAGE = 1000


class SummaryRow(NamedTuple):
    """What a table of all schedules tells of one."""

    name: str
    slots: int
    fates: str
    problems: int


class Findings:
    """What should not be, over all schedules: how much, and the first of it."""

    def __init__(self) -> None:
        self._count = 0
        self._named: list[str] = []

    def take(self, name: str, found: Audit) -> int:
        """Judge a schedule; how many problems it has."""
        problems = found.problems
        for fate in problems[: MOST_NAMED - len(self._named)]:
            self._named.append(f"{name}: slot {instant(fate.scheduled_for)}: {fate.verdict}: {fate.reason}")
        self._count += len(problems)
        return len(problems)

    def conclude(self) -> None:
        """Name what should not be, and end accordingly."""
        if not self._count:
            return
        for line in self._named:
            failures.say(line)
        if self._count > len(self._named):
            failures.say(f"and {self._count - len(self._named):,} more: --problems lists them")
        raise typer.Exit(failures.CHECK)


def audit_slots(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The schedule.", show_default=False)] = None,
    start: Annotated[str, typer.Option("--from", metavar="INSTANT", help=f"The first slot: {INSTANT}.")] = "-24h",
    end: Annotated[str, typer.Option("--to", metavar="INSTANT", help="The last slot.")] = "now",
    problems: Annotated[bool, typer.Option("--problems", help="Only what should not be.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Every schedule, one line each.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
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
    found = find(app, database_url=database_url, schema=schema)
    findings = Findings()
    with values.naming(start="--from", end="--to"):
        if name is not None:
            tz, audit = ask(found, lambda: _audited(found, name, since, until))
            findings.take(name, audit)
            _show_one(name, tz, audit, problems, as_json)
        elif as_json:
            ask(found, lambda: _print_all(found, since, until, problems, findings))
        else:
            _show_all(ask(found, lambda: _judged(found, since, until, findings)))
    findings.conclude()


async def _audited(app: Oncue, name: str, since: Moment, until: Moment) -> tuple[str, Audit]:
    now = await app.now()
    return await _zone(app, name), await app.schedules.audit(name, since.at(now), until.at(now))


async def _all_audited(app: Oncue, since: Moment, until: Moment) -> AsyncIterator[tuple[str, Audit]]:
    """Every schedule, one at a time: all their slots together may be more than fits."""
    now, last = await app.now(), ""
    while page := await app.schedules.list(after=last, limit=PAGE):
        for schedule in page:
            yield schedule.name, await app.schedules.audit(schedule.name, since.at(now), until.at(now))
        last = page[-1].name


async def _print_all(app: Oncue, since: Moment, until: Moment, problems: bool, findings: Findings) -> None:
    with output.JsonList() as printed:
        async for name, found in _all_audited(app, since, until):
            findings.take(name, found)
            printed.add(audit_record(name, found, _chosen(found, problems)))


async def _judged(app: Oncue, since: Moment, until: Moment, findings: Findings) -> list[SummaryRow]:
    """A line for each schedule; a table is as wide as its widest, so it waits for the last."""
    lines: list[SummaryRow] = []
    with output.progress(known=False) as bar:
        progress = bar.add_task("auditing", total=None)
        async for name, found in _all_audited(app, since, until):
            lines.append(SummaryRow(name, _total(found), _totals(found), findings.take(name, found)))
            bar.update(progress, completed=len(lines))
    return lines


async def _zone(app: Oncue, name: str) -> str:
    """The zone of its last revision: a removed schedule has one too."""
    try:
        return (await app.schedules.get(name)).tz
    except ScheduleNotFound:
        return (await app.schedules.revisions(name, limit=1))[0].tz


def _chosen(found: Audit, problems: bool) -> Sequence[Fate]:
    return found.problems if problems else found.fates


# --- showing --------------------------------------------------------------------------------------------------------


def _show_one(name: str, tz: str, found: Audit, problems: bool, as_json: bool) -> None:
    chosen = _chosen(found, problems)
    if as_json:
        output.show_json(audit_record(name, found, chosen))
        return
    if chosen:
        output.show(slots.table(chosen, tz))
    span, total = f"from {_stamp(found.start)} to {_stamp(found.end)}", _total(found)
    if total:
        output.show(f"{escape(name)} {span}: {_totals(found)}.")
    else:
        output.show(f"{escape(name)} had no slots {span}. `oncue preview {escape(name)}` shows the next ones.")
    for note in found.notes:
        output.show(f"[yellow]Note: {escape(note)}.[/]")
    if found.holds and total:
        output.show("[green]Every slot is accounted for, once.[/]")


def _show_all(lines: Sequence[SummaryRow]) -> None:
    if not lines:
        output.show("There are no schedules to audit. `oncue schedules add NAME EXPRESSION TASK` makes one.")
        return
    table = output.table("schedule", "slots", "fates", "verdict", right=("slots",))
    for line in lines:
        bad = f"[bold red]{output.plural(line.problems, 'problem')}[/]"
        table.add_row(escape(line.name), f"{line.slots:,}", line.fates, bad if line.problems else "[green]holds[/]")
    output.show(table)


def _total(found: Audit) -> int:
    return sum(fate.slots for fate in found.fates)


def _totals(found: Audit) -> str:
    return ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(found.counts().items()))


def _stamp(moment: datetime) -> str:
    return f"{output.stamp(moment.replace(microsecond=0))} UTC"


def register(cli: typer.Typer) -> None:
    cli.command("audit")(audit_slots)
