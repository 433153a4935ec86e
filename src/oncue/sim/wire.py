"""The wire between a node and the store: one layer writes down what the database did, the other breaks.

A call can fail in three ways that the caller cannot tell apart: before it reached the database, or after, when only the
reply was lost, or before it, but it will: the line is held up, the caller gives up, and what was sent arrives when the
line is free again. The recording layer sits next to the database, so the history has what really happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias, cast
from uuid import UUID

from oncue.errors import OncueError, StoreUnavailable
from oncue.model import Change, Claim, Decided, Lane, Lease, Node, Receipt, Revised, Step
from oncue.sim.history import (
    History,
    Operation,
    change_event,
    claim_event,
    job_events,
    micros,
    revision_event,
    row_event,
    slot_event,
    step_event,
)
from oncue.store.contract import Store

When: TypeAlias = Literal["before", "after"]
Verb: TypeAlias = Callable[..., Awaitable[Any]]


OPERATIONS = frozenset({"claim", "apply", "decide", "revise"})
"""The calls of a node that decide something. An enqueue is one too, but it may take its client several calls."""

SERVER = "server"
"""A database with a clock of its own, and of no other dialect that the engine would have to know."""


LAST_OUT = 1.0
"""Seconds until the last call has arrived after a line is free again."""


class Crash(BaseException):
    """The process dies here. Not an Exception, so that nothing in the engine survives it."""


class Journal(NamedTuple):
    """Whose operations go into which history."""

    history: History
    node: str


class Carrier(NamedTuple):
    """Who brings calls to the database after their callers gave up."""

    now: Callable[[], datetime]
    """The true time."""
    deliver: Callable[[datetime, Callable[[], Coroutine[Any, Any, Any]]], None]
    patience: float
    """How long a caller waits for an answer, in seconds."""


class Delay:
    """Awaited on a wire: the driver goes on with this step so many seconds later, and with others meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __await__(self) -> Generator[float, None, None]:
        yield self._seconds


