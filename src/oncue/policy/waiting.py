"""Since when a job has waited for the attempt that begins now."""

from __future__ import annotations

from datetime import datetime

from oncue.model import Claim


def waiting_since(claim: Claim) -> datetime:
    """Enqueue, for a first attempt; what was enqueued for later waits from when it was due, and a later attempt too.

    A first attempt that was claimed before was given back without having begun: `visible_at` is when that was, and the
    job has waited all along.
    """
    given_back = claim.attempt == 0 and claim.claim_no > 1
    return claim.created_at if given_back else max(claim.created_at, claim.visible_at)
