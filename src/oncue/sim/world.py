"""A cluster in one thread: real nodes on one database in memory, driven through virtual time.

Each node is a real `WorkerNode` with its real services; only its executor is scripted, and its store is reached over
a wire that takes time and can break. The driver does what the runner does in a process: it calls each service when its
instant or its signal comes, and again after a growing pause when a step fails. While a step's call is on its way,
other steps go on. Nothing here waits, so a run depends on its seed and on nothing else: the same seed gives the same
history, byte for byte.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from oncue import identity
from oncue.clock import Clock, DatabaseClock, VirtualClock
from oncue.engine.node import Pace, WorkerNode
from oncue.engine.runner import pause_after
from oncue.engine.service import Service
from oncue.engine.timekeeper import Timekeeper
from oncue.errors import Conflict, OncueError, StoreUnavailable
from oncue.model import TERMINAL, Attempt, Batch, Job, JobFilter, Node, Receipt, Schedule
from oncue.model import Slot as LedgerSlot
from oncue.policy.lifecycle import Ended, entry_state
from oncue.policy.options import Options
from oncue.policy.triggers import Rule
from oncue.sim import script
from oncue.sim.checker import Books, Final
from oncue.sim.clocks import HostClock, ServerClock
from oncue.sim.executor import ScriptedExecutor
from oncue.sim.history import History, Operation, micros, ok_fields, start_event
from oncue.sim.member import CREW, Crew, Member, Slot
from oncue.sim.operator import OPTIONS, TASK, Operator
from oncue.sim.quiet import Quiet, WatchedStore
from oncue.sim.script import Act, Script
from oncue.sim.timeline import Forget, Timeline
from oncue.sim.wire import Crash, Journal, Recorded, Wire
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

T = TypeVar("T")

PACE = Pace(poll=0.5, lease=3.0, beat=1.0, reconcile=0.75, buffer=100)
CLIENT = "client"
OPERATOR = "operator"
WORLD = "world"
PATIENCE = timedelta(seconds=5)
ASK_AGAIN = timedelta(seconds=0.2)
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
SOONEST = timedelta(microseconds=1)


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that has no reason to wait."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise RuntimeError(f"{coroutine} waits, which nothing may do under virtual time")


class World:
    """`hints`: how likely a wake-up is to come at once; the others are late, or lost.

    `latency`: how long a trip to the database and back takes at most, in seconds each way; `prompt`: the share of trips
    that take no time to speak of. `own_clocks`: each host has
    its own clocks, none of them right, and the database's may be set. `elide`: quiet time costs nothing. `crew`: what
    the nodes work on.
    """

    finish = staticmethod(finish)

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
        self.members: dict[str, Member] = {}
        self._labels: dict[UUID, str] = {}
        self._gone: set[UUID] = set()
        self.store = WatchedStore(":memory:", inline=True, wall=self.server.now)
        finish(self.store.open())
        self.client = self._wire(CLIENT, latency)
        self.operator = Operator(self._wire(OPERATOR, 0.0).as_store(), self.server.now)
        self.colleague = Operator(self._wire(OPERATOR, latency).as_store(), self.server.now)
        """Another one, whose calls take as long as everybody's: what he does goes through `errand`."""
        self._concurrency = concurrency
        self.crew = crew
        self._script = script
        self._quiet = Quiet(self) if elide else None
        self._lives: dict[str, int] = {}

    def _recorded(self, label: str) -> Store:
        return Recorded(self.store, self.history, label, self._labels).as_store()

    def _wire(self, label: str, latency: float) -> Wire:
        time = self.server.now if self.own_clocks else None
        return Wire(self._recorded(label), self.dice, latency, Journal(self.history, label), time, self.prompt)

    def close(self) -> None:
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

        def executor(ended: Callable[[Ended], None]) -> ScriptedExecutor:
            return ScriptedExecutor(
                clock, self.history, label, telemetry, self._concurrency, self._script,
                lambda delay, action: self._later_on(member, delay, action), lambda: self._die(name), ended,
                in_processes=self.crew.in_processes, processes=self.crew.processes,
                may_start=lambda: worker.may_start(),
            )  # fmt: skip

        def lapsed(why: str) -> None:
            self._later_on(member, self._delay(), lambda: worker.abandon(why))

        store = wire.as_store()
        node = self._node(known_as or name, exclusive)
        self._labels[node.id] = label
        worker = WorkerNode(
            store, store, node, clock, self.dice, telemetry, self.pace, executor,
            lapsed=lapsed, is_gone=lambda other: self.one_host and other.id in self._gone,
            in_processes=self.crew.in_processes,
        )  # fmt: skip
        keepers: list[Service] = [Timekeeper(store, clock)] if isinstance(clock, DatabaseClock) else []
        member = self.members[name] = Member(label, wire, self._recorded(label), worker, clock, telemetry, keepers)
        self.history.add(label, "boot", concurrency=self._concurrency)
        for slot in member.slots:
            slot.service.signal.listen(lambda slot=slot: self._wake(slot))  # type: ignore[misc]
            self.plan(slot, self.clock.now())
        self.disturbed()
        return member

    def _delay(self) -> timedelta:
        """How long it takes until the loop of a process hears what its heart has found out."""
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

    def _node(self, name: str, exclusive: bool) -> Node:
        now = self.server.now()
        return Node(
            id=identity.new_node_id(self.dice), name=name, host="host", pid=1, boot_id="", version="0",
            queues=self.crew.queues, tasks=self.crew.tasks, concurrency=self._concurrency, address=None,
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
        member.freeze_all_but("membership", "exclusivity", "timekeeper", "executor", "settler")
        member.executor.release_waiting("shutdown")
        member.executor.release_running("shutdown")
        self._later_on(member, timedelta(seconds=within), lambda: self._leave(member))

    def _leave(self, member: Member) -> None:
        member.freeze_all_but()  # its heart stops before it says farewell: it must not beat once more

        def gone(_: object) -> None:
            if member.alive:
                member.alive = False
                self.history.add(member.label, "lease.end", by=member.label)
                self.hint()

        self._go_on(self._farewell(member), gone, gone, member)

    async def _farewell(self, member: Member) -> None:
        await member.worker.leadership.resign()
        await member.worker.farewell()

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
        rested = [slot for slot in member.slots if not slot.ticking]
        steps = [*member.missed, *(lambda slot=slot: self.plan(slot, self.clock.now()) for slot in rested)]
        member.missed = []
        self.dice.shuffle(steps)
        for step in steps:
            self.at(self.clock.now(), step)

    def set_clock(self, seconds: float) -> None:
        """Somebody sets the database's clock, forward or back. Nobody is told."""
        self.server.step(seconds)
        self.disturbed()

    def fault(self, what: str, node: str | None, seconds: float | None) -> None:
        """Tell the history that something is wrong from here on, for so long; with nobody in particular: None."""
        until = None if seconds is None else micros(self.server.now() + timedelta(seconds=seconds))
        self.troubled_until = max(self.troubled_until, self.clock.now() + timedelta(seconds=seconds or 0.0))
        label = None if node is None else self.members[node].label
        self.history.add(WORLD, "fault", what=what, node=label, until=until)
        self.disturbed()

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
        keys: list[str] | None = None,
    ) -> Batch:
        now = self.server.now()
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
        operation = self.history.invoke(CLIENT, "enqueue", ids=batch.ids)
        self._ask(batch, operation, self.clock.now() + PATIENCE, in_doubt=False)

    def _ask(self, batch: Batch, operation: Operation, give_up: datetime, *, in_doubt: bool) -> None:
        def answered(receipts: list[Receipt]) -> None:
            self.history.answer(operation, "ok", **ok_fields(batch, receipts))
            self.hint()

        def failed(error: Exception) -> None:
            if not isinstance(error, StoreUnavailable):
                self.history.answer(operation, "fail", ids=batch.ids)
            elif self.clock.now() < give_up:
                self.at(self.clock.now() + ASK_AGAIN, lambda: self._ask(batch, operation, give_up, in_doubt=True))
            else:
                self.history.answer(operation, "unknown", ids=batch.ids)

        self.client.operation = operation
        self._go_on(self.client.as_store().enqueue([batch], in_doubt=in_doubt), answered, failed)

    def errand(self, deed: Coroutine[Any, Any, Any]) -> None:
        """Let somebody outside do something that takes its time. That it cannot be done is no news."""

        def failed(error: Exception) -> None:
            if not isinstance(error, OncueError):
                raise error

        def done(_: object) -> None:
            self.disturbed(NOTICED)
            self.hint()

        self._go_on(deed, done, failed)

    def hint(self) -> None:
        """Wake-ups are hints: each may be late, or lost."""
        for member in self.members.values():
            if self.hints >= 1 or self.dice.random() < self.hints:
                member.worker.wake()
            elif self.dice.random() < 0.5:
                delay = timedelta(seconds=round(self.dice.uniform(0, LATEST_HINT), 6))
                self._later_on(member, delay, member.worker.wake)

    def limit(self, globally: int) -> None:
        """From here on at most so many jobs run at once, on all nodes together."""
        finish(self.operator.limit("default", globally=globally))
        self.history.add(WORLD, "limit", queue="default", globally=globally)
        self.disturbed(NOTICED)

    def operate(self, job: Job) -> None:
        """An operator's hand: what is unfinished is cancelled, what is finished is revived."""
        with contextlib.suppress(Conflict):
            finish(self.operator.retry(job.id) if job.finished else self.operator.cancel(job.id))
            self.disturbed(NOTICED)
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
        rule: Rule | str,
        *acts: Act,
        options: Options = OPTIONS,
        max_retries: int = 3,
        **terms: Any,
    ) -> Schedule:
        """Make a schedule, as an operator does. Each of its jobs follows the same script."""
        arguments = {"acts": [asdict(act) for act in acts or (Act(),)]}
        task = self.operator.task(options, max_retries)
        made = finish(self.operator.create_schedule(name, rule, task, arguments, **terms))
        self.disturbed(NOTICED)
        self.hint()
        return made

    def slots(self, name: str) -> list[LedgerSlot]:
        """The whole ledger of a schedule."""
        return self.books(name).slots

    def books(self, name: str) -> Books:
        schedule = finish(self.store.schedule(name))
        assert schedule is not None
        start, end = schedule.created_at - timedelta(days=365), self.server.now() + timedelta(days=365)
        return Books(
            schedule,
            finish(self.store.revisions(schedule.id)),
            finish(self.store.slots(schedule.id, start, end, 1_000_000)),
            finish(self.store.doubled(schedule.id, start, end)),
        )

    def calm(self) -> None:
        """Tell the history who leads and what waits: long after the last fault, one and nothing."""
        now = self.server.now()
        waiting = [
            schedule.name
            for schedule in finish(self.store.schedules(limit=100_000))
            if schedule.next_run_at is not None and schedule.next_run_at < now - LATE
        ]
        leaders = [member.label for member in self.members.values() if member.leads]
        self.history.add(WORLD, "calm", leaders=leaders, waiting=waiting)

    def final(self) -> Final:
        totals: dict[str, int] = dict.fromkeys(TERMINAL, 0)
        for queue in finish(self.store.queues()):
            for state in TERMINAL:
                totals[state] += getattr(queue, state)
        books = [self.books(schedule.name) for schedule in finish(self.store.schedules(limit=100_000))]
        return Final(tuple(self.jobs()), totals, tuple(books), self.server.now())

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
        return not finish(self.store.jobs(unfinished))

    # --- services -----------------------------------------------------------------------------------------------

    def _later_on(self, member: Member, delay: timedelta, action: Callable[[], None]) -> Forget:
        """An event inside a process: a crash takes it along, a pause puts it off."""

        def happen() -> None:
            if member.paused:
                member.missed.append(happen)
            elif member.alive:
                action()

        return self.timeline.at(self.clock.now() + delay, happen)

    def plan(self, slot: Slot, at: datetime) -> None:
        """A service is due at this instant of true time, and not when it was due before."""
        slot.due = at - self.timeline.skipped
        slot.plan += 1
        plan = slot.plan
        self.timeline.step_at(at, lambda: self._call(slot, plan))

    def _wake(self, slot: Slot) -> None:
        now = self.clock.now()
        if not slot.ticking and not slot.failures and (slot.due is None or slot.due > now - self.timeline.skipped):
            self.plan(slot, now)

    def _call(self, slot: Slot, plan: int) -> None:
        member = slot.member
        if member.alive and not member.paused and slot.plan == plan and slot.service.name not in member.frozen:
            slot.due, slot.ticking = None, True
            member.restless += not slot.failures
            slot.service.signal.take()
            step = slot.service.tick(member.clock.now())
            self._go_on(
                step, lambda again_at: self._stepped(slot, again_at), lambda error: self._failed(slot, error), member
            )

    def _go_on(
        self,
        step: Coroutine[float, None, Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
        member: Member | None = None,
    ) -> None:
        """Run a step up to its end, or to where it waits for the wire."""
        try:
            delay = timedelta(seconds=step.send(None) or 0.0)
        except StopIteration as stop:
            done(stop.value)
        except Crash:
            assert member is not None
            self.fault("crash", member.name, None)
            self.crash(member.name)
        except Exception as error:
            failed(error)
        else:
            if member is None:
                self.at(self.clock.now() + delay, lambda: self._go_on(step, done, failed))
            else:
                self._later_on(member, delay, lambda: self._go_on(step, done, failed, member))

    def _stepped(self, slot: Slot, again_at: datetime) -> None:
        slot.failures, slot.ticking = 0, False
        slot.member.restless -= 1
        now, pause = self.clock.now(), again_at - slot.member.clock.now()
        if slot.service.signal.take() or pause <= timedelta(0):
            self.plan(slot, now)
        else:
            self.plan(slot, now + max(pause, SOONEST))

    def _failed(self, slot: Slot, error: Exception) -> None:
        slot.failures, slot.ticking = slot.failures + 1, False
        told = {"error": f"{type(error).__name__}: {error}", "expected": isinstance(error, StoreUnavailable)}
        self.history.add(slot.member.label, "tick.error", service=slot.service.name, **told)
        self.plan(slot, self.clock.now() + timedelta(seconds=pause_after(slot.failures)))
