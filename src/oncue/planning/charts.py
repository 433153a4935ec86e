"""Values over time as a chart: of characters for a terminal, as SVG for a page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape

from oncue.planning.scenario import DAY, Scenario
from oncue.planning.series import Bucket

BLOCKS = " ▁▂▃▄▅▆▇█"
COLUMNS, FEWEST_COLUMNS, ROWS = 72, 10, 8
STEPS = (300.0, 900.0, 1800.0, 3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY)
WIDTH, HEIGHT = 960, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 14, 30


def nice(value: float) -> float:
    """The smallest round number that is not below a value; at least 1."""
    size = 1.0
    while value > 8 * size:
        size *= 10.0
    return next(factor for factor in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0) if value <= factor * size) * size


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def marks(start: datetime, length: float, most: int = 8) -> list[tuple[float, str]]:
    """Round instants of a time line, in seconds since its start, with their labels."""
    step = next((one for one in STEPS if length / one <= most), None) or -(-length // (most * 7 * DAY)) * 7 * DAY
    at, day = start.replace(hour=0, minute=0, second=0, microsecond=0), "%b %d" if length <= 366 * DAY else "%Y-%m"
    found = []
    while (seconds := (at - start).total_seconds()) < length:
        if seconds >= 0:
            found.append((seconds, f"{at:%H:%M}" if step < DAY and (at.hour or at.minute) else f"{at:{day}}"))
        at += timedelta(seconds=step)
    return found


# --- characters -----------------------------------------------------------------------------------------------------


def parts(highest: float, width: int) -> int:
    """How many columns a chart has in so many characters, beside its labels."""
    return max(min(width - _margin(nice(highest)) - 2, COLUMNS), FEWEST_COLUMNS)


def chart(values: Sequence[float], start: datetime, length: float, *, height: int = ROWS) -> list[str]:
    """The lines of a chart with its axes. The values are those of equal parts of the time; a trace shows above 0."""
    top = nice(max(values, default=0.0))
    margin, labels = _margin(top), {height - 1: number(top), height // 2 - 1: number(top / 2)}
    eighths = [max(round(value / top * height * 8), 1) if value > 0 else 0 for value in values]
    lines = []
    for row in reversed(range(height)):
        blocks = "".join(BLOCKS[min(max(filled - 8 * row, 0), 8)] for filled in eighths)
        lines.append(f"{labels.get(row, ''):>{margin}} ┤{blocks.rstrip()}")
    axis, dates = _time_line(start, length, len(values))
    return [*lines, f"{'0':>{margin}} └{axis}", f"{'':>{margin}}  {dates}"]


def _margin(top: float) -> int:
    return max(len(number(top)), len(number(top / 2)))


def _time_line(start: datetime, length: float, width: int) -> tuple[str, str]:
    """An axis with marks where its labels begin."""
    axis, labels = ["─"] * width, [" "] * width
    free = 0
    for at, text in marks(start, length):
        column = int(at / length * width)
        if column >= free and column + len(text) <= width:
            axis[column] = "┬"
            labels[column : column + len(text)] = text
            free = column + len(text) + 2
    return "".join(axis), "".join(labels).rstrip()


# --- SVG ------------------------------------------------------------------------------------------------------------


def svg(name: str, buckets: Sequence[Bucket], scenario: Scenario, ceiling: float | None = None) -> str:
    """The highest values as an area, the means as a line, outages as bands. Colours come from the page's style."""
    top = nice(max([bucket.highest for bucket in buckets] + ([] if ceiling is None else [ceiling])))
    right, floor, half = WIDTH - RIGHT, HEIGHT - BOTTOM, scenario.length / len(buckets) / 2

    def x(seconds: float) -> float:
        return round(LEFT + seconds / scenario.length * (right - LEFT), 1)

    def y(value: float) -> float:
        return round(TOP + (floor - TOP) * (1 - value / top), 1)

    inside = []
    for start, end in scenario.outages:
        width = f"{x(end) - x(start) + 1:.1f}"
        inside.append(f'<rect class="outage" x="{x(start)}" y="{TOP}" width="{width}" height="{floor - TOP}"/>')
    for level in (0.0, top / 2, top):
        inside.append(f'<path class="grid" d="M{LEFT} {y(level)}H{right}"/>')
        inside.append(f'<text class="right" x="{LEFT - 8}" y="{y(level) + 4:.1f}">{number(level)}</text>')
    for at, label in marks(scenario.start, scenario.length, 12):
        anchor = ' class="right"' if x(at) > right - 30 else ""
        inside.append(f'<text{anchor} x="{x(at)}" y="{HEIGHT - 8}">{label}</text>')
    area = "".join(f"V{y(bucket.highest)}H{x(bucket.start + 2 * half)}" for bucket in buckets)
    mean = "L".join(f"{x(bucket.start + half)} {y(bucket.mean)}" for bucket in buckets)
    inside.append(f'<path class="area" d="M{LEFT} {floor}{area}V{floor}Z"/><path class="mean" d="M{mean}"/>')
    if ceiling is not None:
        inside.append(f'<path class="ceiling" d="M{LEFT} {y(ceiling)}H{right}"/>')
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(name)}"'
    lines = "\n".join(inside)
    return f'<div class="scroll"><svg xmlns="http://www.w3.org/2000/svg" {size}>\n{lines}\n</svg></div>'
