"""How loud the log tells of a job."""

from __future__ import annotations

import logging

from oncue.model import Claim
from oncue.policy import options


def level_of(claim: Claim, usual: int = logging.INFO) -> int:
    """The level of a line about a job. What is about one user of a window is for debugging: a warning there is for
    what concerns many of them."""
    is_users = claim.scheduled_for is not None and options.read(claim.options).window is not None
    return logging.DEBUG if is_users else usual
