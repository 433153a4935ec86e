"""`oncue trigger` and `oncue backfill`: slots decided by hand, under the same rules as all others."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from oncue.app import Oncue
from oncue.cli import failures, output, values
from oncue.cli.actor import actor
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.cli.values import INSTANT
from oncue.model import Schedule, Slot
from oncue.policy.triggers import TICK, trigger_of
from oncue.records.documents import instant
from oncue.records.schedules import slot_record
from oncue.verbs.schedules import Backfilled

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.", show_default=False)]
From = Annotated[str, typer.Option("--from", metavar="INSTANT", help=f"The first slot: {INSTANT}.")]
To = Annotated[str, typer.Option("--to", metavar="INSTANT", help="The last slot; not in the future.")]


def trigger_slot(
    name: Name,
    at: Annotated[
        str | None, typer.Option("--at", metavar="INSTANT", help=f"Claim this slot of the schedule: {INSTANT}.")
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Run a schedule's task by hand.

    With --at that slot is claimed, and refused if it was decided already.
    Without it the task runs now, in an extra slot: no regular one is used up.
    Either is refused while the schedule's max_instances are reached.
    """
    wanted = None if at is None else values.moment(at, "--at")
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Schedule, Slot, bool]:
        schedule, now = await found.schedules.get(name), await found.now()
        if wanted is None:
            return schedule, await found.schedules.run_now(name, by=actor()), False
        slot = await found.schedules.trigger(name, wanted.at(now), by=actor())
        return schedule, slot, slot.scheduled_for > now

    with values.naming(at="--at"):
        schedule, slot, is_early = ask(found, work)
    if is_early:
        failures.say("this slot is still to come: it is used up now, and will not run again at its time")
    if as_json:
        output.show_json({"schedule": name, **slot_record(slot)})
        return
    kind = "the extra slot" if wanted is None else "slot"
    output.show(f"job {slot.job_id} is made for {kind} {instant(slot.scheduled_for)} of {escape(name)}")
    if not schedule.enabled:
        why = escape(schedule.reason or "disabled")
        output.show(f"[yellow]The schedule itself does not run ({why}): this is its only job.[/]")


# --- backfill -------------------------------------------------------------------------------------------------------


def backfill_slots(
    name: Name,
    start: From,
    end: To,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Run the slots of a span of time that no leader has decided.

    Slots that were decided stay as they are, missed ones too: repeating a
    backfill makes nothing. The jobs run oldest slot first, as many at once as
    the schedule's max_instances.
    """
    first, last = values.moment(start, "--from"), values.moment(end, "--to")
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Schedule, datetime, datetime, Backfilled | list[datetime]]:
        schedule, now = await found.schedules.get(name), await found.now()
        span = first.at(now), last.at(now)
        undecided = found.schedules.undecided
        return schedule, *span, await (undecided(name, *span) if dry_run else _backfilled(found, name, *span))

    with values.naming(start="--from", end="--to"):
        schedule, since, until, answer = ask(found, work)
    if isinstance(answer, Backfilled):
        _show_done(schedule, since, until, answer, as_json)
    else:
        _show_plan(schedule, since, until, answer, as_json)


async def _backfilled(app: Oncue, name: str, start: datetime, end: datetime) -> Backfilled:
    with output.progress(known=True) as bar:
        line = bar.add_task("backfilling", total=None)
        return await app.schedules.backfill(
            name, start, end, by=actor(), told=lambda seen, total: bar.update(line, completed=seen, total=total)
        )


def _show_done(schedule: Schedule, since: datetime, until: datetime, done: Backfilled, as_json: bool) -> None:
    made = len(done.jobs)
    if as_json:
        span = {"from": instant(since), "to": instant(until)}
        counts = {"made": made, "present": done.present, "skipped": done.skipped}
        output.show_json({"schedule": schedule.name, **span, **counts, "jobs": done.jobs})
        return
    output.show(
        f"{output.plural(made, 'job')} made for {escape(schedule.name)}; {output.plural(done.present, 'slot')} "
        f"{_were(done.present)} decided already."
    )
    if made:
        at_once = "one at a time" if schedule.max_instances == 1 else f"at most {schedule.max_instances} at once"
        output.show(f"They run oldest slot first, {at_once}.")
        if done.skipped:
            skipped = output.plural(done.skipped, "slot")
            output.show(
                f"{skipped} skipped: their jobs would have the same key, and job {done.jobs[0]} stands for them."
            )
    else:
        _show_nothing(schedule, since, until, done.present)


def _show_plan(schedule: Schedule, since: datetime, until: datetime, absent: list[datetime], as_json: bool) -> None:
    present = trigger_of(schedule).count(since - TICK, until) - len(absent)
    if as_json:
        span = {"from": instant(since), "to": instant(until)}
        slots = [instant(slot) for slot in absent]
        made = {"made": 0, "would_make": len(absent), "present": present}
        output.show_json({"schedule": schedule.name, **span, **made, "slots": slots})
        return
    output.show(
        f"{output.plural(len(absent), 'job')} would be made for {escape(schedule.name)}; "
        f"{output.plural(present, 'slot')} {_were(present)} decided already. Nothing was written."
    )
    if absent:
        output.show(f"The first would be for {instant(absent[0])}, the last for {instant(absent[-1])}.")
    else:
        _show_nothing(schedule, since, until, present)


def _show_nothing(schedule: Schedule, since: datetime, until: datetime, present: int) -> None:
    """What to do next where a backfill has nothing to do."""
    if schedule.expression.startswith("@every") and since < schedule.started_at:
        output.show(
            f"The slots of {escape(schedule.expression)} are counted from {instant(schedule.started_at)}, when this "
            "revision began: there are none before."
        )
    elif present:
        span = f"--from {instant(since)} --to {instant(until)}"
        output.show(f"`oncue audit {escape(schedule.name)} {span}` tells what became of each.")


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def register(cli: typer.Typer) -> None:
    cli.command("trigger")(trigger_slot)
    cli.command("backfill")(backfill_slots)
