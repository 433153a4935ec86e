"""One worker process, put together: its services, how they start and in which order they stop.

    membership, recovery, exclusivity, naming, timekeeper    in a thread of their own, on a store of their own
    claimer, executor, settler                       the hot path
    recorded_starts                                  where jobs wait that may have killed their process
    seating                                          how many jobs of limited queues may run here
    reconciler                                       compares this node's claims with the database's
    leadership                                       who leads
    scheduler, planner, coordinator, backfilling,
    expiry, aging,
    orphans, pruning, folding, sampling, slo_watcher on the leader only
    minutes                                          what this node measures, minute by minute
    rescue, survey                                   on every node: a rescue must not wait for a leader

Shutting down: the scheduler and the upkeep stop, the lead is given up, no more is claimed, what was claimed may finish
within the drain time, the rest is given back uncharged, the last outcomes are written, the leases are ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from oncue.clock import Clock
from oncue.engine.aging import Aging
from oncue.engine.applying import listed
from oncue.engine.attempt import Handler
from oncue.engine.backfilling import Backfilling
from oncue.engine.claimer import Claimer
from oncue.engine.coordinator import Coordinator
from oncue.engine.counting import Folding, Sampling
from oncue.engine.exclusivity import Exclusivity
from oncue.engine.execution import Execution
from oncue.engine.executor import Executor
from oncue.engine.expiry import Expiry
from oncue.engine.in_flight import InFlight
from oncue.engine.leadership import Leadership, OnLeader
from oncue.engine.membership import Membership
from oncue.engine.messages import Setup
from oncue.engine.minutes import Minutes
from oncue.engine.naming import Naming
from oncue.engine.orphans import OrphanRules, Orphans
from oncue.engine.outcomes import SizeLimits
from oncue.engine.pending_starts import PendingStarts, RecordedStarts
from oncue.engine.planner import Planner
from oncue.engine.pruning import Pruning
from oncue.engine.reconciler import Reconciler
from oncue.engine.recovery import Recovery
from oncue.engine.rescue import Rescue
from oncue.engine.runner import Runner
from oncue.engine.scheduler import Scheduler, SlotWriter
from oncue.engine.seating import Seating
from oncue.engine.service import Service
from oncue.engine.settler import Settler
from oncue.engine.slo_watcher import Announce, SloWatcher
from oncue.engine.survey import Surveying
from oncue.engine.window_events import WindowEvents
from oncue.errors import StoreError
from oncue.model import LEADER_ADDRESS, NODE_ADDRESS, Node
from oncue.policy.aging import Rules
from oncue.policy.lifecycle import DEPOSED, Ended
from oncue.policy.slo import SloRules
from oncue.policy.suspicion import ALONE, isolation_of
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

FINISH_SECONDS = 3.0
SETTLE_SECONDS = 10.0
"""What a drain has at least for writing what its jobs have come to."""

_log = logging.getLogger("oncue.node")


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things happen, in seconds."""

    poll: float = 0.5
    lease: float = 15.0
    beat: float = 4.0
    reconcile: float = 1.0
    buffer: int = 4000
    settle_batch: int = 1000
    drain: float = 30.0
    schedules: float = 30.0
    windows: float = 60.0
    retention: float = 7 * 86400.0
    ledger_retention: float = 400 * 86400.0
    window_retention: float = 30 * 86400.0
    maintenance: float = 60.0
    aging: Rules = field(default_factory=Rules)
    orphans: OrphanRules = field(default_factory=OrphanRules)
    slo: SloRules | None = None
    """When the watcher of SLOs warns; None: there is no watcher, and nothing is measured for it."""

    @property
    def patience(self) -> float:
        """How long one beat may wait for its answer: short enough for another try before the lease ends."""
        return max(self.lease / 6, min(1.0, self.lease / 2))


ExecutorFactory = Callable[[Callable[[Ended], None], PendingStarts], Execution[Any]]


