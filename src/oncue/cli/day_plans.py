"""`oncue simulate --window`: the plan of one day of a window, before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from math import inf
from random import Random
from typing import Any

import typer

from oncue.app import Oncue
from oncue.cli import output, scenarios
from oncue.cli.finding import ask, has_database
from oncue.cli.output import escape
from oncue.planning import days, reading
from oncue.planning.days import DayFigures, DayRun, DayScenario
from oncue.planning.sentences import about, percent, plural
from oncue.policy import windows
from oncue.policy.windows import ONE_DAY
from oncue.task import Task

PAGE, MOST_BUCKETS = 10_000, 30
ASSUMED = "1s"
NOT_MODELLED = (
    "this is arithmetic on the rules of the engine: the seats of all nodes are one pool, and how a database or a model "
    "slows down under load is not in it"
)


def plan(
    app: Oncue,
    window: str,
    *,
    seats: int | None,
    subjects: Sequence[str],
    day: date | None,
    takes: Sequence[str],
    failures: Sequence[str],
    seed: int,
    as_json: bool,
) -> None:
    task = app.find(window)
    if task.window is None or task.schedule is None:
        raise typer.BadParameter(f"{window!r} is no window: its task has no daily(…) schedule", param_hint="--window")
    measured = not takes and has_database(app)
    duration, share = scenarios.of_task(app, task.name, ["measured"] if measured else takes, failures)
    rule = windows.rule_of(task.schedule.rule.expression)
    with scenarios.naming("--subjects"):
        given = reading.due_times(subjects)
        if not given and not has_database(app):
            raise ValueError("there is no database yet that has subjects; say how many, such as 5000@09:00")
    on, opened = _drawn(given, rule.length, seed, day) if given else ask(app, lambda: _stored(app, window, day))
    start, subject_windows = days.in_order(opened)
    scenario = DayScenario(
        start, subject_windows, task.window.max_concurrency if seats is None else seats, rule.retry,
        task.options(None).timeout, duration or reading.spread(ASSUMED), share, seed, _notice(app, task),
    )  # fmt: skip
    found = days.planned(scenario)
    notes = [] if duration is not None else [f"attempts are assumed to take {ASSUMED}: say --durations {task.name}=…"]
    if as_json:
        output.show_json(_document(task.name, on, found, [*notes, NOT_MODELLED]))
    else:
        _show(task.name, on, found, [*notes, NOT_MODELLED])


def _notice(app: Oncue, task: Task[Any, Any]) -> float:
    """How long after its cutoff an attempt keeps its seat: a plain function, in a thread, until it ends."""
    return app.settings.pace.reconcile if task.is_async else inf


def _drawn(
    given: Sequence[reading.DueTimes], length: float, seed: int, day: date | None
) -> tuple[date, list[days.OpenDay]]:
    """As many subjects as were asked for, with due times at random minutes."""
    on = day or date(2030, 1, 1)
    dice, made, before = Random(f"{seed}/due"), list[days.OpenDay](), timedelta(seconds=length)
    for one in given:
        for _ in range(one.subjects):
            minute = one.first if one.last is None else dice.randrange(one.first, one.last)
            cutoff_at = windows.slot_of(on) + timedelta(minutes=minute)
            made.append(days.OpenDay(cutoff_at - before, cutoff_at, f"subject{len(made):07}"))
    return on, made


async def _stored(app: Oncue, window: str, day: date | None) -> tuple[date, list[days.OpenDay]]:
    """The window of every subject that there is, on that day."""
    on, found, after = day or (await app.now()).date() + ONE_DAY, list[days.OpenDay](), ""
    schedule = await app.windows.get(window)
    rule = windows.rule_of(schedule.expression)
    while page := await app.windows.subjects(window, after=after, limit=PAGE):
        for one in page:
            span = windows.day_of(windows.terms_of(one, rule, schedule.tz), on)
            if span is not None:
                found.append(days.OpenDay(span.opens_at, span.cutoff_at, one.name))
        after = page[-1].name
    return on, found


# --- showing --------------------------------------------------------------------------------------------------------


def _show(name: str, on: date, found: DayFigures, notes: Sequence[str]) -> None:
    scenario, total = found.scenario, len(found.scenario.subjects)
    output.show(
        f"[bold]{escape(name)}[/]  {on}, {plural(total, 'subject')}, {plural(scenario.seats, 'seat')}, attempts take "
        f"{escape(str(scenario.duration))}, {percent(scenario.failures)} fail, seed {scenario.seed}\n"
    )
    style = "red" if found.misses > found.unavoidable else "green"
    output.show(f"[{style}]{_verdict(found)}[/]")
    output.show(_needed(found))
    output.show(f"Seats in use: {percent(found.in_use(found.run))}; {plural(found.run.attempts, 'attempt')}.")
    _show_buckets(found)
    _show_seats(found)
    for note in notes:
        output.show(f"[yellow]Note: {escape(note)}.[/]")


def _verdict(found: DayFigures) -> str:
    total, with_seats = len(found.scenario.subjects), f"with {plural(found.scenario.seats, 'seat')}"
    if not found.misses:
        return f"No subject misses its cutoff {with_seats}."
    return f"{found.misses:,} of {plural(total, 'subject')} miss their cutoff {with_seats}."


def _needed(found: DayFigures) -> str:
    leaves = f"{plural(found.needed, 'seat')} {'is' if found.needed == 1 else 'are'} needed for no misses."
    if not found.unavoidable:
        return leaves
    return (
        f"{found.unavoidable:,} miss it with any number of seats: their attempts fail or take too long. "
        f"{plural(found.needed, 'seat')} {'leaves' if found.needed == 1 else 'leave'} only these."
    )


def _show_buckets(found: DayFigures) -> None:
    short = [bucket for bucket in found.buckets if bucket.misses]
    shown = found.buckets if len(found.buckets) <= MOST_BUCKETS else short[:MOST_BUCKETS]
    if not shown:
        return
    table = output.table("cutoff (UTC)", "subjects", "misses", "last success before it", right=("subjects", "misses"))
    for one in shown:
        latest = "" if one.latest is None else about(one.latest)
        table.add_row(f"{one.cutoff:%Y-%m-%d %H:%M}", f"{one.subjects:,}", f"{one.misses:,}", latest)
    output.show("\n[bold]Cutoffs[/]" + ("" if len(shown) == len(found.buckets) else ", the first with misses"))
    output.show(table)


def _show_seats(found: DayFigures) -> None:
    table = output.table(
        "seats", "misses", "in use", "most at once", right=("seats", "misses", "in use", "most at once")
    )
    for run in _runs(found):
        table.add_row(f"{run.seats:,}", f"{run.misses:,}", percent(found.in_use(run)), f"{run.peak:,}")
    output.show("\n[bold]Numbers of seats[/]")
    output.show(table)


def _runs(found: DayFigures) -> list[DayRun]:
    return sorted([found.run, *found.others], key=lambda run: run.seats)


def _document(name: str, on: date, found: DayFigures, notes: Sequence[str]) -> dict[str, Any]:
    scenario = found.scenario
    return {
        "window": name, "day": on.isoformat(), "subjects": len(scenario.subjects), "seats": scenario.seats,
        "seed": scenario.seed, "durations": str(scenario.duration), "failures": scenario.failures,
        "retry_seconds": scenario.retry, "timeout_seconds": scenario.timeout, "misses": found.misses,
        "seats_needed": found.needed, "unavoidable_misses": found.unavoidable, "attempts": found.run.attempts,
        "buckets": [
            {"cutoff": _stamp(one.cutoff), "subjects": one.subjects, "misses": one.misses, "spare_seconds": one.latest}
            for one in found.buckets
        ],
        "numbers_of_seats": [
            {"seats": run.seats, "misses": run.misses, "in_use": round(found.in_use(run), 6), "most_at_once": run.peak}
            for run in _runs(found)
        ],
        "notes": list(notes),
    }  # fmt: skip


def _stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
