"""An executor whose jobs follow a script under virtual time. The rest of the node cannot tell the difference."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import TypeAlias

from oncue.clock import Clock
from oncue.control import Progress
from oncue.engine.line import PROCESSES, Line
from oncue.engine.pending_starts import PendingStarts
from oncue.engine.service import Signal
from oncue.model import Cancelled, Claim, Failed, Outcome, Released, Snoozed, Started, TimedOut
from oncue.policy import options
from oncue.policy.lifecycle import Ended, refusal
from oncue.policy.suspicion import is_recorded
from oncue.sim.history import History, outcome_event
from oncue.sim.script import Act, Script
from oncue.sim.timeline import Forget
from oncue.telemetry import Telemetry

Schedule: TypeAlias = Callable[[timedelta, Callable[[], None]], Forget]


class _Attempt:
    def __init__(self, claim: Claim, act: Act, started: float) -> None:
        self.claim = claim
        self.act = act
        self.started = started
        self.asked_to_stop = False
        self.reported = False
        self.marked = False
        self.over = False
        self.forget: Forget = lambda: None


class ScriptedExecutor:
    name = "executor"

    def __init__(
        self,
        clock: Clock,
        history: History,
        label: str,
        telemetry: Telemetry,
        concurrency: int,
        script: Script,
        schedule: Schedule,
        crash: Callable[[], None],
        ended: Callable[[Ended], None],
        *,
        in_processes: Collection[str] = (),
        processes: int = 1,
        may_start: Callable[[], bool] = lambda: True,
        starts: PendingStarts | None = None,
    ) -> None:
        self.signal = Signal()
        self.concurrency = concurrency
        self.started_total = 0
        self.most_running = 0
        self._clock = clock
        self._history = history
        self._label = label
        self._telemetry = telemetry
        self._script = script
        self._schedule = schedule
        self._crash = crash
        self._ended = ended
        self._may_start = may_start
        self._line = Line(in_processes)
        self._starts = PendingStarts() if starts is None else starts
        self._processes = processes if in_processes else concurrency
        if in_processes:
            self._line.allow(PROCESSES, processes, 0)
        self._running: dict[tuple[int, int], _Attempt] = {}

    # --- what the worker asks -----------------------------------------------------------------------------------

    @property
    def busy(self) -> int:
        return len(self._running) + self.waiting

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return self._line.length + len(self._starts)

    def submit(self, claims: list[Claim]) -> None:
        self._line.waiting.extend(claims)
        self._fill_seats()

    def claims(self) -> list[tuple[int, int]]:
        running = [place for place, attempt in self._running.items() if not attempt.reported]
        return running + [(claim.id, claim.claim_no) for claim in (*self._starts, *self._line)]

    def allow(self, queue: str, most: int | None) -> None:
        self._line.allow(queue, most, self.running_in(queue))
        self._fill_seats()

    def running_in(self, queue: str) -> int:
        seated = (*(attempt.claim for attempt in self._running.values()), *self._starts)
        return sum(claim.queue == queue for claim in seated)

    def held_in(self, queue: str) -> int:
        return self._line.waiting_in(queue)

    def process_room(self) -> int:
        taken = (self._line.running_in(PROCESSES) or 0) + self._line.waiting_in(PROCESSES)
        return max(self._processes - taken, 0)

    def progressed(self) -> list[Progress]:
        """Nothing in a script tells how far it has come."""
        return []

    def saved(self, progress: list[Progress]) -> None: ...

    def newly_started(self, before: float) -> list[Started]:
        fresh = [a for a in self._running.values() if not a.marked and not a.reported and a.started <= before]
        return [Started(a.claim.id, a.claim.claim_no, self._clock.at(a.started)) for a in fresh]

    def mark(self, started: list[Started]) -> None:
        for told in started:
            if (attempt := self._running.get((told.id, told.claim_no))) is not None:
                attempt.marked = True

    def cancel(self, job_id: int, claim_no: int) -> None:
        attempt = self._running.get((job_id, claim_no))
        if (job_id, claim_no) in self.claims() and not (attempt is not None and attempt.asked_to_stop):
            self._history.add(self._label, "stop", id=job_id, claim_no=claim_no)
        if attempt is not None and not attempt.asked_to_stop:
            attempt.asked_to_stop = True
            if not attempt.act.stubborn:
                self._cut(attempt, Cancelled())
        for claim in self._removed(job_id, claim_no):
            self._tell(claim, Cancelled(), None)

    def fence(self, job_id: int, claim_no: int) -> None:
        attempt = self._running.get((job_id, claim_no))
        if attempt is not None:
            self._cut(attempt, Released("fenced"))
        self.withdraw(job_id, claim_no, "fenced")

    def withdraw(self, job_id: int, claim_no: int, cause: str) -> None:
        for claim in self._removed(job_id, claim_no):
            self._tell(claim, Released(cause), None)

    def _removed(self, job_id: int, claim_no: int) -> list[Claim]:
        return self._line.remove(job_id, claim_no) or self._starts.remove(job_id, claim_no)

    def release_waiting(self, cause: str, claimed_before: datetime | None = None) -> None:
        for claim in (*self._line.drop(claimed_before), *self._starts.drop(claimed_before)):
            self._tell(claim, Released(cause), None)

    def release_running(self, cause: str) -> None:
        for attempt in list(self._running.values()):
            self._cut(attempt, Released(cause))

    async def idle(self) -> None:
        if self.busy:
            raise RuntimeError("the simulator does not wait: run the world until nothing is busy")

    def close(self) -> None:
        self._line.drop()

    async def tick(self, now: datetime) -> datetime:
        """Time-outs are events of their own here."""
        return now + timedelta(hours=1)

    # --- seats --------------------------------------------------------------------------------------------------

    def _fill_seats(self) -> None:
        if not self._may_start():
            self.release_waiting("lease_lost")
        while self._free > 0 and (claim := self._line.take()) is not None:
            if claim.crashes:
                self._starts.request(claim, lambda may, claim=claim: self._answered(claim, may))  # type: ignore[misc]
            else:
                self._start(claim)

    @property
    def _free(self) -> int:
        return self.concurrency - len(self._running) - len(self._starts)

    def _answered(self, claim: Claim, may: bool | None) -> None:
        if may and self._may_start():
            self._start(claim)
            return
        self._line.left(claim)
        if may is not None:
            self._tell(claim, Released("lease_lost" if may else "fenced"), None)

    def _start(self, claim: Claim) -> None:
        refused = refusal(claim, self._clock.now())
        if refused is not None:
            self._line.left(claim)
            self._tell(claim, refused, None)
            return
        attempt = _Attempt(claim, self._script(claim), self._clock.monotonic())
        self._running[claim.id, claim.claim_no] = attempt
        attempt.marked = is_recorded(claim)
        self.started_total += 1
        self.most_running = max(self.most_running, len(self._running))
        self._telemetry.emit("job.start", {"wait": 0.0}, claim=claim)
        if attempt.act.do != "hang":
            self._schedule(timedelta(seconds=attempt.act.seconds), lambda: self._perform(attempt))
        limit = self._limit(claim)
        if limit is not None and not attempt.act.is_stuck:
            attempt.forget = self._schedule(timedelta(seconds=limit), lambda: self._time_out(attempt, limit))

    def _limit(self, claim: Claim) -> float | None:
        longest = options.longest(claim.options)
        if claim.deadline_at is None:
            return longest
        left = (claim.deadline_at - self._clock.now()).total_seconds()
        return left if longest is None else min(longest, left)

    def _perform(self, attempt: _Attempt) -> None:
        """The script's deed is due."""
        if attempt.over:
            return
        if attempt.act.do == "crash" and not attempt.reported:
            self._crash()
            return
        outcome: Outcome = Released("stopped") if attempt.act.do == "crash" else attempt.act.outcome()
        self._report(attempt, outcome)
        self._leave(attempt)

    def _time_out(self, attempt: _Attempt, limit: float) -> None:
        if not attempt.over:
            self._cut(attempt, TimedOut(f"timed out: cut off after {limit:g} s"))

    def _cut(self, attempt: _Attempt, outcome: Outcome) -> None:
        """A stubborn attempt is reported at once too, but keeps its seat until it really ends."""
        self._report(attempt, outcome)
        if not attempt.act.stubborn or attempt.act.do == "hang":
            self._leave(attempt)

    def _report(self, attempt: _Attempt, outcome: Outcome) -> None:
        if attempt.reported:
            return
        attempt.reported = True
        if attempt.asked_to_stop and isinstance(outcome, Failed | Snoozed):
            outcome = Cancelled()
        self._history.add(self._label, "outcome", **outcome_event(attempt.claim, outcome))
        self._tell(attempt.claim, outcome, self._clock.at(attempt.started))

    def _leave(self, attempt: _Attempt) -> None:
        if not attempt.over:
            attempt.over = True
            attempt.forget()  # a time-out to come would keep quiet time from passing
            del self._running[attempt.claim.id, attempt.claim.claim_no]
            self._line.left(attempt.claim)
            self._fill_seats()

    def _tell(self, claim: Claim, outcome: Outcome, started_at: datetime | None) -> None:
        self._ended(Ended(claim, outcome, started_at, self._clock.now()))
