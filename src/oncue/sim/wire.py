"""The wire between a node and the store: it takes time, and breaks.

A call can fail in three ways that the caller cannot tell apart: before it reached the database, or after, when only the
reply was lost, or before it, but it will: the line is held up, the caller gives up, and what was sent arrives when the
line is free again. The recorder (`recorded.py`) sits next to the database, so the history has what really happened.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from datetime import datetime, timedelta
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias

from oncue.errors import OncueError, StoreUnavailable
from oncue.sim.history import History, Operation
from oncue.sim.recorded import Layer, Verb
from oncue.store.contract import Store

When: TypeAlias = Literal["before", "after"]

OPERATIONS = frozenset(
    {
        *("jobs.claim", "jobs.apply", "jobs.prioritize", "jobs.request_cancel", "queues.pause", "queues.resume"),
        *("queues.set_limits", "queues.default_limits", "groups.claim", "groups.set", "groups.trip"),
        *(
            "schedules.revise",
            "slots.decide",
            "slots.rerun",
            "webhooks.write",
            "webhooks.re_emit",
            "windows.put",
            "windows.advance",
            "cluster.create",
            "cluster.spread",
            "cluster.release",
        ),
    }
)
"""The calls that decide something. An enqueue is one too, but it may take its client several calls."""

SERVER = "server"
"""A database with a clock of its own, and of no other dialect that the engine would have to know."""

LAST_OUT = 1.0
"""Seconds until the last call has arrived after a line is free again."""


class Crash(BaseException):
    """The process dies here. Not an Exception, so that nothing in the engine survives it."""


class OperationLog(NamedTuple):
    """The history that the operations of a node are written to."""

    history: History
    node: str


class LateDelivery(NamedTuple):
    """Brings calls to the database after their callers gave up."""

    now: Callable[[], datetime]
    """The true time."""
    deliver: Callable[[datetime, Callable[[], Coroutine[Any, Any, Any]]], None]
    patience: float
    """How long a caller waits for an answer, in seconds."""


class MidCallFault(NamedTuple):
    """What happens to a process in the middle of a call: it dies (`fall` raises Crash), or stands still."""

    when: When
    fall: Callable[[], None]


class Delay:
    """Awaited on a wire: the driver goes on with this step so many seconds later, and with others meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __await__(self) -> Generator[float, None, None]:
        yield self._seconds


