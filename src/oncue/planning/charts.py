"""A chart made of characters: columns of blocks over a time line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

BLOCKS = " ▁▂▃▄▅▆▇█"
WIDTH = 72
HEIGHT = 8
NARROWEST = 10
DAY = 86400.0
YEAR = 366 * DAY


def columns(values: Sequence[float], top: float, height: int = HEIGHT) -> list[str]:
    """Rows of a chart, the highest first. What is above nothing shows at least a trace."""
    eighths = [_eighths(value, top, height) for value in values]
    return ["".join(BLOCKS[min(max(filled - 8 * row, 0), 8)] for filled in eighths) for row in reversed(range(height))]


def chart(values: Sequence[float], start: datetime, length: float, *, height: int = HEIGHT) -> list[str]:
    """The lines of a chart with its axes. The values are those of equal parts of the time."""
    top = nice(max(values, default=0.0))
    labels = {height - 1: number(top), height // 2 - 1: number(top / 2)}
    margin = _margin(top)
    rows = columns(values, top, height)
    lines = [f"{labels.get(height - 1 - n, ''):>{margin}} ┤{row.rstrip()}" for n, row in enumerate(rows)]
    axis, dates = time_line(start, length, len(values))
    return [*lines, f"{'0':>{margin}} └{axis}", f"{'':>{margin}}  {dates}"]


def room(highest: float, width: int) -> int:
    """How many columns a chart has in so many characters, beside its labels."""
    return max(min(width - _margin(nice(highest)) - 2, WIDTH), NARROWEST)


def _margin(top: float) -> int:
    return max(len(number(top)), len(number(top / 2)))


def time_line(start: datetime, length: float, width: int) -> tuple[str, str]:
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


def marks(start: datetime, length: float, most: int = 8) -> list[tuple[float, str]]:
    """Round instants of a time line, in seconds since its start, with their labels."""
    step = next((one for one in STEPS if length / one <= most), None) or -(-length // (most * 7 * DAY)) * 7 * DAY
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    at, day = midnight, "%b %d" if length <= YEAR else "%Y-%m"
    found = []
    while (seconds := (at - start).total_seconds()) < length:
        if seconds >= 0:
            found.append((seconds, f"{at:%H:%M}" if step < DAY and (at.hour or at.minute) else f"{at:{day}}"))
        at += timedelta(seconds=step)
    return found


STEPS = (300.0, 900.0, 1800.0, 3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY)


def nice(value: float) -> float:
    """The smallest round number that is not below a value; at least 1."""
    size = 1.0
    while True:
        for factor in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0):
            if value <= factor * size:
                return factor * size
        size *= 10.0


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def _eighths(value: float, top: float, height: int) -> int:
    return max(round(value / top * height * 8), 1) if value > 0 else 0
