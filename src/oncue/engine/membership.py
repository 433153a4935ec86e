"""A node's lease: one small write per beat keeps all its jobs.

In production this service runs in a thread of its own, on a connection of its own, so that a busy event loop does not
cost the lease. A node that cannot renew it stops its jobs before it ends, since from then on others may take them; a
node that was declared lost stops them at once and joins anew.

What the node read before it lost a lease is worth nothing afterwards. One number, counted here, says in which life the
node is: claims and seats are kept with the life in which they were asked for, and dropped if that life is over.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from oncue.clock import Clock
from oncue.engine.service import Signal
from oncue.errors import StoreError
from oncue.model import Node
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

_log = logging.getLogger("oncue.node")


class Membership:
    name = "membership"

    def __init__(
        self,
        store: Store,
        node: Node,
        clock: Clock,
        telemetry: Telemetry,
        lapsed: Callable[[str], None],
        *,
        lease: float,
        beat: float,
        patience: float,
    ) -> None:
        self.signal = Signal()
        self.joined = Signal()
        """Raised when a life begins."""
        self.node = node
        self.connected_since: datetime | None = None
        self._store = store
        self._clock = clock
        self._telemetry = telemetry
        self._on_lapse = lapsed
        self._lease = timedelta(seconds=lease)
        self._beat = timedelta(seconds=beat)
        self._patience = timedelta(seconds=patience)
        self.expires_at: datetime | None = None
        """Until when this node may hold jobs, as far as it knows."""
        self.trouble: StoreError | None = None
        """Why the last beat did not renew the lease, if it did not."""
        self._lives = 1
        self._beat_no = 0
        self._has_joined = False
        # A node that is new knows nothing of how the others were until now: they may be coming back from an outage.
        self._cut_off = True

    def is_alive(self) -> bool:
        expires_at = self.expires_at  # read once: the heartbeat thread may change it
        return expires_at is not None and self._clock.latest() < expires_at

    @property
    def life(self) -> int | None:
        """In which life this node is; None while it has no lease. The first life is 1."""
        return self._lives if self.is_alive() else None

    @property
    def lives(self) -> int:
        """The number of the present life, or of the next one while this node has no lease."""
        return self._lives

    def end_life(self, why: str) -> None:
        """A lease is lost, this node's own or the exclusive one: from here on nothing begins that was claimed before.

        Called in the heartbeat thread, before there is a new lease.
        """
        self._lives += 1
        self._on_lapse(why)

    @property
    def lapsed(self) -> bool:
        """Whether this node knows that it has no lease."""
        return self.expires_at is None

    def steady(self, now: datetime) -> bool:
        """Whether this node has been in touch long enough to judge others.

        After an outage everybody's lease is over at once: the others get one lease's time to come back.
        """
        since = self.connected_since
        return self.is_alive() and since is not None and (not self._cut_off or now - since >= self._lease)

    def steady_from(self, now: datetime) -> datetime:
        """From when on this node can judge others, if nothing happens to it; at the earliest after its next beat."""
        since = self.connected_since
        return now + self._beat if since is None else max(since + self._lease, now)

    async def tick(self, now: datetime) -> datetime:
        began = self._clock.monotonic()
        try:
            await self._renew(now)
        except StoreError as error:
            return self._not_renewed(now, error)
        self.trouble = None
        self._telemetry.outages.works(self.name, self._clock.monotonic())
        self.connected_since = min(self.connected_since or now, now)  # the clock may have been set back
        self._telemetry.emit("node.beat", {"duration": self._clock.monotonic() - began}, node=self.node.id)
        return now + self._beat

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        return None if self.is_alive() else now

    async def leave(self) -> None:
        """End the lease, so that rescue need not wait for its end.

        The farewell is numbered like a beat, and later than all of them: a beat or a registration of this process that
        is still on its way changes nothing when it arrives.
        """
        self.expires_at = None
        self._beat_no += 1
        await self._store.nodes.leave(self.node.id, self._clock.now(), self._beat_no)

    async def _renew(self, now: datetime) -> None:
        expires_at = now + self._lease
        self._beat_no += 1
        number = self._beat_no  # a farewell that is sent while this waits for its answer has the next one
        if self.expires_at is not None and now >= self.expires_at:
            self._lost_touch()  # this process stood still; perhaps its whole host did, and the others with it
        if self.expires_at is not None:
            renewed = await self._store.nodes.beat(self.node.id, now, expires_at, number)
            if self._beat_no != number:
                return  # this process has left meanwhile
            if not renewed:
                self.expires_at = None
                self._lost_touch()
                self.end_life("this node was declared lost")
        if self.expires_at is None:
            await self._store.nodes.register(
                dataclasses.replace(self.node, beat_at=now, expires_at=expires_at, beat_no=number)
            )
            if self._has_joined:
                _log.warning("this node has a lease again, and takes jobs again")
            self._has_joined = True
            self.expires_at = expires_at
            self.joined.set()
        self.expires_at = expires_at

    def _lost_touch(self) -> None:
        self.connected_since = None
        self._cut_off = True

    def _not_renewed(self, now: datetime, error: StoreError) -> datetime:
        self._lost_touch()
        self.trouble = error
        retry_at = now + self._beat / 4
        self._telemetry.outages.failed(self.name, error, self._clock.monotonic())
        # The next try may take its whole patience, and must not end after the lease.
        if self.expires_at is not None and self._clock.latest() + self._beat / 4 + self._patience >= self.expires_at:
            self.expires_at = None
            self.end_life(f"this node's lease is about to end and could not be renewed ({error})")
        return retry_at
