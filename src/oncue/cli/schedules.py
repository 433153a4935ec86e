"""`oncue schedules`: what there is, what it was and did, and changing it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oncue.app import Oncue
from oncue.cli import arguments, edit_previews, output, slots, values
from oncue.cli.actor import actor
from oncue.cli.arguments import ArgsOption, Pairs
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.errors import ScheduleNotFound
from oncue.model import DELIVER, Missed, Revision, Schedule, Slot
from oncue.policy import durations
from oncue.policy.schedules import UNDECLARED
from oncue.policy.triggers import DST_POLICIES, DstPolicy, cron
from oncue.records.schedules import revision_record, schedule_record, slot_record
from oncue.task import Task
from oncue.verbs.schedules import Comparison
from oncue.verbs.schedules.editing import ScheduleEdit

if TYPE_CHECKING:
    from rich.table import Table

DST_HELP = f"At clock changes: {', '.join(DST_POLICIES)}."
MISSED_HELP = "Slots found late: latest, each or none."

"""Of a schedule that delivers, as `app.webhook` has them: a delivery that is tried again does not hold up the next."""

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.", show_default=False)]
TimeZone = Annotated[str | None, typer.Option("--tz", metavar="ZONE", help="A time zone such as Europe/Berlin.")]
Dst = Annotated[str | None, typer.Option("--dst", metavar="POLICY", help=DST_HELP)]
MissedOption = Annotated[str | None, typer.Option("--missed", metavar="POLICY", help=MISSED_HELP)]
Grace = Annotated[
    str | None, typer.Option("--grace", metavar="DURATION", help="A slot that starts later than this is missed.")
]
MaxRetries = Annotated[int | None, typer.Option("--max-retries", help="Of its jobs, instead of the task's own.")]
MaxInstances = Annotated[int | None, typer.Option("--max-instances", help="Unfinished jobs of it at once.")]
QueueOption = Annotated[str | None, typer.Option("--queue", "-q", help="Instead of the task's own.")]
Priority = Annotated[int | None, typer.Option("--priority", "-p", help="From 0 to 100.")]
Description = Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What it is for.")]

group = typer.Typer()


# --- looking --------------------------------------------------------------------------------------------------------


@group.callback(invoke_without_command=True)
def list_schedules(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="At most so many.")] = 1000,
    after: Annotated[str, typer.Option("--after", metavar="NAME", help="Go on after this one.")] = "",
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the schedules; `show`, `add`, `edit`, `enable`, `disable` or `remove` one."""
    if context.invoked_subcommand is not None:
        return
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[list[Schedule], list[str], datetime]:
        schedules = await found.schedules.list(after=after, limit=limit)
        return schedules, await _unmade(found), await found.now()

    schedules, unmade, now = ask(found, work)
    if as_json:
        output.show_json([schedule_record(schedule) for schedule in schedules])
        return
    if schedules:
        _show_list(schedules, now, full=len(schedules) == limit)
    elif after:
        output.show("No schedule comes after that name.")
    elif not unmade:
        output.show(
            "There are no schedules yet. `@app.task(schedule=cron(…))` declares one in code, "
            "`oncue schedules add NAME EXPRESSION TASK` makes one here."
        )
    if unmade:
        output.show(f"The application declares {escape(', '.join(unmade))}: the next worker that starts makes it so.")


async def _unmade(app: Oncue) -> list[str]:
    """The schedules that the code declares and that no worker has told the database about."""
    declared = sorted(app.internals.scheduled)
    return [name for name in declared if not await _is_there(app, name)]


async def _is_there(app: Oncue, name: str) -> bool:
    try:
        await app.schedules.get(name)
    except ScheduleNotFound:
        return False
    return True


def _show_list(schedules: Sequence[Schedule], now: datetime, *, full: bool) -> None:
    columns = ("name", "task", "schedule", "state", "next run", "UTC", "last run", "revision")
    table = output.table(*columns, right=("revision",))
    for schedule in schedules:
        next_run = schedule.next_run_at
        table.add_row(
            escape(schedule.name), escape(_target(schedule)), escape(_rule(schedule)), _state(schedule),
            "" if next_run is None else output.local(next_run, schedule.tz),
            "" if next_run is None else f"{output.stamp(next_run)}, {output.when(next_run, now)}",
            output.when(schedule.last_run_at, now) or "never", str(schedule.revision),
        )  # fmt: skip
    output.show(table)
    if full:
        output.show(f"[dim]There may be more: --after {escape(schedules[-1].name)}[/]")


