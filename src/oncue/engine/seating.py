"""Keeps queues within their limits: on this node, and on all nodes together.

A node that runs jobs of a queue with a global limit holds seats of it. A claim then needs no lock and no count, and the
next job starts in the instant in which the last one ends, without a trip to the database. Seats belong to a node while
it lives: those of one that is declared lost or leaves are free. A node starts no more than it holds, lowers what it may
start before it gives seats back, and gives back none that a running job occupies.

The price is that a seat moves from one node to another only when the two have looked, every half second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from oncue import model
from oncue.engine.execution import Execution
from oncue.engine.service import Signal
from oncue.errors import RowLocked, StoreError
from oncue.policy import seats as policy
from oncue.store.contract import Store

QUIET_SECONDS = 2.0
SOON, SOON_ENOUGH = timedelta(milliseconds=20), timedelta(milliseconds=250)
"""How long a node that is woken by every new job goes by its last look: with limited queues, and without."""

_log = logging.getLogger("oncue.seating")


class Seating:
    name = "seating"

    def __init__(
        self,
        store: Store,
        node: UUID,
        queues: Sequence[str],
        tasks: Sequence[str],
        executor: Execution[Any],
        alive: Callable[[], bool],
        *,
        poll: float,
        in_processes: Collection[str] = (),
        life: Callable[[], int | None] = lambda: 1,
        closed: Callable[[], bool] = lambda: False,
        addresses: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`life`: in which life this node is, None while it has no lease. It begins each life without any seats.

        `closed`: whether nothing is claimed here for now, since a job must run alone. `addresses`: what is addressed to
        this node.
        """
        self.signal = Signal()
        self.allowed: dict[str, int] = {}
        """The limited queues that this node serves, and how many of their jobs it may run at once."""
        self.rated: set[str] = set()
        """The queues among these that have a rate."""
        self.raised = Signal()
        self._store = store
        self._node = node
        self._in_processes = frozenset(in_processes)
        self.serve(queues, tasks)
        self._executor = executor
        self._alive = alive
        self._life = life
        self._closed = closed
        self._addresses = addresses
        self._poll = timedelta(seconds=poll)
        self._looked_at: datetime | None = None
        self._resting = False
        self._locked: set[str] = set()
        """The queues whose rows another session holds: the others come first."""
        self._in_doubt: set[str] = set()
        """The queues of which a write was not answered: it may still arrive, and give seats away that we use."""

    def serve(self, queues: Sequence[str], tasks: Sequence[str]) -> None:
        """From now on hold seats of these queues, for jobs of these tasks."""
        self._queues = list(queues)
        self._tasks = list(tasks)
        self._plain_tasks = [task for task in tasks if task not in self._in_processes]

    def look_again(self) -> None:
        """What is known of the limits may be out of date, however lately it was read."""
        self._looked_at = None

    def wake(self) -> None:
        """There may be work, or a new limit. While this node has seats, it looks often enough."""
        if not self.allowed or any(most == 0 for most in self.allowed.values()):
            self.signal.set()

    def stop_claiming(self) -> None:
        """No more is claimed here: from now on only what was claimed needs seats."""
        self._resting = True
        self.signal.set()

    def lose_seats(self) -> None:
        """The lease is over, and the seats with it."""
        for queue in self.allowed:
            self._allow(queue, 0)

    async def tick(self, now: datetime) -> datetime:
        soon = SOON if self.allowed else SOON_ENOUGH
        # A look in what is the future by now was before the database's clock was set back.
        if self._looked_at is not None and self._looked_at <= now < self._looked_at + soon:
            return self._looked_at + soon
        self._looked_at, life = None, self._life()  # a look that fails is none
        tasks = self._tasks if self._executor.process_room() > 0 else self._plain_tasks
        found = await self._store.queues.seating(self._queues, tasks, self._addresses())
        self._looked_at = now
        self.rated.clear()
        self.rated.update(seating.queue for seating in found if seating.limits.rate is not None)
        for queue in set(self.allowed).difference(seating.queue for seating in found):
            del self.allowed[queue]
            self._executor.allow(queue, None)
            self.raised.set()
        for seating in sorted(found, key=lambda one: one.queue in self._locked):
            await self._seat(seating, now, life)
        return now + (self._poll if found else max(self._poll, timedelta(seconds=QUIET_SECONDS)))

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        """What it holds ready it may hold a turn longer."""
        found = await store.queues.seating(self._queues, self._tasks, self._addresses())
        if len(found) != len(self.allowed):
            return now
        return now if any(self._has_news(seating, now) for seating in found) else None

    def _has_news(self, seating: model.LimitedQueue, now: datetime) -> bool:
        """Whether a look would change anything."""
        own = next((seat for seat in seating.seats if seat.node == self._node), None)
        held, before = (0, 0) if own is None else (own.seats, own.wanted)
        limit, allowed = seating.limits.globally, self.allowed.get(seating.queue)
        most = min(self._executor.concurrency, seating.limits.per_node or self._executor.concurrency)
        if limit is None:
            return allowed != most
        aim, wanted = self._share(seating, limit, held, most, now)
        taken = max(aim, self._executor.running_in(seating.queue))
        return (taken, wanted) != (held, before) or allowed != aim or seating.queue in self._in_doubt

    async def _seat(self, seating: model.LimitedQueue, now: datetime, life: int | None) -> None:
        queue, limits = seating.queue, seating.limits
        most = min(self._executor.concurrency, limits.per_node or self._executor.concurrency)
        if limits.globally is None:
            self._allow(queue, most)
            return
        own = next((seat for seat in seating.seats if seat.node == self._node), None)
        held, before = (0, 0) if own is None else (own.seats, own.wanted)
        aim, wanted = self._share(seating, limits.globally, held, most, now)
        self._allow(queue, min(aim, held, self.allowed.get(queue, 0)))  # first start no more, then give back
        taken = max(aim, self._executor.running_in(queue))
        news = (taken, wanted) != (held, before) or (own is None and self._is_working()) or queue in self._in_doubt
        took = await self._taken(seating, taken, wanted) if news else True
        if took is None:
            return  # it stays at what it has, and asks again with the next look
        if not took:
            self.signal.set()  # another node was quicker: look again
        elif life is not None and self._life() == life and self._alive():  # else they are no longer ours
            self._allow(queue, aim)

    async def _taken(self, seating: model.LimitedQueue, seats: int, wanted: int) -> bool | None:
        """Write how many seats this node has; None if the queue is locked. A write that takes makes void whatever was
        written before and is late."""
        try:
            took = await self._store.queues.take_seats(seating.queue, seating.version, self._node, seats, wanted)
            self._locked.discard(seating.queue)
        except RowLocked as error:
            if seating.queue not in self._locked:
                _log.warning("the seats of queue %s stay as they are for now: %s", seating.queue, error)
            self._locked.add(seating.queue)
            return None
        except StoreError:
            self._in_doubt.add(seating.queue)
            raise
        if took:
            self._in_doubt.discard(seating.queue)
        return took

    def _share(self, seating: model.LimitedQueue, limit: int, held: int, most: int, now: datetime) -> tuple[int, int]:
        """How many seats this node should hold, and how many it should be known to want."""
        needs = self._needs(seating, most)
        if not self._alive():
            return 0, needs
        demands = {seat.node: policy.SeatDemand(seat.seats, seat.wanted) for seat in seating.seats}
        nodes = dict(sorted((demands | {self._node: policy.SeatDemand(held, needs)}).items()))
        turn = int(now.timestamp() // policy.TURN_SECONDS)
        aim = policy.aim(limit, self._node, nodes, turn, most=seating.limits.per_node or limit, eager=seating.waiting)
        aim, free = min(aim, most if self._is_working() else needs), policy.free(limit, self._node, nodes)
        # What it should hold ready may be with others that see no job wait, since they run other tasks, and so see no
        # reason to let it go. One at a time is asked for by name.
        lacks = seating.waiting and aim > max(free, needs)
        return min(aim, free), max(needs, free + 1) if lacks else needs

    def _is_working(self) -> bool:
        """Whether more may be claimed here. A node without seats must be known too: its turn comes."""
        return self._alive() and not self._resting and not self._closed()

    def _needs(self, seating: model.LimitedQueue, most: int) -> int:
        """How many seats this node could fill: with what it has claimed, and with as many more as would find room."""
        in_hand = self._executor.running_in(seating.queue) + self._executor.held_in(seating.queue)
        more = seating.waiting and self._is_working()
        return min(most, in_hand + (max(self._executor.concurrency - self._executor.taken, 0) if more else 0))

    def _allow(self, queue: str, most: int) -> None:
        before = self.allowed.get(queue, 0)
        if queue in self.allowed and before == most:
            return
        self.allowed[queue] = most
        self._executor.allow(queue, most)
        _log.debug("%d jobs of queue %s may run here at once", most, queue)
        if most > before:
            self.raised.set()
