"""The figures as tables, as a JSON document and as one HTML page that needs nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from html import escape
from typing import Any, NamedTuple

from oncue.planning.charts import COLUMNS, svg
from oncue.planning.figures import Figures
from oncue.planning.scenario import Scenario, Spread, Stream
from oncue.planning.sentences import about, counts, percent, plural, sentences
from oncue.planning.series import Bucket, Percentiles

PARTS = 360


class Table(NamedTuple):
    title: str
    columns: Sequence[str]
    right: Sequence[str]
    """The columns whose cells are numbers."""
    rows: Sequence[Sequence[str]]


def tables(figures: Figures) -> list[Table]:
    """Those that have rows."""
    found = [_lateness(figures), _nodes(figures), _schedules(figures), _tasks(figures)]
    return [table for table in found if table.rows]


def _lateness(figures: Figures) -> Table:
    def row(name: str, late: Percentiles) -> tuple[str, ...]:
        return (name, f"{late.of:,}", *(about(seconds) for seconds in late[1:]))

    rows = [row(queue, late) for queue, late in figures.lateness_by_queue.items()]
    columns = ("queue", "due", "p50", "p95", "p99", "max")
    return Table("Lateness by queue", columns, columns[1:], rows + [row("all", figures.lateness)] * (len(rows) > 1))


def _nodes(figures: Figures) -> Table:
    capacity, outages = figures.capacity, figures.scenario.outages
    words: dict[int | None, list[str]] = {one.nodes: ["simulated"] for one in capacity.choices if one.simulated}
    words.setdefault(figures.scenario.nodes, ["simulated"])
    if capacity.nodes_for_99_percent != capacity.nodes_for_all:
        words.setdefault(capacity.nodes_for_99_percent, []).append("99 % in time")
    words.setdefault(capacity.nodes_for_all, []).append("all in time")
    if outages and capacity.nodes_without_outages != capacity.nodes_for_all:
        words.setdefault(capacity.nodes_without_outages, []).append("enough without outages")
    rows = [
        (
            f"{one.nodes:,}", percent(one.utilisation), about(one.waits.p50), about(one.waits.p99),
            about(one.waits.max), ", ".join(words.get(one.nodes, ())),
        )
        for one in capacity.choices
    ]  # fmt: skip
    columns = ("nodes", "in use", "p50", "p99", "max", "")
    title = "What other numbers of nodes would do" + (", the time of outages not counted" if outages else "")
    return Table(title, columns, columns[:5], rows if figures.jobs else ())


def _schedules(figures: Figures) -> Table:
    rows = [
        (
            one.name, f"{one.slots:,}", f"{one.ran:,}", f"{one.late:,}", about(one.latest) if one.ran else "",
            counts(one.did_not_run),
        )
        for one in figures.schedules
    ]  # fmt: skip
    columns = ("schedule", "slots", "ran", "late", "latest", "did not run")
    return Table("Slots of schedules", columns, columns[1:5], rows)


def _tasks(figures: Figures) -> Table:
    total = sum(task.seconds_in_seats for task in figures.tasks)
    rows = [
        (
            one.name, one.queue, f"{one.jobs:,}", f"{one.retries:,}", about(one.seconds_in_seats),
            percent(one.seconds_in_seats / total if total else 0.0), counts(one.ended),
        )
        for one in figures.tasks
    ]  # fmt: skip
    columns = ("task", "queue", "jobs", "retries", "in seats", "share", "ends")
    return Table("Tasks", columns, columns[2:6], rows)


# --- JSON -----------------------------------------------------------------------------------------------------------


def document(application: str, figures: Figures, notes: Sequence[str]) -> Any:
    found = {name: one for name, one in _fields(figures).items() if name not in ("scenario", "waiting", "busy")}
    over_time = [
        {"start": figures.scenario.at(waiting.start), "waiting": waiting.highest, "seats_in_use": busy.mean}
        for waiting, busy in zip(*_buckets(figures, COLUMNS), strict=True)
    ]
    told = {"simulated": simulated(application, figures.scenario), "findings": sentences(figures), "notes": notes}
    return _plain({**told, **found, "over_time": over_time})


def simulated(application: str, scenario: Scenario) -> dict[str, Any]:
    return {"application": application, **_plain(scenario)}


def _buckets(figures: Figures, parts: int) -> tuple[list[Bucket], list[Bucket]]:
    """The jobs that wait and the seats in use, over time."""
    return figures.waiting.buckets(figures.scenario.length, parts), figures.busy.buckets(figures.scenario.length, parts)


def _plain(value: Any) -> Any:
    """A value of planning as JSON has it."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in (sorted if isinstance(value, Counter) else iter)(value.items())}
    if isinstance(value, (Spread, Stream)):
        return str(value)
    if is_dataclass(value) or hasattr(value, "_asdict"):
        return _plain(_fields(value))
    return [_plain(one) for one in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _fields(value: Any) -> dict[str, Any]:
    names = [field.name for field in fields(value)] if is_dataclass(value) else value._fields
    return {name: getattr(value, name) for name in names}


# --- HTML -----------------------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --page: #fcfcfb; --ink: #1c1c1a; --soft: #5f5e58; --rule: #e3e2dc; --area: #9ec1ea;
  --mean: #1f5fa8; --outage: #f0d9b8; --good: #1e6b3a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #181817; --ink: #ecebe6; --soft: #a3a29a; --rule: #363530;
  --area: #2c4f78; --mean: #8cbcf2; --outage: #4d3d22; --good: #7fcf9b; --bad: #f28b82; } }
body { background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 1000px; padding: 24px 20px 60px; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .3rem; } 
p { margin: .4rem 0; } .soft { color: var(--soft); } .good { color: var(--good); } .bad { color: var(--bad); }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--rule); padding: 5px 18px 5px 0; text-align: left; vertical-align: top; }
th { color: var(--soft); } .number { text-align: right; white-space: nowrap; } .scroll { overflow-x: auto; }
svg { display: block; height: auto; width: 100%; } svg text { fill: var(--soft); font-size: 12px; }
svg text.right { text-anchor: end; } .grid { fill: none; stroke: var(--rule); } .area { fill: var(--area); }
.mean { fill: none; stroke: var(--mean); stroke-width: 1.5; } .outage { fill: var(--outage); }
.ceiling { fill: none; stroke: var(--bad); stroke-dasharray: 5 4; }
@media (max-width: 700px) { svg { min-width: 720px; } svg text { font-size: 15px; } }
"""


def page(title: str, figures: Figures, notes: Sequence[str], application: str) -> str:
    rows = [(name, _words(value)) for name, value in simulated(application, figures.scenario).items() if value]
    what = Table("What was simulated", ("", ""), (), rows)
    return "\n".join(
        [
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>{escape(title)}</title>',
            f'<meta name="viewport" content="width=device-width, initial-scale=1"/><style>{STYLE}</style></head>',
            f"<body><h1>{escape(title)}</h1>",
            *(f'<p class="{tone}">{escape(text)}</p>' for tone, text in sentences(figures)),
            *(_plots(figures) if figures.jobs else ()),
            *(f"<h2>{escape(table.title)}</h2>{_rows(table)}" for table in tables(figures)),
            *(f'<p class="soft">Note: {escape(note)}</p>' for note in notes),
            f"<h2>{what.title}</h2>{_rows(what)}</body></html>\n",
        ]
    )


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_words(one)}" for name, one in value.items() if one is not None)
    return "; ".join(map(_words, value)) if isinstance(value, list) else str(value)


def _plots(figures: Figures) -> list[str]:
    scenario = figures.scenario
    waiting, busy = _buckets(figures, PARTS)
    most = max(bucket.highest for bucket in busy)
    ceiling = float(scenario.seats) if scenario.seats <= 4 * max(most, 1) else None
    legend = f"The area is the most at once in each {about(scenario.length / PARTS)}, the line the mean."
    legend += " Outages are shaded." if scenario.outages else ""
    seats = f" The dashed line is what there is: {plural(scenario.seats, 'seat')}." if ceiling else ""
    return [
        f'<h2>Jobs that wait</h2><p class="soft">{legend}</p>',
        svg(f"Jobs that wait: {figures.most_waiting.value:,} at most", waiting, scenario),
        f'<h2>Seats in use</h2><p class="soft">{legend}{seats}</p>',
        svg(f"Seats in use: {most:,} at most", busy, scenario, ceiling),
    ]


def _rows(table: Table) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        number = [' class="number"' if column in table.right else "" for column in table.columns]
        return "".join(f"<{tag}{one}>{escape(cell)}</{tag}>" for one, cell in zip(number, cells, strict=True))

    head = f"<thead><tr>{row('th', table.columns)}</tr></thead>" if any(table.columns) else ""
    body = "\n".join(f"<tr>{row('td', cells)}</tr>" for cells in table.rows)
    return f'<div class="scroll"><table>{head}<tbody>\n{body}\n</tbody></table></div>'
