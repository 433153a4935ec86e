"""`oncue simulate`: how an application would do on so many nodes over so many days, in virtual time."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from oncue.app import Oncue
from oncue.cli import day_plans, output, scenarios, values
from oncue.cli.finding import AppOption, find
from oncue.cli.output import JsonOption, escape
from oncue.errors import OncueError
from oncue.planning import charts, running
from oncue.planning.figures import Figures, figures, searched
from oncue.planning.report import document, page, tables
from oncue.planning.scenario import Scenario
from oncue.planning.sentences import Tone, about, notes, plural, sentences
from oncue.settings import app_name

STYLES: dict[Tone, str] = {"good": "green", "bad": "red", "note": "default"}


def _list(name: str, metavar: str, says: str) -> Any:
    return typer.Option(name, metavar=metavar, help=f"{says}, or @FILE. Repeatable.")


def simulate(
    days: Annotated[
        int | None,
        typer.Option("--days", min=1, max=scenarios.LONGEST_DAYS, help="How many to simulate. \\[default: 7]"),
    ] = None,
    length: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Instead of --days, such as 36h.")
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=1000, help="Workers at once.")] = 1,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", help="Seats of each. \\[default: the application's setting]")
    ] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", help="Seats of each for process tasks. \\[default: its setting, or 4]")
    ] = None,
    queues: Annotated[
        str | None,
        typer.Option("--queues", "-q", metavar="NAMES", help="Served by each. \\[default: its setting, or all]"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Other random numbers. The same seed, the same output.")] = 1,
    start: Annotated[
        str, typer.Option("--start", metavar="DATE", help="When it begins; UTC, or with an offset.")
    ] = "2030-01-01",
    durations: Annotated[
        list[str] | None,
        _list(
            "--durations",
            "TASK=TIME,...",
            "How long attempts take (1s unless told): 'mail=200ms, report=30s..5m, sync=~30s, *=1s', `measured` for "
            "what the application's own database knows",
        ),
    ] = None,
    arrivals: Annotated[
        list[str] | None,
        _list(
            "--arrivals",
            "TASK=RATE,...",
            "What the application enqueues: 'mail=1500/d, thumbnail=20/m@09:00-17:00, letter=5000@09:00'",
        ),
    ] = None,
    failures: Annotated[
        list[str] | None, _list("--failures", "TASK=SHARE,...", "Attempts that fail: 'mail=2%, *=0.1%'")
    ] = None,
    outages: Annotated[
        list[str] | None,
        _list("--outage", "WHEN+LONG,...", "No node runs: '08:00+30m' (every day), '2030-01-03T08:00+30m' (once)"),
    ] = None,
    limits: Annotated[
        list[str] | None, _list("--limit", "QUEUE=N,...", "Jobs at once: 'mail=5', 'mail=2/node'")
    ] = None,
    target: Annotated[str, typer.Option("--target", metavar="DURATION", help="How late a job may begin.")] = "1m",
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Also write an HTML page with plots.")
    ] = None,
    window: Annotated[
        str | None, typer.Option("--window", metavar="NAME", help="Plan one day of this daily window instead.")
    ] = None,
    seats: Annotated[
        int | None, typer.Option("--seats", min=1, help="Of the window. \\[default: its max_concurrency]")
    ] = None,
    subjects: Annotated[
        list[str] | None,
        _list(
            "--subjects", "N@TIME,...", "Of the window, instead of the stored ones: '5000@09:00, 100000@06:00-10:00'"
        ),
    ] = None,
    day: Annotated[
        str | None, typer.Option("--day", metavar="DATE", help="Of the window's stored subjects. \\[default: tomorrow]")
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Simulate an application in virtual time: is it fast enough, and how many nodes does its peak need?

    Its own schedules, queues and retries run on the same engine as in
    production, in memory; no handler is called and no database is touched.
    What the work is comes from --durations, --arrivals and --failures. The same
    seed gives the same output, byte for byte.

    With --window it is about one day of a daily window: how many subjects miss
    their cutoff with so many --seats, and how many seats leave none.
    """
    if window is not None:
        _refuse_beside_window({
            "--days": days, "--for": length, "--concurrency": concurrency, "--processes": processes,
            "--queues": queues, "--arrivals": arrivals, "--outage": outages, "--limit": limits, "--report": report,
            "--nodes": None if nodes == 1 else nodes,
        })  # fmt: skip
        day_plans.plan(
            find(app, needs_tasks=True, may_create=True), window, seats=seats, subjects=subjects or (),
            day=None if day is None else values.day(day, "--day"), takes=durations or (), failures=failures or (),
            seed=seed, as_json=as_json,
        )  # fmt: skip
        return
    for option, given in (("--seats", seats), ("--subjects", subjects), ("--day", day)):
        if given is not None:
            raise typer.BadParameter("expected --window too: of which window", param_hint=option)
    found = find(app, needs_tasks=True, may_create=True, concurrency=concurrency, processes=processes, queues=queues)
    name = app or app_name() or ""
    if report is not None:
        _check_writable(report)
    scenario = scenarios.scenario(
        found, start=start, days=days, length=length, nodes=nodes, seed=seed, target=target, takes=durations or (),
        arrivals=arrivals or (), failures=failures or (), outages=outages or (), limits=limits or (),
        names_queues=queues is not None,
    )  # fmt: skip
    result = _simulated(found, scenario)
    tasks = sorted(found.tasks.values(), key=lambda task: task.name)
    scheduled, ruled = [task.name for task in tasks if task.schedule], [task.name for task in tasks if task.has_rule]
    said = notes(result, scenarios.queues(found), scheduled, ruled)
    if as_json:
        output.show_json(document(name, result, said))
    else:
        _show(name, result, said)
    if report is not None:
        try:
            report.write_text(page(f"oncue simulate: {name}", result, said, name), "utf-8")
        except OSError as error:
            raise OncueError(f"--report: {report} could not be written: {error.strerror or error}") from None


