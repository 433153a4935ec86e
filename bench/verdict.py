"""What a run found: one record per figure, as JSON and as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

BAR_MISSED = 4


@dataclass(frozen=True)
class Figure:
    name: str
    value: float | None = None
    reference: float | None = None
    ratio: float | None = None
    bar: str | None = None
    holds: bool | None = None
    note: str | None = None

    def record(self) -> dict[str, object]:
        """Only what applies."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def plain(name: str, value: float, note: str | None = None) -> Figure:
    """A figure to know, without a bar."""
    return Figure(name, _short(value), note=note)


def compared(name: str, value: float, reference: float) -> Figure:
    """A ratio to know, without a bar."""
    return Figure(name, _short(value), _short(reference), round(value / reference, 3))


def at_least(name: str, value: float, reference: float, factor: float) -> Figure:
    ratio = value / reference
    return Figure(name, _short(value), _short(reference), round(ratio, 3), f">= {factor} x", ratio >= factor)


def at_most(name: str, value: float, reference: float, factor: float) -> Figure:
    ratio = value / reference
    return Figure(name, _short(value), _short(reference), round(ratio, 3), f"<= {factor} x", ratio <= factor)


def limited(name: str, value: float, most: float, unit: str) -> Figure:
    """A bar that is an amount and not a ratio."""
    return Figure(name, _short(value), bar=f"<= {most:g} {unit}", holds=value <= most)


def missing(name: str, why: str, holds: bool | None = None) -> Figure:
    """A figure that could not be measured; a bar that could not be measured does not hold."""
    return Figure(name, holds=holds, note=why)


def write(figures: Sequence[Figure], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([figure.record() for figure in figures], indent=2) + "\n")


def show(figures: Sequence[Figure]) -> None:
    table = Table("figure")
    for name in ("value", "reference", "ratio"):
        table.add_column(name, justify="right")
    for name in ("bar", "holds", "note"):
        table.add_column(name)
    for figure in figures:
        table.add_row(figure.name, *_cells(figure))
    Console(width=None if Console().is_terminal else 140).print(table)


def exit_code(figures: Sequence[Figure]) -> int:
    return BAR_MISSED if any(figure.holds is False for figure in figures) else 0


def _cells(figure: Figure) -> list[str]:
    numbers = (figure.value, figure.reference, figure.ratio)
    holds = {True: "yes", False: "[bold red]NO[/]", None: ""}[figure.holds]
    return [*(_text(number) for number in numbers), figure.bar or "", holds, figure.note or ""]


def _text(number: float | None) -> str:
    return "" if number is None else f"{number:,.10g}"


def _short(value: float) -> float:
    return round(value) if value >= 1000 else round(value, 3)
