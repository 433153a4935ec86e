"""A cluster in one thread: real nodes on one database in memory, driven through virtual time.

Each node is a real `WorkerNode` with its real services; only its executor is scripted, and its store is reached over
a wire that takes time and can break. Nothing here waits, so a run depends on its seed and on nothing else: the same
seed gives the same history, byte for byte.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from oncue import identity
from oncue.clock import Clock, DatabaseClock, VirtualClock
from oncue.engine.node import Pace, WorkerNode
from oncue.engine.pending_starts import PendingStarts
from oncue.engine.service import Service
from oncue.engine.timekeeper import Timekeeper
from oncue.errors import OncueError
from oncue.model import DEFAULT_QUEUE, Attempt, Batch, Job, JobFilter, LeaderEpoch, Node, Schedule
from oncue.model import Slot as LedgerSlot
from oncue.policy.lifecycle import Ended, entry_state
from oncue.policy.options import Options
from oncue.policy.triggers import Rule
from oncue.sim import rows, script
from oncue.sim.checker import Final
from oncue.sim.client import CLIENT, SimulatedClient
from oncue.sim.clocks import HostClock, ServerClock
from oncue.sim.driver import Driver, finish
from oncue.sim.executor import ScriptedExecutor
from oncue.sim.handlers import HandlersExecutor, delivery_handlers
from oncue.sim.history import History, micros, start_event
from oncue.sim.locks import Locking, Locks
from oncue.sim.loop import Later, StoreInLoop, VirtualLoop
from oncue.sim.member import CREW, Crew, Member
from oncue.sim.network import Network, ScriptedTransport
from oncue.sim.operator import OPTIONS, TASK, Operator
from oncue.sim.quiet import Quiet
from oncue.sim.recorded import Recorded
from oncue.sim.script import Act, Script
from oncue.sim.timeline import Timeline
from oncue.sim.watched import WatchedStore
from oncue.sim.wire import Hurried, LateDelivery, OperationLog, Wire
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

PACE = Pace(poll=0.5, lease=3.0, beat=1.0, reconcile=0.75, buffer=100, settle_batch=2)
OPERATOR = "operator"
WORLD = "world"
RESTART = 2.0
NOTICED = 2.0
"""Seconds until everybody has noticed what an operator did."""
AT_ONCE = 0.1
LATE = timedelta(seconds=3)
"""How long a slot may wait for its decision when nothing disturbs the cluster."""
LATEST_HINT = 5.0
LARGEST_SKEW = 86_400.0
LARGEST_DRIFT = 100.0
"""Of a host's clocks: seconds, and millionths."""


