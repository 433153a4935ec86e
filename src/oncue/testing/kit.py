"""`use(app)` and what it gives a test: the jobs that were enqueued, a clock, and a way to run what is due."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import UUID

from oncue.application.portal import at_once
from oncue.application.webhooks import DeclaredWebhook
from oncue.clock import wall
from oncue.errors import ScheduleNotFound
from oncue.model import Job, JobFilter, Receipt, State
from oncue.policy.durations import Duration, seconds
from oncue.task import Call, Task
from oncue.testing.clock import Clock
from oncue.testing.matching import Expected, called, listing
from oncue.testing.node import Check, KitNode
from oncue.testing.stage import Stage
from oncue.testing.webhooks import KitWebhooks
from oncue.verbs.schedules.declaring import Declaring

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.engine.node import WorkerNode

P = ParamSpec("P")
T = TypeVar("T")

ENDLESS = 10_000
PAGE = 1000
FEW = 20


@contextmanager
def use(app: Oncue, *, now: datetime | None = None, loop: asyncio.AbstractEventLoop | None = None) -> Iterator[Kit]:
    """Put an application on a store in memory for the length of a `with` block. `now` is where its clock begins.

    `loop`: where a plain test runs its handlers, if it has a loop. By default the kit has one of its own.
    """
    stage = Stage(Clock(wall() if now is None else _checked_now(now)))
    at_once(stage.store.open())
    kit = Kit(app, stage, loop)
    app.internals.working.append(kit.worker)
    try:
        with app.internals.connecting_through(stage), app.internals.delivering_through(kit.webhooks):
            yield kit
    finally:
        app.internals.working.remove(kit.worker)
        kit.end()
        at_once(stage.store.close())


def _checked_now(now: datetime) -> datetime:
    if not isinstance(now, datetime) or now.tzinfo is None:
        raise ValueError(f"now: expected a datetime with a time zone, not {now!r}")
    return now


class Kit:
    """A test's view of an application's jobs. Code under test enqueues as it always does."""

    def __init__(self, app: Oncue, stage: Stage, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.app = app
        self.clock = stage.clock
        self.webhooks = KitWebhooks(stage)
        """What was sent to webhooks, and what they answer."""
        self._store = stage.store
        self._transactions = stage.transactions
        self._lifespans = app.internals.lifespans
        self._performed: set[int] = set()
        self._loop = loop
        self._own: asyncio.Runner | None = None
        self._node = KitNode(app, stage)
        at_once(self._node.start())
        if app.internals.scheduled or app.internals.webhooks:
            at_once(Declaring(app.internals).synchronise(stage.connection, dials=False))

    @property
    def worker(self) -> WorkerNode:
        """The node that runs the jobs of the test."""
        return self._node.worker

    # --- looking ------------------------------------------------------------------------------------------------

    def jobs(self, task: Task[Any, Any] | DeclaredWebhook | None = None, *, state: State | None = None) -> list[Job]:
        """The jobs that were enqueued, oldest first, whatever became of them; of one task, or one webhook."""
        at_once(self._transactions.look(plain=True))
        named, group = None if task is None else task.name, None
        if isinstance(task, DeclaredWebhook):
            named, group = task.task.name, task.name
        wanted = JobFilter(() if state is None else (state,), task=named, group=group, limit=PAGE)
        found: list[Job] = []
        while page := at_once(self._store.jobs.find(replace(wanted, before=found[-1].id if found else None))):
            found += page
        return found[::-1]

    def job(self, ref: int | UUID | Receipt | Job) -> Job:
        """One job as it is now. Raises JobNotFound."""
        at_once(self._transactions.look(plain=True))
        return at_once(self.app.jobs.get(ref.id if isinstance(ref, Receipt | Job) else ref))

    def assert_enqueued(self, what: Task[Any, Any] | Call[Any] | DeclaredWebhook, *args: Any, **kwargs: Any) -> Job:
        """The first job of this task with these arguments; arguments that are left out may be anything.

        Of a webhook, the first delivery, with this payload if one is given: `assert_enqueued(orders, {"order": 7})`.
        Options are named as they are for enqueueing: `assert_enqueued(send.using(priority=60, delay="10m"), 42)`.
        """
        __tracebackhide__ = True
        expected, jobs = Expected(what, args, kwargs), self._enqueued()
        for job in jobs:
            if expected.matches(job):
                return job
        raise AssertionError(f"no job {expected} was enqueued; {listing(jobs, expected.task.name)}")

    def refute_enqueued(self, what: Task[Any, Any] | Call[Any] | DeclaredWebhook, *args: Any, **kwargs: Any) -> None:
        """No job of this task with these arguments and options was enqueued."""
        __tracebackhide__ = True
        expected = Expected(what, args, kwargs)
        matching = [job for job in self._enqueued() if expected.matches(job)]
        if matching:
            raise AssertionError(f"no job {expected} was expected; {listing(matching, expected.task.name)}")

    def _enqueued(self) -> list[Job]:
        return [job for job in self.jobs() if job.id not in self._performed]

    # --- running ------------------------------------------------------------------------------------------------

    def drain(self, *, queue: str | None = None, limit: int = ENDLESS, strict: bool = False) -> Counter[State]:
        """Run everything that is due, and what that enqueues, until nothing is due. In async code use `adrain`.

        Returns how many of the jobs that ran are now in which state. A retry that is due later stays where it is:
        move the clock and drain again. `strict`: the first error of a handler is raised here, once its job is settled.
        """
        return self._run(self.adrain(queue=queue, limit=limit, strict=strict), "adrain")

    async def adrain(self, *, queue: str | None = None, limit: int = ENDLESS, strict: bool = False) -> Counter[State]:
        await self._transactions.look(plain=False)
        begun = len(self._node.ran)
        async with self._lifespans.opened():
            await self._node.drain(queue, self._checks(begun, limit, strict))
        return await self._states(begun)

    def elapse(
        self,
        duration: Duration,
        *,
        schedule: str | Task[Any, Any] | None = None,
        limit: int = ENDLESS,
        strict: bool = False,
    ) -> Counter[State]:
        """Let time pass as it does in production: schedules fire at their slots, and jobs run when they are due.

        Returns how many of the jobs that ran are now in which state. In async code use `aelapse`. `schedule`: only this
        one fires; the others are disabled meanwhile. `limit`: how many attempts there may be at one instant. `strict`:
        the first error of a handler is raised here, once its job is settled.
        """
        return self._run(self.aelapse(duration, schedule=schedule, limit=limit, strict=strict), "aelapse")

    async def aelapse(
        self,
        duration: Duration,
        *,
        schedule: str | Task[Any, Any] | None = None,
        limit: int = ENDLESS,
        strict: bool = False,
    ) -> Counter[State]:
        end = self.clock.now() + timedelta(seconds=seconds(duration, "duration"))
        await self._transactions.look(plain=False)
        begun = len(self._node.ran)
        async with self._lifespans.opened(), self._alone(schedule):
            await self._node.catch_up(self._checks(begun, limit, strict))
            while await self._node.go_on(end, self._checks(len(self._node.ran), limit, strict)):
                pass
        self.clock.advance_to(max(end, self.clock.now()))
        return await self._states(begun)

    @asynccontextmanager
    async def _alone(self, schedule: str | Task[Any, Any] | None) -> AsyncIterator[None]:
        """Only this schedule fires inside the block, unless it is None."""
        others: list[str] = []
        if schedule is not None:
            name = schedule.name if isinstance(schedule, Task) else schedule
            await self.app.schedules.get(name)
            after = ""
            while page := await self._store.schedules.page(after):
                others += [found.name for found in page if found.enabled and found.name != name]
                after = page[-1].name
        for other in others:
            await self.app.schedules.toggle(other, False)
        try:
            yield
        finally:
            for other in others:
                with suppress(ScheduleNotFound):  # somebody has deleted it
                    await self.app.schedules.toggle(other, True)

    def _checks(self, begun: int, limit: int, strict: bool) -> Check:
        """What is looked at after every attempt since `begun`."""
        self._node.take_errors()

        def check() -> None:
            errors = self._node.take_errors()
            if strict and errors:
                raise errors[0]
            if len(self._node.ran) - begun > limit:
                raise AssertionError(self._endless(limit))

        return check

    async def _states(self, begun: int) -> Counter[State]:
        ran = set(self._node.ran[begun:])
        if len(ran) <= FEW:
            return Counter([(await self.app.jobs.get(job_id)).state for job_id in sorted(ran)])
        states: Counter[State] = Counter()
        before, first = max(ran) + 1, min(ran)
        while before > first and (page := await self._store.jobs.find(JobFilter(before=before, limit=PAGE))):
            states.update(job.state for job in page if job.id in ran)
            before = page[-1].id
        return states

    def perform(self, what: Task[P, Any] | Call[P], *args: P.args, **kwargs: P.kwargs) -> Job:
        """Enqueue one job, run it at once, before all others, and return what became of it.

        Its arguments and its result go through JSON as they do in production. In async code use `aperform`.
        """
        return self._run(self.aperform(what, *args, **kwargs), "aperform")

    async def aperform(self, what: Task[P, Any] | Call[P], *args: P.args, **kwargs: P.kwargs) -> Job:
        if isinstance(what, DeclaredWebhook):
            raise TypeError(f"perform: expected a task, not {what!r}: `deliver` to it, then `drain`")
        if (what.task if isinstance(what, Call) else what).address is not None:
            raise TypeError("perform: expected a task that one node runs: `enqueue` a cluster task, then `drain`")
        await self._transactions.look(plain=False)
        call = what if isinstance(what, Call) else Call(what)
        (receipt,) = await self.app.internals.enqueueing.write(call, [(args, kwargs)], outside_slots=True)
        if receipt.created:
            self._performed.add(receipt.id)
        before = await self.app.jobs.get(receipt.id)
        async with self._lifespans.opened():
            await self._node.run_this(before)
        after = await self.app.jobs.get(receipt.id)
        if after.claim_no == before.claim_no:
            why = "its queue is paused" if after.state == "queued" else f"it is {after.state}"
            raise AssertionError(f"job {called(after.task, after.args)} cannot run now: {why}")
        return after

    def _endless(self, limit: int) -> str:
        last = [at_once(self.app.jobs.get(job_id)).task for job_id in self._node.ran[-20:]]
        names = ", ".join(f"{name} ({count} times)" for name, count in Counter(last).most_common())
        return (
            f"{limit} attempts and still something is due: do jobs enqueue each other without end? "
            f"The last {len(last)} were {names}. If that is meant, give a higher limit="
        )

    def _run(self, work: Coroutine[Any, Any, T], name: str) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            work.close()
            raise RuntimeError(f"an event loop is running: use `await {name}(…)`")
        if self._loop is not None:
            return self._loop.run_until_complete(work)
        if self._own is None:
            # A loop of the kit's own, which is nobody's "current" one outside.
            self._own = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        return self._own.run(work)

    def end(self) -> None:
        """Stop whatever handlers left running on the kit's own loop."""
        if self._own is not None:
            self._own.close()
