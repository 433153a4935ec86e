"""The figures as one HTML page that needs nothing else: no script, no font, no address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from oncue.planning import plots
from oncue.planning.charts import WIDTH
from oncue.planning.figures import Figures
from oncue.planning.spans import moment
from oncue.planning.tables import Table, tables
from oncue.planning.words import Sentence, about, clock, percent, plural, sentences
from oncue.policy.durations import describe

PARTS = 360

STYLE = """
:root { color-scheme: light dark; --page: #fcfcfb; --ink: #1c1c1a; --soft: #5f5e58; --rule: #e3e2dc; --area: #9ec1ea;
  --mean: #1f5fa8; --ceiling: #b3261e; --outage: #f0d9b8; --good: #1e6b3a; --bad: #b3261e;
  --hue0: #1f5fa8; --hue1: #b8540a; --hue2: #1e7d4f; --hue3: #8a3fa0; --hue4: #8c6d00; --hue5: #b02a6b; }
@media (prefers-color-scheme: dark) { :root { --page: #181817; --ink: #ecebe6; --soft: #a3a29a; --rule: #363530;
  --area: #2c4f78; --mean: #8cbcf2; --ceiling: #f28b82; --outage: #4d3d22; --good: #7fcf9b; --bad: #f28b82;
  --hue0: #8cbcf2; --hue1: #f2a76b; --hue2: #7fcf9b; --hue3: #d3a0e6; --hue4: #e0c25a; --hue5: #f29ac1; } }
body { background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 1000px; padding: 24px 20px 60px; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .3rem; }
p { margin: .4rem 0; } .soft, caption { color: var(--soft); } .good { color: var(--good); } .bad { color: var(--bad); }
ul.said { list-style: none; margin: 1rem 0; padding: 0; } ul.said li { margin: .3rem 0; }
dl { display: flex; flex-wrap: wrap; gap: 12px 36px; margin: 1.2rem 0; } dt { color: var(--soft); font-size: .85rem; }
dd { font-size: 1.35rem; font-variant-numeric: tabular-nums; margin: 0; }
.scroll { overflow-x: auto; } summary { cursor: pointer; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--rule); padding: 5px 18px 5px 0; text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; } .number { text-align: right; } .number, thead th { white-space: nowrap; }
svg { display: block; height: auto; width: 100%; } svg text { fill: var(--soft); font-size: 12px; }
svg text.right { text-anchor: end; } .grid { fill: none; stroke: var(--rule); } .area { fill: var(--area); }
.mean { fill: none; stroke: var(--mean); stroke-width: 1.5; } .outage { fill: var(--outage); }
.ceiling { fill: none; stroke: var(--ceiling); stroke-dasharray: 5 4; } .hit { fill: transparent; }
.hit:hover { fill: var(--rule); opacity: .5; } .curve { fill: none; stroke-width: 2; }
.dash1 { stroke-dasharray: 7 3; } .dash2 { stroke-dasharray: 2 3; }
span.key { margin-left: .8em; white-space: nowrap; }
svg.key { display: inline; height: 8px; min-width: 0; width: 24px; }
@media (max-width: 700px) { svg { min-width: 720px; } svg text { font-size: 15px; } }
""" + "".join(f".hue{n} {{ stroke: var(--hue{n}); }}\n" for n in range(plots.HUES))


def page(title: str, figures: Figures, notes: Sequence[str], asked: Sequence[tuple[str, str]]) -> str:
    """The whole page. `asked` says what was simulated."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            f'<head><meta charset="utf-8"/><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f"<style>{STYLE}</style></head>",
            "<body>",
            f"<h1>{escape(title)}</h1>",
            _said(sentences(figures)),
            *([_key_figures(figures), *_plots(figures)] if figures.jobs else []),
            *(_table(table) for table in tables(figures)),
            *(f'<p class="soft">Note: {escape(note)}</p>' for note in notes),
            _table(Table("What was simulated", ("", ""), (), asked)),
            "</body>",
            "</html>",
            "",
        ]
    )


def _said(found: Iterable[Sentence]) -> str:
    items = [f'<li class="{sentence.tone}">{escape(sentence.text)}</li>' for sentence in found]
    return f'<ul class="said">{"".join(items)}</ul>'


