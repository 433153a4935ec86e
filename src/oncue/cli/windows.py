"""`oncue windows` and `oncue subjects`: daily windows, for whom they open, and what became of a day."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from oncue.cli import failures, output, values
from oncue.cli.actor import actor
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.cli.subject_table import SubjectTable, read_json
from oncue.errors import InvalidSubject
from oncue.model import DayCount, Schedule, Slot, Subject
from oncue.policy.durations import describe
from oncue.policy.subjects import shown_due
from oncue.policy.windows import rule_of
from oncue.records.windows import day_records, ledger_record, subject_record, window_record

Window = Annotated[str, typer.Argument(metavar="WINDOW", help="The window: its task's name.", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="SUBJECT", help="For whom it opens: a user.", show_default=False)]
At = Annotated[str, typer.Option("--at", help="When the day is over, such as 09:00.", show_default=False)]
Tz = Annotated[str | None, typer.Option("--tz", help="Its time zone; else the window's.", show_default=False)]
Weekdays = Annotated[
    str | None, typer.Option("--weekdays", help="Such as MON-FRI; else every day.", show_default=False)
]
DaysOff = Annotated[
    str | None,
    typer.Option("--days-off", metavar="DATES", help="Such as 2026-12-24,2026-12-25; 'none'.", show_default=False),
]
Args = Annotated[
    str | None, typer.Option("--args", metavar="JSON", help="Arguments of its own, a JSON object.", show_default=False)
]
DayOption = Annotated[str | None, typer.Option("--day", metavar="DATE", help="Such as 2026-11-18; else today, in UTC.")]

SUBJECTS = "Subjects of a window, for whom it opens: `list`, `show`, `add`, `edit`, `remove`, `import` or `run` them."
TOLD_ROWS = 50_000
"""After so many rows an import says how far it has come."""
NO_WINDOWS = "There are no windows: declare one with @app.task(schedule=daily(…)), and start a worker."
DAY_COLUMNS = ("cutoff", "open", "success", "cutoff_reached", "missed", "added_late")

subject_commands = typer.Typer(no_args_is_help=True)


def list_windows(
    window: Annotated[
        str | None, typer.Argument(metavar="[WINDOW]", help="Show a day of this window.", show_default=False)
    ] = None,
    day: DayOption = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the windows; or show what a day of one came to, by the minute of the cutoff in UTC."""
    wanted = _day(day, window)
    found = find(app, database_url=database_url, schema=schema)
    if window is None:
        windows: list[Schedule] = ask(found, lambda: found.windows.list())
        if as_json:
            output.show_json([window_record(one) for one in windows])
        elif windows:
            _show_windows(windows)
        else:
            output.show(NO_WINDOWS)
        return
    counts: list[DayCount] = ask(found, lambda: found.windows.day(window, wanted))
    records = day_records(counts)
    if as_json:
        output.show_json(records)
    elif records:
        table = output.table(*DAY_COLUMNS, right=DAY_COLUMNS[1:])
        for record in records:
            table.add_row(str(record["cutoff"]), *(f"{record[name]:,}" for name in DAY_COLUMNS[1:]))
        output.show(table)
    else:
        output.show("Nothing has happened on that day yet: no window has opened.")


def _show_windows(windows: list[Schedule]) -> None:
    table = output.table("window", "opens before", "attempts apart", "zone", "queue", "state")
    for one in windows:
        rule = rule_of(one.expression)
        state = "[green]enabled[/]" if one.enabled else f"[yellow]disabled: {escape(one.reason or '')}[/]"
        table.add_row(
            escape(one.name), describe(rule.length), describe(rule.retry), escape(one.tz), escape(one.queue), state
        )
    output.show(table)


