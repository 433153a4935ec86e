"""Whose tables these are."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class Owner(NamedTuple):
    """The application that a set of tables belongs to."""

    name: str
    given: bool
    """Whether it was named (`Oncue(name=…)`, ONCUE_NAME); else it is called after the place of its code."""
    since: datetime