class WorkerNode:
    """The services of one node, wired to each other. Who calls them is not decided here."""

    def __init__(
        self,
        store: Store,
        beat_store: Store,
        node: Node,
        clock: Clock,
        dice: Random,
        telemetry: Telemetry,
        pace: Pace,
        make_executor: ExecutorFactory,
        lapsed: Callable[[str], None] | None = None,
        is_gone: Callable[[Node], bool] = lambda _: False,
        in_processes: Collection[str] = (),
        announce: Announce | None = None,
    ) -> None:
        self.node = node
        self.in_flight = InFlight(pace.settle_batch)
        self.starts = RecordedStarts(store, clock, lambda: self.executor.running, poll=pace.poll)
        self.executor = make_executor(self._ended, self.starts)
        self.executor.window_events = WindowEvents(telemetry)
        self.membership = Membership(
            beat_store, node, clock, telemetry, lapsed or self.abandon,
            lease=pace.lease, beat=pace.beat, patience=pace.patience,
        )  # fmt: skip
        self._life = self.membership.lives
        """The life in which everything that this node holds was claimed."""
        self.recovery = Recovery(beat_store, node, dice, telemetry, is_gone)
        self.exclusivity = Exclusivity(
            beat_store, node, clock, telemetry, self.membership.end_life, self.recovery.recover,
            lease=pace.lease, beat=pace.beat, patience=pace.patience, shown=lambda: self.naming.shown,
        )  # fmt: skip
        self.naming = Naming(
            beat_store, node, clock, telemetry, self.membership, self.exclusivity.may_work,
            lease=pace.lease, beat=pace.beat,
        )  # fmt: skip
        self.seating = Seating(
            store, node.id, node.queues, node.tasks, self.executor, self.may_work,
            poll=pace.poll, in_processes=in_processes, life=self.life,
            closed=lambda: self.in_flight.closed, addresses=self.addresses,
        )  # fmt: skip
        self.claimer = Claimer(
            store, node.id, node.queues, node.tasks, self.executor, self.in_flight, clock, telemetry,
            self.may_claim,
            self.seating.allowed, self.seating.rated, poll=pace.poll, buffer=pace.buffer, in_processes=in_processes,
            life=self.life, epoch=lambda: self.leadership.epoch, addresses=self.addresses,
        )  # fmt: skip
        self.seating.raised.listen(self.claimer.signal.set)
        self.executor.seat_left.listen(self._look_for_more)
        self.settler, self.second_settler = (
            Settler(
                store, node.id, self.executor, self.in_flight, clock, dice, telemetry,
                idle=60.0, limit=pace.settle_batch, second=second,
            )
            for second in (False, True)
        )  # fmt: skip
        self.reconciler = Reconciler(
            store, node.id, self.executor, self.in_flight, self.claimer, clock, dice, telemetry,
            interval=pace.reconcile, patience=pace.lease / 2,
        )  # fmt: skip
        self.in_flight.isolation_changed.listen(self.claimer.signal.set)
        self.in_flight.left_group.listen(self.claimer.group_has_room)
        self.leadership = Leadership(
            store, node, clock, telemetry, self.may_work,
            lease=pace.lease, poll=pace.poll, shown=lambda: self.naming.shown,
        )  # fmt: skip
        self.leadership.followers.append(self.claimer.signal)
        self.leadership.deposed.listen(lambda: self.executor.release_led(DEPOSED))
        self.scheduler = Scheduler(
            store, node.id, self.leadership, dice, telemetry, interval=pace.schedules, poll=pace.poll
        )
        self.scheduler.fired.listen(self._look_at_new_jobs)
        self.slot_writer = SlotWriter(self.scheduler, interval=pace.schedules)
        self.planner = Planner(store, node.id, self.leadership, clock, telemetry, interval=pace.windows, poll=pace.poll)
        self.planner.opened.listen(self.claimer.signal.set)
        self.coordinator = Coordinator(store, node, self.leadership, telemetry, poll=pace.poll)
        self.coordinator.released.listen(self.claimer.signal.set)
        for settler in (self.settler, self.second_settler):
            settler.addressed_ended.listen(self.coordinator.signal.set)
        self.minutes: Minutes | None = None
        watch: list[Service] = []
        if pace.slo is not None:
            self.minutes = Minutes(store, node.id, clock, telemetry)
            watcher = SloWatcher(store, node.id, self.leadership, telemetry, self.minutes, pace.slo, announce)
            watch = [self.minutes, watcher]
        self.expiry = Expiry(store, telemetry)
        self.backfilling = Backfilling(store, interval=pace.poll)
        self.backfilling.released.listen(self._look_at_new_jobs)
        self.heartbeat: list[Service] = [self.membership, self.recovery, self.exclusivity, self.naming]
        self.hot_path: list[Service] = [
            self.seating, self.claimer, self.starts, self.executor, self.settler, self.second_settler,
            self.reconciler,
        ]  # fmt: skip
        self.upkeep: list[Service] = [
            Rescue(store, dice, telemetry, self.membership, interval=pace.lease / 3, grace=pace.lease),
            Surveying(store, telemetry),
            self.leadership,
            self.scheduler,
            self.slot_writer,
            self.planner,
            self.coordinator,
            *watch,
            *(
                OnLeader(service, self.leadership)
                for service in (
                    self.expiry,
                    Aging(store, telemetry, pace.aging),
                    Orphans(store, telemetry, pace.orphans),
                    Pruning(
                        store,
                        telemetry,
                        retention=pace.retention,
                        ledger_retention=pace.ledger_retention,
                        window_retention=pace.window_retention,
                        interval=pace.maintenance,
                    ),
                    self.backfilling,
                    Folding(store),
                    Sampling(store),
                )
            ),
        ]

    def life(self) -> int | None:
        """In which life this node is; None while a lease is over that it needs for what it holds."""
        return self.membership.life if not self.node.exclusive or self.exclusivity.may_work() else None

    def addresses(self) -> list[str]:
        """What is addressed to this node, as far as it knows: the claim's own statement decides."""
        name = self.naming.held
        by_name = [] if name is None else [f"{NODE_ADDRESS}{name}"]
        return by_name if self.leadership.epoch is None else [*by_name, LEADER_ADDRESS]

    def serve(self, queues: Sequence[str], tasks: Sequence[str]) -> None:
        """From now on take jobs of these queues and tasks, whatever the database says of this node."""
        self.claimer.serve(queues, tasks)
        self.seating.serve(queues, tasks)

    def may_work(self) -> bool:
        """Whether this node is alive, and need not stand by."""
        return self.membership.is_alive() and self.exclusivity.may_work()

    def may_claim(self) -> bool:
        """Whether what is claimed now could begin: not before everything is stopped that an ended lease covered."""
        return self._life == self.life() and self.may_work()

    def may_start(self) -> bool:
        """Whether what this node holds is its own to begin: not if it was claimed under a lease that is over."""
        return self._life == self.life()

    def _ended(self, ended: Ended) -> None:
        self.in_flight.end(ended)
        self.starts.look()
        self._look_for_more()

    def _look_at_new_jobs(self) -> None:
        """Slots have fired: some may be cluster jobs."""
        self.claimer.signal.set()
        self.coordinator.signal.set()

    def _look_for_more(self) -> None:
        """A seat is free."""
        if self.claimer.more:
            self.claimer.signal.set()

    def abandon(self, why: str) -> None:
        """The lease is over: stop everything, so that the next holders of the jobs are not disturbed."""
        life = self.membership.lives
        if life == self._life:
            return  # the last one stopped what was claimed before this lease was lost too
        _log.error("%s: all its jobs are stopped and given back", why)
        self.seating.lose_seats()
        self.executor.release_waiting("lease_lost")
        self.executor.release_running("lease_lost")
        self._life = life

    def release_isolated(self, cause: str) -> None:
        """What was to run alone here and has not begun is for another node: this one is about to stop."""
        for claim in list(self.in_flight.claims.values()):
            if isolation_of(claim) == ALONE:
                self.executor.withdraw(claim.id, claim.claim_no, cause)

    def wake(self, sooner: bool = False) -> None:
        """Something changed in the database, perhaps; a job may even be due sooner than was known."""
        if sooner:
            self.claimer.look_again()
        self.claimer.signal.set()
        self.seating.wake()
        if self.leadership.epoch is None:
            self.leadership.signal.set()
        else:
            self.scheduler.signal.set()
            self.planner.wake()
            self.coordinator.signal.set()

    async def end_leases(self) -> None:
        """End the leases that the heartbeat thread renews: the other nodes need not wait for their end."""
        await self.exclusivity.resign()
        await self.membership.leave()


