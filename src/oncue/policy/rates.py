"""Rates as people write them: `10/s`, `600/min`, `5/h`, `100/d`."""

from __future__ import annotations

import re

from oncue.errors import InvalidJob
from oncue.model import Rate
from oncue.policy.checks import LARGEST_LIMIT

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WRITTEN = re.compile(r"([0-9]+) ?/ ?(s|sec|second|m|min|minute|h|hour|d|day)", re.ASCII)
EXPECTED = f"expected a number of jobs from 1 to {LARGEST_LIMIT:,} in a second, minute, hour or day: 10/s, 600/min, 5/h"


def parsed(text: str, field: str) -> Rate:
    """The rate that a text says. Raises InvalidJob, naming the field."""
    found = _WRITTEN.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    if found is None or len(found[1]) > len(str(LARGEST_LIMIT)) or not 1 <= int(found[1]) <= LARGEST_LIMIT:
        raise InvalidJob(field, f"{EXPECTED} or 100/d, not {text!r:.100}")
    return Rate(int(found[1]), _SECONDS[found[2][0]])
