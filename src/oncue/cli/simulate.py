"""`oncue simulate`: how an application would do, on so many nodes, over so many days. Virtual ones."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding

from oncue.app import Oncue
from oncue.cli import output, scenarios
from oncue.cli.finding import AppOption, find
from oncue.cli.output import JsonOption, escape
from oncue.cli.output_file import OutputFile
from oncue.cli.scenarios import LONGEST_DAYS, Typed
from oncue.errors import OncueError
from oncue.planning import charts, report, running
from oncue.planning.documents import document
from oncue.planning.figures import Figures, figures
from oncue.planning.remarks import asked, notes
from oncue.planning.scenario import Scenario
from oncue.planning.searching import tried
from oncue.planning.tables import Table, fits, stacked, tables
from oncue.planning.words import Tone, about, plural, sentences
from oncue.settings import app_name

STYLES: dict[Tone, str] = {"good": "green", "bad": "red", "note": "default"}


def simulate(
    days: Annotated[
        int | None, typer.Option("--days", min=1, max=LONGEST_DAYS, help="How many to simulate. \\[default: 7]")
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
    seed: Annotated[int, typer.Option("--seed", help="Other dice. The same seed gives the same output.")] = 1,
    start: Annotated[
        str, typer.Option("--start", metavar="DATE", help="When it begins; UTC, or with an offset.")
    ] = "2030-01-01",
    durations: Annotated[
        list[str] | None,
        typer.Option(
            "--durations",
            metavar="TASK=TIME,...",
            help="How long attempts take: 'mail=200ms, report=30s..5m, sync=~30s, *=1s', `measured` for what the "
            "application's own database knows, or @FILE. Repeatable. \\[default: 1s]",
        ),
    ] = None,
    arriving: Annotated[
        list[str] | None,
        typer.Option(
            "--arrivals",
            metavar="TASK=RATE,...",
            help="What the application enqueues: 'mail=1500/d, thumbnail=20/m@09:00-17:00, letter=5000@09:00', or "
            "@FILE. Repeatable.",
        ),
    ] = None,
    failures: Annotated[
        list[str] | None,
        typer.Option(
            "--failures", metavar="TASK=SHARE,...", help="Attempts that fail: 'mail=2%, *=0.1%', or @FILE. Repeatable."
        ),
    ] = None,
    outages: Annotated[
        list[str] | None,
        typer.Option(
            "--outage",
            metavar="WHEN+LONG,...",
            help="No node runs: '08:00+30m' (every day), '2030-01-03T08:00+30m' (once), or @FILE. Repeatable.",
        ),
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", metavar="QUEUE=N,...", help="Jobs at once: 'mail=5', 'mail=2/node', or @FILE. Repeatable."
        ),
    ] = None,
    target: Annotated[str, typer.Option("--target", metavar="DURATION", help="So late may a job begin.")] = "1m",
    page: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help="Also write an HTML page with plots.")
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Simulate an application in virtual time: is it fast enough, and how many nodes does its peak need?

    Its own schedules, queues and retries run on the same engine as in
    production, in memory; no handler is called and no database is touched.
    What the work is comes from --durations, --arrivals and --failures. The same
    seed gives the same output, byte for byte.
    """
    found = find(app, needs_tasks=True, may_create=True, concurrency=concurrency, processes=processes, queues=queues)
    name = app or app_name() or ""
    place = None if page is None else _place(page)
    typed = Typed(
        days, length, start, nodes, seed, target, durations or (), arriving or (), failures or (), outages or (),
        limits or (), queues is not None,
    )  # fmt: skip
    result = _simulated(found, scenarios.scenario(found, typed))
    tasks = sorted(found.tasks.values(), key=lambda task: task.name)
    scheduled, ruled = [task.name for task in tasks if task.schedule], [task.name for task in tasks if task.has_rule]
    said = notes(result, scenarios.queues(found), scheduled, ruled)
    html = report.page(f"oncue simulate: {name}", result, said, asked(result.scenario, name))
    trouble = None if place is None else _written(place, html)
    if as_json:
        output.show_json(document(name, result, said))
    else:
        _show(name, result, said)
    if trouble is not None:
        raise OncueError(f"--report: {page} could not be written: {trouble.strerror or trouble}")


def _place(page: str) -> OutputFile:
    """Where to write a page. It is tried before anything takes its time."""
    try:
        if not page.strip():
            raise OSError("its name is empty")
        return OutputFile(Path(page))
    except OSError as error:
        said = f"expected a file that can be written, not {page!r}: {error.strerror or error}"
        raise typer.BadParameter(said, param_hint="--report") from None


def _written(place: OutputFile, text: str) -> OSError | None:
    """What went wrong with it. That is no reason to keep the figures, which took their time, from anybody."""
    try:
        place.write(text)
    except OSError as error:
        return error
    return None


def _simulated(app: Oncue, scenario: Scenario) -> Figures:
    with _quiet(), output.progress(known=True) as bar:
        progress = bar.add_task("", total=100)

        def simulated(nodes: int) -> Figures:
            bar.update(progress, description=f"simulating {plural(nodes, 'node')}", completed=0)
            one = replace(scenario, nodes=nodes)
            found = running.run(app, one, lambda share: bar.update(progress, completed=int(share * 100)))
            return figures(one, found, scenarios.queues(app), scenarios.in_processes(app))

        return tried(simulated(scenario.nodes), simulated)


@contextmanager
def _quiet() -> Iterator[None]:
    """What simulated nodes have to say is not about real ones."""
    logger = logging.getLogger("oncue")
    usual = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(usual)


# --- showing --------------------------------------------------------------------------------------------------------


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
        _show_table(table)
    for note in said:
        output.show(f"[yellow]Note: {escape(note)}[/]")


def _show_table(table: Table) -> None:
    """Row by row where its columns would be too narrow for their words."""
    if not fits(table, output.console().width):
        for name, rest in stacked(table):
            output.show(f" [bold]{escape(name)}[/]")
            output.console().print(Padding(escape(rest), (0, 0, 0, 3)))
        return
    shown = output.table(*table.columns, right=table.right)
    for column in shown.columns[:-1]:
        column.no_wrap = True
    for row in table.rows:
        shown.add_row(*(escape(cell) for cell in row))
    output.show(shown)


def _show_chart(result: Figures) -> None:
    scenario = result.scenario
    if not result.peak[0]:
        output.show("\nNo job ever waited for a seat.")
        return
    parts = charts.room(result.peak[0], output.console().width)
    buckets = result.waiting.buckets(scenario.length, parts)
    output.show(f"\n[bold]Jobs that wait[/], the most at once in each {about(scenario.length / parts)}")
    for line in charts.chart([bucket.highest for bucket in buckets], scenario.start, scenario.length):
        output.show(escape(line))


def register(cli: typer.Typer) -> None:
    cli.command("simulate")(simulate)
