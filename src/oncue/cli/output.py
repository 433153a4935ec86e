"""How results look: tables for people, JSON for programs.

What goes out is made harmless here, so that no command needs to think of it: controls are shown escaped (`visible`).
Only markup is a command's own matter: text that it did not write itself goes through `escape`, or `paragraph`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from oncue.model import PARKED, Group, GroupSettings, State
from oncue.observe.visible import visible, visible_json, visible_lines
from oncue.policy.words import plural as plural
from oncue.policy.words import took as took

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

PIPED_WIDTH = 200
BAR_WIDTH = 24
STYLES: dict[State, str] = {
    "scheduled": "cyan",
    "queued": "blue",
    "running": "bright_blue",
    "retrying": "yellow",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "magenta",
    "skipped": "dim",
}


def console() -> Console:
    """The standard output. A pipe is wide: nothing is cut off for grep."""
    from oncue.cli.consoles import VisibleConsole

    return VisibleConsole(highlight=False, emoji=False, width=None if sys.stdout.isatty() else _width())


def _width() -> int:
    columns = shutil.get_terminal_size().columns
    return columns if sys.stdout.isatty() else max(PIPED_WIDTH, columns)


def escape(text: str) -> str:
    """Text from elsewhere, for a cell or a sentence: on one line, and its brackets are no markup."""
    return _without_markup(visible(text))


def paragraph(text: str) -> str:
    """Text from elsewhere that has lines of its own, such as a traceback."""
    return _without_markup(visible_lines(text))


def _without_markup(text: str) -> str:
    if "[" not in text and "\\" not in text:
        return text
    from rich import markup

    return markup.escape(text)


def show_json(document: Any) -> None:
    print(visible_json(document, indent=2))


def show_plain(text: str) -> None:
    """Print text for a program, or for a file: no markup, no line is broken."""
    print(visible_lines(text))


class JsonList:
    """A JSON array that is printed item by item. It looks as if `show_json` had printed the whole; if all went well."""

    def __init__(self) -> None:
        self._opening = "["

    def __enter__(self) -> JsonList:
        return self

    def add(self, item: Any) -> None:
        text = visible_json(item, indent=2)
        print(self._opening, "\n  ", text.replace("\n", "\n  "), sep="", end="")
        self._opening = ","

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            print("[]" if self._opening == "[" else "\n]")
        elif self._opening == ",":
            print()


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    from rich import box

    from oncue.cli.consoles import OneLineTable

    made = OneLineTable(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def show(lines: Table | str) -> None:
    if isinstance(lines, str) and _is_plain(lines):
        print(visible_lines(lines))
    else:
        console().print(lines)


def _is_plain(text: str) -> bool:
    """Whether rich would print it as it is: without markup, and no line so long that it would be broken."""
    is_short = all(len(line) < _width() for line in text.split("\n"))
    return is_short and text.isascii() and "[" not in text and "\\" not in text


def details(pairs: Iterable[tuple[str, Any]]) -> Table:
    """Names and values of one thing, without those that it does not have."""
    from oncue.cli.consoles import OneLineTable

    made = OneLineTable.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None and value != "":
            made.add_row(name, str(value))
    return made


def progress(*, known: bool) -> Progress:
    """A bar on the standard error, only on a terminal; of known length or not."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn()]
    columns += [MofNCompleteColumn(), TimeRemainingColumn()] if known else [TextColumn("{task.completed:,}")]
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def bar(fraction: float) -> str:
    """How far something has come, as a bar."""
    done = round(fraction * BAR_WIDTH)
    return f"[green]{'█' * done}[/]{'░' * (BAR_WIDTH - done)}"


def styled(state: State) -> str:
    return f"[{STYLES[state]}]{state}[/]"


def held_back(group: Group | GroupSettings, now: datetime) -> str:
    """Why nothing of a group starts, or only one job at a time: a pause, or its circuit breaker; "" if neither.

    A pause "opens"; an open circuit breaker must not, to whom the words of electricians mean something.
    """
    until = None if group.paused_until is None or group.paused_until <= now else group.paused_until
    if group.trips:
        breaker = f"circuit breaker open (trip {group.trips})"
        if until == PARKED:
            return f"[yellow]paused[/], [red]{breaker}[/]"
        return f"[red]{breaker}, {'one probe at a time' if until is None else f'next probe {when(until, now)}'}[/]"
    if until is None:
        return ""
    return "[yellow]paused[/]" if until == PARKED else f"[yellow]paused, opens {when(until, now)}[/]"


def when(instant: datetime | None, now: datetime) -> str:
    """An instant as seen from now."""
    if instant is None:
        return ""
    away = (now - instant).total_seconds()
    if abs(away) < 1:
        return "now"
    return f"{took(away)} ago" if away > 0 else f"in {took(-away)}"


def stamp(instant: datetime) -> str:
    """Date and time, with a fraction only where there is one."""
    return f"{instant:%Y-%m-%d %H:%M:%S}" + (f".{instant.microsecond:06d}" if instant.microsecond else "")


def local(instant: datetime, tz: str) -> str:
    """An instant as clocks in a time zone show it, with the zone's abbreviation."""
    try:
        there = instant.astimezone(ZoneInfo(tz))
    except (LookupError, ValueError, OSError):  # a zone that this host does not know
        there = instant.astimezone(UTC)
    return f"{stamp(there)} {there:%Z}"


def full(instant: datetime | None, now: datetime) -> str | None:
    """An instant to the microsecond, and as seen from now."""
    if instant is None:
        return None
    return f"{instant:%Y-%m-%d %H:%M:%S.%f} UTC  ({when(instant, now)})"
