"""`oncue audit` of a window: what became of the days of its subjects. Subjects are read a page at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import typer

from oncue.app import Oncue
from oncue.cli import output
from oncue.cli.output import escape
from oncue.policy.days import PROBLEMS, DayFate, SubjectDay
from oncue.policy.windows import ONE_DAY
from oncue.records.windows import day_totals, subject_day_record

PAGE, MOST_LISTED, MOST_DAYS = 1000, 1000, 366
STYLES: dict[DayFate, str] = {"success": "green", "cutoff_reached": "yellow", "missed": "yellow"}
COUNTED = ("open", "success", "cutoff_reached", "missed", "added_late")


@dataclass(slots=True)
class DaysSummary:
    """What became of the days of all subjects of a window, or of one: counts, and the first days that matter."""

    window: str
    start: date
    end: date
    subject: str | None
    by_day: list[tuple[date, dict[str, int]]]
    """What was counted while the days went by, without a look at each subject."""
    subjects: int = 0
    counts: Counter[DayFate] = field(default_factory=Counter)
    problem_count: int = 0
    days: list[SubjectDay] = field(default_factory=list)
    """Of one subject all of them; of a whole window those that should not be, the first thousand."""

    @property
    def total(self) -> int:
        return self.counts.total()

    @property
    def problems(self) -> list[SubjectDay]:
        return [day for day in self.days if day.fate in PROBLEMS]

    @property
    def fates(self) -> str:
        return ", ".join(f"{count:,} {fate}" for fate, count in sorted(self.counts.items()))


async def summed_up(app: Oncue, window: str, subject: str | None, start: date, end: date) -> DaysSummary:
    if not 0 <= (end - start).days < MOST_DAYS:
        expected = f"expected at most {MOST_DAYS} days, from an earlier date to a later one, not {start} to {end}"
        raise typer.BadParameter(expected, param_hint="--from, --to")
    days = [start + ONE_DAY * number for number in range((end - start).days + 1)]
    found = DaysSummary(window, start, end, subject, [])
    if subject is None:
        found.by_day = [(day, day_totals(await app.windows.day(window, day))) for day in days]
    after, is_left = "", True
    with output.progress(known=False) as bar:
        progress = bar.add_task(f"auditing subjects of {window}", total=None)
        while is_left:
            page = await app.windows.audit(window, start, end, subject=subject, after=after, limit=PAGE)
            _add(found, page.subjects, page.counts(), page.days if subject is not None else page.problems)
            found.problem_count += len(page.problems)
            after, is_left = page.last or after, subject is None and page.subjects == PAGE
            bar.update(progress, completed=found.subjects)
    return found


def _add(found: DaysSummary, subjects: int, counts: Counter[DayFate], days: Sequence[SubjectDay]) -> None:
    found.subjects += subjects
    found.counts.update(counts)
    found.days += days[: MOST_LISTED - len(found.days)]


def record(found: DaysSummary, problems: bool) -> dict[str, Any]:
    days = found.problems if problems else found.days
    return {
        "window": found.window, "subject": found.subject, "start": found.start.isoformat(),
        "end": found.end.isoformat(), "holds": not found.problem_count, "subjects": found.subjects,
        "counts": dict(sorted(found.counts.items())), "problems": found.problem_count,
        "by_day": [{"day": day.isoformat(), **totals} for day, totals in found.by_day],
        "days": [subject_day_record(day) for day in days],
    }  # fmt: skip


def show(found: DaysSummary, problems: bool) -> None:
    if found.by_day and not problems:
        table = output.table("day", *COUNTED, right=COUNTED)
        for day, totals in found.by_day:
            table.add_row(day.isoformat(), *(f"{totals[name]:,}" for name in COUNTED))
        output.show(table)
    if days := found.problems if problems else found.days:
        output.show(_table(days))
    whose = output.plural(found.subjects, "subject") if found.subject is None else escape(found.subject)
    span = f"from {found.start} to {found.end}"
    if not found.total:
        output.show(f"{escape(found.window)}, {whose}: there were no days {span}.")
        return
    output.show(f"{escape(found.window)} {span}, {whose}: {found.fates}.")
    if not found.problem_count:
        output.show("[green]Every day is accounted for, once.[/]")


def _table(days: Sequence[SubjectDay]) -> Any:
    table = output.table("subject", "day", "days", "fate", "reason", "job", right=("days", "job"))
    for day in days:
        until = "" if day.until is None else f" to {day.until}"
        style = "bold red" if day.fate in PROBLEMS else STYLES.get(day.fate, "dim")
        table.add_row(
            escape(day.subject), f"{day.day}{until}", f"{day.days:,}", f"[{style}]{day.fate}[/]",
            escape(day.reason or ""), "" if day.job_id is None else str(day.job_id),
        )  # fmt: skip
    return table
