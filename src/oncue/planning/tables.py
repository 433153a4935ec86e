"""The figures as tables, for the terminal and for the page alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncue.planning.figures import Figures
from oncue.planning.series import Percentiles
from oncue.planning.words import about, percent

GAP = 3
"""Between two columns."""
EDGES = 2


class Table(NamedTuple):
    title: str
    columns: Sequence[str]
    right: Sequence[str]
    """The columns whose cells are numbers."""
    rows: Sequence[Sequence[str]]


def tables(figures: Figures) -> list[Table]:
    """Those that have something to tell."""
    found = [_lateness(figures), _nodes(figures), _schedules(figures), _tasks(figures)]
    return [table for table in found if table.rows]


def fits(table: Table, width: int) -> bool:
    """Whether it can be shown in so many characters without breaking a word. The last column may be of many lines."""
    *columns, last = zip(table.columns, *table.rows, strict=True)
    taken = sum(max(map(len, cells)) + GAP for cells in columns)
    return taken + max((len(word) for cell in last for word in cell.split()), default=0) + EDGES <= width


def stacked(table: Table) -> list[tuple[str, str]]:
    """Each row as its first cell and a sentence of the others."""
    named = [list(zip(table.columns, row, strict=True)) for row in table.rows]
    return [(cells[0][1], ", ".join(_cell(name, value) for name, value in cells[1:] if value)) for cells in named]


def _cell(name: str, value: str) -> str:
    return f"{name} {value}" if name else value


def _lateness(figures: Figures) -> Table:
    rows = [(queue, *_percentiles(late)) for queue, late in figures.by_queue.items()]
    if len(rows) > 1:
        rows.append(("all", *_percentiles(figures.lateness)))
    columns = ("queue", "due", "p50", "p95", "p99", "max")
    return Table("Lateness by queue", columns, columns[1:], rows)


def _percentiles(late: Percentiles) -> tuple[str, ...]:
    return (f"{late.of:,}", *(about(seconds) for seconds in late[1:]))


def _nodes(figures: Figures) -> Table:
    capacity, outages = figures.capacity, figures.scenario.outages
    enough = [(capacity.for_all, "all in time")]
    if capacity.for_most != capacity.for_all:
        enough.insert(0, (capacity.for_most, "99 % in time"))
    if outages and capacity.without_outages != capacity.for_all:
        enough.append((capacity.without_outages, "enough without outages"))
    remarks = {choice.nodes: "simulated" for choice in capacity.choices if choice.simulated}
    remarks.setdefault(figures.scenario.nodes, "simulated")
    for nodes, what in enough:
        if nodes is not None:
            remarks[nodes] = f"{remarks[nodes]}, {what}" if nodes in remarks else what
    rows = [
        (
            f"{choice.nodes:,}", percent(choice.utilisation), about(choice.waits.p50), about(choice.waits.p99),
            about(choice.waits.max), remarks.get(choice.nodes, ""),
        )
        for choice in capacity.choices
    ]  # fmt: skip
    columns = ("nodes", "in use", "p50", "p99", "max", "")
    title = "What other numbers of nodes would do" + (", the time of outages not counted" if outages else "")
    return Table(title, columns, columns[:5], rows if figures.jobs else ())


def _schedules(figures: Figures) -> Table:
    rows = [
        (
            one.name, f"{one.slots:,}", f"{one.ran:,}", f"{one.late:,}", about(one.latest) if one.ran else "",
            ", ".join(f"{count:,} {what}" for what, count in sorted(one.lost.items())),
        )
        for one in figures.schedules
    ]  # fmt: skip
    columns = ("schedule", "slots", "ran", "late", "latest", "did not run")
    return Table("Slots of schedules", columns, columns[1:5], rows)


def _tasks(figures: Figures) -> Table:
    total = sum(task.busy for task in figures.tasks)
    rows = [
        (
            task.name, task.queue, f"{task.jobs:,}", f"{task.retries:,}", about(task.busy),
            percent(task.busy / total if total else 0.0),
            ", ".join(f"{count:,} {state}" for state, count in sorted(task.ends.items())),
        )
        for task in figures.tasks
    ]  # fmt: skip
    columns = ("task", "queue", "jobs", "retries", "in seats", "share", "ends")
    return Table("Tasks", columns, columns[2:6], rows)
