"""`oncue audit`: the slots that a schedule, and the days that subjects should have had, and what became of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import typer

from oncue.app import Oncue
from oncue.cli import day_audit, failures, output, slots, values
from oncue.cli.day_audit import DaysSummary
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.cli.values import INSTANT
from oncue.errors import ScheduleNotFound
from oncue.model import Revision, Schedule
from oncue.policy.audit import Audit, Fate
from oncue.policy.moments import Moment
from oncue.policy.windows import is_window
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

    def take(self, name: str, found: Audit | DaysSummary) -> int:
        """Judge a schedule or a window; how many problems it has."""
        if isinstance(found, DaysSummary):
            count, named = found.problem_count, [
                f"{name}: day {day.day} of {day.subject}: {day.fate}: {day.reason}" for day in found.problems
            ]  # fmt: skip
        else:
            count, named = len(found.problems), [
                f"{name}: slot {instant(fate.scheduled_for)}: {fate.verdict}: {fate.reason}" for fate in found.problems
            ]  # fmt: skip
        self._named += named[: MOST_NAMED - len(self._named)]
        self._count += count
        return count

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
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The schedule or window.", show_default=False)
    ] = None,
    start: Annotated[str, typer.Option("--from", metavar="INSTANT", help=f"The first slot: {INSTANT}.")] = "-24h",
    end: Annotated[str, typer.Option("--to", metavar="INSTANT", help="The last slot.")] = "now",
    problems: Annotated[bool, typer.Option("--problems", help="Only what should not be.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Every schedule and window, one line each.")] = False,
    subject: Annotated[str | None, typer.Option("--subject", help="Of a window: the days of this subject.")] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Tell what became of every slot that a schedule, or every day that a window's subjects should have had.

    By default of the last 24 hours. The slots are worked out again from the
    schedule's revisions and laid beside the ledger. If one is doubled,
    unaccounted for, lost or unexpected, it is named on the standard error and
    the exit code is 4. A removed schedule can be audited by its name. Of a
    window, the days of all subjects are counted and checked, or shown one by
    one for a `--subject`.
    """
    if subject is not None and name is None:
        raise typer.BadParameter("expected the name of its window too", param_hint="--subject")
    if (name is None) != every:
        wanted = "expected the name of a schedule, or --all for every one" + ("" if name is None else ", not both")
        raise typer.BadParameter(wanted, param_hint="NAME")
    since, until = values.moment(start, "--from"), values.moment(end, "--to")
    found = find(app, database_url=database_url, schema=schema)
    findings = Findings()
    with values.naming(start="--from", end="--to"):
        if name is not None:
            tz, audit = ask(found, lambda: _audited(found, name, subject, since, until))
            findings.take(name, audit)
            _show_one(name, tz, audit, problems, as_json)
        elif as_json:
            ask(found, lambda: _print_all(found, since, until, problems, findings))
        else:
            _show_all(ask(found, lambda: _judged(found, since, until, findings)))
    findings.conclude()


async def _audited(
    app: Oncue, name: str, subject: str | None, since: Moment, until: Moment
) -> tuple[str, Audit | DaysSummary]:
    now, terms = await app.now(), await _terms(app, name)
    if is_window(terms.expression):
        return terms.tz, await _days(app, name, subject, since.at(now), until.at(now))
    if subject is not None:
        raise typer.BadParameter(f"{name!r} is a schedule without subjects: no window", param_hint="--subject")
    return terms.tz, await app.schedules.audit(name, since.at(now), until.at(now))


async def _days(app: Oncue, name: str, subject: str | None, since: datetime, until: datetime) -> DaysSummary:
    return await day_audit.summed_up(app, name, subject, since.astimezone(UTC).date(), until.astimezone(UTC).date())


async def _all_audited(app: Oncue, since: Moment, until: Moment) -> AsyncIterator[tuple[str, Audit | DaysSummary]]:
    """Every schedule, one at a time: all their slots together may be more than fits."""
    now, last = await app.now(), ""
    while page := await app.schedules.list(after=last, limit=PAGE):
        for schedule in page:
            if is_window(schedule.expression):
                yield schedule.name, await _days(app, schedule.name, None, since.at(now), until.at(now))
            else:
                yield schedule.name, await app.schedules.audit(schedule.name, since.at(now), until.at(now))
        last = page[-1].name


async def _print_all(app: Oncue, since: Moment, until: Moment, problems: bool, findings: Findings) -> None:
    with output.JsonList() as printed:
        async for name, found in _all_audited(app, since, until):
            findings.take(name, found)
            printed.add(_record(name, found, problems))


async def _judged(app: Oncue, since: Moment, until: Moment, findings: Findings) -> list[SummaryRow]:
    """A line for each schedule; a table is as wide as its widest, so it waits for the last."""
    lines: list[SummaryRow] = []
    with output.progress(known=False) as bar:
        progress = bar.add_task("auditing", total=None)
        async for name, found in _all_audited(app, since, until):
            lines.append(SummaryRow(name, _total(found), _totals(found), findings.take(name, found)))
            bar.update(progress, completed=len(lines))
    return lines


async def _terms(app: Oncue, name: str) -> Schedule | Revision:
    """The schedule, or its last revision: a removed one has one too."""
    try:
        return await app.schedules.get(name)
    except ScheduleNotFound:
        return (await app.schedules.revisions(name, limit=1))[0]


def _record(name: str, found: Audit | DaysSummary, problems: bool) -> dict[str, Any]:
    if isinstance(found, DaysSummary):
        return day_audit.record(found, problems)
    return audit_record(name, found, _chosen(found, problems))


def _chosen(found: Audit, problems: bool) -> Sequence[Fate]:
    return found.problems if problems else found.fates


# --- showing --------------------------------------------------------------------------------------------------------


def _show_one(name: str, tz: str, found: Audit | DaysSummary, problems: bool, as_json: bool) -> None:
    if as_json:
        output.show_json(_record(name, found, problems))
    elif isinstance(found, DaysSummary):
        day_audit.show(found, problems)
    else:
        _show_slots(name, tz, found, _chosen(found, problems))


def _show_slots(name: str, tz: str, found: Audit, chosen: Sequence[Fate]) -> None:
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


def _total(found: Audit | DaysSummary) -> int:
    return found.total if isinstance(found, DaysSummary) else sum(fate.slots for fate in found.fates)


def _totals(found: Audit | DaysSummary) -> str:
    if isinstance(found, DaysSummary):
        return found.fates
    return ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(found.counts().items()))


def _stamp(moment: datetime) -> str:
    return f"{output.stamp(moment.replace(microsecond=0))} UTC"


def register(cli: typer.Typer) -> None:
    cli.command("audit")(audit_slots)