def _key_figures(figures: Figures) -> str:
    waiting, _ = figures.peak
    shown = [
        ("jobs", f"{figures.jobs:,}"),
        ("seats in use", percent(figures.utilisation)),
        ("in the busiest hour", percent(figures.busiest[0])),
        ("half began within", about(figures.lateness.p50)),
        ("99 % began within", about(figures.lateness.p99)),
        ("the latest after", about(figures.lateness.max)),
        ("most waiting at once", f"{waiting:,}"),
    ]
    return (
        "<dl>"
        + "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in shown)
        + "</dl>"
    )


def _plots(figures: Figures) -> list[str]:
    scenario = figures.scenario
    waiting = figures.waiting.buckets(scenario.length, PARTS)
    busy = figures.busy.buckets(scenario.length, PARTS)
    most = max(bucket.highest for bucket in busy)
    ceiling = float(scenario.seats) if scenario.seats <= 4 * max(most, 1) else None
    part = about(scenario.length / PARTS)
    legend = f"The area is the most at once in each {part}, the line the mean."
    outage = " Outages are shaded." if scenario.outages else ""
    seats = f" The dashed line is what there is: {plural(scenario.seats, 'seat')}." if ceiling else ""
    place = (scenario.start, scenario.length, scenario.outages)
    return [
        f'<h2>Jobs that wait</h2><p class="soft">{legend}{outage}</p>',
        plots.over_time(
            f"Jobs that wait: {figures.peak[0]:,} at most", waiting, *place, lambda b: f"up to {b.highest:,} waiting"
        ),
        f'<h2>Seats in use</h2><p class="soft">{legend}{outage}{escape(seats)}</p>',
        plots.over_time(
            f"Seats in use: {most:,} at most", busy, *place,
            lambda b: f"up to {b.highest:,}, {b.mean:.1f} on average", ceiling,
        ),
        _over_time(figures),
        *_distribution(figures),
    ]  # fmt: skip


def _over_time(figures: Figures) -> str:
    """The plots for those who cannot see them, or want the numbers."""
    scenario = figures.scenario
    waiting, busy = (series.buckets(scenario.length, WIDTH) for series in (figures.waiting, figures.busy))
    rows = [
        (clock(moment(scenario.start, one.start)), f"{one.highest:,}", f"{two.highest:,}", f"{two.mean:.1f}")
        for one, two in zip(waiting, busy, strict=True)
    ]
    columns = ("from", "waiting, at most", "seats in use, at most", "on average")
    table = _rows(Table("", columns, columns[1:], rows))
    return f"<details><summary>Both as a table, in parts of {about(scenario.length / WIDTH)}</summary>{table}</details>"


def _distribution(figures: Figures) -> list[str]:
    if not figures.lateness_by_queue:
        return []
    keys = [plots.key(index, queue) for index, queue in enumerate(figures.lateness_by_queue)]
    target = describe(figures.scenario.target)
    told = (
        f"The share of attempts that began, or were given up, within a time; the dashed line is the target of {target}."
    )
    return [
        f'<h2>How late jobs begin</h2><p class="soft">{told} {" ".join(keys)}</p>',
        plots.distribution("How late jobs begin", figures.lateness_by_queue, figures.scenario.target),
    ]


def _table(table: Table) -> str:
    return f"<h2>{escape(table.title)}</h2>{_rows(table)}" if table.rows else ""


def _rows(table: Table) -> str:
    number = [' class="number"' if column in table.right else "" for column in table.columns]
    head = "".join(f'<th{n} scope="col">{escape(column)}</th>' for n, column in zip(number, table.columns, strict=True))
    rows = [
        "<tr>" + "".join(f"<td{n}>{escape(cell)}</td>" for n, cell in zip(number, row, strict=True)) + "</tr>"
        for row in table.rows
    ]
    head = f"<thead><tr>{head}</tr></thead>" if any(table.columns) else ""
    body = "\n".join(rows)
    return f'<div class="scroll" tabindex="0"><table>{head}<tbody>\n{body}\n</tbody></table></div>'
