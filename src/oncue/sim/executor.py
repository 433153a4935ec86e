"""An executor whose jobs follow a script under virtual time. The rest of the node cannot tell the difference."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from oncue.clock import Clock
from oncue.engine.details import merged
from oncue.engine.execution import Execution, RunningAttempt
from oncue.engine.pending_starts import PendingStarts
from oncue.model import Batch, Claim, LeaderEpoch, Outcome, Released, Terms, TimedOut
from oncue.policy import options
from oncue.policy.lifecycle import Ended
from oncue.policy.suspicion import is_recorded
from oncue.sim.history import History, outcome_event
from oncue.sim.script import Act, Script, written
from oncue.sim.timeline import Forget
from oncue.telemetry import Telemetry

Schedule: TypeAlias = Callable[[timedelta, Callable[[], None]], Forget]


def noting(history: History, label: str, ended: Callable[[Ended], None]) -> Callable[[Ended], None]:
    """The same report of what came of a claim, and the history has it if there was an attempt."""

    def noted(one: Ended) -> None:
        if one.started_at is not None:
            history.add(label, "outcome", **outcome_event(one.claim, one.outcome, one.details))
        ended(one)

    return noted


def note_stop(executor: Execution[Any], history: History, label: str, job_id: int, claim_no: int) -> None:
    """A node has heard that a claim is to be cancelled: the first time, if it is here."""
    if (job_id, claim_no) in executor.claims() and not executor.is_told(job_id, claim_no):
        history.add(label, "stop", id=job_id, claim_no=claim_no)


class _Attempt(RunningAttempt):
    __slots__ = ("act", "forget", "led_by", "over")

    def __init__(self, claim: Claim, act: Act, started: float) -> None:
        super().__init__(claim, started)
        self.act = act
        self.led_by: LeaderEpoch | None = None
        self.over = False
        self.forget: Forget = lambda: None


class ScriptedExecutor(Execution[_Attempt]):
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
        leads: Callable[[], LeaderEpoch | None] = lambda: None,
    ) -> None:
        super().__init__(
            clock, concurrency, noting(history, label, ended),
            in_processes=in_processes, processes=processes, may_start=may_start, starts=starts,
        )  # fmt: skip
        self.most_running = 0
        self._history = history
        self._label = label
        self._telemetry = telemetry
        self._script = script
        self._schedule = schedule
        self._crash = crash
        self._leads = leads

    def cancel(self, job_id: int, claim_no: int) -> None:
        note_stop(self, self._history, self._label, job_id, claim_no)
        super().cancel(job_id, claim_no)

    async def idle(self) -> None:
        if self.busy:
            raise RuntimeError("the simulator does not wait: run the world until nothing is busy")

    def close(self) -> None:
        self._claims.drop()

    async def tick(self, now: datetime) -> datetime:
        """Time-outs are events of their own here."""
        return now + timedelta(hours=1)

    # --- seats --------------------------------------------------------------------------------------------------

    def _fill_seats(self) -> None:
        if not self._may_start():
            self.release_waiting("lease_lost")
        while self._free > 0 and (claim := self._claims.take()) is not None:
            if claim.crashes:
                self._starts.request(claim, lambda may, claim=claim: self._start_if(claim, may))  # type: ignore[misc]
            else:
                self._start(claim)

    @property
    def _free(self) -> int:
        return self.concurrency - len(self._running) - len(self._starts)

    def _start_if(self, claim: Claim, may: bool | None) -> None:
        if self._answered(claim, may):
            self._start(claim)

    def _start(self, claim: Claim) -> None:
        started = self._clock.monotonic()
        if self._refused(claim, started):
            return
        attempt = _Attempt(claim, self._script(claim), started)
        self._running[claim.id, claim.claim_no] = attempt
        attempt.marked = is_recorded(claim)
        self.started_total += 1
        self.most_running = max(self.most_running, len(self._running))
        self._telemetry.emit("job.start", {"wait": 0.0}, claim=claim)
        if claim.scheduled_for is not None:
            self._tell_day_began(claim)
        attempt.led_by = self._leads() if attempt.act.led else None
        self._say(attempt, begun=claim.claim_no)
        if attempt.act.do != "hang":
            self._schedule(timedelta(seconds=attempt.act.seconds), lambda: self._perform(attempt))
        deadline = self._deadline(claim, started)
        if deadline is not None and not attempt.act.is_stuck:
            limit = deadline - started
            attempt.forget = self._schedule(timedelta(seconds=limit), lambda: self._time_out(attempt, limit))

    def _perform(self, attempt: _Attempt) -> None:
        """The script's deed is due."""
        if attempt.over:
            return
        if attempt.act.do == "crash" and not attempt.reported:
            self._crash()
            return
        outcome: Outcome = Released("stopped") if attempt.act.do == "crash" else attempt.act.outcome()
        if not attempt.reported:
            self._say(attempt, ended=attempt.act.do)
        self._tell(attempt, outcome)
        self._leave(attempt)

    def _time_out(self, attempt: _Attempt, limit: float) -> None:
        if not attempt.over:
            self._cut(attempt, TimedOut(f"timed out: cut off after {limit:g} s"))

    def _can_be_cut(self, attempt: _Attempt) -> bool:
        return not attempt.act.stubborn

    def _cut(self, attempt: _Attempt, outcome: Outcome) -> None:
        """A stubborn attempt is reported at once too, but keeps its seat until it really ends."""
        self._tell(attempt, outcome)
        if not attempt.act.stubborn or attempt.act.do == "hang":
            self._leave(attempt)

    def _say(self, attempt: _Attempt, **details: Any) -> None:
        if attempt.act.details:
            attempt.details = merged(attempt.details, details)

    def _tell(self, attempt: _Attempt, outcome: Outcome) -> None:
        if not attempt.reported:
            attempt.terms = self._terms(attempt)
            self._report(attempt, outcome, self._clock.monotonic())

    def _terms(self, attempt: _Attempt) -> Terms | None:
        act, claim = attempt.act, attempt.claim
        if act.before is None and attempt.led_by is None and not act.follows and not act.follows_late:
            return None
        before = None if act.before is None else claim.created_at + timedelta(seconds=act.before)
        follow_ups, late = self._follow_ups(claim, act, act.follows), self._follow_ups(claim, act, act.follows_late)
        return Terms(before, leader=attempt.led_by, follow_ups=follow_ups, late_follow_ups=late)

    def _follow_ups(self, claim: Claim, act: Act, count: int) -> tuple[Batch, ...]:
        """So many short jobs like this one, which tell nothing and are followed by none."""
        if not count:
            return ()
        now, told = self._clock.now(), options.read(claim.options)
        args, keys = [written([Act()])] * count, None if act.follows_key is None else [act.follows_key] * count
        return (
            Batch(
                claim.task, claim.queue, claim.priority, "queued", claim.options, claim.max_retries, told.max_runtime,
                now, now, None, "sim", None, [], args, keys, group=claim.group,
            ),
        )  # fmt: skip

    def _leave(self, attempt: _Attempt) -> None:
        if not attempt.over:
            attempt.over = True
            attempt.forget()  # a time-out to come would keep quiet time from passing
            del self._running[attempt.claim.id, attempt.claim.claim_no]
            self._claims.left(attempt.claim)
            self._fill_seats()