def _refuse_beside_window(options: dict[str, Any]) -> None:
    for option, given in options.items():
        if given is not None:
            wanted = "expected --seats, --subjects, --day, --durations, --failures and --seed beside --window, not this"
            raise typer.BadParameter(wanted, param_hint=option)


def _check_writable(report: Path) -> None:
    """Before the simulation takes its time."""
    if report.is_dir() or not os.access(report if report.exists() else report.parent, os.W_OK):
        wanted = f"expected a file that can be written, not {str(report)!r}"
        raise typer.BadParameter(wanted, param_hint="--report")


def _simulated(app: Oncue, scenario: Scenario) -> Figures:
    with _quiet(), output.progress(known=True) as bar:
        progress = bar.add_task("", total=100)

        def simulated(nodes: int) -> Figures:
            bar.update(progress, description=f"simulating {plural(nodes, 'node')}", completed=0)
            one = replace(scenario, nodes=nodes)
            found = running.run(app, one, lambda share: bar.update(progress, completed=int(share * 100)))
            return figures(one, found, scenarios.queues(app), scenarios.in_processes(app))

        return searched(simulated(scenario.nodes), simulated)


@contextmanager
def _quiet() -> Iterator[None]:
    """Simulated nodes do not log."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _show(name: str, result: Figures, said: Sequence[str]) -> None:
    scenario = result.scenario
    span = f"{about(scenario.length)} from {output.stamp(scenario.start)} UTC"
    seats = f"{plural(scenario.nodes, 'node')} of {plural(scenario.concurrency, 'seat')}"
    output.show(f"[bold]{escape(name)}[/]  {span}, {seats}, seed {scenario.seed}\n")
    for sentence in sentences(result):
        output.show(f"[{STYLES[sentence.tone]}]{escape(sentence.text)}[/]")
    if result.jobs:
        _show_chart(result)
    for table in tables(result):
        output.show(f"\n[bold]{table.title}[/]")
        shown = output.table(*table.columns, right=table.right)
        for row in table.rows:
            shown.add_row(*map(escape, row))
        output.show(shown)
    for note in said:
        output.show(f"[yellow]Note: {escape(note)}[/]")


def _show_chart(result: Figures) -> None:
    scenario, highest = result.scenario, result.most_waiting.value
    if not highest:
        output.show("\nNo job ever waited for a seat.")
        return
    parts = charts.parts(highest, output.console().width)
    buckets = result.waiting.buckets(scenario.length, parts)
    output.show(f"\n[bold]Jobs that wait[/], the most at once in each {about(scenario.length / parts)}")
    for line in charts.chart([bucket.highest for bucket in buckets], scenario.start, scenario.length):
        output.show(escape(line))


def register(cli: typer.Typer) -> None:
    cli.command("simulate")(simulate)
