"""What a worker does first: it looks after the runs that its own predecessor left behind.

A worker has a name that outlives its process. If an earlier process of that name is proved dead, its runs need not wait
for the end of its lease: they end here and now, before anything is scheduled. Proof is one of these: its lease is over;
it worked as the exclusive node and this one holds that lease now; it ran on this host, since this boot, and its process
is gone. A process that is not proved dead is never touched, however much its name looks like ours: nor is one that
stands by, as this one did.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random

from oncue.engine.applying import apply_each
from oncue.engine.service import Signal, can_wait
from oncue.errors import RowLocked
from oncue.model import Node
from oncue.policy.lifecycle import STARTUP_RECOVERY, lost, settle
from oncue.policy.suspicion import measured
from oncue.store.contract import EXCLUSIVE, Store
from oncue.telemetry import Telemetry

CAUSE = STARTUP_RECOVERY
NEVER = timedelta(days=36525)

_log = logging.getLogger("oncue.recovery")


class Recovery:
    name = "recovery"

    def __init__(
        self, store: Store, node: Node, dice: Random, telemetry: Telemetry, is_gone: Callable[[Node], bool]
    ) -> None:
        self.signal = Signal()
        self._store = store
        self._node = node
        self._dice = dice
        self._telemetry = telemetry
        self._is_gone = is_gone

    async def tick(self, now: datetime) -> datetime:
        """Once, at the start; and again only if this node becomes exclusive later."""
        await self.recover(now)
        return now + NEVER

    quiet_until = can_wait

    async def recover(self, now: datetime) -> None:
        """End the runs of every predecessor that is proved dead."""
        for predecessor in await self._store.nodes.namesakes(self._node):
            if await self._is_dead(predecessor, now):
                try:
                    await self._declare_lost(predecessor, now)
                except RowLocked as error:
                    _log.warning("startup recovery: %s is left to the rescue of its jobs: %s", predecessor.name, error)

    async def _is_dead(self, predecessor: Node, now: datetime) -> bool:
        if predecessor.expires_at <= now or self._is_gone(predecessor):
            return True
        if not (self._node.exclusive and predecessor.exclusive):
            return False
        lease = await self._store.leases.get(EXCLUSIVE)
        if lease is None or lease.holder != self._node.id or lease.expires_at <= now:
            return False
        # Only who held the lease has runs. One that never did may be alive and stand by: our holding it says nothing.
        return bool(await self._store.jobs.held(predecessor.id))

    async def _declare_lost(self, predecessor: Node, now: datetime) -> None:
        await self._store.nodes.declare_lost(predecessor.id, now)
        held = await self._store.jobs.held(predecessor.id)
        claims = await self._store.jobs.running([holding.id for holding in held]) if held else []
        numbers = {(holding.id, holding.claim_no) for holding in held}
        claims = [claim for claim in claims if (claim.id, claim.claim_no) in numbers]
        changes = [settle(lost(claim, now, CAUSE), self._dice) for claim in claims]
        took = await apply_each(self._store, changes, now)
        ended = took.count(True)
        runs, were = ("run", "was") if ended == 1 else ("runs", "were")
        _log.log(
            logging.WARNING if ended else logging.INFO,
            "startup recovery: %d %s of %s (%s), which is dead, %s ended (%s)",
            ended, runs, predecessor.name, predecessor.id, were, CAUSE,
        )  # fmt: skip
        self._telemetry.emit("recovery", {"jobs": ended}, node=self._node, predecessor=predecessor)
        for claim, change, written in zip(claims, changes, took, strict=True):
            if written:
                _log.warning("startup recovery: job %d (%s) is now %s", claim.id, claim.task, change.state)
                self._telemetry.emit("rescue", measured(claim, change), claim=claim, change=change)