class Wire(Layer):
    """Takes its time, and fails on demand: at a certain call, all the time, or at random."""

    def __init__(
        self,
        store: Store,
        dice: Random,
        latency: float = 0.0,
        operation_log: OperationLog | None = None,
        clock: Callable[[], datetime] | None = None,
        prompt: float = 0.5,
        late_delivery: LateDelivery | None = None,
        hinted: Callable[[], None] = lambda: None,
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
        self._operation_log = operation_log
        self._late_delivery = late_delivery
        self._hinted = hinted
        self._held_until: datetime | None = None
        self._clock = clock
        self._crashes: dict[int, When] = {}
        self._losing: set[str] = set()
        self._slow: dict[str, Callable[[], None]] = {}
        self._mid_call_faults: dict[str, MidCallFault] = {}
        if clock is not None:
            self.dialect = SERVER

    def crash_at(self, call: int, when: When) -> None:
        """Die before or after the n-th call from now on."""
        self._crashes[self.calls + call] = when

    def lose_reply(self, verb: str) -> None:
        """The next call of this verb that brings an answer takes effect, and its reply is lost."""
        self._losing.add(verb)

    def slow_reply(self, verb: str, told: Callable[[], None]) -> None:
        """The next answer of this verb takes as long as its caller has patience, or a good part of that."""
        self._slow[verb] = told

    def strike(self, verb: str, fault: MidCallFault) -> None:
        """Something happens in the middle of the next call of this verb: before its effect, or after it."""
        self._mid_call_faults[verb] = fault

    def hold_up(self, until: datetime) -> None:
        """Until this instant of true time nothing arrives; then everything does, in whatever order."""
        self._held_until = until

    def let_go(self) -> None:
        self._held_until = None

    def hint(self) -> None:
        """The other processes are told that something may have changed, unless the line is cut."""
        if not self.down:
            self._hinted()

    def heal(self) -> None:
        self.error_rate, self.down, self._held_until = 0.0, False, None
        self._crashes.clear()
        self._losing.clear()
        self._slow.clear()
        self._mid_call_faults.clear()

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
        if operation is not None or self._operation_log is None or verb not in OPERATIONS:
            return await self._sent(verb, method, args, kwargs, operation, hurry)
        operation = self._operation_log.history.invoke(self._operation_log.node, verb.rpartition(".")[2])
        try:
            reply = await self._sent(verb, method, args, kwargs, operation, hurry)
        except StoreUnavailable:
            self._operation_log.history.answer(operation, "unknown")
            raise
        except OncueError:
            self._operation_log.history.answer(operation, "fail")
            raise
        self._operation_log.history.answer(operation, "ok")
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
        if trip := self._trip():
            await trip
        if self._mid_call_faults:
            await self._struck(verb, "before")
        reply = await self._done(method, args, kwargs, operation)
        found = reply or reply is None  # some verbs have nothing to say
        if self._mid_call_faults and found:
            await self._struck(verb, "after")
        if reply and verb in self._slow:
            await self._dawdle(verb, hurry)
        if trip := self._trip():
            await trip
        if crash == "after":
            raise Crash(verb)
        if error == "after" or (self._losing and found and verb in self._losing):
            self._losing.discard(verb)
            raise StoreUnavailable(f"{verb}: the reply was lost (simulated)")
        return reply

    async def _struck(self, verb: str, when: When) -> None:
        fault = self._mid_call_faults.get(verb)
        if fault is not None and fault.when == when:
            del self._mid_call_faults[verb]
            fault.fall()
            await Delay(0.0)  # a process that stands still by now goes on later

    async def _done(
        self, method: Verb, args: tuple[Any, ...], kwargs: dict[str, Any], operation: Operation | None
    ) -> Any:
        """At the database nothing comes in between, so there is one operation at a time."""
        if operation is None or self._operation_log is None:
            return await method(*args, **kwargs)
        self._operation_log.history.operation = operation
        try:
            return await method(*args, **kwargs)
        finally:
            self._operation_log.history.operation = None

    async def _wait_in_line(
        self,
        verb: str,
        call: Callable[[], Coroutine[Any, Any, Any]],
        operation: Operation | None,
        hurry: float | None,
    ) -> None:
        """Wait until the line is free; a caller whose patience ends leaves the call behind in it."""
        late_delivery, until = self._late_delivery, self._held_until
        assert late_delivery is not None
        assert until is not None
        arrives = until + timedelta(seconds=round(self._dice.uniform(0, LAST_OUT), 6))
        left, patience = (arrives - late_delivery.now()).total_seconds(), hurry or late_delivery.patience
        if left > patience:
            if operation is not None and self._operation_log is not None:
                self._operation_log.history.tell(operation)  # it may happen when its process is long dead
            late_delivery.deliver(arrives, call)
            await Delay(patience)
            raise StoreUnavailable(f"{verb}: no answer within {patience:g} s (simulated)")
        if left > 0:
            await Delay(left)

    async def _dawdle(self, verb: str, hurry: float | None) -> None:
        """The reply is under way, and meanwhile its caller goes by what it knew."""
        self._slow.pop(verb)()
        patience = hurry or (0.0 if self._late_delivery is None else self._late_delivery.patience)
        await Delay(round(self._dice.uniform(0.2, 0.9) * patience, 6))

    def _trip(self) -> Delay | None:
        """How long it takes to get there. Some trips take no time to speak of."""
        if self.latency and (length := self._dice.uniform(self._shortest, self.latency)) > 0:
            return Delay(round(length, 6))
        return None

    def _error(self) -> When | None:
        if self.down:
            return "before"
        if self.error_rate and self._dice.random() < self.error_rate:
            return self._dice.choice(("before", "after"))
        return None


class Hurried(Layer):
    """The calls of those who cannot wait as long as others: a beat must be answered before the lease is over."""

    def __init__(self, wire: Wire, patience: float) -> None:
        super().__init__(wire.as_store())
        self._wire = wire
        self._patience = patience
        self.dialect = wire.dialect

    async def pass_on(self, verb: str, method: Verb, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._wire.hurry = self._patience
        return await method(*args, **kwargs)
