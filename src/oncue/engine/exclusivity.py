"""One active worker: an exclusive node holds a lease that every other one respects.

A node that wants to be exclusive and is not stands by, says who is, and takes over when that lease ends. Nodes that do
not want it stand by just the same while another node holds it: the store hands them no jobs, and they do not lead.

In production this runs beside the heartbeat, in its thread: a busy event loop does not cost the lease.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from oncue.clock import Clock
from oncue.engine.service import Signal
from oncue.errors import StoreError
from oncue.model import Lease, Node
from oncue.store.contract import EXCLUSIVE, Store
from oncue.telemetry import Telemetry

_log = logging.getLogger("oncue.exclusivity")


class Exclusivity:
    name = "exclusivity"

    def __init__(
        self,
        store: Store,
        node: Node,
        clock: Clock,
        telemetry: Telemetry,
        lapsed: Callable[[str], None],
        recover: Callable[[datetime], Awaitable[None]],
        *,
        lease: float,
        beat: float,
        patience: float,
        shown: Callable[[], str] | None = None,
    ) -> None:
        """`shown`: the name that this node goes by at the moment."""
        self.signal = Signal()
        self.holder: Lease | None = None
        """Who keeps this node from working, if anybody does."""
        self._store = store
        self._node = node
        self._shown = shown or (lambda: node.name)
        self._clock = clock
        self._telemetry = telemetry
        self._lapsed = lapsed
        self._recover = recover
        self._lease = timedelta(seconds=lease)
        self._beat = timedelta(seconds=beat)
        self._patience = timedelta(seconds=patience)
        self.held: Lease | None = None
        self.until: datetime | None = None
        """When the lease ends that this node holds, if it does."""

    def may_work(self) -> bool:
        """Whether this node need not stand by, as far as it knows; the store has the last word."""
        until = self.until  # read once: the heartbeat thread may change it
        if self._node.exclusive:
            return until is not None and self._clock.latest() < until
        return self.holder is None

    async def tick(self, now: datetime) -> datetime:
        if not self._node.exclusive:
            await self._look(now)
        elif self.held is not None:
            return await self._renew(self.held, now)
        else:
            return await self._take(now)
        return now + self._beat

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        lease = await store.leases.get(EXCLUSIVE)
        standing = lease if lease is not None and lease.expires_at > now else None
        if self.held is not None:
            is_ours = standing is not None and (standing.holder, standing.epoch) == (self._node.id, self.held.epoch)
            return None if is_ours and self.may_work() else now
        known = None if self.holder is None else self.holder.holder
        if standing is None:
            return now if known is not None or self._node.exclusive else None
        return standing.expires_at if standing.holder == known else now

    async def resign(self) -> None:
        held, self.held, self.until = self.held, None, None
        if held is not None:
            await self._store.leases.release(EXCLUSIVE, self._node.id, held.epoch, self._clock.now())

    async def _look(self, now: datetime) -> None:
        lease = await self._store.leases.get(EXCLUSIVE)
        self._stand_by(lease if lease is not None and lease.expires_at > now else None)

    async def _take(self, now: datetime) -> datetime:
        expires_at = now + self._lease
        lease = await self._store.leases.acquire(EXCLUSIVE, self._node.id, self._shown(), now, expires_at, respect=None)
        self._telemetry.outages.works(self.name, self._clock.monotonic())
        if lease is None or lease.holder != self._node.id:
            self._stand_by(lease)
            return now + self._beat if lease is None else min(lease.expires_at, now + self._beat)
        # One that was ours already is one that we did not hear of: a reply was lost, or what follows here failed.
        if lease.expires_at != expires_at and not await self._store.leases.renew(
            EXCLUSIVE, self._node.id, lease.epoch, now, expires_at, respect=None
        ):
            return now + self._beat
        # The process that held it before, under our name, is proved dead by our epoch: its runs are recovered first.
        await self._recover(now)
        self._stand_by(None)
        self.held, self.until = lease, expires_at
        _log.info("%s is the exclusive worker now (epoch %d)", self._shown(), lease.epoch)
        self._telemetry.emit("exclusive.taken", {"epoch": lease.epoch}, node=self._node, lease=lease)
        return now + self._beat

    async def _renew(self, held: Lease, now: datetime) -> datetime:
        expires_at = now + self._lease
        try:
            lease = await self._renewed(held, now, expires_at)
        except StoreError as error:
            self._telemetry.outages.failed(self.name, error, self._clock.monotonic())
            if self.until is None or self._clock.latest() + self._beat / 4 + self._patience >= self.until:
                self._lose(f"this node's exclusive lease is about to end and could not be renewed ({error})")
            return now + self._beat / 4
        self._telemetry.outages.works(self.name, self._clock.monotonic())
        if lease is not None:
            self.held, self.until = lease, lease.expires_at
        else:
            self._lose("this node is the exclusive worker no more: its lease ended, or another one took it")
        return now + self._beat

    async def _renewed(self, held: Lease, now: datetime, expires_at: datetime) -> Lease | None:
        if await self._store.leases.renew(EXCLUSIVE, self._node.id, held.epoch, now, expires_at, respect=None):
            return replace(held, renewed_at=now, expires_at=expires_at)
        # This process may have stood still for longer than its lease, perhaps with its whole host. The next epoch says
        # that no node has held it since, so that nothing needs to be stopped. If it is there already, the reply was
        # lost that said so, and it lasts no longer than was asked for then.
        lease = await self._store.leases.acquire(EXCLUSIVE, self._node.id, self._shown(), now, expires_at, respect=None)
        is_ours = lease is not None and lease.holder == self._node.id and lease.epoch == held.epoch + 1
        return lease if is_ours else None

    def _lose(self, why: str) -> None:
        self.held, self.until = None, None
        self._telemetry.emit("exclusive.lost", {}, node=self._node, why=why)
        self._lapsed(why)

    def _stand_by(self, holder: Lease | None) -> None:
        if holder is not None and (self.holder is None or self.holder.holder != holder.holder):
            _log.warning(
                "%s stands by: %s (%s) is the exclusive worker", self._shown(), holder.holder_name, holder.holder
            )
        elif holder is None and self.holder is not None:
            _log.info("%s stands by no more", self._shown())
        self.holder = holder
