"""A cluster in one thread: real nodes on one database in memory, driven by a heap of instants.

Each node is a real `WorkerNode` with its real services; only its executor is scripted, and its store is reached over
a wire that takes time and can break. The driver does what the runner does in a process: it calls each service when its
instant or its signal comes, and again after a growing pause when a step fails. While a step's call is on its way,
other steps go on. Nothing here waits, so a run depends on its seed and on nothing else: the same seed gives the same
history, byte for byte.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from oncue import identity
from oncue.clock import VirtualClock
from oncue.engine.node import Pace, WorkerNode
from oncue.engine.runner import pause_after
from oncue.engine.service import Service
from oncue.errors import Conflict, StoreError, StoreUnavailable
from oncue.model import TERMINAL, Attempt, Batch, Job, JobFilter, Node, Receipt, Schedule
from oncue.model import Slot as LedgerSlot
from oncue.operations import Operations
from oncue.policy.lifecycle import Ended, entry_state
from oncue.policy.options import Options
from oncue.policy.retry import Exponential
from oncue.scheduling import Scheduling
from oncue.sim import script
from oncue.sim.checker import Books, Final
from oncue.sim.executor import ScriptedExecutor
from oncue.sim.history import History, ok_fields, start_event
from oncue.sim.script import Act, Script
from oncue.sim.wire import Crash, Recorded, Wire
from oncue.store.contract import Store
from oncue.store.sqlite import SqliteStore
from oncue.task import Task
from oncue.telemetry import Telemetry

T = TypeVar("T")

PACE = Pace(poll=0.5, lease=3.0, beat=1.0, reconcile=0.75, buffer=100)
OPTIONS = Options(timeout=6.0, max_runtime=20.0, retry=Exponential("1s", cap="8s"))
TASK = "scripted"
CLIENT = "client"
STEPS_PER_INSTANT = 20_000
PATIENCE = timedelta(seconds=5)
ASK_AGAIN = timedelta(seconds=0.2)
RESTART = 2.0
LATE = timedelta(seconds=3)
"""How long a slot may wait for its decision when nothing disturbs the cluster."""


class Livelock(AssertionError):
    """Time stands still: the services wake each other for ever."""


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that has no reason to wait."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise RuntimeError(f"{coroutine} waits, which nothing may do under virtual time")


class Slot:
    """A service of a member, and when it is due."""

    def __init__(self, member: Member, service: Service) -> None:
        self.member = member
        self.service = service
        self.due: datetime | None = None
        self.failures = 0
        self.ticking = False


class Member:
    """One process of the cluster."""

    def __init__(self, label: str, wire: Wire, worker: WorkerNode, telemetry: Telemetry) -> None:
        self.label = label
        self.wire = wire
        self.worker = worker
        self.telemetry = telemetry
        self.alive = True
        self.paused = False
        self.frozen: frozenset[str] = frozenset()
        self.missed: list[Callable[[], None]] = []
        self.slots = [
            Slot(self, service) for service in (*worker.heart, *worker.hot_path, *worker.upkeep)
        ]  # fmt: skip

    def freeze_all_but(self, *names: str) -> None:
        """The loop is stuck, as under a handler that never suspends; the heart has a thread of its own."""
        self.frozen = frozenset(slot.service.name for slot in self.slots) - set(names)

    @property
    def leads(self) -> bool:
        return self.alive and self.worker.leadership.epoch is not None

    @property
    def executor(self) -> ScriptedExecutor:
        executor = self.worker.executor
        assert isinstance(executor, ScriptedExecutor)
        return executor


class Operator(Operations, Scheduling):
    """An operator's verbs, straight on the database. The tasks of its schedules are scripted, as all others."""

    name = "sim"

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.store = store
        self.now = clock.now
        self.tasks = {}

    async def connected(self) -> Operator:
        return self

    async def ids(self, count: int) -> list[int]:
        return await self.store.reserve(count)

    def find(self, name: str) -> Task[Any, Any]:
        return self.task()

    def task(self, options: Options = OPTIONS, max_retries: int = 3) -> Task[Any, Any]:
        """The scripted task, with these options."""

        def scripted(acts: list[dict[str, Any]]) -> None: ...

        return Task(
            self, scripted, name=TASK, delivery=options.delivery, timeout=options.timeout,  # type: ignore[arg-type]
            max_runtime=options.max_runtime, retry=options.retry, max_retries=max_retries,
        )  # fmt: skip

    def carried(self, task: Task[Any, Any]) -> dict[str, Any]:
        options = task.options(None)
        return {"options": options.stored(), "max_runtime": options.max_runtime, "max_args": 100_000}