class _Layer:
    """Passes every verb of a store on. Dynamic, so that it grows with the contract by itself."""

    dialect = "sqlite"

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, verb: str) -> Verb:
        method: Verb = getattr(self._store, verb)

        def call(*args: Any, **kwargs: Any) -> Awaitable[Any]:
            return self.pass_on(verb, method, args, kwargs)

        setattr(self, verb, call)  # so that it is made once
        return call

    async def pass_on(self, verb: str, method: Verb, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError


class Recorded(_Layer):
    """Writes into the history what the database did. Of `labels` it knows the nodes, and which of them are `gone`."""

    def __init__(
        self, store: Store, history: History, node: str, labels: Mapping[UUID, str], gone: Collection[UUID]
    ) -> None:
        super().__init__(store)
        self._gone = gone
        self._history = history
        self._node = node
        self._labels = labels
        self._written: set[int] = set()

    def as_store(self) -> Store:
        return cast(Store, self)

    async def pass_on(self, verb: str, method: Verb, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        reply = await method(*args, **kwargs)
        note = getattr(self, f"_note_{verb}", None)
        if note is not None:
            await note(reply, *args, **kwargs)
        return reply

    def _add(self, kind: str, **fields: Any) -> None:
        self._history.effect(self._node, kind, **fields)

    async def _note_enqueue(self, receipts: list[Receipt], batches: Any, **_: Any) -> None:
        """Whoever asks again is told of the same jobs, which are written once."""
        for fields in job_events(batches, receipts):
            if fields["id"] not in self._written:
                self._written.add(fields["id"])
                self._add("job", **fields)

    async def _note_claim(self, claims: list[Claim], *_: Any, **__: Any) -> None:
        for claim in claims:
            self._add("claim", **claim_event(claim))

    async def _note_apply(self, took: list[bool], changes: list[Change], *_: Any) -> None:
        for change, accepted in zip(changes, took, strict=True):
            self._add("change", **change_event(change, accepted))

    async def _note_request_cancel(self, took: bool, job_id: int, claim_no: int, *_: Any, **__: Any) -> None:
        if took:
            self._add("cancel", id=job_id, claim_no=claim_no)

    async def _note_prioritize(self, took: bool, job_id: int, known: int, priority: int, *_: Any, **__: Any) -> None:
        if took:
            self._add("priority", id=job_id, priority=priority)

    async def _note_age(self, raised: int, lane: Lane, *_: Any, **__: Any) -> None:
        if raised:
            self._add("age", queue=lane.queue, priority=lane.priority, jobs=raised)

    async def _note_pause(self, took: bool, queue: str, *_: Any, **__: Any) -> None:
        if took:
            self._add("pause", queue=queue)

    async def _note_resume(self, took: bool, queue: str, *_: Any, **__: Any) -> None:
        if took:
            self._add("resume", queue=queue)

    async def _note_prune(self, gone: int, before: datetime, *_: Any, **__: Any) -> None:
        if gone:
            self._add("prune", jobs=gone, before=micros(before))

    async def _note_register(self, _: None, node: Node) -> None:
        """One that arrives late changes nothing."""
        if any(row.id == node.id and row.beat_no == node.beat_no for row in await self._store.nodes()):
            self._lease(node.id, until=micros(node.expires_at))

    async def _note_beat(self, renewed: bool, node: UUID, now: object, expires_at: Any, *_: object) -> None:
        if renewed:
            self._lease(node, until=micros(expires_at), renewed=True)

    def _lease(self, node: UUID, **fields: Any) -> None:
        """What arrives from the dead is a lease that nobody goes by."""
        if node not in self._gone:
            self._add("lease", **fields)

    async def _note_bury(self, lost: list[Node], *_: Any) -> None:
        for node in lost:
            self._history.add(self._labels[node.id], "lease.end", by=self._node)

    async def _note_declare_lost(self, declared: bool, node: UUID, *_: Any) -> None:
        if declared:
            self._history.add(self._labels[node], "lease.end", by=self._node)
            self._history.add(self._labels[node], "hold.end")

    async def _note_leave(self, *_: Any) -> None:
        self._add("lease.end", by=self._node)

    async def _note_decide(
        self, took: list[bool], steps: Sequence[Step], *_: Any, epoch: int | None = None, **__: Any
    ) -> None:
        for step, accepted in zip(steps, took, strict=True):
            self._add("step", **step_event(step, epoch, accepted))
            if accepted:
                await self._decided(step.schedule_id, step.decided, epoch)

    async def _decided(self, schedule_id: int, rows: Sequence[Decided], epoch: int | None) -> None:
        """Each verdict, and the job that is there with it: both are read in the instant of the commit."""
        for decided in rows:
            self._add("slot", **slot_event(schedule_id, decided, epoch))
            job = None if decided.job_id is None else await self._store.job(decided.job_id)
            if job is not None:
                self._add("job", **row_event(job))

    async def _note_revise(self, took: list[bool], changes: Sequence[Revised], *_: Any) -> None:
        for change, accepted in zip(changes, took, strict=True):
            schedule = await self._store.schedule(change.schedule.name)
            if accepted and schedule is not None:
                self._add("revision", **revision_event(schedule))
                await self._decided(schedule.id, change.decided, None)

    async def _note_acquire(
        self, lease: Lease | None, name: str, holder: UUID, holder_name: str, now: object, expires_at: Any, **_: Any
    ) -> None:
        if lease is not None and lease.holder == holder and lease.expires_at == expires_at:
            self._add("hold", name=name, epoch=lease.epoch, until=micros(expires_at))

    async def _note_renew(self, renewed: bool, name: str, *_: Any, **__: Any) -> None:
        """Until when it lasts is the database's word: a late renewal does not take back a later one."""
        lease = await self._store.lease(name) if renewed else None
        if lease is not None:
            self._add("hold", name=name, epoch=lease.epoch, until=micros(lease.expires_at))

    async def _note_yield_lease(self, _: None, name: str, holder: UUID, epoch: int, *__: Any) -> None:
        lease = await self._store.lease(name)
        if lease is not None and (lease.holder, lease.epoch) == (holder, epoch):
            self._add("hold.end", name=name)


class Wire(_Layer):
    """Takes its time, and fails on demand: at a certain call, all the time, or at random."""

    def __init__(
        self,
        store: Store,
        dice: Random,
        latency: float = 0.0,
        journal: Journal | None = None,
        clock: Callable[[], datetime] | None = None,
        prompt: float = 0.5,
        carrier: Carrier | None = None,
    ) -> None:
        super().__init__(store)
        self.latency = latency
        self._shortest = -latency * prompt / (1 - prompt)
        self.calls = 0
        self.down = False
        self.error_rate = 0.0
        self.operation: Operation | None = None
        """The one that the next call belongs to; without it, a call that may change something is one of its own."""
        self.hurry: float | None = None
        """How long the next call may take, in seconds, if not as long as every other."""
        self._dice = dice
        self._journal = journal
        self._carrier = carrier
        self._held_until: datetime | None = None
        self._clock = clock
        self._crashes: dict[int, When] = {}
        self._losing: set[str] = set()
        if clock is not None:
            self.dialect = SERVER

    def as_store(self) -> Store:
        return cast(Store, self)

    def crash_at(self, call: int, when: When) -> None:
        """Die before or after the n-th call from now on."""
        self._crashes[self.calls + call] = when

    def lose_reply(self, verb: str) -> None:
        """The next call of this verb that brings an answer takes effect, and its reply is lost."""
        self._losing.add(verb)

    def hold_up(self, until: datetime) -> None:
        """Until this instant of true time nothing arrives; then everything does, in whatever order."""
        self._held_until = until

    def let_go(self) -> None:
        self._held_until = None

    def heal(self) -> None:
        self.error_rate, self.down, self._held_until = 0.0, False, None
        self._crashes.clear()
        self._losing.clear()

    @property
    def is_sound(self) -> bool:
        """Whether calls get through; that a reply will be lost some day is no reason to make more of them."""
        return not (self.down or self.error_rate or self._crashes or self._held_until)

    async def time(self) -> datetime:
        """The clock of the server, if there is one; an embedded database has the host's."""

        async def told() -> datetime:
            return await self._store.time() if self._clock is None else self._clock()

        instant: datetime = await self.pass_on("time", told, (), {})
        return instant

    async def pass_on(self, verb: str, method: Verb, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.calls += 1
        operation, self.operation = self.operation, None
        hurry, self.hurry = self.hurry, None
        if operation is not None or self._journal is None or verb not in OPERATIONS:
            return await self._sent(verb, method, args, kwargs, operation, hurry)
        operation = self._journal.history.invoke(self._journal.node, verb)
        try:
            reply = await self._sent(verb, method, args, kwargs, operation, hurry)
        except StoreUnavailable:
            self._journal.history.answer(operation, "unknown")
            raise
        except OncueError:
            self._journal.history.answer(operation, "fail")
            raise
        self._journal.history.answer(operation, "ok")
        return reply

    async def _sent(
        self,
        verb: str,
        method: Verb,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        operation: Operation | None,
        hurry: float | None,
    ) -> Any:
        crash, error = self._crashes.pop(self.calls, None), self._error()
        if crash == "before":
            raise Crash(verb)
        if error == "before":
            raise StoreUnavailable(f"{verb}: the database cannot be reached (simulated)")
        if self._held_until is not None:
            await self._wait_in_line(verb, lambda: self._done(method, args, kwargs, operation), operation, hurry)
        await self._travel()
        reply = await self._done(method, args, kwargs, operation)
        await self._travel()
        if crash == "after":
            raise Crash(verb)
        if error == "after" or (reply and verb in self._losing):
            self._losing.discard(verb)
            raise StoreUnavailable(f"{verb}: the reply was lost (simulated)")
        return reply

    async def _done(
        self, method: Verb, args: tuple[Any, ...], kwargs: dict[str, Any], operation: Operation | None
    ) -> Any:
        """At the database nothing comes in between, so there is one operation at a time."""
        if operation is None or self._journal is None:
            return await method(*args, **kwargs)
        self._journal.history.operation = operation
        try:
            return await method(*args, **kwargs)
        finally:
            self._journal.history.operation = None

    async def _wait_in_line(
        self,
        verb: str,
        call: Callable[[], Coroutine[Any, Any, Any]],
        operation: Operation | None,
        hurry: float | None,
    ) -> None:
        """Wait until the line is free; whoever has no patience for that leaves the call behind in it."""
        carrier, until = self._carrier, self._held_until
        assert carrier is not None
        assert until is not None
        arrives = until + timedelta(seconds=round(self._dice.uniform(0, LAST_OUT), 6))
        left, patience = (arrives - carrier.now()).total_seconds(), hurry or carrier.patience
        if left > patience:
            if operation is not None and self._journal is not None:
                self._journal.history.tell(operation)  # it may happen when its process is long dead
            carrier.deliver(arrives, call)
            await Delay(patience)
            raise StoreUnavailable(f"{verb}: no answer within {patience:g} s (simulated)")
        if left > 0:
            await Delay(left)

    async def _travel(self) -> None:
        """Some trips take no time to speak of."""
        if self.latency and (length := self._dice.uniform(self._shortest, self.latency)) > 0:
            await Delay(round(length, 6))

    def _error(self) -> When | None:
        if self.down:
            return "before"
        if self.error_rate and self._dice.random() < self.error_rate:
            return self._dice.choice(("before", "after"))
        return None


class Hurried(_Layer):
    """The calls of those who cannot wait as long as others: a beat must be answered before the lease is over."""

    def __init__(self, wire: Wire, patience: float) -> None:
        super().__init__(wire.as_store())
        self._wire = wire
        self._patience = patience
        self.dialect = wire.dialect

    def as_store(self) -> Store:
        return cast(Store, self)

    async def pass_on(self, verb: str, method: Verb, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._wire.hurry = self._patience
        return await method(*args, **kwargs)
