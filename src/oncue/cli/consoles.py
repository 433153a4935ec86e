"""What output takes from rich, apart from it: a command that prints JSON or a plain line does not import rich."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from oncue.observe.visible import visible, visible_lines


class VisibleConsole(Console):
    """Shows what would act on a terminal. Lines are kept: the layout is made of them."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible_lines(text), **options)


class OneLineTable(Table):
    """A cell is one line, lest its text passes for a row."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(visible(cell) if isinstance(cell, str) else cell for cell in cells), **options)