class World:
    def __init__(
        self,
        seed: int,
        *,
        pace: Pace = PACE,
        concurrency: int = 4,
        script: Script = script.from_arguments,
        hints: float = 1.0,
        latency: float = 0.0,
        one_host: bool = False,
    ) -> None:
        self.dice = Random(seed)
        self.clock = VirtualClock()
        self.history = History(self.clock)
        self.pace = pace
        self.hints = hints
        self.latency = latency
        self.one_host = one_host
        """Whether a process can see by itself that another one is gone."""
        self.members: dict[str, Member] = {}
        self._labels: dict[UUID, str] = {}
        self._gone: set[UUID] = set()
        self.store = SqliteStore(":memory:", inline=True, wall=self.clock.now)
        finish(self.store.open())
        self.client = Wire(self._recorded(CLIENT), self.dice)
        self.operator = Operator(self._recorded("operator"), self.clock)
        self._concurrency = concurrency
        self._script = script
        self._heap: list[tuple[datetime, int, Callable[[], None]]] = []
        self._pushed = 0
        self._lives: dict[str, int] = {}
        self._instant = self.clock.now()
        self._steps = 0

    def _recorded(self, label: str) -> Store:
        return Recorded(self.store, self.history, label, self._labels).as_store()

    def close(self) -> None:
        finish(self.store.close())

    # --- members ------------------------------------------------------------------------------------------------

    def boot(self, name: str, *, exclusive: bool = False, known_as: str | None = None) -> Member:
        """Start a process. Under a name that was used before, it is a fresh one all the same."""
        self._lives[name] = self._lives.get(name, 0) + 1
        label = f"{name}.{self._lives[name]}"
        wire = Wire(self._recorded(label), self.dice, self.latency)
        telemetry = Telemetry()
        telemetry.subscribe(
            lambda _, __, told: self.history.add(label, "start", **start_event(told["claim"])), "job.start"
        )

        def executor(ended: Callable[[Ended], None]) -> ScriptedExecutor:
            return ScriptedExecutor(
                self.clock, self.history, label, telemetry, self._concurrency, self._script,
                lambda delay, action: self._later_on(member, delay, action), lambda: self._die(name), ended,
            )  # fmt: skip

        store = wire.as_store()
        node = self._node(known_as or name, exclusive)
        self._labels[node.id] = label
        worker = WorkerNode(
            store, store, node, self.clock, self.dice, telemetry, self.pace, executor,
            is_gone=lambda other: self.one_host and other.id in self._gone,
        )  # fmt: skip
        member = self.members[name] = Member(label, wire, worker, telemetry)
        for slot in member.slots:
            slot.service.signal.listen(lambda slot=slot: self._wake(slot))  # type: ignore[misc]
            self._schedule(slot, self.clock.now())
        return member

    def _node(self, name: str, exclusive: bool) -> Node:
        now = self.clock.now()
        return Node(
            id=identity.new_node_id(self.dice), name=name, host="host", pid=1, boot_id="", version="0",
            queues=("default",), tasks=(TASK,), concurrency=self._concurrency, address=None,
            started_at=now, beat_at=now, expires_at=now, exclusive=exclusive,
        )  # fmt: skip

    def crash(self, name: str) -> None:
        """The process is gone at once, with everything that it knew."""
        member = self.members[name]
        if member.alive:
            member.alive = False
            self._gone.add(member.worker.node.id)
            self.history.add(member.label, "crash")

    def _die(self, name: str) -> None:
        """A job took its process down. Such a process is started again, as a supervisor would."""
        self.crash(name)
        self.after(RESTART, lambda: self.revive(name))

    def revive(self, name: str) -> None:
        if not (before := self.members[name]).alive:
            self.boot(name, exclusive=before.worker.node.exclusive, known_as=before.worker.node.name)

    def shut_down(self, name: str) -> None:
        """The process stops in good order, with nothing in hand: it gives up its leases."""
        member = self.members[name]
        finish(member.worker.leadership.resign())
        finish(member.worker.farewell())
        member.alive = False
        self.hint()

    def pause(self, name: str) -> None:
        """The process stops as it stands: it becomes a zombie if its lease ends meanwhile."""
        self.members[name].paused = True

    def resume(self, name: str) -> None:
        """The process goes on as if no time had passed, in whatever order its threads happen to wake."""
        member = self.members[name]
        if not member.alive or not member.paused:
            return
        member.paused = False
        rested = [slot for slot in member.slots if not slot.ticking]
        steps = [*member.missed, *(lambda slot=slot: self._schedule(slot, self.clock.now()) for slot in rested)]
        member.missed = []
        self.dice.shuffle(steps)
        for step in steps:
            self.at(self.clock.now(), step)

    # --- jobs ---------------------------------------------------------------------------------------------------

    def batch(
        self,
        jobs: Sequence[Sequence[Act]],
        *,
        options: Options = OPTIONS,
        max_retries: int = 3,
        delay: float = 0.0,
        deadline: float | None = None,
        priority: int = 0,
        task: str = TASK,
        keys: list[str] | None = None,
    ) -> Batch:
        now = self.clock.now()
        visible_at = now + timedelta(seconds=delay)
        return Batch(
            task=task, queue="default", priority=priority, state=entry_state(visible_at, now),
            options=options.stored(), max_retries=max_retries, max_runtime=options.max_runtime, created_at=now,
            visible_at=visible_at, deadline_at=None if deadline is None else now + timedelta(seconds=deadline),
            enqueued_by="sim", retry_of=None, ids=finish(self.operator.store.reserve(len(jobs))),
            args=[script.written(acts) for acts in jobs], keys=keys,
        )  # fmt: skip

    def enqueue(self, *acts: Act, **options: Any) -> int:
        """Write one job over a wire that does not break; its id."""
        (receipt,) = finish(self.operator.store.enqueue([self.batch([acts], **options)]))
        self.hint()
        return receipt.id

    def submit(self, batch: Batch) -> None:
        """Write jobs as an application does: when the reply is lost, ask again under the same ids."""
        self.history.add(CLIENT, "enqueue.invoke", ids=batch.ids)
        self._ask(batch, self.clock.now() + PATIENCE, in_doubt=False)

    def _ask(self, batch: Batch, give_up: datetime, *, in_doubt: bool) -> None:
        try:
            receipts: list[Receipt] = finish(self.client.as_store().enqueue([batch], in_doubt=in_doubt))
        except StoreUnavailable:
            if self.clock.now() < give_up:
                self.at(self.clock.now() + ASK_AGAIN, lambda: self._ask(batch, give_up, in_doubt=True))
            else:
                self.history.add(CLIENT, "enqueue.unknown", ids=batch.ids)
            return
        self.history.add(CLIENT, "enqueue.ok", **ok_fields(batch, receipts))
        self.hint()

    def hint(self) -> None:
        """Wake-ups are hints: each may be lost."""
        for member in self.members.values():
            if self.hints >= 1 or self.dice.random() < self.hints:
                member.worker.wake()

    def limit(self, globally: int) -> None:
        """From here on at most so many jobs run at once, on all nodes together."""
        finish(self.operator.limit("default", globally=globally))
        self.history.add("world", "limit", queue="default", globally=globally)

    def operate(self, job: Job) -> None:
        """An operator's hand: what is unfinished is cancelled, what is finished is revived."""
        with contextlib.suppress(Conflict):
            finish(self.operator.retry(job.id) if job.finished else self.operator.cancel(job.id))
            self.hint()

    def job(self, job_id: int) -> Job:
        return finish(self.operator.job(job_id))

    def attempts(self, job_id: int) -> list[Attempt]:
        """The ended attempts before the latest."""
        return finish(self.store.attempts(job_id))

    def jobs(self) -> list[Job]:
        return finish(self.store.jobs(JobFilter(limit=1_000_000)))

    # --- schedules ----------------------------------------------------------------------------------------------

    def schedule(
        self,
        name: str,
        rule: str,
        *acts: Act,
        options: Options = OPTIONS,
        max_retries: int = 3,
        **terms: Any,
    ) -> Schedule:
        """Make a schedule, as an operator does. Each of its jobs follows the same script."""
        arguments = {"acts": [asdict(act) for act in acts or (Act(),)]}
        task = self.operator.task(options, max_retries)
        made = finish(self.operator.create_schedule(name, rule, task, arguments, **terms))
        self.hint()
        return made

    def slots(self, name: str) -> list[LedgerSlot]:
        """The whole ledger of a schedule."""
        return self.books(name).slots

    def books(self, name: str) -> Books:
        schedule = finish(self.store.schedule(name))
        assert schedule is not None
        start, end = schedule.created_at - timedelta(days=365), self.clock.now() + timedelta(days=365)
        return Books(
            schedule,
            finish(self.store.revisions(schedule.id)),
            finish(self.store.slots(schedule.id, start, end, 1_000_000)),
            finish(self.store.doubled(schedule.id, start, end)),
        )

    def calm(self) -> None:
        """Tell the history who leads and what waits: long after the last fault, one and nothing."""
        now = self.clock.now()
        waiting = [
            schedule.name
            for schedule in finish(self.store.schedules(limit=100_000))
            if schedule.next_run_at is not None and schedule.next_run_at < now - LATE
        ]
        leaders = [member.label for member in self.members.values() if member.leads]
        self.history.add("world", "calm", leaders=leaders, waiting=waiting)

    def final(self) -> Final:
        totals: dict[str, int] = dict.fromkeys(TERMINAL, 0)
        for queue in finish(self.store.queues()):
            for state in TERMINAL:
                totals[state] += getattr(queue, state)
        books = [self.books(schedule.name) for schedule in finish(self.store.schedules(limit=100_000))]
        return Final(tuple(self.jobs()), totals, tuple(books), self.clock.now())

    # --- time ---------------------------------------------------------------------------------------------------

    def at(self, instant: datetime, action: Callable[[], None]) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (instant, self._pushed, action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.clock.now() + timedelta(seconds=seconds), action)

    def run(self, seconds: float) -> None:
        """Let this much time pass."""
        end = self.clock.now() + timedelta(seconds=seconds)
        while self._heap and self._heap[0][0] <= end:
            self._step()
        self.clock.advance_to(end)

    def run_until(self, done: Callable[[], bool], limit: float) -> bool:
        """Let time pass until something is so, looking twice a second; whether it came to be."""
        end = self.clock.now() + timedelta(seconds=limit)
        while not done():
            if self.clock.now() >= end:
                return False
            self.run(0.5)
        return True

    def drained(self) -> bool:
        unfinished = JobFilter(("scheduled", "queued", "running", "retrying"), limit=1)
        return not finish(self.store.jobs(unfinished))

    def _step(self) -> None:
        instant, _, action = heapq.heappop(self._heap)
        self.clock.advance_to(instant)
        self._steps = self._steps + 1 if instant == self._instant else 0
        self._instant = instant
        if self._steps > STEPS_PER_INSTANT:
            raise Livelock(f"{self._steps} steps at {instant}")
        action()

    # --- services -----------------------------------------------------------------------------------------------

    def _later_on(self, member: Member, delay: timedelta, action: Callable[[], None]) -> None:
        """An event inside a process: a crash takes it along, a pause puts it off."""

        def happen() -> None:
            if member.paused:
                member.missed.append(happen)
            elif member.alive:
                action()

        self.at(self.clock.now() + delay, happen)

    def _schedule(self, slot: Slot, due: datetime) -> None:
        slot.due = due
        self.at(due, lambda: self._call(slot, due))

    def _wake(self, slot: Slot) -> None:
        if not slot.ticking and not slot.failures and (slot.due is None or slot.due > self.clock.now()):
            self._schedule(slot, self.clock.now())

    def _call(self, slot: Slot, due: datetime) -> None:
        member = slot.member
        if member.alive and not member.paused and slot.due == due and slot.service.name not in member.frozen:
            slot.due, slot.ticking = None, True
            slot.service.signal.take()
            self._go_on(slot, slot.service.tick(self.clock.now()))

    def _go_on(self, slot: Slot, step: Coroutine[float, None, datetime]) -> None:
        """Run a step up to its end, or to where it waits for the wire."""
        try:
            delay = step.send(None)
        except StopIteration as stop:
            slot.failures = 0
            self._stepped(slot, self.clock.now() if slot.service.signal.take() else stop.value)
        except Crash:
            self.crash(slot.member.label.rpartition(".")[0])
        except Exception as error:
            slot.failures += 1
            self._tell_error(slot, error)
            self._stepped(slot, self.clock.now() + timedelta(seconds=pause_after(slot.failures)))
        else:
            self._later_on(slot.member, timedelta(seconds=delay), lambda: self._go_on(slot, step))

    def _stepped(self, slot: Slot, again_at: datetime) -> None:
        slot.ticking = False
        self._schedule(slot, max(again_at, self.clock.now()))

    def _tell_error(self, slot: Slot, error: Exception) -> None:
        self.history.add(
            slot.member.label, "tick.error",
            service=slot.service.name, error=f"{type(error).__name__}: {error}", expected=isinstance(error, StoreError),
        )  # fmt: skip
