"""The log line of a delivery's attempt, in the words that operators of webhooks grep for.

It names the endpoint by its webhook, or by scheme, host and port. What a receiver answered is not in it, nor any URL:
both may hold secrets. `oncue job ID` shows the answer.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from oncue.model import Change, Claim
from oncue.policy.error_summary import error_summary
from oncue.policy.lifecycle import Ended

WORDS = {"succeeded": "delivered"}

_log = logging.getLogger("oncue.dispatcher")


def log_delivery(ended: Ended, change: Change, duration: float) -> None:
    claim = ended.claim
    slot = "" if claim.scheduled_for is None else f" scheduled_at={claim.scheduled_for.isoformat()}"
    _log.log(
        logging.WARNING if change.state == "failed" else logging.INFO,
        "dispatcher: job=%s %s attempt=%d id=%d execution=%s%s duration=%.3fs%s",
        claim.group or claim.task, WORDS.get(change.state, change.state), change.attempt, claim.id, claim.uid, slot,
        duration, _cause(ended, change),
    )  # fmt: skip


def log_postponed(claim: Claim, why: str) -> None:
    """Of an attempt that did not begin, and is not counted."""
    name = claim.group or claim.task
    _log.warning("dispatcher: job=%s postponed id=%d execution=%s: %s", name, claim.id, claim.uid, why)


def _cause(ended: Ended, change: Change) -> str:
    """Its status, or why it has none: nothing that the receiver or an address has put into words."""
    told: dict[str, Any] = {} if ended.details is None else json.loads(ended.details)
    if "status" in told:
        return f" status={told['status']}"
    if "failed" in told:
        return f" cause={told['failed']}"
    if change.reason:
        return f" reason={change.reason}"
    summary = error_summary(change.error)
    # Of an error that was not foreseen only its kind is told: its text may repeat a URL.
    is_traceback = change.error is not None and change.error.startswith("Traceback")
    return f" error={summary.partition(':')[0] if is_traceback else summary}" if summary else ""
