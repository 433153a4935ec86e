"""Plots as SVG, to stand inside a page: nothing is loaded, and colours come from the page's own variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape
from math import log10

from oncue.planning.charts import marks, nice, number
from oncue.planning.series import Bucket, percentile
from oncue.planning.spans import Span, moment
from oncue.planning.words import about, clock

WIDTH, HEIGHT = 960, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 14, 30
INNER = WIDTH - LEFT - RIGHT
DEPTH = HEIGHT - TOP - BOTTOM
HUES = 6
DASHES = 3
"""With more queues than hues, the next ones are dashed, then dotted."""
DECADES = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0, 86400.0, 864000.0)


def over_time(
    name: str,
    buckets: Sequence[Bucket],
    start: datetime,
    length: float,
    outages: Sequence[Span],
    tell: Callable[[Bucket], str],
    ceiling: float | None = None,
) -> str:
    """The highest values as an area, the means as a line, outages as bands. `tell` says a part of it in words."""
    top = nice(max([bucket.highest for bucket in buckets] + ([] if ceiling is None else [ceiling])))

    def x(seconds: float) -> float:
        return LEFT + seconds / length * INNER

    def y(value: float) -> float:
        return TOP + DEPTH * (1 - value / top)

    width = length / len(buckets)
    parts = [_band(x(span.start), x(span.end), start, span) for span in outages]
    parts += _levels(top, y)
    parts += [_tick(x(at), label) for at, label in marks(start, length, 12)]
    parts.append(f'<path class="area" d="{_steps([(x(b.start), y(b.highest)) for b in buckets], x(length), y(0))}"/>')
    parts.append(f'<path class="mean" d="{_line([(x(b.start + width / 2), y(b.mean)) for b in buckets])}"/>')
    if ceiling is not None:
        parts.append(f'<path class="ceiling" d="{_line([(LEFT, y(ceiling)), (LEFT + INNER, y(ceiling))])}"/>')
    parts += [
        f'<rect class="hit" x="{x(b.start):.1f}" y="{TOP}" width="{INNER / len(buckets):.1f}" height="{DEPTH}">'
        f"<title>{clock(moment(start, b.start))}: {escape(tell(b))}</title></rect>"
        for b in buckets
    ]
    return _svg(name, parts)


def distribution(name: str, by_queue: dict[str, list[float]], target: float) -> str:
    """Which share of the attempts began within which time, by queue. The time line is logarithmic."""
    longest = max([target, *(late[-1] for late in by_queue.values() if late)])
    last = next((one for one in DECADES if one >= longest), DECADES[-1])
    first, end = log10(DECADES[0]), log10(last)

    def x(seconds: float) -> float:
        return LEFT + (log10(min(max(seconds, DECADES[0]), last)) - first) / (end - first) * INNER

    def y(share: float) -> float:
        return TOP + DEPTH * (1 - share)

    parts = [_level(y(share), f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    parts += [_tick(x(one), about(one)) for one in DECADES if one <= last]
    parts.append(f'<path class="ceiling" d="{_line([(x(target), TOP), (x(target), TOP + DEPTH)])}"/>')
    for index, (queue, late) in enumerate(by_queue.items()):
        points = [(x(percentile(late, share / 200)), y(share / 200)) for share in range(1, 201)]
        told = f"<title>{escape(queue)}</title>"
        parts.append(f'<path class="{_curve(index)}" d="{_line([(LEFT, y(0.0)), *points])}">{told}</path>')
    return _svg(name, parts)


def key(index: int, queue: str) -> str:
    """A piece of a queue's curve with its name, for a legend."""
    line = f'<svg class="key" viewBox="0 0 24 8" aria-hidden="true"><path class="{_curve(index)}" d="M0 4H24"/></svg>'
    return f'<span class="key">{line} {escape(queue)}</span>'


def _curve(index: int) -> str:
    return f"curve hue{index % HUES} dash{index // HUES % DASHES}"


def _svg(name: str, parts: Sequence[str]) -> str:
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(name)}"'
    inside = "\n".join(parts)
    return f'<div class="scroll" tabindex="0"><svg xmlns="http://www.w3.org/2000/svg" {size}>\n{inside}\n</svg></div>'


def _levels(top: float, y: Callable[[float], float]) -> list[str]:
    """What is counted is whole, and so are the numbers beside it."""
    parts = next(parts for parts in (4, 3, 5, 2, 1) if top % parts == 0)
    return [_level(y(top * part / parts), number(top * part / parts)) for part in range(parts + 1)]


def _level(y: float, label: str) -> str:
    line = f'<path class="grid" d="{_line([(LEFT, y), (LEFT + INNER, y)])}"/>'
    return line + f'<text class="right" x="{LEFT - 8}" y="{y + 4:.1f}">{escape(label)}</text>'


def _tick(x: float, label: str) -> str:
    anchor = ' class="right"' if x > WIDTH - RIGHT - 30 else ""
    return f'<text{anchor} x="{x:.1f}" y="{HEIGHT - 8}">{escape(label)}</text>' + (
        f'<path class="grid" d="{_line([(x, TOP + DEPTH), (x, TOP + DEPTH + 5)])}"/>'
    )


def _band(left: float, right: float, start: datetime, span: Span) -> str:
    told = f"<title>outage from {clock(moment(start, span.start))}, {about(span.length)}</title>"
    wide = max(right - left, 1.0)
    return f'<rect class="outage" x="{left:.1f}" y="{TOP}" width="{wide:.1f}" height="{DEPTH}">{told}</rect>'


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _steps(points: Sequence[tuple[float, float]], end: float, floor: float) -> str:
    """An area that is as high as each point until the next one."""
    path, last = f"M{points[0][0]:.1f} {floor:.1f}", floor
    for x, y in points:
        if f"{y:.1f}" != f"{last:.1f}":
            path += f"H{x:.1f}V{y:.1f}"
            last = y
    return f"{path}H{end:.1f}V{floor:.1f}Z"
