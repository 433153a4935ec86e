"""What `oncue schedules edit --dry-run` shows: which of the next runs go, stay and come."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.cli import output
from oncue.cli.output import escape
from oncue.model import Schedule
from oncue.policy.clock_changes import told
from oncue.policy.triggers import Rule
from oncue.records.schedules import comparison_record
from oncue.verbs.schedules import ComparedFire, Comparison

STYLES = {"goes": "red", "new": "green", "stays": "dim"}


def show(found: Comparison, as_json: bool) -> None:
    if as_json:
        output.show_json(comparison_record(found))
        return
    _show_side("now", found, found.before, found.going, "goes")
    _show_side("after the edit", found, found.after, found.coming, "new")
    if found.given_up:
        slots = output.plural(found.given_up, "slot")
        output.show(f"{slots} due and not decided would be told as missed: an edit starts from now.")
    kind = "It would be a new revision." if found.is_revision else "It would be no new revision."
    output.show(f"{kind} Nothing was written.")


def _show_side(title: str, found: Comparison, side: Schedule, compared: Sequence[ComparedFire], word: str) -> None:
    output.show(f"[bold]{title}[/]: {escape(side.expression)}  {side.tz}, at clock changes: {side.dst}")
    if not compared:
        output.show("It has no further slot.")
        return
    rule = Rule(side.expression, side.tz, side.dst)  # type: ignore[arg-type]
    table = output.table("", "local time", "UTC", "", "clock change")
    for fire, stays in compared:
        mark = "stays" if stays else word
        table.add_row(
            f"[{STYLES[mark]}]{mark}[/]", f"{fire.local:%a} {output.local(fire.scheduled_for, side.tz)}",
            f"{output.stamp(fire.scheduled_for)} UTC", output.when(fire.scheduled_for, found.now),
            told(rule, fire.scheduled_for, fire.local, fire.mark),
        )  # fmt: skip
    output.show(table)