@subject_commands.command("list")
def list_subjects(
    window: Window,
    after: Annotated[str, typer.Option("--after", help="Go on after this name.")] = "",
    prefix: Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Only names that begin so.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 100,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the subjects of a window, by name."""
    found = find(app, database_url=database_url, schema=schema)
    subjects: list[Subject] = ask(
        found, lambda: found.windows.subjects(window, after=after, prefix=prefix, limit=limit)
    )
    if as_json:
        output.show_json([subject_record(one) for one in subjects])
    elif subjects:
        table = output.table("subject", "at", "zone", "next day", "last day", "status", "last success")
        for one in subjects:
            status = " ".join(word for word in (one.status, one.reason and f"({one.reason})") if word)
            table.add_row(
                escape(one.name), shown_due(one.due), escape(one.tz or ""), one.day.isoformat(),
                "" if one.last_date is None else one.last_date.isoformat(), escape(status),
                "" if one.last_run_at is None else f"{one.last_run_at:%Y-%m-%d %H:%M} UTC",
            )  # fmt: skip
        output.show(table)
    else:
        more = f"No subject of {window} comes after {after!r}." if after else f"{window} has no subjects."
        if prefix:
            more = f"No subject of {window} begins with {prefix!r}" + (f" and comes after {after!r}." if after else ".")
        output.show(escape(f"{more} Add one with `oncue subjects add {window} NAME --at 09:00`."))


@subject_commands.command("show")
def show_subject(
    window: Window,
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show a subject, and what became of its last days."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Subject, list[Slot]]:
        return await found.windows.subject(window, name), await found.windows.ledger(window, name)

    subject, ledger = ask(found, work)
    record, days = subject_record(subject), [ledger_record(slot) for slot in ledger]
    if as_json:
        output.show_json({**record, "ledger": days})
        return
    output.show(output.details((field, _shown(value)) for field, value in record.items()))
    if days:
        _show_days(days)


def _shown(value: Any) -> str | None:
    """As a detail that is left out if there is nothing to tell."""
    if isinstance(value, list):
        return escape(", ".join(value))
    if isinstance(value, dict):
        return escape(json.dumps(value, ensure_ascii=False)) if value else None
    return None if value is None else escape(str(value))


def _show_days(days: list[dict[str, Any]]) -> None:
    table = output.table("day", "outcome", "job")
    for one in days:
        until = "" if one["days"] == 1 else f" to {one['until']} ({one['days']} days)"
        job = "" if one["job_id"] is None else str(one["job_id"])
        table.add_row(f"{one['day']}{until}", escape(str(one["outcome"])), job)
    output.show(table)


@subject_commands.command("add")
def add_subject(
    window: Window,
    name: Name,
    at: At,
    tz: Tz = None,
    weekdays: Weekdays = None,
    days_off: DaysOff = None,
    args: Args = None,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Add a subject to a window, or give it these terms, and no others, if it is there."""
    found = find(app, database_url=database_url, schema=schema)
    terms = _terms(at, tz, weekdays, days_off, args)
    subject: Subject = ask(found, lambda: found.windows.add(window, name, **terms, by=actor()))
    _show_span(subject)


@subject_commands.command("edit")
def edit_subject(
    window: Window,
    name: Name,
    at: Annotated[str | None, typer.Option("--at", help="When the day is over, such as 09:00.")] = None,
    tz: Tz = None,
    weekdays: Weekdays = None,
    days_off: DaysOff = None,
    args: Args = None,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Change what is given of a subject's terms; the rest stays. Of a day that is open, the next day counts."""
    found = find(app, database_url=database_url, schema=schema)
    terms = _terms(at, tz, weekdays, days_off, args)
    if not terms:
        raise typer.BadParameter("expected something to change: --at, --tz, --weekdays, --days-off or --args")
    subject: Subject = ask(found, lambda: found.windows.change(window, name, **terms, by=actor()))
    _show_span(subject)


def _terms(
    at: str | None, tz: str | None, weekdays: str | None, days_off: str | None, args: str | None
) -> dict[str, Any]:
    """Those that are given."""
    terms: dict[str, Any] = {"at": at, "tz": tz, "weekdays": weekdays}
    if days_off is not None:
        terms["days_off"] = [] if days_off == "none" else [day.strip() for day in days_off.split(",")]
    if args is not None:
        terms["args"] = read_json(args)
    return {name: value for name, value in terms.items() if value is not None}


def _show_span(subject: Subject) -> None:
    span = f"from {subject.opens_at:%Y-%m-%d %H:%M} UTC to its cutoff at {subject.cutoff_at:%Y-%m-%d %H:%M} UTC"
    output.show(f"{escape(subject.name)}: the window of {subject.day} is {span}.")


@subject_commands.command("remove")
def remove_subject(
    window: Window, name: Name, app: AppOption = None, database_url: DatabaseOption = None, schema: SchemaOption = None
) -> None:
    """Remove a subject from a window. Its job of today is cancelled if it has not ended."""
    found = find(app, database_url=database_url, schema=schema)
    ask(found, lambda: found.windows.remove(window, name, by=actor()))
    output.show(f"{escape(name)} is removed.")


@subject_commands.command("run")
def run_subject(
    window: Window, name: Name, app: AppOption = None, database_url: DatabaseOption = None, schema: SchemaOption = None
) -> None:
    """Open a subject's day now, before its time."""
    found = find(app, database_url=database_url, schema=schema)
    subject: Subject = ask(found, lambda: found.windows.run_now(window, name, by=actor()))
    output.show(f"{escape(name)}: job {subject.job_id} is for its day {subject.day}.")


@subject_commands.command("import")
def import_subjects(
    window: Window,
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", exists=True, dir_okay=False)],
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Add or change subjects from a CSV file with the columns subject, at, and tz, weekdays, days_off, args if wanted.

    Days off are separated by semicolons, args is a JSON object. An import that broke off, or met a wrong row, is simply
    started again: rows that are stored already are left alone.
    """
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> int:
        with file.open(newline="", encoding="utf-8-sig") as lines, _told(file) as progress:
            table = SubjectTable(lines, file.name)
            try:
                return await found.windows.add_many(window, table, by=actor(), progress=progress)
            except InvalidSubject as error:
                raise table.located(error) from None

    written: int = ask(found, work)
    output.show(f"{output.plural(written, 'subject')} written; all other rows were stored already.")


@contextmanager
def _told(file: Path) -> Iterator[Callable[[int], None]]:
    """Says how far an import has come: by a bar on a terminal, else by a line now and then."""
    with output.progress(known=True) as bar:
        if bar.disable:
            yield lambda done: failures.say(f"{done:,} rows are done") if done % TOLD_ROWS == 0 else None
            return
        with file.open("rb") as lines:
            task = bar.add_task("importing", total=max(sum(1 for _ in lines) - 1, 1))
        yield lambda done: bar.update(task, completed=done)


def _day(text: str | None, window: str | None) -> date | None:
    if text is None:
        return None
    if window is None:
        raise typer.BadParameter("expected a window: `oncue windows WINDOW --day DATE`", param_hint="--day")
    return values.day(text, "--day")


def register(cli: typer.Typer) -> None:
    cli.command("windows")(list_windows)
    cli.add_typer(subject_commands, name="subjects", help=SUBJECTS)