def _target(schedule: Schedule) -> str:
    return f"webhook {schedule.group}" if schedule.task == DELIVER else schedule.task


def _rule(terms: Schedule | Revision) -> str:
    return f"{terms.expression}  {terms.tz}"


def _state(terms: Schedule | Revision) -> str:
    if terms.enabled:
        return "[green]enabled[/]"
    return f"[yellow]disabled: {escape(terms.reason)}[/]" if terms.reason else "[yellow]disabled[/]"


@group.command("show")
def show_schedule(
    name: Name,
    count: Annotated[int, typer.Option("--slots", "-n", min=1, max=10_000, help="So many of the last slots.")] = 10,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show one schedule with its revisions and its last slots."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Schedule, list[Revision], list[Slot], datetime]:
        schedule = await found.schedules.get(name)
        revisions, last = (await found.schedules.revisions(name))[::-1], await found.schedules.latest_slots(name, count)
        return schedule, revisions, last, await found.now()

    schedule, revisions, last, now = ask(found, work)
    if as_json:
        record = schedule_record(schedule)
        record["revision_list"] = [revision_record(revision) for revision in revisions]
        output.show_json({**record, "slot_list": [slot_record(slot) for slot in last]})
        return
    output.show(output.details(_lines(schedule, now)))
    output.show(_revisions_table(revisions))
    if last:
        output.show(slots.table(slots.told(last), schedule.tz))
    else:
        output.show("None of its slots has come yet.")


def _lines(schedule: Schedule, now: datetime) -> list[tuple[str, Any]]:
    next_run, origin = schedule.next_run_at, schedule.declared_by
    return [
        ("schedule", escape(schedule.name)),
        ("description", escape(schedule.description)),
        ("expression", escape(schedule.expression)),
        ("time zone", f"{schedule.tz}  (at clock changes: {schedule.dst})"),
        ("state", _state(schedule)),
        ("declared", "at run time" if origin is None else f"in the code of {escape(origin)}"),
        ("task", escape(schedule.task)),
        ("arguments", escape(json.dumps(json.loads(schedule.args), ensure_ascii=False))),
        ("queue", escape(schedule.queue)),
        ("priority", schedule.priority),
        ("missed", f"{schedule.missed}, grace {durations.describe(schedule.grace)}"),
        ("max instances", schedule.max_instances),
        ("max retries", schedule.max_retries),
        ("key", None if schedule.key is None else escape(schedule.key)),
        ("next run", None if next_run is None else output.local(next_run, schedule.tz)),
        ("", output.full(next_run, now)),
        ("last run", output.full(schedule.last_run_at, now) or "never"),
        ("revision", f"{schedule.revision}, since {output.full(schedule.started_at, now)}"),
        ("ledger since", output.full(schedule.horizon, now)),
        ("created", f"{output.full(schedule.created_at, now)} by {escape(schedule.created_by)}"),
        ("updated", output.full(schedule.updated_at, now)),
    ]


def _revisions_table(revisions: Sequence[Revision]) -> Table:
    columns = ("revision", "from (UTC)", "by", "state", "schedule", "task", "arguments", "missed", "grace", "instances")
    table = output.table(*columns, right=("revision", "instances"))
    for revision in revisions:
        table.add_row(
            str(revision.revision), output.stamp(revision.started_at), escape(revision.changed_by), _state(revision),
            escape(f"{_rule(revision)} {revision.dst}"), escape(revision.task), escape(revision.args), revision.missed,
            durations.describe(revision.grace), str(revision.max_instances),
        )  # fmt: skip
    return table


# --- changing -------------------------------------------------------------------------------------------------------


@group.command("add")
def add_schedule(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it shall be called.", show_default=False)],
    expression: Annotated[
        str, typer.Argument(metavar="EXPRESSION", help="Such as '0 3 * * *', @daily or '@every 90s'; quote it.")
    ],
    task: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="The task's name; or --webhook.", show_default=False)
    ] = None,
    pairs: Pairs = None,
    args: ArgsOption = None,
    webhook: Annotated[
        str | None,
        typer.Option("--webhook", metavar="NAME", help="Deliver to this webhook; payload=JSON is its payload."),
    ] = None,
    tz: TimeZone = None,
    dst: Dst = None,
    missed: MissedOption = None,
    grace: Grace = None,
    max_instances: MaxInstances = None,
    max_retries: MaxRetries = None,
    queue: QueueOption = None,
    priority: Priority = None,
    description: Description = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Do not fire it until it is enabled.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Make a schedule: `oncue schedules add nightly '0 3 * * *' send_report --tz Europe/Berlin`.

    Its first slot is the first one after now. UTC is the time zone unless one is given. With --webhook it delivers:
    `oncue schedules add hourly @hourly --webhook orders`. Late deliveries then go out for a day, and may overlap.
    """
    rule = cron(expression, tz=tz or "UTC", dst=_policy(dst) or "debian")
    if webhook is not None:
        pairs, task = [*([] if task is None else [task]), *(pairs or [])], None
        _refuse_of_tasks(webhook, max_retries, queue, pairs)
    elif task is None:
        raise typer.BadParameter("give the name of a task, or --webhook NAME", param_hint="TASK")
    found = find(app, needs_tasks=task is not None, may_create=True, database_url=database_url, schema=schema)
    wanted = None if task is None else found.find(task)
    given = (
        _meant(arguments.named(pairs, args))
        if wanted is None
        else _fitting(found, wanted, arguments.named(pairs, args))
    )
    made = ask(
        found,
        lambda: found.schedules.create(
            name,
            rule,
            wanted,
            given,
            webhook=webhook,
            description=description or "",
            queue=queue,
            priority=priority,
            missed=_missed(missed) or "latest",
            grace=None if grace is None else values.duration(grace, "--grace"),
            max_instances=max_instances,
            max_retries=max_retries,
            enabled=not disabled,
            created_by=actor(),
        ),
    )
    _show_changed(made, f"schedule {escape(name)} is made", as_json)


def _refuse_of_tasks(webhook: str, max_retries: int | None, queue: str | None, pairs: Sequence[str]) -> None:
    """What only the schedule of a task may have: a webhook itself says how its deliveries are tried again."""
    for option, value in (("--max-retries", max_retries), ("--queue", queue)):
        if value is not None:
            raise typer.BadParameter(f"expected none with --webhook: webhook {webhook} says it", param_hint=option)
    if any("=" not in pair for pair in pairs):
        raise typer.BadParameter("give a task or --webhook, not both", param_hint="--webhook")


def _meant(typed: dict[str, Any]) -> dict[str, Any]:
    return {name: value.meant() if isinstance(value, arguments.Typed) else value for name, value in typed.items()}


@group.command("edit")
def edit_schedule(
    name: Name,
    pairs: Pairs = None,
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="All arguments, as a JSON object.")] = None,
    expression: Annotated[
        str | None, typer.Option("--expression", "-e", metavar="EXPRESSION", help="Such as '0 3 * * *'.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", metavar="TASK", help="Run this one instead.")] = None,
    tz: TimeZone = None,
    dst: Dst = None,
    missed: MissedOption = None,
    grace: Grace = None,
    max_instances: MaxInstances = None,
    max_retries: MaxRetries = None,
    queue: QueueOption = None,
    priority: Priority = None,
    description: Description = None,
    rename: Annotated[str | None, typer.Option("--rename", metavar="NAME", help="Its new name.")] = None,
    webhook: Annotated[
        str | None, typer.Option("--webhook", metavar="NAME", help="Deliver to this one instead, if it delivers.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which of the next runs go and come.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Change what is given; the rest stays. The edit starts from now: earlier slots are not fired again."""
    found = find(app, needs_tasks=task is not None, database_url=database_url, schema=schema)
    typed = arguments.named(pairs, args)
    keeps_args = not pairs and args is None

    def terms(before: Schedule) -> ScheduleEdit:
        given = {**(_own_args(before) if args is None else {}), **typed}
        return ScheduleEdit(
            rule=expression,
            tz=tz,
            dst=_policy(dst),
            task=task,
            args=None if keeps_args else _fitting_for(found, before, task, given),
            webhook=webhook,
            description=description,
            queue=queue,
            priority=priority,
            missed=_missed(missed),
            grace=None if grace is None else values.duration(grace, "--grace"),
            max_instances=max_instances,
            max_retries=max_retries,
            new_name=rename,
        )

    async def compare() -> Comparison:
        before = await found.schedules.get(name)
        return await found.schedules.preview_change(before.name, **terms(before))

    async def work() -> tuple[Schedule, Schedule]:
        before = await found.schedules.get(name)
        return before, await found.schedules.change(name, **terms(before), changed_by=actor())

    if dry_run:
        edit_previews.show(ask(found, compare), as_json)
        return
    before, after = ask(found, work)
    changed = "is as it was: nothing was changed" if before == after else "is changed"
    if before.name != after.name:
        changed = f"is now called {escape(after.name)}"
    _show_changed(after, f"schedule {escape(before.name)} {changed}", as_json)


