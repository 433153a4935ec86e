"""Which job is held to have killed its process, and what company it may have because of that.

`crashes` counts the deaths in a row that a job is charged with. A death is evidence against the jobs that had begun,
the less the more of them there were, so the company gets smaller with the count (by default `max_crashes` is 5):

    0, 1    any company: the first rerun is like any other job
    2       a cohort: at most COHORT of these at once on a node, beside any others
    3, 4    alone: nothing else runs on the node
    5       `failed`, reason `poison`

A death in company never charges a job into the last two: an innocent may meet any number of them. So poison takes two
deaths alone, and who was alone is on record from before the attempt began. So is, from one crash on, that it began at
all. Of a job without crashes that is not known, and its first charge costs it nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from oncue.model import Change, Claim, Job, OpenJob
from oncue.policy import options

FREE, IN_COHORT, ALONE = 0, 1, 2
"""How a job is kept apart from others."""
NAMES: tuple[Literal["none", "cohort", "alone"], ...] = ("none", "cohort", "alone")
COHORT = 8
DEATHS_ALONE = 2
PATIENCE_SECONDS = 60.0
PATIENCE = timedelta(seconds=PATIENCE_SECONDS)
"""How long a job that must run alone waits for a node that is idle, before a busy one makes room for it."""
ROOM_SECONDS = 600.0
ROOM = timedelta(seconds=ROOM_SECONDS)
"""How long a node begins nothing else because of such a job while others still run there; then it gives it back."""


def isolation(crashes: int, most: int | None) -> int:
    """How a job with so many crashes is kept apart; `most` is its `max_crashes`, None for never."""
    if not crashes or most is None:
        return FREE
    if crashes >= most - DEATHS_ALONE:
        return ALONE
    return IN_COHORT if crashes == most - DEATHS_ALONE - 1 else FREE


def isolation_of(job: Claim | Job | OpenJob, crashes: int | None = None) -> int:
    """How a job is kept apart with the crashes that it has, or with so many."""
    crashes = job.crashes if crashes is None else crashes
    return isolation(crashes, options.read(job.options).max_crashes) if crashes else FREE


def is_recorded(claim: Claim) -> bool:
    """Whether an attempt of this claim begins only after that is on record."""
    return claim.crashes > 0


def began_at(claim: Claim) -> datetime | None:
    """When the attempt of a claim began whose node is gone. Where that is not known, it may have when claimed."""
    return claim.started_at if is_recorded(claim) else claim.started_at or claim.claimed_at


def charged(claim: Claim, *, begun: bool) -> int:
    """With how many crashes a job goes on after the death of its process."""
    crashes, most = claim.crashes, options.read(claim.options).max_crashes
    if not begun or most is None:
        return crashes
    if isolation(crashes, most) == ALONE:
        return crashes + 1
    return min(crashes + 1, most - DEATHS_ALONE)


def is_poison(crashes: int, most: int | None) -> bool:
    return most is not None and crashes >= most


def measured(claim: Claim, change: Change) -> dict[str, float]:
    """What a rescue came to, for those who count."""
    return {"charged": change.crashes > claim.crashes, "poison": change.reason == "poison"}


class OthersTurn(NamedTuple):
    """After a job that had its node for itself, the others have that as long as they had to wait, or a while."""

    since: datetime
    length: timedelta

    @classmethod
    def after(cls, claimed_at: datetime, now: datetime) -> OthersTurn:
        return cls(now, max(PATIENCE, now - claimed_at))

    def lasts(self, now: datetime) -> bool:
        """A turn in the future of this clock began before that was set back."""
        return self.since <= now < self.since + self.length


def alone_before(now: datetime, *, idle: bool, turn: OthersTurn | None = None) -> datetime | None:
    """A node takes a job that must run alone if that could have been claimed since this instant; None: none at all."""
    if turn is not None and turn.lasts(now):
        return None
    return now if idle else now - PATIENCE
