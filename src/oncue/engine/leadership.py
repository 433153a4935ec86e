"""Who leads: one lease in the database, with an epoch that grows with every new leader.

The leader fires schedules and looks after what needs doing once per cluster. Leading is an optimisation: everything
that a leader writes is conditional, so that two of them at once do nothing twice. A leader that cannot renew its lease
(or does not hear whether it did) stops leading before the lease ends; one that shuts down gives it up, and the next
takes over at once. While another node is exclusive, the others do not stand for election.

This service runs on the node's main loop, on purpose: a node whose loop is stuck must not keep leading.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from oncue.clock import Clock
from oncue.engine.outages import Outage
from oncue.engine.service import QuietService, Signal, foretells
from oncue.errors import RowLocked, StoreError
from oncue.model import Lease, Node
from oncue.store.contract import EXCLUSIVE, LEADER, Store
from oncue.telemetry import Telemetry

_log = logging.getLogger("oncue.leadership")


class Leadership:
    name = "leadership"

    def __init__(
        self,
        store: Store,
        node: Node,
        clock: Clock,
        telemetry: Telemetry,
        is_alive: Callable[[], bool],
        *,
        lease: float,
        poll: float,
        shown: Callable[[], str] | None = None,
    ) -> None:
        """`shown`: the name that this node goes by at the moment."""
        self.signal = Signal()
        self.elected = Signal()
        self.deposed = Signal()
        """Raised when this node has lost the lead, or has given it up."""
        self.followers: list[Signal] = []
        """The services that wait for this node to lead."""
        self._store = store
        self._node = node
        self._shown = shown or (lambda: node.name)
        self._clock = clock
        self._telemetry = telemetry
        self._is_alive = is_alive
        self._lease = timedelta(seconds=lease)
        self._poll = timedelta(seconds=poll)
        self.outage: Outage | None = None
        """The time before this node was elected, if no node led for so long that slots may have come late."""
        self.held: Lease | None = None
        self.until: datetime | None = None
        """When the lease ends, as far as this node knows."""
        self._looked_at: datetime | None = None

    @property
    def epoch(self) -> int | None:
        """The epoch under which this node leads, if it does: no longer than its lease was seen to last."""
        if self.held is None or self.until is None or self._clock.latest() >= self.until:
            return None
        return self.held.epoch

    async def tick(self, now: datetime) -> datetime:
        if self.held is not None and self.epoch is None:
            self._deposed(self.held, "its lease ended before it was renewed")
        if self.held is not None:
            await self._renew(now)
        elif self._is_alive():
            # A hint may come a hundred times a second; whether the leader is gone is asked only so often.
            if self._looked_at is not None and self._looked_at <= now < self._looked_at + self._poll:
                return self._looked_at + self._poll
            self._looked_at = None  # a look that fails is none
            again_at = await self._stand(now)
            self._looked_at = now
            return again_at
        return now + self._lease / 3

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        lease = await store.leases.get(LEADER)
        if self.held is not None:
            is_ours = lease is not None and (lease.holder, lease.epoch) == (self._node.id, self.held.epoch)
            return None if is_ours and self.epoch is not None and self._is_alive() else now
        if lease is not None and lease.expires_at > now and lease.holder != self._node.id:
            return lease.expires_at
        return now if self._is_alive() else None

    async def resign(self) -> None:
        """Give the lease up, so that the next leader need not wait for its end."""
        held, self.held, self.until = self.held, None, None
        if held is not None:
            self.deposed.set()
            await self._store.leases.release(LEADER, self._node.id, held.epoch, self._clock.now())
            _log.info("leadership: %s gave up the lead (epoch %d)", self._shown(), held.epoch)

    async def _stand(self, now: datetime) -> datetime:
        """Lead if no node does. When to look again: the lease of the present leader may end without notice."""
        before, expires_at, later = await self._store.leases.get(LEADER), now + self._lease, now + self._lease / 3
        if before is None or before.expires_at <= now:
            lease = await self._store.leases.acquire(
                LEADER, self._node.id, self._shown(), now, expires_at, respect=EXCLUSIVE
            )
            if lease is not None and lease.holder == self._node.id and lease.expires_at == expires_at:
                self._lead(lease, expires_at, before, now)
        elif before.holder != self._node.id:
            return min(before.expires_at, later)
        elif await self._store.leases.renew(LEADER, self._node.id, before.epoch, now, expires_at, respect=EXCLUSIVE):
            self._lead(before, expires_at, before, now)  # it is ours: only the reply was lost that said so
        return later

    def _lead(self, lease: Lease, expires_at: datetime, before: Lease | None, now: datetime) -> None:
        self.held, self.until = lease, expires_at
        vacant = None if before is None else now - before.renewed_at
        self.outage = Outage(now - vacant, now) if vacant is not None and vacant >= self._lease else None
        _log.info("leadership: %s leads now (epoch %d)", self._shown(), lease.epoch)
        self._telemetry.emit("leader.elected", {"epoch": lease.epoch}, node=self._node, lease=lease)
        if self.outage is not None:
            length = self.outage.until - self.outage.since
            self._telemetry.emit("outage", {"duration": length.total_seconds()}, node=self._node)
        self.elected.set()
        for follower in self.followers:
            follower.set()

    async def _renew(self, now: datetime) -> None:
        held = self.held
        assert held is not None
        expires_at = now + self._lease
        try:
            renewed = self._is_alive() and await self._store.leases.renew(
                LEADER, self._node.id, held.epoch, now, expires_at, respect=EXCLUSIVE
            )
        except RowLocked:
            raise  # known not to be renewed: it leads up to the end that its lease has
        except StoreError as error:
            self._deposed(held, f"its lease could not be renewed ({error})")  # an unknown reply means: not the leader
            raise
        if renewed:
            self.until = expires_at
        else:
            self._deposed(held, "it has to stand by, or another node leads")
            # If it is still ours (only we may lead no more), the next leader should not wait for its end.
            await self._store.leases.release(LEADER, self._node.id, held.epoch, now)

    def _deposed(self, held: Lease, why: str) -> None:
        self.held, self.until = None, None
        _log.warning("leadership: %s leads no more (epoch %d): %s", self._shown(), held.epoch, why)
        self._telemetry.emit("leader.lost", {"epoch": held.epoch}, node=self._node, why=why)
        self.deposed.set()


class OnLeader:
    """A service that only the leader runs: elsewhere it waits for its node to be elected."""

    def __init__(self, service: QuietService, leadership: Leadership, *, look: float = 5.0) -> None:
        self.name = service.name
        self.signal = service.signal
        self._service = service
        self._leadership = leadership
        self._look = timedelta(seconds=look)
        leadership.followers.append(service.signal)
        if not foretells(service):
            self.quiet_until = service.quiet_until  # type: ignore[method-assign]

    async def tick(self, now: datetime) -> datetime:
        if self._leadership.epoch is None:
            return now + self._look
        return await self._service.tick(now)

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        return None if self._leadership.epoch is None else await self._service.quiet_until(now, store)