class WorkerProcess:
    """Drives a WorkerNode in real time."""

    def __init__(self, node: WorkerNode, store: Store, clock: Clock, telemetry: Telemetry, pace: Pace) -> None:
        self._node = node
        self._store = store
        self._clock = clock
        self._pace = pace
        self._runner = Runner(clock, telemetry)

    async def start(self) -> None:
        await self._store.watch(self._node.wake)
        self._runner.start([*self._node.hot_path, *self._node.upkeep])

    async def drain(self, timeout: float) -> None:
        """Stop in order; nothing that was claimed is lost, whatever happens on the way."""
        began = self._clock.monotonic()
        executor, upkeep = self._node.executor, self._node.upkeep
        self._node.seating.stop_claiming()
        await self._runner.stop(*(service.name for service in upkeep if service is not self._node.leadership))
        # A claim that is cut off in the middle would leave jobs with a node that is gone: they would be suspects.
        await asyncio.gather(self._step_down(), self._runner.finish(self._node.claimer.name, within=FINISH_SECONDS))
        self._node.release_isolated("shutdown")
        _log.info("draining: %d running, %d waiting", executor.running, executor.waiting)
        if executor.busy and not await _within(timeout, executor.idle()):
            _log.warning("the drain time is over: %d jobs are given back", executor.busy)
            executor.release_waiting("shutdown")
            executor.release_running("shutdown")
            await _within(3.0, executor.idle())
        # The lease is kept meanwhile: no node rescues a job that is done and whose outcome cannot be written yet.
        left = timeout - (self._clock.monotonic() - began)
        if not await _within(max(left, SETTLE_SECONDS), self._settled()):
            self._report_unwritten()
        await self._write_last_minute()
        await self._runner.stop()
        executor.close()

    async def _step_down(self) -> None:
        """Give up the lead. An election that is cut off in the middle would leave it vacant for a whole lease."""
        await self._runner.finish(self._node.leadership.name, within=FINISH_SECONDS)
        with contextlib.suppress(StoreError):
            await self._node.leadership.resign()

    async def _write_last_minute(self) -> None:
        if self._node.minutes is not None:
            with contextlib.suppress(StoreError):
                await _within(FINISH_SECONDS, self._node.minutes.flush())

    def _report_unwritten(self) -> None:
        in_flight = self._node.in_flight
        trouble = self._node.settler.trouble or self._node.second_settler.trouble
        for unwritten, why in (
            (in_flight.unwritten, str(trouble or "the database was not asked in time")),
            (in_flight.locked, "another session holds a lock on their rows"),
        ):
            if unwritten:
                jobs = listed([ended.claim.id for ended in unwritten])
                _log.error("the outcome of %s could not be written, so it will be rescued: %s", jobs, why)

    async def _settled(self) -> None:
        flushed, in_flight = asyncio.Event(), self._node.in_flight
        in_flight.flushed.listen(flushed.set)
        while not in_flight.is_settled:
            flushed.clear()
            await flushed.wait()

    async def abort(self) -> None:
        """Stop at once."""
        await self._runner.stop()
        self._node.executor.close()


async def _within(timeout: float, awaitable: Any) -> bool:
    try:
        await asyncio.wait_for(awaitable, timeout)
    except TimeoutError:
        return False
    return True


def handlers_executor(
    handlers: Mapping[str, Handler],
    clock: Clock,
    telemetry: Telemetry,
    concurrency: int,
    limits: SizeLimits,
    processes: int = 1,
    setup: Setup | None = None,
    may_start: Callable[[], bool] = lambda: True,
) -> ExecutorFactory:
    """The executor of production."""
    return lambda ended, starts: Executor(
        handlers, clock, telemetry, concurrency, limits, ended,
        processes=processes, setup=setup, may_start=may_start, starts=starts,
    )  # fmt: skip
