"""Takes jobs away from nodes that are gone, and from attempts that are over their maximum runtime.

Every node runs this: each write is conditional, so two rescuers cannot rescue a job twice. A lost attempt is settled
by the same policy as a failed one. It looks when the next lease ends, and now and then besides: what a node left behind
need not wait for the next look.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Protocol

from oncue.engine.applying import apply_each, listed
from oncue.engine.service import Signal
from oncue.model import Claim
from oncue.policy.lifecycle import Ended, lost, overran, settle
from oncue.policy.suspicion import measured
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

LIMIT = 500
SOON = timedelta(seconds=0.05)
SPREAD = 0.05
"""Rescuers do not all look in the same instant: they spread over this part of their interval."""

_log = logging.getLogger("oncue.rescue")


class Steady(Protocol):
    """Whether this node may judge others, and from when on it will be able to."""

    def steady(self, now: datetime) -> bool: ...

    def steady_from(self, now: datetime) -> datetime: ...


class Rescue:
    name = "rescue"

    def __init__(
        self,
        store: Store,
        dice: Random,
        telemetry: Telemetry,
        member: Steady,
        *,
        interval: float,
        grace: float,
    ) -> None:
        self.signal = Signal()
        self._store = store
        self._dice = dice
        self._telemetry = telemetry
        self._member = member
        self._interval = timedelta(seconds=interval)
        self._grace = timedelta(seconds=grace)
        self._overdue: dict[tuple[int, int], datetime] = {}
        """The claims that are over their maximum runtime, and since when that was seen here."""

    async def tick(self, now: datetime) -> datetime:
        if not self._member.steady(now):
            return self._by(self._member.steady_from(now), now)
        for node in await self._store.nodes.expire(now):
            _log.warning("node %s (%s) is lost: its lease ended at %s", node.name, node.id, node.expires_at)
            self._telemetry.emit("node.lost", {}, node=node)
        stranded = await self._store.jobs.orphaned(now, LIMIT)
        if not self._member.steady(now):  # this process stood still meanwhile: it may be the one that is lost
            return now + self._interval
        more_lost = await self._take_away("rescue", stranded, lost, now)
        stuck = self._stuck(await self._store.jobs.overdue(now, LIMIT), now)
        more_stuck = await self._take_away("overrun", stuck, overran, now)
        return now if more_lost or more_stuck else self._by(await self._store.nodes.next_lease_end(), now)

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        """When a lease ends, or a maximum runtime. Until this node can judge others it leaves them alone."""
        lease_end, outlook = await store.nodes.next_lease_end(), await store.jobs.outlook()
        earliest = now if outlook.orphaned else outlook.overdue_at
        if earliest is None or (lease_end is not None and lease_end < earliest):
            earliest = lease_end
        if earliest is None or self._member.steady(now):
            return earliest
        return max(earliest, self._member.steady_from(now))

    def _by(self, wanted: datetime | None, now: datetime) -> datetime:
        """When to look again: as wanted, but soon enough to see who has died meanwhile."""
        latest = now + self._interval
        if wanted is None or wanted >= latest:
            return latest
        return max(wanted, now + SOON) + self._interval * round(self._dice.random() * SPREAD, 6)

    def _stuck(self, overdue: Sequence[Claim], now: datetime) -> list[Claim]:
        """Those that have been overdue for a while, as seen from here.

        The node itself cuts an attempt off first; only one that is stuck leaves it to us. A claim whose call was held
        up is overdue as soon as it is there, and its node gives it back, once it finds it, as never begun.
        """
        before = self._overdue
        places = [(claim.id, claim.claim_no) for claim in overdue]
        self._overdue = {place: min(before.get(place, now), now) for place in places}
        return [claim for claim in overdue if self._overdue[claim.id, claim.claim_no] <= now - self._grace]

    async def _take_away(
        self, event: str, claims: Sequence[Claim], ending: Callable[[Claim, datetime], Ended], now: datetime
    ) -> bool:
        """Whether there may be more. What the database refuses would only be found again."""
        if not claims:
            return False
        changes = [settle(ending(claim, now), self._dice) for claim in claims]
        took = await apply_each(self._store, changes, now)
        written = [
            (claim, change) for claim, change, is_written in zip(claims, changes, took, strict=True) if is_written
        ]
        for claim, change in written:
            _log.info("%s: job %d (%s) is now %s", event, claim.id, claim.task, change.state)
            self._telemetry.emit(event, measured(claim, change), claim=claim, change=change)
        if written:
            states = Counter(change.state for _, change in written).most_common()
            counts = ", ".join(f"{jobs} now {state}" for state, jobs in states)
            _log.warning("%s: %s: %s", event, listed([claim.id for claim, _ in written]), counts)
        return len(claims) == LIMIT and took.count(None) < LIMIT
