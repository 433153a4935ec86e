"""What every executor is to the other services of a node: the claims that wait here, and the attempts that run.

The engine's executor runs handlers, the simulator's follows a script. They differ in how an attempt is started and cut
off, which are the last methods of this file. Everything else is written once, here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Generic, TypeVar

from oncue.clock import Clock
from oncue.engine.pending_starts import PendingStarts
from oncue.engine.service import Signal
from oncue.engine.waiting_claims import PROCESSES, WaitingClaims
from oncue.engine.window_events import WindowEvents
from oncue.model import (
    Cancelled,
    Claim,
    Failed,
    FollowUp,
    Outcome,
    Progress,
    Released,
    Snoozed,
    Started,
    Succeeded,
    Terms,
    ToldDetails,
)
from oncue.policy import options, windows
from oncue.policy.lifecycle import Ended, following, refusal
from oncue.store.contract import Store


class RunningAttempt:
    """An attempt that runs here, with what was done to it from outside."""

    __slots__ = (
        *("cancel_requested", "claim", "details", "follow_ups", "marked", "reported", "row_count"),
        *("saved_details", "started", "terms"),
    )

    def __init__(self, claim: Claim, started: float) -> None:
        self.claim = claim
        self.started = started
        self.row_count: int | None = None
        self.details: str | None = None
        """What its handler has told of it: a JSON object."""
        self.saved_details: str | None = None
        """What the database knows of that."""
        self.terms: Terms | None = None
        self.follow_ups: tuple[FollowUp, ...] = ()
        """Jobs that its handler wants to be made if it succeeds."""
        self.cancel_requested = False
        self.reported = False
        """Whether its outcome is known to the settler: it may run on, in a thread that cannot be stopped."""
        self.marked = False
        """Whether the database knows that it has begun."""


A = TypeVar("A", bound=RunningAttempt)


class Execution(Generic[A]):
    name = "executor"

    def __init__(
        self,
        clock: Clock,
        concurrency: int,
        ended: Callable[[Ended], None],
        *,
        in_processes: Collection[str] = (),
        processes: int = 1,
        may_start: Callable[[], bool] = lambda: True,
        starts: PendingStarts | None = None,
    ) -> None:
        self.signal = Signal()
        self.seat_left = Signal()
        """An attempt goes on without its seat, which is free."""
        self.concurrency = concurrency
        self.started_total = 0
        self._clock = clock
        self._ended = ended
        self._may_start = may_start
        self._processes = processes
        self._claims = WaitingClaims(frozenset(in_processes))
        self._starts = PendingStarts() if starts is None else starts
        if in_processes:
            self._claims.allow(PROCESSES, processes, 0)
        self._running: dict[tuple[int, int], A] = {}
        self.window_events: WindowEvents | None = None
        """Who is told of the attempts of windows' jobs."""

    # --- what runs, and what waits ------------------------------------------------------------------------------

    @property
    def busy(self) -> int:
        """Jobs that are running, or wait for a seat or in one."""
        return len(self._running) + self.waiting

    @property
    def aside(self) -> int:
        """Attempts that are running and have left their seats."""
        return 0

    @property
    def taken(self) -> int:
        """Jobs that have a seat or wait for one."""
        return self.busy - self.aside

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return self._claims.length + len(self._starts)

    def submit(self, claims: list[Claim]) -> None:
        self._claims.waiting.extend(claims)
        self._fill_seats()

    def claims(self) -> list[tuple[int, int]]:
        """The (job, claim_no) of everything that runs or waits here and was not given up."""
        running = [place for place, attempt in self._running.items() if not attempt.reported]
        return running + [(claim.id, claim.claim_no) for claim in (*self._starts, *self._claims)]

    # --- limits -------------------------------------------------------------------------------------------------

    def allow(self, queue: str, most: int | None) -> None:
        """From now on at most so many attempts of this queue run here at once; None for no limit.

        A larger allowance starts what is held back. A smaller one stops nothing that runs.
        """
        self._claims.allow(queue, most, self.running_in(queue))
        self._fill_seats()

    def running_in(self, queue: str) -> int:
        """How many attempts of a queue have a seat, those included that were given up and have not ended."""
        counted = self._claims.running_in(queue)
        if counted is None:
            seated = (*(attempt.claim for attempt in self._running.values()), *self._starts)
            return sum(claim.queue == queue for claim in seated)
        return counted

    def held_in(self, queue: str) -> int:
        """How many claims of a queue wait here."""
        return self._claims.waiting_in(queue)

    def process_room(self) -> int:
        """How many more jobs of process tasks could start if they were claimed now."""
        taken = (self._claims.running_in(PROCESSES) or 0) + self._claims.waiting_in(PROCESSES)
        return max(self._processes - taken, 0)

    # --- what the database is told ------------------------------------------------------------------------------

    def newly_started(self, before: float) -> list[Started]:
        """Attempts that began before this reading of the monotonic clock and were not marked yet."""
        fresh = [a for a in self._running.values() if not a.marked and not a.reported and a.started <= before]
        return [Started(a.claim.id, a.claim.claim_no, self._clock.at(a.started)) for a in fresh]

    def mark(self, started: list[Started]) -> None:
        """The database knows that these have begun."""
        for told in started:
            attempt = self._running.get((told.id, told.claim_no))
            if attempt is not None:
                attempt.marked = True

    def told_details(self) -> list[ToldDetails]:
        """What attempts that still run have told of themselves and the database does not know yet."""
        return [
            ToldDetails(*place, attempt.details)
            for place, attempt in self._running.items()
            if attempt.details is not None and attempt.details != attempt.saved_details and not attempt.reported
        ]

    def saved_details(self, told: list[ToldDetails]) -> None:
        """The database knows this."""
        for job_id, claim_no, details in told:
            attempt = self._running.get((job_id, claim_no))
            if attempt is not None:
                attempt.saved_details = details

    def progressed(self) -> list[Progress]:
        """What attempts have said of their progress since it was last `saved`; only the latest counts."""
        return []

    def saved(self, progress: list[Progress]) -> None:
        """The database shows this."""

    # --- stopping -----------------------------------------------------------------------------------------------

    def cancel(self, job_id: int, claim_no: int) -> None:
        """An operator wants this claim to stop: an attempt that can be cut off is, any other is asked to stop.

        What waits for a seat does not begin at all.
        """
        attempt = self._running.get((job_id, claim_no))
        if attempt is not None and not attempt.cancel_requested:
            attempt.cancel_requested = True
            if self._can_be_cut(attempt):
                self._cut(attempt, Cancelled())
        self._end_waiting(self._removed(job_id, claim_no), Cancelled())

    def is_told(self, job_id: int, claim_no: int) -> bool:
        """Whether an attempt that runs here was told to stop."""
        attempt = self._running.get((job_id, claim_no))
        return attempt is not None and attempt.cancel_requested

    def fence(self, job_id: int, claim_no: int) -> None:
        """Another node has this job now: stop the attempt. What is told of it from here on will be rejected."""
        attempt = self._running.get((job_id, claim_no))
        if attempt is not None:
            attempt.cancel_requested = True
            self._cut(attempt, Released("fenced"))
        self.withdraw(job_id, claim_no, "fenced")

    def withdraw(self, job_id: int, claim_no: int, cause: str) -> None:
        """Give a claim back, if it has not started."""
        self._end_waiting(self._removed(job_id, claim_no), Released(cause))

    def release_waiting(self, cause: str, claimed_before: datetime | None = None) -> None:
        """Give back what has not started: everything, or what was claimed too long ago."""
        self._end_waiting([*self._claims.drop(claimed_before), *self._starts.drop(claimed_before)], Released(cause))

    def release_running(self, cause: str) -> None:
        """Stop everything that has started and give it back; threads are given back and left behind."""
        self._release(list(self._running.values()), cause)

    def release_led(self, cause: str) -> None:
        """Stop the jobs for the leader and give them back: this node does not lead any more."""
        self._release([attempt for attempt in self._running.values() if attempt.claim.leader is not None], cause)
        for claim in [claim for claim in (*self._claims, *self._starts) if claim.leader is not None]:
            self.withdraw(claim.id, claim.claim_no, cause)

    def _release(self, attempts: list[A], cause: str) -> None:
        for attempt in attempts:
            attempt.cancel_requested = True
            self._cut(attempt, Released(cause))

    def _removed(self, job_id: int, claim_no: int) -> list[Claim]:
        return self._claims.remove(job_id, claim_no) or self._starts.remove(job_id, claim_no)

    def _end_waiting(self, claims: list[Claim], outcome: Outcome) -> None:
        """What waited here will not begin."""
        for claim in claims:
            self._ended(Ended(claim, outcome, None, self._clock.now()))

    # --- from the start of an attempt to its outcome ------------------------------------------------------------

    def _refused(self, claim: Claim, started: float) -> bool:
        """Whether a job must not start after all: then this claim of it has ended."""
        if (claim.deadline_at, claim.start_by, claim.scheduled_for) == (
            None,
            None,
            None,
        ) and not claim.cancel_requested:
            return False
        now = self._clock.at(started)
        refused = refusal(claim, now)
        if refused is None:
            return False
        self._ended(Ended(claim, refused, None, now, terms=windows.terms_of_refusal(claim, refused, now)))
        self._claims.left(claim)
        return True

    def _answered(self, claim: Claim, may: bool | None) -> bool:
        """Whether a claim whose start was requested begins now. Else it has ended, or was withdrawn (None)."""
        if may and self._may_start():
            return True
        if may is not None:
            self._end_waiting([claim], Released("lease_lost" if may else "fenced"))
        self._claims.left(claim)
        return False

    def _deadline(self, claim: Claim, started: float) -> float | None:
        """Until which reading of the monotonic clock an attempt may run that began at `started`."""
        longest = options.longest(claim.options)
        deadline = None if longest is None else started + longest
        if claim.deadline_at is None:
            return deadline
        left = (claim.deadline_at - self._clock.at(started)).total_seconds()
        return started + left if deadline is None else min(deadline, started + left)

    def _report(self, attempt: A, outcome: Outcome, ended: float) -> None:
        """Tell the settler what came of an attempt. A job that an operator stops is not tried again."""
        attempt.reported = True
        if attempt.cancel_requested and isinstance(outcome, Failed | Snoozed):
            outcome = Cancelled()
        at = self._clock.at
        terms = attempt.terms
        # The job of a window's day has a slot: of the others, which are nearly all, no options are read.
        window = None if attempt.claim.scheduled_for is None else options.read(attempt.claim.options).window
        if window is not None and window.cutoff_at is not None:
            self._tell_day_stopped(attempt, outcome, ended)
            if isinstance(outcome, Succeeded):
                terms = windows.terms_of_success(attempt.claim, window, at(ended))
        if attempt.claim.leader is not None:
            terms = (terms or Terms())._replace(leader=attempt.claim.leader)
        if attempt.follow_ups:
            asked = tuple(following(one, at(ended)) for one in attempt.follow_ups)
            terms = (terms or Terms())._replace(follow_ups=asked)
        told = (attempt.row_count, attempt.details, terms)
        self._ended(Ended(attempt.claim, outcome, at(attempt.started), at(ended), *told))

    def _tell_day_began(self, claim: Claim) -> None:
        """An attempt of a job with a slot begins; if that is the day of a window, it is told."""
        if self.window_events is not None:
            self.window_events.began(claim, self._most_in(claim.queue))

    def _tell_day_stopped(self, attempt: A, outcome: Outcome, ended: float) -> None:
        if self.window_events is not None:
            claim = attempt.claim
            self.window_events.stopped(claim, outcome, ended - attempt.started, self._most_in(claim.queue))

    def _most_in(self, queue: str) -> int:
        """How many attempts of a queue may run here at once."""
        return min(self._claims.allowed.get(queue, self.concurrency), self.concurrency)

    # --- what an executor does in its own way -------------------------------------------------------------------

    async def tick(self, now: datetime) -> datetime:
        raise NotImplementedError

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        return now if self.waiting else None

    async def idle(self) -> None:
        """Wait until nothing runs and nothing waits."""
        raise NotImplementedError

    def close(self) -> None:
        """Start nothing any more, and stop what can be stopped."""
        raise NotImplementedError

    def _fill_seats(self) -> None:
        """Start what waits, as far as there is room for it."""
        raise NotImplementedError

    def _can_be_cut(self, attempt: A) -> bool:
        raise NotImplementedError

    def _cut(self, attempt: A, outcome: Outcome) -> None:
        """Stop an attempt with this outcome."""
        raise NotImplementedError