class World:
    """`hints`: how likely a wake-up is to come at once; the others are late, or lost.

    `latency`: how long a trip to the database and back takes at most, in seconds each way; `prompt`: the share of trips
    that take no time to speak of. `own_clocks`: each host has
    its own clocks, none of them right, and the database's may be set. `elide`: quiet time costs nothing. `crew`: what
    the nodes work on. `network`: they send deliveries over it, by the handlers of production.
    """

    def __init__(
        self,
        seed: int,
        *,
        pace: Pace = PACE,
        concurrency: int = 4,
        script: Script = script.from_arguments,
        hints: float = 1.0,
        latency: float = 0.0,
        prompt: float = 0.5,
        one_host: bool = False,
        own_clocks: bool = False,
        elide: bool = False,
        start: datetime | None = None,
        crew: Crew = CREW,
        network: Network | None = None,
    ) -> None:
        self.dice = Random(seed)
        self.clock = VirtualClock() if start is None else VirtualClock(start)
        self.server = ServerClock(self.clock)
        self.timeline = Timeline(self.clock)
        self.history = History(self.server)
        self.pace = pace
        self.hints = hints
        self.latency = latency
        self.prompt = prompt
        self.one_host = one_host
        """Whether a process can see by itself that another one is gone."""
        self.own_clocks = own_clocks
        self.troubled_until = self.clock.now()
        """When the last fault that is known of will be over, in true time."""
        self.locks = Locks()
        self.members: dict[str, Member] = {}
        self._labels: dict[UUID, str] = {}
        self._gone: set[UUID] = set()
        self.store = WatchedStore(":memory:", wall=self.server.now)
        finish(self.store.open())
        self.driver = Driver(self.clock, self.timeline, self.history, self._crashed)
        self.client = SimulatedClient(
            self._wire(CLIENT, latency), self.clock, self.timeline, self.driver, self.history, self.hint
        )
        self.operator = Operator(self._wire(OPERATOR, 0.0).as_store(), self.server.now)
        self._colleagues_line = self._wire(OPERATOR, latency)
        self.colleague = Operator(self._colleagues_line.as_store(), self.server.now)
        """Another one, whose calls take as long as everybody's, and fail: what he does goes through `errand`."""
        self._concurrency = concurrency
        self.crew = crew
        self.crews: dict[str, Crew] = {}
        """What the processes of some names work on, if that is something else."""
        self.network = network
        self._script = script
        self._quiet = Quiet(self) if elide else None
        self._lives: dict[str, int] = {}
        self._loops: list[VirtualLoop] = []

    def _recorded(self, label: str) -> Store:
        return Recorded(self.store, self.history, label, self._labels, self._gone).as_store()

    def _wire(self, label: str, latency: float) -> Wire:
        time = self.server.now if self.own_clocks else None
        operations = OperationLog(self.history, label)
        late = LateDelivery(self.clock.now, self._deliver, self.pace.lease)
        store = Locking(self._recorded(label), self.locks).as_store()
        return Wire(store, self.dice, latency, operations, time, self.prompt, late, self.hint)

    def _deliver(self, at: datetime, call: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """A call arrives at the database, after its caller has given up waiting for the answer."""

        def arrive() -> None:
            with contextlib.suppress(OncueError):
                finish(call())
            self.disturbed()

        self.at(at, arrive)

    def close(self) -> None:
        for loop in self._loops:
            loop.close()
        finish(self.store.close())

    # --- members ------------------------------------------------------------------------------------------------

    def boot(self, name: str, *, exclusive: bool = False, known_as: str | None = None) -> Member:
        """Start a process. Under a name that was used before, it is a fresh one all the same."""
        self._lives[name] = self._lives.get(name, 0) + 1
        label = f"{name}.{self._lives[name]}"
        wire, clock, telemetry = self._wire(label, self.latency), self._new_clock(), Telemetry()
        telemetry.subscribe(
            lambda _, __, told: self.history.add(label, "start", **start_event(told["claim"])), "job.start"
        )

        def executor(ended: Callable[[Ended], None], starts: PendingStarts) -> ScriptedExecutor | HandlersExecutor:
            if self.network is not None:
                return delivering(ended, starts, self.network)
            return ScriptedExecutor(
                clock, self.history, label, telemetry, self._concurrency, self._script,
                lambda delay, action: self.driver.later_on(member, delay, action), lambda: self._die(name), ended,
                in_processes=self.crew.in_processes, processes=self.crew.processes,
                may_start=lambda: worker.may_start(), starts=starts, leads=leads,
            )  # fmt: skip

        def delivering(ended: Callable[[Ended], None], starts: PendingStarts, network: Network) -> HandlersExecutor:
            """Its handlers reach the database over the same wire, and the endpoints over the network."""
            later: Later = lambda delay, action: self.driver.later_on(member, delay, action)  # noqa: E731
            crashed = lambda: self._crashed(member)  # noqa: E731
            in_loop = StoreInLoop(wire.as_store(), crashed).as_store()
            transport = ScriptedTransport(network, label, self.history, self.clock.now, self.at, later, crashed)
            handlers = delivery_handlers(in_loop, clock, transport, telemetry, network)
            self._loops.append(loop := VirtualLoop(later, clock.monotonic))  # type: ignore[abstract]
            return HandlersExecutor(
                loop, handlers, clock, self.history, label, telemetry,
                self._concurrency, ended, may_start=lambda: worker.may_start(), starts=starts,
            )  # fmt: skip

        def leads() -> LeaderEpoch | None:
            epoch = worker.leadership.epoch
            return None if epoch is None else LeaderEpoch(worker.node.id, epoch)

        def lapsed(why: str) -> None:
            self.driver.later_on(member, self._delay(), lambda: worker.abandon(why))

        store, beats = wire.as_store(), Hurried(wire, self.pace.patience).as_store()
        node = self._node(known_as or name, exclusive, self.crews.get(name, self.crew))
        self._labels[node.id] = label
        worker = WorkerNode(
            store, beats, node, clock, self.dice, telemetry, self.pace, executor,
            lapsed=lapsed, is_gone=lambda other: self.one_host and other.id in self._gone,
            in_processes=self.crew.in_processes,
        )  # fmt: skip
        keepers: list[Service] = [Timekeeper(beats, clock)] if isinstance(clock, DatabaseClock) else []
        member = self.members[name] = Member(label, wire, self._recorded(label), worker, clock, telemetry, keepers)
        told = {"name": node.name, "queues": node.queues, "tasks": node.tasks}
        self.history.add(label, "boot", concurrency=self._concurrency, **told)
        self.driver.take_on(member)
        self.disturbed()
        return member

    def _delay(self) -> timedelta:
        """How long it takes until the loop of a process hears what its heartbeat thread has found out."""
        return timedelta(seconds=round(self.dice.uniform(0, self.latency), 6) if self.latency else 0.0)

    def _new_clock(self) -> Clock:
        """The clock of a process. Before it does anything it has learned the database's time once."""
        if not self.own_clocks:
            return self.clock
        dice = self.dice
        host = HostClock(
            self.clock, dice.uniform(-LARGEST_SKEW, LARGEST_SKEW), dice.uniform(-LARGEST_DRIFT, LARGEST_DRIFT)
        )
        clock = host.in_a_process()
        clock.learn(self.server.now(), clock.sent())
        return clock

    def _node(self, name: str, exclusive: bool, crew: Crew | None = None) -> Node:
        now, crew = self.server.now(), crew or self.crew
        return Node(
            id=identity.new_node_id(self.dice), name=name, host="host", pid=1, boot_id="", version="0",
            queues=crew.queues, tasks=crew.tasks, concurrency=self._concurrency, address=None,
            started_at=now, beat_at=now, expires_at=now, exclusive=exclusive,
        )  # fmt: skip

    def crash(self, name: str) -> None:
        """The process is gone at once, with everything that it knew."""
        member = self.members[name]
        if member.alive:
            member.alive = False
            self._gone.add(member.worker.node.id)
            self.history.add(member.label, "crash")
            self.disturbed()

    def _crashed(self, member: Member) -> None:
        """The process crashed between two calls, as a fault had planned."""
        self.fault("crash", member.name, member.restarts_after)
        self.crash(member.name)
        if member.restarts_after is not None:
            self.after(member.restarts_after, lambda: self.revive(member.name))

    def _die(self, name: str) -> None:
        """A job took its process down. Such a process is started again, as a supervisor would."""
        self.crash(name)
        self.fault("crash", name, RESTART)
        self.after(RESTART, lambda: self.revive(name))

    def revive(self, name: str) -> None:
        if not (before := self.members[name]).alive:
            self.boot(name, exclusive=before.worker.node.exclusive, known_as=before.worker.node.name)

    def stop(self, name: str, within: float = 1.0) -> None:
        """The process is told to stop. It has this long to give back what it holds; then it ends its leases."""
        member = self.members[name]
        if not member.alive or member.paused:
            return
        member.freeze_all_but("membership", "exclusivity", "timekeeper", "executor", "settler", "second_settler")
        member.worker.executor.release_waiting("shutdown")
        member.worker.executor.release_running("shutdown")
        self.driver.later_on(member, timedelta(seconds=within), lambda: self._leave(member))

    def _leave(self, member: Member) -> None:
        member.freeze_all_but()  # its heartbeat stops before it leaves: it must not beat once more

        def gone(_: object) -> None:
            member.alive = False
            self._gone.add(member.worker.node.id)
            self.hint()

        self.driver.go_on(self._end_leases(member), gone, lambda _: self.crash(member.name), member)

    async def _end_leases(self, member: Member) -> None:
        await member.worker.leadership.resign()
        await member.worker.end_leases()

    def pause(self, name: str) -> None:
        """The process stops as it stands: it becomes a zombie if its lease ends meanwhile."""
        self.members[name].paused = True
        self.disturbed()

    def resume(self, name: str) -> None:
        """The process goes on as if no time had passed, in whatever order its threads happen to wake."""
        member = self.members[name]
        if not member.alive or not member.paused:
            return
        member.paused = False
        self.disturbed()
        rested = [timed for timed in member.timed if not timed.ticking]
        steps = [*member.missed, *(lambda timed=timed: self.driver.plan(timed, self.clock.now()) for timed in rested)]
        member.missed = []
        self.dice.shuffle(steps)
        for step in steps:
            self.at(self.clock.now(), step)

    def set_clock(self, seconds: float) -> None:
        """An administrator sets the database's clock, forward or back. No process is told."""
        self.server.step(seconds)
        self.disturbed()

    def fault(self, what: str, node: str | None, seconds: float | None) -> None:
        """Tell the history that something is wrong from here on, for so long; `node` is None if it is about no node."""
        until = None if seconds is None else micros(self.server.now() + timedelta(seconds=seconds))
        self.troubled_until = max(self.troubled_until, self.clock.now() + timedelta(seconds=seconds or 0.0))
        label = node if node in (None, OPERATOR) else self.members[node].label
        self.history.add(WORLD, "fault", what=what, node=label, until=until)
        self.disturbed()

    def line(self, node: str | None) -> Wire:
        """The line of one node, of the operator, or (None) of the client."""
        if node is None:
            return self.client.wire
        return self._colleagues_line if node == OPERATOR else self.members[node].wire

    def disturbed(self, noticed: float = AT_ONCE) -> None:
        """Something was done from outside: there is no quiet time before everybody has noticed."""
        if self._quiet is not None:
            self._quiet.disturb(noticed)

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
        queue: str = DEFAULT_QUEUE,
        keys: list[str] | None = None,
        group: str | None = None,
        address: str | None = None,
    ) -> Batch:
        now = self.server.now()
        visible_at = now + timedelta(seconds=delay)
        return Batch(
            task=task, queue=queue, priority=priority, state=entry_state(visible_at, now),
            options=options.stored(), max_retries=max_retries, max_runtime=options.max_runtime, created_at=now,
            visible_at=visible_at, deadline_at=None if deadline is None else now + timedelta(seconds=deadline),
            enqueued_by="sim", retry_of=None, ids=finish(self.operator.store.jobs.reserve(len(jobs))),
            args=[script.written(acts) for acts in jobs], keys=keys, group=group, address=address,
        )  # fmt: skip

    def enqueue(self, *acts: Act, **options: Any) -> int:
        """Write one job over a wire that does not break; its id."""
        (receipt,) = finish(self.operator.store.jobs.enqueue([self.batch([acts], **options)]))
        self.hint()
        return receipt.id

    def submit(self, batch: Batch) -> None:
        """Write jobs as an application does, over a wire that may break."""
        self.client.submit(batch)

    def errand(self, deed: Coroutine[Any, Any, Any]) -> None:
        """Let a client or an operator make calls that take time. What oncue refuses is left at that."""

        def failed(error: Exception) -> None:
            if not isinstance(error, OncueError):
                raise error

        def done(_: object) -> None:
            self.disturbed(NOTICED)
            self.hint()

        self.driver.go_on(deed, done, failed)

    def hint(self) -> None:
        """Wake-ups are hints: each may be late, or lost."""
        for member in self.members.values():
            if self.hints >= 1 or self.dice.random() < self.hints:
                member.worker.wake()
            elif self.dice.random() < 0.5:
                delay = timedelta(seconds=round(self.dice.uniform(0, LATEST_HINT), 6))
                self.driver.later_on(member, delay, member.worker.wake)

    def limit(self, globally: int) -> None:
        """From here on at most so many jobs run at once, on all nodes together."""
        finish(self.operator.queues.limit("default", globally=globally))
        self.history.add(WORLD, "limit", queue="default", globally=globally)
        self.disturbed(NOTICED)

    def job(self, job_id: int) -> Job:
        return finish(self.operator.jobs.get(job_id))

    def attempts(self, job_id: int) -> list[Attempt]:
        """The ended attempts before the latest."""
        return finish(self.store.jobs.attempts(job_id))

    def jobs(self) -> list[Job]:
        return rows.jobs(self.store)

    # --- schedules ----------------------------------------------------------------------------------------------

    def schedule(
        self,
        name: str,
        rule: Rule | str,
        *acts: Act,
        options: Options = OPTIONS,
        max_retries: int = 3,
        **terms: Any,
    ) -> Schedule:
        """Make a schedule, as an operator does. Each of its jobs follows the same script."""
        arguments = {"acts": [script.described(act) for act in acts or (Act(),)]}
        task = self.operator.task(options, max_retries)
        made = finish(self.operator.schedules.create(name, rule, task, arguments, **terms))
        self.disturbed(NOTICED)
        self.hint()
        return made

    def slots(self, name: str) -> list[LedgerSlot]:
        """The whole ledger of a schedule."""
        return rows.books(self.store, name, self.server.now()).slots

    def calm(self) -> None:
        """Tell the history who leads and what waits: long after the last fault, one and nothing."""
        leaders = [member.label for member in self.members.values() if member.leads]
        self.history.add(WORLD, "calm", leaders=leaders, waiting=rows.waiting(self.store, self.server.now() - LATE))

    def final(self) -> Final:
        return rows.final(self.store, self.server.now())

    # --- time ---------------------------------------------------------------------------------------------------

    def at(self, instant: datetime, action: Callable[[], None]) -> None:
        self.timeline.at(instant, action)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.clock.now() + timedelta(seconds=seconds), action)

    def run(self, seconds: float) -> None:
        """Let this much time pass."""
        end = self.clock.now() + timedelta(seconds=seconds)
        while True:
            if self._quiet is not None:
                self._quiet.pass_by(end)
            if not self.timeline.go_on(end):
                break
        self.clock.advance_to(end)

    def run_until(self, done: Callable[[], bool], limit: float, look: float = 0.5) -> bool:
        """Let time pass until something is so, looking every now and then; whether it came to be."""
        end = self.clock.now() + timedelta(seconds=limit)
        while not done():
            if self.clock.now() >= end:
                return False
            self.run(look)
        return True

    def drained(self) -> bool:
        unfinished = JobFilter(("scheduled", "queued", "running", "retrying"), limit=1)
        return not finish(self.store.jobs.find(unfinished))