def _policy(dst: str | None) -> DstPolicy | None:
    """Checked where every other rule is, with the same complaint."""
    return dst  # type: ignore[return-value]


def _missed(missed: str | None) -> Missed | None:
    return missed  # type: ignore[return-value]


def _own_args(schedule: Schedule) -> dict[str, Any]:
    """The arguments that its author gave: which webhook it delivers to is not one of them."""
    known: dict[str, Any] = json.loads(schedule.args)
    return {name: value for name, value in known.items() if schedule.group is None or name != "webhook"}


def _fitting(app: Oncue, task: Task[Any, Any], given: dict[str, Any]) -> dict[str, Any]:
    limit = app.settings.max_args_bytes
    return arguments.fitting(given, lambda meant: task.arguments.dump_for_slots(meant, limit))


def _fitting_for(app: Oncue, before: Schedule, task: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a schedule: of one that delivers only the payload, which any value may be."""
    if before.group is not None and task is None:
        return _meant(given)
    return _fitting(app, app.find(task or before.task), given)


def _show_changed(schedule: Schedule, sentence: str, as_json: bool) -> None:
    if as_json:
        output.show_json(schedule_record(schedule))
        return
    output.show(f"{sentence} (revision {schedule.revision}).")
    if schedule.next_run_at is not None:
        output.show(f"Next run: {_next_run(schedule, schedule.next_run_at)}.")
    elif not schedule.enabled:
        why = escape(schedule.reason or "disabled")
        output.show(f"It does not run ({why}) until `oncue schedules enable {escape(schedule.name)}`.")


def _next_run(schedule: Schedule, instant: datetime) -> str:
    utc = f"{output.stamp(instant)} UTC"
    return utc if schedule.tz == "UTC" else f"{output.local(instant, schedule.tz)} ({utc})"


@group.command("enable")
def enable_schedule(
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Let a schedule run again, from now on. What was due while it was disabled is not made up for."""
    before, after = _toggled(name, True, app, database_url, schema)
    _show_changed(after, f"schedule {escape(name)} {_was(before, after, 'enabled')}", as_json)
    if before.reason == UNDECLARED and not as_json:
        output.show(
            f"[yellow]The code of {escape(before.declared_by or '')} does not declare it: its next worker that starts "
            "disables it again.[/]"
        )


@group.command("disable")
def disable_schedule(
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Stop a schedule, one declared in code too. Jobs that it has made already still run."""
    before, after = _toggled(name, False, app, database_url, schema)
    _show_changed(after, f"schedule {escape(name)} {_was(before, after, 'disabled')}", as_json)


def _toggled(
    name: str, enabled: bool, app: str | None, database_url: str | None, schema: str | None
) -> tuple[Schedule, Schedule]:
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Schedule, Schedule]:
        before = await found.schedules.get(name)
        return before, await found.schedules.toggle(name, enabled, changed_by=actor())

    return ask(found, work)


def _was(before: Schedule, after: Schedule, word: str) -> str:
    return f"was {word} already" if before.revision == after.revision else f"is {word}"


@group.command("remove")
def remove_schedule(
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Remove a schedule. Its slots stay in the ledger, so that no later schedule of its name runs them again."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> None:
        await found.schedules.get(name)
        await found.schedules.delete(name, changed_by=actor())

    ask(found, work)
    if as_json:
        output.show_json({"name": name, "removed": True})
    else:
        output.show(
            f"schedule {escape(name)} is removed. Jobs that it has made stay, and `oncue audit {escape(name)}` still "
            "tells what became of its slots."
        )


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="schedules")
