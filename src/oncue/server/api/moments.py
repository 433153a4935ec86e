"""Instants as requests write them: the same language as the shell's."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from oncue.policy.checks import EARLIEST, LATEST
from oncue.policy.durations import seconds
from oncue.server.api.problems import invalid

EXPECTED = (
    "expected an instant such as 2030-01-31T09:00:00Z or 2030-01-31 (UTC unless it has an offset), `now`, or a "
    "duration before now such as -2h or -7d"
)
_LOST_PLUS = re.compile(r"(:\d\d(?:\.\d+)?) (\d\d:?\d\d)$")


def moment(text: str, field: str, now: datetime) -> datetime:
    """An instant, a date, `now`, or so long before now."""
    # In an address a plus sign means a space, and who writes one by hand does not think of it.
    word = _LOST_PLUS.sub(r"\1+\2", text.strip())
    if word == "now":
        return now
    try:
        found = now - timedelta(seconds=seconds(word[1:])) if word.startswith("-") else datetime.fromisoformat(word)
        found = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid(field, f"{EXPECTED}, not {text!r:.100}") from None
    if not EARLIEST <= found < LATEST:
        raise invalid(field, f"expected an instant from {EARLIEST:%Y} up to {LATEST:%Y}, not {text!r:.100}")
    return found


def instant(text: str, field: str) -> datetime:
    """An instant that says in which time zone it is."""
    try:
        found = datetime.fromisoformat(text.strip())
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise invalid(
        field, f"expected an instant with a time zone, such as 2030-01-31T09:00:00Z, not {text!r:.100}"
    ) from None
