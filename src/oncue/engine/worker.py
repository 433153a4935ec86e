"""Claims jobs for the free seats, and settles what came of them.

Claiming and settling are two services, so that the next batch is claimed while the last one is run and settled. Both
work in batches without waiting for them to fill: while one write is on its way, the next batch gathers by itself.

`Hands` is what this node holds: a claim is in hand from the reply that brought it until its outcome is written.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Protocol, cast
from uuid import UUID

from oncue.clock import Clock
from oncue.engine.applying import listed
from oncue.engine.service import Signal
from oncue.engine.texts import bounded
from oncue.errors import StoreError, StoreRefused, StoreUnavailable
from oncue.model import TERMINAL, Change, Claim, Failed, Released
from oncue.policy import prefetch
from oncue.policy.lifecycle import Ended, settle
from oncue.policy.suspicion import ALONE, COHORT, IN_COHORT, OthersTurn, alone_before, isolation_of
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

PROMOTE_LIMIT = 1000
CLAIM_LIMIT = 1000
SETTLE_LIMIT = 1000
LONGEST_REFUSAL = 2000
LOCKED_PAUSE = timedelta(seconds=0.5)
"""How long a row that another session holds is left alone."""
SEATED_WITHIN = timedelta(seconds=2.0)
"""How long it takes until a node that had given up its seats of limited queues has some again."""

_log = logging.getLogger("oncue.job")


class Seats(Protocol):
    """Where claimed jobs run."""

    concurrency: int
    started_total: int

    @property
    def busy(self) -> int: ...

    @property
    def running(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    def submit(self, claims: list[Claim]) -> None: ...

    def release_waiting(self, cause: str, claimed_before: datetime | None = None) -> None: ...

    def running_in(self, queue: str) -> int: ...

    def held_in(self, queue: str) -> int: ...

    def process_room(self) -> int:
        """How many more jobs that run in processes of their own could be taken on."""
        ...


class Hands:
    """The claims of this node that are not settled yet, and the outcomes that wait to be."""

    def __init__(self) -> None:
        self.claims: dict[tuple[int, int], Claim] = {}
        """By job and claim number: a node may claim again what it has not put down yet."""
        self.left: set[tuple[int, int]] = set()
        """Claims whose outcomes the database refuses: they are over, and left to their maximum runtime."""
        self.ended: list[Ended] = []
        self.locked: list[Ended] = []
        """Outcomes that cannot be written yet: another session holds the rows."""
        self.apart: Counter[int] = Counter()
        """How many of the claims are kept apart from others, by how they are."""
        self.closed_since: datetime | None = None
        """When the job was claimed that had this node for itself and was put down last: it is the others' turn."""
        self.outcomes = Signal()
        self.company_changed = Signal()
        self.flushed = Signal()

    def take(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self.claims[claim.id, claim.claim_no] = claim
            if claim.crashes:
                self.apart[isolation_of(claim)] += 1

    def put_down(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self.claims.pop((claim.id, claim.claim_no), None)
            if claim.crashes:
                self.apart[isolation_of(claim)] -= 1
                if isolation_of(claim) == ALONE:
                    self.closed_since = claim.claimed_at
                self.company_changed.set()

    @property
    def closed(self) -> bool:
        """Whether nothing else begins here: there is a job that must run alone."""
        return self.apart[ALONE] > 0

    def end(self, ended: Ended) -> None:
        if not self.ended:
            self.outcomes.set()
        self.ended.append(ended)


class Flow:
    """How fast jobs have been ending, and so how many of them to hold ready: a burst of long ones needs none.

    Few seats make a rate that jumps: there the window is wide, and whoever ends no more jobs in it than it has seats
    has long ones.
    """

    def __init__(self, most: int, window: float = prefetch.AHEAD_SECONDS / 5) -> None:
        self._most = most
        self._window = window
        self._measured_at: datetime | None = None
        self._measured_ends = 0
        self._target = 0

    def target(self, ended: int, now: datetime, seats: int = 0) -> int:
        elapsed = 0.0 if self._measured_at is None else (now - self._measured_at).total_seconds()
        if self._measured_at is None or not 0 <= elapsed < self._window:
            if elapsed > 0:
                ends = ended - self._measured_ends
                per_window = ends * self._window / elapsed
                self._target = prefetch.buffer_target(ends, elapsed, self._most) if per_window > seats else 0
            self._measured_at, self._measured_ends = now, ended
        return self._target


class Claimer:
    name = "claimer"

    def __init__(
        self,
        store: Store,
        node: UUID,
        queues: Sequence[str],
        tasks: Sequence[str],
        seats: Seats,
        hands: Hands,
        clock: Clock,
        telemetry: Telemetry,
        alive: Callable[[], bool],
        allowed: Mapping[str, int],
        *,
        poll: float,
        buffer: int,
        in_processes: Collection[str] = (),
        lapses: Callable[[], int] = lambda: 0,
    ) -> None:
        self.signal = Signal()
        self._clock = clock
        self._alive = alive
        self._lapses = lapses
        self._allowed = allowed
        self.asked = 0
        """How often it has asked for jobs."""
        self.asking = False
        self._store = store
        self._node = node
        self._queues = list(queues)
        self._tasks = [task for task in tasks if task not in in_processes]
        self._process_tasks = [task for task in tasks if task in in_processes]
        self._seats = seats
        self._hands = hands
        self._telemetry = telemetry
        self._poll = timedelta(seconds=poll)
        self._buffer = buffer
        self._promote_at: datetime | None = None
        self._flow = Flow(buffer)
        self._flows: dict[str, Flow] = {}
        self._taken: Counter[str] = Counter()
        self._turn: OthersTurn | None = None
        self.more = True
        """Whether the last claim found all that it asked for: then a free seat is worth another."""

    async def tick(self, now: datetime) -> datetime:
        next_due = await self._promoted(now)
        target = self._flow.target(self._seats.started_total - self._seats.running, now)
        wanted = min(prefetch.shortage(self._seats.concurrency, self._seats.busy, target), CLAIM_LIMIT)
        if wanted <= 0 or self._hands.closed or not self._alive():
            self.more = True  # whatever woke us up is still to be looked at
            return now + self._poll
        self.more = again = False
        self._begin_turn(now)
        for tasks, most in self._kinds(wanted):
            # The looks before this one may have taken their time, and the runtime of what is claimed counts from here.
            taken, all_of_it = await self._claim(tasks, min(most, wanted), self._clock.now())
            wanted, again = wanted - taken, again or all_of_it
        self._end_turn(now)
        self.more |= again
        return now if again else min(now + self._poll, next_due)

    def _kinds(self, wanted: int) -> list[tuple[list[str], int]]:
        """What to claim, and how much of it. One claim takes the most urgent of all that there is.

        Jobs that run in processes of their own may have fewer seats than are wanted. Then these are claimed apart, and
        first: something is left for the others, and nobody holds what cannot begin.
        """
        if not self._process_tasks:
            return [(self._tasks, wanted)]
        room = self._seats.process_room()
        if room >= wanted:
            return [([*self._tasks, *self._process_tasks], wanted)]
        return [(self._process_tasks, room), (self._tasks, wanted)]

    async def _claim(self, tasks: list[str], wanted: int, now: datetime) -> tuple[int, bool]:
        """Claim what there is room for. How much, and whether that is all that it asked for, in some queue at least."""
        rooms = {queue: self._room(queue, most, now) for queue, most in self._allowed.items()}
        queues = [queue for queue in self._queues if rooms.get(queue, 1) > 0] if rooms else self._queues
        if len(queues) < len(self._queues) or wanted <= 0:
            self.more = True  # there may be more, once there is room again
        if not tasks or not queues or wanted <= 0 or self._hands.closed:
            return 0, False
        claims = await self._claimed(queues, tasks, wanted, rooms, now)
        taken: Mapping[str, int] = Counter(claim.queue for claim in claims) if rooms else {}
        self._taken.update(taken)
        full = len(claims) >= wanted or any(taken[queue] >= rooms.get(queue, wanted) for queue in taken)
        return len(claims), full

    def _room(self, queue: str, most: int, now: datetime) -> int:
        """How many jobs to claim from a limited queue: it has a buffer of its own."""
        in_hand = self._seats.running_in(queue) + self._seats.held_in(queue)
        flow = self._flows.setdefault(queue, Flow(self._buffer, prefetch.AHEAD_SECONDS))
        return prefetch.shortage(most, in_hand, flow.target(self._taken[queue] - in_hand, now, most)) if most else 0

    def look_again(self) -> None:
        """What is known of the next due job may be out of date."""
        self._promote_at = None

    async def _promoted(self, now: datetime) -> datetime:
        """Queue what is due, and remember when the next is; another node may make that earlier, so look anyway."""
        known = self._promote_at
        if known is None or not now < known <= now + self._poll:  # no further ahead, unless the clock was set back
            due = await self._store.promote(now, PROMOTE_LIMIT)
            self._promote_at = known = now + self._poll if due is None else min(max(due, now), now + self._poll)
        return known

    async def _claimed(
        self, queues: list[str], tasks: list[str], wanted: int, rooms: dict[str, int], now: datetime
    ) -> list[Claim]:
        self.asked, self.asking, lapses = self.asked + 1, True, self._lapses()
        try:
            few = min(COHORT - self._hands.apart[IN_COHORT], wanted)
            claims = await self._store.claim(
                self._node, queues, tasks, wanted, now, few=few, alone=self._alone_before(now), rooms=rooms
            )
        finally:
            self.asking = False
        if claims:
            self._hands.take(claims)
            self._telemetry.emit("claim", {"jobs": len(claims)}, node=self._node, claims=claims)
            self._start(claims, now, lapses)
        return claims

    def _alone_before(self, now: datetime) -> datetime | None:
        """A job that must run alone is for a node that is idle, or for any if it has waited, in its turn."""
        return alone_before(now, idle=not self._seats.busy, turn=self._turn)

    def _begin_turn(self, now: datetime) -> None:
        if self._hands.closed_since is not None:
            self._turn = OthersTurn.after(self._hands.closed_since, now)
            self._hands.closed_since = None

    def _end_turn(self, now: datetime) -> None:
        """The others' turn is over early if there are none. Those of limited queues may wait for seats first."""
        turn = self._turn
        if turn is not None and not self._seats.busy and (not self.more or now >= turn.since + SEATED_WITHIN):
            self._turn = None

    def _start(self, claims: list[Claim], now: datetime, lapses: int) -> None:
        """Hand claims to the seats, unless the lease ended while they were on their way.

        It may have ended and a new one have begun: what was claimed under the old one belongs to others by now.
        """
        if self._alive() and self._lapses() == lapses:
            if self._hands.closed:
                self._seats.release_waiting("made_room")
            self._seats.submit(claims)
        else:
            for claim in claims:
                self._hands.end(Ended(claim, Released("lease_lost"), None, now))


class Settler:
    name = "settler"

    def __init__(
        self, store: Store, node: UUID, seats: Seats, hands: Hands, dice: Random, telemetry: Telemetry, *, idle: float
    ) -> None:
        self.signal = hands.outcomes
        self._store = store
        self._node = node
        self._seats = seats
        self._hands = hands
        self._dice = dice
        self._telemetry = telemetry
        self._idle = timedelta(seconds=idle)
        self._in_doubt: set[tuple[int, int]] = set()
        self._tried_locked_at: datetime | None = None
        self.trouble: StoreError | None = None
        """What kept the last batch from being written, if anything did."""

    async def tick(self, now: datetime) -> datetime:
        batch = self._hands.ended[:SETTLE_LIMIT]
        if batch:
            size = len(batch)
            self._hands.locked += await self._settle(batch, now)
            del self._hands.ended[:size]
        if self._hands.locked and self._may_try_locked(now):
            await self._settle_locked(now)
        if not self._hands.ended and not self._hands.locked:
            self._hands.flushed.set()
        if self._hands.ended:
            return now
        return now + (LOCKED_PAUSE if self._hands.locked else self._idle)

    async def _settle_locked(self, now: datetime) -> None:
        """Try those again that were locked, and wait for none of them: they must not hold up the others."""
        self._tried_locked_at = now
        batch, rest = self._hands.locked[:SETTLE_LIMIT], self._hands.locked[SETTLE_LIMIT:]
        self._hands.locked = rest + await self._settle(batch, now, past_locks=True)

    def _may_try_locked(self, now: datetime) -> bool:
        tried_at = self._tried_locked_at
        return tried_at is None or not tried_at <= now < tried_at + LOCKED_PAUSE

    async def _settle(self, batch: list[Ended], now: datetime, *, past_locks: bool = False) -> list[Ended]:
        """Write a batch; those whose rows are locked. It stays in hand until the database has answered: a lost reply
        means doing it again."""
        changes = [settle(ended, self._dice) for ended in batch]
        try:
            took = await (
                self._store.apply(changes, now, past_locks=True) if past_locks else self._store.apply(changes, now)
            )
        except StoreRefused as error:
            changes, took = await self._one_by_one(batch, now, error)
        except StoreError as error:
            self.trouble = error
            if isinstance(error, StoreUnavailable):
                self._in_doubt.update((change.id, change.claim_no) for change in changes)
            raise
        self.trouble = None
        locked = [place for place, written in enumerate(took) if written is None] if None in took else []
        kept = [batch[place] for place in locked]
        if kept and not past_locks:
            self._tried_locked_at = now
            ids = [ended.claim.id for ended in kept]
            _log.warning("%s: another session holds a lock there, so the outcome is kept for later", listed(ids))
        for place in reversed(locked):
            del batch[place], changes[place], took[place]
        await self._put_down(batch, changes, cast("list[bool]", took))
        return kept

    async def _put_down(self, batch: list[Ended], changes: list[Change], took: list[bool]) -> None:
        """The database has answered for these: they are in hand no more."""
        took = await self._with_lost_replies(changes, took)
        self._hands.put_down([ended.claim for ended in batch])
        if batch:
            self._tell(batch, changes, took)

    async def _with_lost_replies(self, changes: list[Change], took: list[bool]) -> list[bool]:
        """A change that is rejected now may have been written before, by the call whose reply was lost."""
        if self._in_doubt and not all(took):
            for number, change in enumerate(changes):
                if not took[number] and (change.id, change.claim_no) in self._in_doubt:
                    job = await self._store.job(change.id)
                    took[number] = job is not None and (job.state, job.claim_no) == (change.state, change.claim_no)
        self._in_doubt.difference_update((change.id, change.claim_no) for change in changes)
        return took

    async def _one_by_one(
        self, batch: list[Ended], now: datetime, error: StoreError
    ) -> tuple[list[Change], list[bool | None]]:
        """One outcome that the database refuses must not keep the others from being written."""
        _log.error("a batch of outcomes was refused, so they are written one by one: %s", error)
        changes: list[Change] = []
        took: list[bool | None] = []
        for ended in batch:
            change, written = await self._one(ended, now)
            changes.append(change)
            took.append(written)
        return changes, took

    async def _one(self, ended: Ended, now: datetime) -> tuple[Change, bool | None]:
        """Write an outcome; if it is refused, that it was; if even that is refused, leave the job to its limits."""
        change = settle(ended, self._dice)
        try:
            return change, (await self._store.apply([change], now))[0]
        except StoreRefused as refused:
            reason = bounded(f"its outcome was refused: {refused}", LONGEST_REFUSAL)
        change = settle(ended._replace(outcome=Failed(reason)), self._dice)
        try:
            return change, (await self._store.apply([change], now))[0]
        except StoreRefused:
            _log.exception("job %d: neither its outcome nor its refusal can be written", change.id)
            self._hands.left.add((change.id, change.claim_no))
            return change, False

    def _tell(self, batch: list[Ended], changes: list[Change], took: list[bool]) -> None:
        rejected = len(took) - sum(took)
        emit, wants = self._telemetry.emit, self._telemetry.wants
        emit("settle", {"jobs": len(batch) - rejected, "rejected": rejected}, node=self._node)
        emit(
            "in_flight",
            {
                "in_flight": self._seats.running,
                "buffered": self._seats.waiting,
                "concurrency": self._seats.concurrency,
            },
            node=self._node,
        )
        logs = _log.isEnabledFor(logging.INFO)
        failed = any(change.state == "failed" for change in changes)
        if not (logs or rejected or failed or wants("job.stop") or wants("job.retry") or wants("release")):
            return
        for ended, change, written in zip(batch, changes, took, strict=True):
            if not written:
                _log.warning("job %d: a late outcome was rejected (%s), the job had moved on", change.id, change.state)
                emit("settle.rejected", {}, change=change, node=self._node)
            elif change.outcome is None and change.state not in TERMINAL:
                emit("release", {"jobs": 1}, change=change, node=self._node)
            else:
                self._tell_one(ended, change, logs)

    def _tell_one(self, ended: Ended, change: Change, logs: bool) -> None:
        started_at = ended.started_at or ended.ended_at
        duration = (ended.ended_at - started_at).total_seconds()
        if logs or change.state == "failed":
            _log_end(ended, change, duration)
        measurements = {"duration": duration} if ended.rows is None else {"duration": duration, "rows": ended.rows}
        self._telemetry.emit("job.stop", measurements, claim=ended.claim, change=change, outcome=ended.outcome)
        if change.state == "retrying":
            delay = (change.visible_at - ended.ended_at).total_seconds()
            self._telemetry.emit("job.retry", {"delay": delay}, claim=ended.claim, change=change)


def _log_end(ended: Ended, change: Change, duration: float) -> None:
    claim = ended.claim
    slot = "" if claim.scheduled_for is None else f" slot={claim.scheduled_for.isoformat()}"
    rows = "" if ended.rows is None else f" rows={ended.rows}"
    why = f" reason={change.reason}" if change.reason else ""
    last_line = change.error.rstrip().rsplit("\n", 1)[-1] if change.error else ""
    error = f" error={last_line}" if last_line else ""
    _log.log(
        logging.WARNING if change.state == "failed" else logging.INFO,
        "job %d %s task=%s queue=%s attempt=%d%s duration=%.3fs%s%s%s",
        claim.id, change.state, claim.task, claim.queue, change.attempt, slot, duration, rows, why, error,
    )  # fmt: skip
