"""What the process around the dashboard wants to be told on the overview, such as the story of `oncue demo`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple


class ToldFigure(NamedTuple):
    """A figure with its name."""

    name: str
    value: int
    note: str
    kind: str = ""
    """`bad` or `warn` if it should be seen first."""


class ToldEvent(NamedTuple):
    """Something that has happened."""

    at: datetime
    kind: str
    text: str


class Telling(NamedTuple):
    """Figures, and what has happened."""

    title: str
    lead: str
    figures: Sequence[ToldFigure]
    events: Sequence[ToldEvent]


def nothing() -> Telling | None:
    return None
