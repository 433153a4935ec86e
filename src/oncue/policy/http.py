"""What an answer over HTTP means for a delivery: whether it arrived, and when to try again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from oncue.policy import retry

LONGEST_RETRY_AFTER = 3600.0
TOO_MANY_REQUESTS = 429
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


def outcome(status: int) -> Literal["delivered", "retry", "failed"]:
    """2xx is delivered; 5xx and 429 may pass; anything else, a redirect that is not followed too, will not."""
    if 200 <= status <= 299:
        return "delivered"
    return "retry" if status == TOO_MANY_REQUESTS or 500 <= status <= 599 else "failed"


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """How many seconds an endpoint asks to be left alone (`retry-after`, in lower case), at most an hour.

    A date in the past and a negative number are 0; what cannot be read is None. A delivery raises
    `Retry(after=…, at_least=True)` with it, so that the delay is the longer of this and its ladder's.
    """
    value = headers.get("retry-after")
    asked = None if value is None else _asked(value.strip(), now)
    return None if asked is None else min(max(asked, 0.0), LONGEST_RETRY_AFTER)


def _asked(text: str, now: datetime) -> float | None:
    if _WHOLE_NUMBER.fullmatch(text):
        return float(text)  # of any size, which the reader of durations would refuse
    try:
        found = retry.retry_after(text)
    except (ValueError, OverflowError):
        return None
    return (found - now).total_seconds() if isinstance(found, datetime) else found
