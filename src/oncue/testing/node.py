"""The node of a test: the engine's own services, called one after the other while the test's clock stands still.

In production the runner calls each service when its instant comes. Here all of them are called until none has anything
left to do, and then asked when they next will: that is where the clock may go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from oncue.engine.claimer import PROMOTE_LIMIT
from oncue.engine.node import Pace, WorkerNode
from oncue.engine.pending_starts import PendingStarts
from oncue.engine.service import QuietService, Service
from oncue.model import Job, Node, Released
from oncue.policy.lifecycle import Ended
from oncue.store.contract import Store
from oncue.tasks.cluster import PART
from oncue.testing.executor import InlineExecutor
from oncue.testing.stage import Stage

if TYPE_CHECKING:
    from oncue.app import Oncue

NODE = UUID(int=1)
FOREVER = 400 * 365 * 86400.0
AT_ONCE = 1e-6
PACE = Pace(
    poll=AT_ONCE, lease=FOREVER, beat=FOREVER, reconcile=AT_ONCE, buffer=0,
    retention=FOREVER, ledger_retention=FOREVER, window_retention=FOREVER, maintenance=FOREVER,
)  # fmt: skip
"""No lease ends however far a test moves its clock, nothing is claimed ahead, and nothing waits for a poll."""

Check: TypeAlias = Callable[[], None]
"""Raises if the test should go no further."""


class KitNode:
    def __init__(self, app: Oncue, stage: Stage) -> None:
        self.ran: list[int] = []
        """The jobs that were attempted here, or refused, in this order."""
        self._app = app
        self._store = stage.store
        self._clock = stage.clock
        now = stage.clock.now()
        node = Node(NODE, "test", "test", 0, "", "", (), (), 1, None, now, beat_at=now, expires_at=now)
        # Fixed dice: the jitter of a retry is the same in every run of a test.
        self._worker = WorkerNode(
            stage.store, stage.store, node, stage.clock, Random(1), app.internals.telemetry, PACE, self._make_executor
        )
        self._claimer = EveryQueue(app, self._worker, self._executor, stage.store)
        self._hot_path: list[Service] = [
            self._worker.seating,
            self._claimer,
            self._worker.starts,
            self._worker.settler,
            self._worker.coordinator,
        ]
        self._all: list[Service] = [
            self._worker.expiry, self._worker.scheduler, self._worker.slot_writer, self._worker.planner,
            *self._hot_path, self._worker.backfilling,
        ]  # fmt: skip
        self._timed: list[QuietService] = [
            self._worker.expiry, self._worker.scheduler, self._worker.planner, self._worker.coordinator, self._claimer
        ]  # fmt: skip
        """The services that wait for an instant. The others have something to do at once, or never by themselves."""

    def _make_executor(self, ended: Callable[[Ended], None], starts: PendingStarts) -> InlineExecutor:
        def heard(what: Ended) -> None:
            if not isinstance(what.outcome, Released):
                self.ran.append(what.claim.id)
            ended(what)

        app = self._app
        self._executor = InlineExecutor(
            app.internals.handlers, self._clock, app.internals.telemetry, app.settings.limits, heard, starts
        )
        return self._executor

    async def start(self) -> None:
        await self._worker.membership.tick(self._clock.now())
        await self._worker.leadership.tick(self._clock.now())
        await self._worker.naming.tick(self._clock.now())

    @property
    def worker(self) -> WorkerNode:
        return self._worker

    def take_errors(self) -> list[BaseException]:
        """What handlers have raised since this was last asked."""
        errors, self._executor.errors = self._executor.errors, []
        return errors

    # --- at this instant ----------------------------------------------------------------------------------------

    async def drain(self, queue: str | None, check: Check) -> None:
        """Run everything that is due, and what that enqueues. `check` is called after every attempt."""
        self._claimer.queue = queue
        services = [*self._hot_path, self._worker.backfilling]
        await self._call(services, services, check)

    async def catch_up(self, check: Check) -> None:
        """Fire the slots that have come, and drain."""
        self._claimer.queue = None
        await self._call(self._all, self._all, check)

    async def run_this(self, job: Job) -> None:
        """Run this job before all others, if it may run at all."""
        self._claimer.only, self._executor.only = job, job.id
        try:
            await self._call(self._hot_path, self._hot_path, lambda: None)
        finally:
            self._claimer.only = self._executor.only = None
            self._executor.give_back()
            await self._worker.settler.tick(self._clock.now())

    # --- from one instant to the next ---------------------------------------------------------------------------

    async def go_on(self, end: datetime, check: Check) -> bool:
        """Move the clock to where a service has something to do, and let it; False if that is after `end`.

        A service that has something to do already was called, and could not do it: a queue is paused, say.
        """
        now = self._clock.now()
        due: list[QuietService] = []
        earliest = end
        for service in self._timed:
            at = await service.quiet_until(now, self._store)
            if at is None or not now < at <= earliest:
                continue
            due = [*due, service] if at == earliest else [service]
            earliest = at
        if not due:
            return False
        self._clock.advance_to(earliest)
        await self._call(self._all, due, check)
        return True

    async def _call(self, services: Sequence[Service], due: Sequence[Service], check: Check) -> None:
        """Call the services that are due, and whoever is woken by that, until none has anything left to do."""
        self._store.declare(NODE, queues_of_parts(self._app), list(self._app.internals.handlers))
        self._worker.seating.look_again()
        self._worker.claimer.look_again()
        again = {service.name for service in due}
        called = True
        while called:
            called, began = False, self._clock.now()
            for service in services:
                if service.signal.take() or service.name in again:
                    called = True
                    await self._step(service, again)
            called = called or await self._is_unlimited()
            if self._clock.now() > began:  # a handler moved the clock: what came due by that has not been looked at
                again.update(service.name for service in self._timed)
            check()

    async def _is_unlimited(self) -> bool:
        """Whether the limits have changed since they were read, so that some of what waits can be claimed after all."""
        if not self._claimer.left:
            return False
        self._worker.seating.look_again()
        self._worker.seating.raised.take()
        await self._worker.seating.tick(self._clock.now())
        return self._worker.seating.raised.take()

    async def _step(self, service: Service, again: set[str]) -> None:
        """Call a service, and let what it claims run to its end."""
        again.discard(service.name)
        if await service.tick(self._clock.now()) <= self._clock.now():
            again.add(service.name)
        if self._executor.busy:
            await self._executor.finish(self._meanwhile)
            if self._executor.has_last_words:
                await self._worker.reconciler.tick(self._clock.now())
            again.add(self._worker.backfilling.name)  # there may be room for the next one
            again.add(self._worker.coordinator.name)  # and a cluster job may follow

    async def _meanwhile(self) -> None:
        """A handler waits for something. Its time may be over, or somebody wants it to stop."""
        for service in (self._executor, self._worker.starts, self._worker.reconciler):
            await service.tick(self._clock.now())


def queues_of_parts(app: Oncue) -> list[str]:
    """The queues that the parts of cluster jobs are in: a test may declare tasks at any time."""
    return sorted({task.queue for task in app.internals.handlers.values() if task.name.endswith(PART)})


class EveryQueue:
    """The claimer of a node that serves every queue that has jobs, and every task of the application."""

    name = "claimer"

    def __init__(self, app: Oncue, worker: WorkerNode, executor: InlineExecutor, store: Store) -> None:
        self.signal = worker.claimer.signal
        self.queue: str | None = None
        """The only queue to serve, if there is one."""
        self.only: Job | None = None
        """The only job to run, if there is one."""
        self.left = False
        """Whether something waited when this was last called."""
        self._app = app
        self._worker = worker
        self._executor = executor
        self._store = store
        self._known: set[str] = set()
        self._served: tuple[list[str], list[str]] = [], []

    async def tick(self, now: datetime) -> datetime:
        later = now + timedelta(seconds=AT_ONCE)
        if self.only is not None:
            await self._serve([self.only.queue], [self.only.task], now)
            self._worker.claimer.look_at_groups()
            return later if self._executor.only is None else await self._worker.claimer.tick(now)
        outlook = await self._store.jobs.outlook()
        while outlook.due_at is not None and outlook.due_at <= now:
            await self._store.jobs.promote(now, PROMOTE_LIMIT)
            outlook = await self._store.jobs.outlook()
        waiting = outlook.waiting | outlook.set_apart
        self.left = bool(waiting)
        if not waiting:
            return later
        self._known.update(waiting)
        queues = sorted(self._known) if self.queue is None else [self.queue]
        await self._serve(queues, list(self._app.internals.handlers), now)
        if outlook.set_apart:
            self._worker.claimer.look_at_groups()
        return await self._worker.claimer.tick(now)

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        """What waits was claimed as far as it can be: the next is what becomes due, or what a rate or a pause ends."""
        outlook = await store.jobs.outlook()
        instants = [outlook.due_at, await store.groups.next_ready(sorted(outlook.set_apart))]
        instants += [await store.queues.rated_until(queue) for queue in outlook.waiting | outlook.set_apart]
        return min((at for at in instants if at is not None and at > now), default=None)

    async def _serve(self, queues: list[str], tasks: list[str], now: datetime) -> None:
        if (queues, tasks) != self._served:
            self._served = queues, tasks
            self._worker.serve(queues, tasks)
            self._worker.seating.look_again()
            await self._worker.seating.tick(now)
