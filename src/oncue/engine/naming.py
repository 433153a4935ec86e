"""Under which name a node goes. A name is leased with the node's own lease: no two living nodes have the same one.

A name that no living node has is taken at once: its last node left, was declared lost, or is declared lost here since
its lease is over. (One that is proved dead in another way was declared lost by `Recovery` a moment before.) If another
node has the name, this one waits for one lease, in which that node either renews its own or is gone. Then it goes on
as `name~2`, or the first of `name~3`, `name~4` … that is free, for as long as its lease lasts. After a lease that was
lost it asks for the name that it had.

A node works while it waits: only what is addressed to a name needs one. A node that wants to be exclusive and stands by
asks for no name: the worker that it stands by for may have the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from oncue.clock import Clock
from oncue.engine.applying import apply_each, listed
from oncue.engine.membership import Membership
from oncue.engine.service import Signal
from oncue.model import Node
from oncue.policy.lifecycle import interrupted
from oncue.policy.names import numbered
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

_log = logging.getLogger("oncue.naming")


@dataclass(slots=True)
class Waiting:
    """In which life a node asks for a name, and since when (a monotonic clock's reading)."""

    life: int
    since: float
    again_at: datetime | None = None
    """When it asks again, after it was refused."""


class Naming:
    name = "naming"

    def __init__(
        self,
        store: Store,
        node: Node,
        clock: Clock,
        telemetry: Telemetry,
        membership: Membership,
        may_work: Callable[[], bool],
        *,
        lease: float,
        beat: float,
    ) -> None:
        self.signal = Signal()
        self.taken = Signal()
        """Raised when this node has got a name."""
        self._store = store
        self._node = node
        self._clock = clock
        self._telemetry = telemetry
        self._membership = membership
        self._may_work = may_work
        self._lease = timedelta(seconds=lease)
        self._beat = timedelta(seconds=beat)
        self._asked = node.name
        """The name to ask for: the one that was given, or the last one that this node had."""
        self._life: int | None = None
        """In which life the name was taken."""
        self._waiting = Waiting(0, 0.0)
        membership.joined.listen(self.signal.set)

    @property
    def held(self) -> str | None:
        """The name that is leased to this node, as far as it knows."""
        return self._asked if self._life is not None and self._life == self._membership.life else None

    @property
    def shown(self) -> str:
        """The name that is leased to this node, else the one that it was given."""
        return self.held or self._node.name

    async def tick(self, now: datetime) -> datetime:
        life = self._wanting
        if life is None:
            return now + self._beat
        if life == self._life:
            return now + self._lease
        if self._waiting.life != life:
            self._waiting = Waiting(life, self._clock.monotonic())
        self._waiting.again_at = await self._take(life, now)
        return self._waiting.again_at

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        life = self._wanting
        if life is None or life == self._life:
            return None
        again_at = self._waiting.again_at if self._waiting.life == life else None
        return now if again_at is None else max(again_at, now)

    @property
    def _wanting(self) -> int | None:
        """The life for which this node should have a name; None while it needs none."""
        stands_by = self._node.exclusive and not self._may_work()
        return None if stands_by else self._membership.life

    async def _take(self, life: int, now: datetime) -> datetime:
        """Take the name, or another one once this node has waited for a lease. When to look again."""
        holder = await self._ask(self._asked, now)
        if holder is not None and holder.id != self._node.id:
            left = self._lease - timedelta(seconds=self._clock.monotonic() - self._waiting.since)
            if left > timedelta(0):
                return self._wait(holder, left, now)
            holder = await self._take_another(now)
        if holder is None or self._membership.life != life:
            return now + self._beat  # declared lost meanwhile: the next life asks again
        await self._end_interrupted(holder.name, now)
        self._go_by(holder.name, life)
        return now + self._lease

    async def _end_interrupted(self, name: str, now: datetime) -> None:
        """Parts of cluster jobs that an earlier process of this name has begun and was to try again have failed."""
        parts = await self._store.cluster.interrupted(name, self._node.id)
        if parts:
            took = await apply_each(self._store, [interrupted(part, now) for part in parts], now)
            ended = [part.id for part, written in zip(parts, took, strict=True) if written]
            _log.warning("startup recovery: %s of %s, begun before its restart, failed", listed(ended), name)

    async def _take_another(self, now: datetime) -> Node | None:
        """Take the first name that is free: the one that was given, then the same with a number."""
        in_use = {node.name for node in await self._store.nodes.alive() if node.named and node.expires_at > now}
        number = 0
        while True:
            number += 1
            name = numbered(self._node.name, number)
            if name in in_use:
                continue
            holder = await self._ask(name, now)
            if holder is None or holder.id == self._node.id:
                return holder  # else another node was quicker

    async def _ask(self, name: str, now: datetime) -> Node | None:
        """Ask for a name. A node whose lease is over loses it."""
        holder = await self._store.nodes.take_name(self._node.id, name)
        if holder is None or holder.id == self._node.id or holder.expires_at > now:
            return holder
        for lost in await self._store.nodes.expire(now, holder.id):
            _log.warning("node %s (%s) is lost: its lease ended at %s", lost.name, lost.id, lost.expires_at)
            self._telemetry.emit("node.lost", {}, node=lost)
        return await self._store.nodes.take_name(self._node.id, name)

    def _wait(self, holder: Node, left: timedelta, now: datetime) -> datetime:
        """When to ask again: once the lease of the node that has the name is over, if that is before this wait ends."""
        if self._waiting.again_at is None:
            _log.warning(
                "another node has the name %s: %s on host %s, process %d, with a lease until %s; this node works "
                "without a name for now, and goes on as %s if that node is alive in %.0f s",
                self._asked, holder.id, holder.host, holder.pid, holder.expires_at, numbered(self._node.name, 2),
                left.total_seconds(),
            )  # fmt: skip
        return min(max(holder.expires_at, now + self._beat / 4), now + left)

    def _go_by(self, name: str, life: int) -> None:
        has_waited = self._waiting.again_at is not None
        self._asked, self._life = name, life
        if name != self._node.name:
            _log.warning(
                "this node goes by the name %s, since another living node has the name %s; "
                "if that is not intended, give every worker a --name of its own",
                name, self._node.name,
            )  # fmt: skip
        elif has_waited:
            _log.info("this node goes by the name %s: the node that had it is gone", name)
        else:
            _log.debug("this node goes by the name %s, which no living node had", name)
        self.taken.set()
