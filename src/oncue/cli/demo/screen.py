"""How the demo looks: a live view in a terminal, lines elsewhere, and the account at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from oncue.cli.demo.facts import Account, DemoCounts
from oncue.cli.demo.story import Story
from oncue.cli.demo.tasks import KINDS
from oncue.cli.demo.workers import Worker
from oncue.cli.output import escape
from oncue.model import TERMINAL

BLOCKS = " ▁▂▃▄▅▆▇█"
EVENTS = 5
WIDTH = 84
LINE_SECONDS = 2.0


@contextmanager
def shown(console: Console) -> Iterator[Callable[[Story], None]]:
    """Something to call with the story as it goes on."""
    if not console.is_terminal:
        yield Lines(console).show
        return
    with Live(console=console, refresh_per_second=8) as live:
        yield lambda story: live.update(view(story, min(WIDTH, console.width)))


# --- in a terminal --------------------------------------------------------------------------------------------------


def view(story: Story, width: int = WIDTH) -> RenderableType:
    return Panel(
        Group(_progress(story), Text(), _workers(story), Text(), _tasks(story.moment), Text(), _events(story)),
        title="[bold]oncue demo[/]",
        subtitle=f"[dim]{escape(str(story.path))}[/]",
        box=box.ROUNDED,
        padding=(0, 2),
        width=width,
    )


def _progress(story: Story) -> Table:
    done, enqueued = story.moment.done, len(story.acknowledged)
    grid = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=max(enqueued, 1), completed=done, width=30)
    counts = f"[bold]{done:,}[/] of {enqueued:,} done"
    rate = story.rates[-1] if story.rates else 0.0
    grid.add_row(bar, counts, f"[cyan]{sparkline(story.rates, 14)}[/] {rate:,.0f}/s", f"{story.elapsed:.0f} s")
    return grid


def sparkline(values: Iterable[float], width: int) -> str:
    numbers = list(values)[-width:]
    top = max(numbers, default=0.0)
    marks = (BLOCKS[round(number / top * (len(BLOCKS) - 1))] if top else " " for number in numbers)
    return "".join(marks).rjust(width)


def _workers(story: Story) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("worker", "process", "", "running", "done"):
        table.add_column(name, justify="right" if name in ("running", "done") else "left")
    table.add_column("")
    most = max((story.moment.done_by.get(worker.name, 0) for worker in story.workers.all), default=0)
    for worker in story.workers.all:
        held, done = story.moment.held.get(worker.name, 0), story.moment.done_by.get(worker.name, 0)
        bar = ProgressBar(total=max(most, 1), completed=done, width=24, complete_style="blue", finished_style="blue")
        table.add_row(worker.name, str(worker.pid), _condition(worker, story.moment), f"{held}", f"{done:,}", bar)
    return table


def _condition(worker: Worker, moment: DemoCounts) -> str:
    if worker.killed:
        return "[red]✖ killed[/]"
    if not worker.running:
        return "[dim]○ stopped[/]"
    return "[green]● working[/]" if worker.name in moment.nodes else "[yellow]● starting[/]"


def _tasks(moment: DemoCounts) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("task", "", "waiting", "running", "retrying", "done"):
        table.add_column(name, justify="left" if name in ("task", "") else "right")
    for task, kind in KINDS.items():
        counts = moment.tasks.get(task)
        if counts is None:
            continue
        done = sum(counts[state] for state in TERMINAL)
        waiting = counts["queued"] + counts["scheduled"]
        retrying = f"[yellow]{counts['retrying']}[/]" if counts["retrying"] else "0"
        table.add_row(task, f"[dim]{kind}[/]", f"{waiting:,}", f"{counts['running']}", retrying, f"{done:,}")
    return table


def _events(story: Story) -> Table:
    grid = Table.grid(padding=(0, 2))
    latest = story.events[-EVENTS:]
    for at, text in latest:
        grid.add_row(f"[dim]{at:5.1f} s[/]", text)
    for _ in range(EVENTS - len(latest)):
        grid.add_row("", "")
    return grid


# --- elsewhere ------------------------------------------------------------------------------------------------------


class Lines:
    """A line every now and then, and one for everything that happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = 0
        self._next = 0.0

    def show(self, story: Story) -> None:
        for at, text in story.events[self._told :]:
            self._console.print(f"{at:5.1f} s  {text}")
        self._told = len(story.events)
        if story.elapsed >= self._next:
            self._next = story.elapsed + LINE_SECONDS
            moment = story.moment
            self._console.print(
                f"{story.elapsed:5.1f} s  {moment.done:,} of {len(story.acknowledged):,} done, "
                f"{moment.running} running, {moment.waiting:,} waiting, {moment.retried:,} retried"
            )


# --- the account ----------------------------------------------------------------------------------------------------


def account(found: Account, exit_codes: list[int], width: int = WIDTH) -> RenderableType:
    grid = Table.grid(padding=(0, 3))
    grid.add_column()
    grid.add_column(justify="right", style="bold")
    grid.add_column(style="dim")
    grid.add_row("enqueued", f"{found.enqueued:,}", "acknowledged to the caller")
    grid.add_row("done", f"{found.done:,}", ", ".join(f"{n:,} {state}" for state, n in sorted(found.states.items())))
    grid.add_row("retried", f"{found.retried:,}", "attempts that failed and were repeated")
    grid.add_row("cut short", f"{found.cut_short:,}", f"attempts ended by the kill; {found.repeated:,} repeated")
    grid.add_row("lost", _verdict(found.lost), "acknowledged, but missing or not finished")
    grid.add_row("settled twice", _verdict(found.settled_twice), "by a trigger's record of every final write")
    if found.slots is not None:
        fates = found.slots.counts()
        told = ", ".join(f"{count:,} {fate}" for fate, count in sorted(fates.items()))
        grid.add_row("slots", f"{sum(fates.values()):,}", f"of a schedule for every second: {told}")
        problems = [fate.slots for fate in found.slots.problems]
        grid.add_row("slots unaccounted", _verdict(problems), "by the audit of the ledger")
    codes = ", ".join(map(str, exit_codes))
    grid.add_row("workers", f"{len(exit_codes)}", f"drained at the end; exit codes {codes}")
    style, title = ("green", "every job on cue, once") if found.holds else ("red", "this should not have happened")
    return Panel(grid, title=f"[bold {style}]{title}[/]", border_style=style, padding=(1, 2), width=width)


def _verdict(ids: list[int]) -> str:
    return f"[red]{len(ids):,}[/]" if ids else "[green]0[/]"
