"""Claims jobs for the free seats, in batches, while the last batch runs and is settled."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

from oncue.clock import Clock
from oncue.engine.execution import Execution
from oncue.engine.group_looks import GroupLooks
from oncue.engine.in_flight import InFlight
from oncue.engine.service import Signal
from oncue.model import LEADER_ADDRESS, Claim, LeaderEpoch, Released, Turns
from oncue.policy import prefetch
from oncue.policy.lifecycle import Ended
from oncue.policy.suspicion import COHORT, IN_COHORT, OthersTurn, alone_before
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

PROMOTE_LIMIT = 1000
CLAIM_LIMIT = 2000
LIMITED = prefetch.AHEAD_IN_LIMITED_SECONDS
LOOKS_APART = timedelta(seconds=0.1)
"""How often to look for what has become due while claims find all that they ask for: a look lets a batch wait."""
WINDOWS = 5
SEATED_WITHIN = timedelta(seconds=2.0)
"""How long it takes until a node that had given up its seats of limited queues has some again."""


ClaimVerb: TypeAlias = Callable[..., Awaitable[list[Claim]]]


class Throughput:
    """How fast jobs have been ending, and so how many of them to hold ready: a burst of long ones needs none.

    Short jobs end in bursts, a batch at a time, and a window may lie between two of them: what counts is the higher
    rate of the last window and of the last few. With few seats the rate jumps: then the window is wide, and a queue
    that ends no more jobs in it than it has seats has long jobs.
    """

    def __init__(
        self, most: int, window: float = prefetch.AHEAD_SECONDS / 5, ahead: float = prefetch.AHEAD_SECONDS
    ) -> None:
        self._most = most
        self._ahead_seconds = ahead
        self._window = window
        self._measured: deque[tuple[datetime, int]] = deque(maxlen=WINDOWS)
        self._target = 0

    def target(self, ended: int, now: datetime, seats: int = 0) -> int:
        measured = self._measured
        if measured and now < measured[-1][0]:  # the clock was set back
            measured.clear()
        if measured and (now - measured[-1][0]).total_seconds() < self._window:
            return self._target
        if measured:
            first, last = (self._ahead(ended - ends, now - at, seats) for at, ends in (measured[0], measured[-1]))
            self._target = max(first, last)
        measured.append((now, ended))
        return self._target

    def _ahead(self, ends: int, elapsed: timedelta, seats: int) -> int:
        took = elapsed.total_seconds()
        return (
            prefetch.buffer_target(ends, took, self._most, self._ahead_seconds)
            if ends * self._window / took > seats
            else 0
        )


class Claimer:
    name = "claimer"

    def __init__(
        self,
        store: Store,
        node: UUID,
        queues: Sequence[str],
        tasks: Sequence[str],
        executor: Execution[Any],
        in_flight: InFlight,
        clock: Clock,
        telemetry: Telemetry,
        alive: Callable[[], bool],
        allowed: Mapping[str, int],
        rates: Collection[str] = (),
        *,
        poll: float,
        buffer: int,
        in_processes: Collection[str] = (),
        life: Callable[[], int | None] = lambda: 1,
        epoch: Callable[[], int | None] = lambda: None,
        addresses: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`epoch`: under which this node leads, if it does; `addresses`: what is addressed to it."""
        self.signal = Signal()
        self._clock = clock
        self._alive = alive
        self._life = life
        self._epoch = epoch
        self._addresses = addresses
        self._allowed = allowed
        self.asked = 0
        """How often it has asked for jobs."""
        self.asking = False
        self._store = store
        self._node = node
        self._in_processes = frozenset(in_processes)
        self.serve(queues, tasks)
        self._executor = executor
        self._in_flight = in_flight
        self._telemetry = telemetry
        self._poll = timedelta(seconds=poll)
        self._buffer = buffer
        self._promote_at: datetime | None = None
        self._looked_at: datetime | None = None
        self._is_flowing = False
        self._throughput = Throughput(buffer)
        self._throughputs: dict[str, Throughput] = {}
        self._taken: Counter[str] = Counter()
        self._turn: OthersTurn | None = None
        self._rates = rates
        self._rated_until: dict[str, datetime | None] = {}
        self._groups = GroupLooks(store)
        self._groups_come_first = True
        self._has_claimed = False
        self.more = True
        """Whether the last claim found all that it asked for: then a free seat is worth another."""

    def serve(self, queues: Sequence[str], tasks: Sequence[str]) -> None:
        """From now on claim jobs of these queues and tasks."""
        self._queues = list(queues)
        self._tasks = [task for task in tasks if task not in self._in_processes]
        self._process_tasks = [task for task in tasks if task in self._in_processes]

    async def tick(self, now: datetime) -> datetime:
        next_due = await self._promoted(now)
        target = self._throughput.target(self._executor.started_total - self._executor.running, now)
        wanted = min(prefetch.shortage(self._executor.concurrency, self._executor.taken, target), CLAIM_LIMIT)
        if wanted <= 0 or self._in_flight.closed or not self._alive():
            self.more = True  # whatever woke us up is still to be looked at
            return now + self._poll
        self.more = again = self._has_claimed = False
        self._rated_until.clear()
        self._begin_turn(now)
        # Groups and what has no group take turns, too: neither can keep the other from the last free seats. While no
        # group is known, a job without one does not wait for the look.
        claims = [self._claim_ungrouped, self._claim_grouped]
        self._groups_come_first = self._groups.are_known and not self._groups_come_first
        for claim in reversed(claims) if self._groups_come_first else claims:
            taken, all_of_it = await claim(wanted)
            wanted, again = wanted - taken, again or all_of_it
            self._has_claimed |= taken > 0
        self._end_turn(now)
        self.more |= again
        self._is_flowing = again
        return now if again else min(now + self._poll, next_due, *self._turns_at())

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        outlook, ready_at = await store.jobs.outlook(), await store.groups.next_ready(self._queues)
        is_wanted = not outlook.waiting.isdisjoint(self._open_queues()) or not outlook.addresses.isdisjoint(
            self._addresses()
        )
        if is_wanted and self._has_room() and self._alive():
            return now
        if ready_at is not None and self._has_room() and self._alive():
            return max(now, ready_at) if outlook.due_at is None else min(max(now, ready_at), outlook.due_at)
        return outlook.due_at

    def _open_queues(self) -> list[str]:
        """The queues of which another job could begin here: of a limited one, if this node has a free seat of it."""
        used = {queue: self._executor.running_in(queue) + self._executor.held_in(queue) for queue in self._allowed}
        return [queue for queue in self._queues if queue not in used or used[queue] < self._allowed[queue]]

    def _turns_at(self) -> list[datetime]:
        """When to look at groups again, and when a queue with a rate has its turn."""
        return [at for at in (self._groups.next_at, *self._rated_until.values()) if at is not None]

    async def _claim_ungrouped(self, wanted: int) -> tuple[int, bool]:
        return await self._claim_kinds(self._claim_jobs, wanted)

    async def _claim_jobs(self, *wanted: Any, **options: Any) -> list[Claim]:
        """Claim jobs without a group. Those for the leader are this node's while it leads under its present epoch."""
        epoch = self._epoch()
        claims = await self._store.jobs.claim(*wanted, **options, epoch=epoch)
        if epoch is None:
            return claims
        leader = LeaderEpoch(self._node, epoch)
        return [claim._replace(leader=leader) if claim.address == LEADER_ADDRESS else claim for claim in claims]

    async def _claim_grouped(self, wanted: int) -> tuple[int, bool]:
        is_busy = wanted <= 0
        is_flowing, has_claimed = is_busy or self._is_flowing, self._has_claimed
        if not self._groups.is_due(self._clock.now(), is_busy=is_flowing, has_claimed=has_claimed):
            return 0, False
        has_turn = await self._groups.look(self._queues, self._clock.now())
        if not has_turn or is_busy:
            return 0, False
        taken, _ = await self._claim_kinds(self._store.groups.claim, wanted, grouped=True)
        self._groups.claimed(taken, self._clock.now())
        self.more = True
        # There may be more than a group could give at one go.
        return taken, taken > 0

    async def _claim_kinds(self, claim: ClaimVerb, wanted: int, *, grouped: bool = False) -> tuple[int, bool]:
        """Claim of each kind of task what there is room for. How much, and whether that is all that was asked for."""
        total, again = 0, False
        for tasks, most in self._kinds(wanted):
            # The looks before this one may have taken their time, and the runtime of what is claimed counts from here.
            room, now = min(most, wanted - total), self._clock.now()
            taken, all_of_it = await self._claim(claim, tasks, room, now, grouped)
            total, again = total + taken, again or all_of_it
        return total, again

    def _has_room(self) -> bool:
        return self._executor.taken < self._executor.concurrency and not self._in_flight.closed

    def _kinds(self, wanted: int) -> list[tuple[list[str], int]]:
        """What to claim, and how much of it. One claim takes the most urgent of all that there is.

        Jobs that run in processes of their own may have fewer seats than are wanted. Then these are claimed apart, and
        first: something is left for the others, and this node holds no job that cannot begin.
        """
        if not self._process_tasks:
            return [(self._tasks, wanted)]
        room = self._executor.process_room()
        if room >= wanted:
            return [([*self._tasks, *self._process_tasks], wanted)]
        return [(self._process_tasks, room), (self._tasks, wanted)]

    async def _claim(
        self, claim: ClaimVerb, tasks: list[str], wanted: int, now: datetime, grouped: bool
    ) -> tuple[int, bool]:
        """Claim what there is room for. How much, and whether that is all that it asked for, in some queue at least."""
        rooms = {queue: self._room(queue, most, now) for queue, most in self._allowed.items()}
        queues = [queue for queue in self._queues if rooms.get(queue, 1) > 0] if rooms else self._queues
        if len(queues) < len(self._queues) or wanted <= 0:
            self.more = True  # there may be more, once there is room again
        if not tasks or not queues or wanted <= 0 or self._in_flight.closed:
            return 0, False
        rated = [queue for queue in queues if queue in self._rates] if self._rates else []
        turns = {queue: await self._take_turns(queue, tasks, rooms, wanted, now, grouped) for queue in rated}
        granted = {queue: turn.taken for queue, turn in turns.items()}
        claims = await self._claimed(claim, queues, tasks, wanted, rooms | granted, now)
        taken: Mapping[str, int] = Counter(claim.queue for claim in claims) if rooms else {}
        for queue, turn in turns.items():
            await self._return_turns(queue, turn, taken[queue])
        self._taken.update(taken)
        full = len(claims) >= wanted or any(taken[queue] >= rooms.get(queue, wanted) for queue in taken)
        return len(claims), full

    def _room(self, queue: str, most: int, now: datetime) -> int:
        """How many jobs to claim from a limited queue: it has a buffer of its own."""
        in_hand = self._executor.running_in(queue) + self._executor.held_in(queue)
        throughput = self._throughputs.setdefault(queue, Throughput(self._buffer, LIMITED, LIMITED))
        return (
            prefetch.shortage(most, in_hand, throughput.target(self._taken[queue] - in_hand, now, most)) if most else 0
        )

    async def _take_turns(
        self, queue: str, tasks: list[str], rooms: Mapping[str, int], wanted: int, now: datetime, grouped: bool
    ) -> Turns:
        """How many jobs of a queue may start now, by its rate."""
        asked = min(rooms.get(queue, 0), wanted)
        addresses = self._addresses()
        turns = await self._store.queues.take_turns(queue, tasks, asked, now, grouped=grouped, addresses=addresses)
        if turns.taken < asked:  # else the rate keeps nothing waiting
            self._rated_until[queue] = turns.next_at
        return turns

    async def _return_turns(self, queue: str, turns: Turns, used: int) -> None:
        """Give back the turns for which there was no job: then it is not the rate that a job waits for."""
        if turns.taken > used and turns.next_at is not None:
            self._rated_until.pop(queue, None)
            await self._store.queues.return_turns(queue, turns.taken - used, turns.next_at)

    def group_has_room(self) -> None:
        """A job of a group was settled: there may be room for another one of it."""
        self._groups.look_again()
        self.signal.set()

    def look_again(self) -> None:
        """What is known of the next due job may be out of date."""
        self._promote_at = None

    def look_at_groups(self) -> None:
        """The next step looks at the groups, however short ago the last look was."""
        self._groups.look_again()

    async def _promoted(self, now: datetime) -> datetime:
        """Queue what is due, and remember when the next is; another node may make that earlier, so look anyway."""
        known, looked_at = self._promote_at, self._looked_at
        if known is None and self._is_flowing and looked_at is not None and looked_at <= now < looked_at + LOOKS_APART:
            return looked_at + LOOKS_APART
        if known is None or not now < known <= now + self._poll:  # no further ahead, unless the clock was set back
            self._looked_at = now
            due = await self._store.jobs.promote(now, PROMOTE_LIMIT)
            self._promote_at = known = now + self._poll if due is None else min(max(due, now), now + self._poll)
        return known

    async def _claimed(
        self, claim: ClaimVerb, queues: list[str], tasks: list[str], wanted: int, rooms: dict[str, int], now: datetime
    ) -> list[Claim]:
        self.asked, self.asking, life = self.asked + 1, True, self._life()
        try:
            few = min(COHORT - self._in_flight.isolated[IN_COHORT], wanted)
            claims = await claim(
                self._node, queues, tasks, wanted, now, few=few, alone=self._alone_before(now), rooms=rooms
            )
        finally:
            self.asking = False
        if claims:
            self._in_flight.add(claims)
            self._telemetry.emit("claim", {"jobs": len(claims)}, node=self._node, claims=claims)
            self._start(claims, now, life)
        return claims

    def _alone_before(self, now: datetime) -> datetime | None:
        """A job that must run alone is for a node that is idle, or for any if it has waited, in its turn."""
        return alone_before(now, idle=not self._executor.busy, turn=self._turn)

    def _begin_turn(self, now: datetime) -> None:
        if self._in_flight.closed_since is not None:
            self._turn = OthersTurn.after(self._in_flight.closed_since, now)
            self._in_flight.closed_since = None

    def _end_turn(self, now: datetime) -> None:
        """The others' turn is over early if there are none. Those of limited queues may wait for seats first."""
        turn = self._turn
        if turn is not None and not self._executor.busy and (not self.more or now >= turn.since + SEATED_WITHIN):
            self._turn = None

    def _start(self, claims: list[Claim], now: datetime, life: int | None) -> None:
        """Hand claims to the seats, unless the lease ended while they were on their way.

        It may have ended and a new one have begun: what was claimed under the old one belongs to others by now.
        """
        if self._alive() and self._life() == life:
            if self._in_flight.closed:
                self._executor.release_waiting("made_room")
            self._executor.submit(claims)
        else:
            for claim in claims:
                self._in_flight.end(Ended(claim, Released("lease_lost"), None, now))
