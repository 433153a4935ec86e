"""How loud the log tells of a job."""

from __future__ import annotations

import logging

from oncue.model import Claim
from oncue.policy import options


def level_of(claim: Claim, usual: int = logging.INFO) -> int:
    """The level of a line about a job. What is about one user of a window is for debugging: a warning there is for
    what concerns many of them. That the job of a cutoff failed for good is told, since no SLO counts it."""
    told = options.read(claim.options)
    is_users = (claim.scheduled_for is not None and told.window is not None) or (
        told.of_cutoff and usual == logging.INFO
    )
    return logging.DEBUG if is_users else usual
