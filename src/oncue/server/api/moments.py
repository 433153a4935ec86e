"""Instants as requests write them: the same language as the shell's (`policy/moments.py`)."""

from __future__ import annotations

import re
from datetime import datetime

from oncue.policy import moments
from oncue.policy.checks import EARLIEST, LATEST
from oncue.server.api.problems import invalid

_LOST_PLUS = re.compile(r"(:\d\d(?:\.\d+)?) (\d\d:?\d\d)$")


def moment(text: str, field: str, now: datetime) -> datetime:
    """An instant, a date, `now`, or a duration before now."""
    # In an address a plus sign means a space: an offset that was not escaped arrives with a space in front.
    word = _LOST_PLUS.sub(r"\1+\2", text.strip())
    try:
        found = moments.moment(word).at(now)
    except (ValueError, OverflowError):
        raise invalid(field, f"{moments.EXPECTED}, not {text!r:.100}") from None
    if not EARLIEST <= found < LATEST:
        raise invalid(field, f"expected an instant from {EARLIEST:%Y} up to {LATEST:%Y}, not {text!r:.100}")
    return found


def instant(text: str, field: str) -> datetime:
    """An instant that says in which time zone it is."""
    try:
        return moments.instant(text)
    except ValueError as error:
        raise invalid(field, str(error)) from None
