"""Listens to the nodes of a simulation, and writes down what the figures need."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from oncue.clock import Clock
from oncue.model import TERMINAL, Change, Claim, Decided, Job
from oncue.planning.records import Place, Run, Slots, Unstarted, Work
from oncue.planning.scenario import Scenario
from oncue.policy import options
from oncue.telemetry import Telemetry

ARRIVAL = "arrival"
"""The one argument of a job that the simulated application enqueues: its stream's number, and its own in there."""
LOST = "lost"
RUNNING = "running"
MISFIRE = "misfire"


def identity(scheduled_for: datetime | None, args: Mapping[str, Any]) -> str:
    """What tells a job from others of its task, whenever and under whichever number it was made."""
    return str(args.get(ARRIVAL)) if scheduled_for is None else scheduled_for.isoformat()


class _Begun(NamedTuple):
    claim: Claim
    due: float
    at: float
    number: int


class _Lingering(NamedTuple):
    """A thread that is over its time: nobody waits for it any more, and yet it keeps its seat."""

    begun: _Begun
    until: float
    outcome: str


class _InVain(NamedTuple):
    """Of a job that was claimed and lost before it began, perhaps more than once: as if it had waited all along."""

    due: float | None
    """Since when it waits; None once it has begun."""
    attempts: int
    """So many of its attempts were none."""


class Notes:
    """What came due before the simulated time began is nobody's business."""

    def __init__(self, scenario: Scenario, clock: Clock, in_threads: Collection[str] = ()) -> None:
        self._scenario = scenario
        self._clock = clock
        self._in_threads = in_threads
        self._lingering: list[_Lingering] = []
        self._in_vain: dict[int, _InVain] = {}
        self._begun: dict[tuple[int, int], _Begun] = {}
        self._lost: set[tuple[int, int]] = set()
        self._work: list[Work] = []
        self._unstarted: list[Unstarted] = []
        self._slots: list[Slots] = []
        self._fired: dict[str, list[float]] = {}
        self._jobs: Counter[str] = Counter()
        self._ended: dict[str, Counter[str]] = {}
        self._skipped: Counter[str] = Counter()
        self._errors: list[Exception] = []
        self._writers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "job.start": lambda told: self._begin(told["claim"]),
            "job.stop": lambda told: self._end(told["claim"], told["change"]),
            "rescue": lambda told: self._rescue(told["claim"], told["change"]),
            "overrun": lambda told: self._rescue(told["claim"], told["change"]),
            "expire": lambda told: self._expire(told["job"], told["change"]),
            "settle.rejected": lambda told: self._reject(told["change"]),
            "slot": lambda told: self._decide(told["schedule"], told["decided"]),
        }

    def listen(self, telemetry: Telemetry) -> None:
        """Hear what a node tells."""
        telemetry.subscribe(lambda event, _, told: self._hear(event, told), *self._writers)

    def _hear(self, event: str, told: Mapping[str, Any]) -> None:
        try:
            self._writers[event](told)
        except Exception as error:  # telemetry would swallow it, and the figures would be wrong
            self._errors.append(error)

    def made(self, task: str, jobs: int) -> None:
        self._jobs[task] += jobs

    def lose_all(self) -> None:
        """Every node is gone, and with it what ran there."""
        self._lost.update(self._begun)
        for begun in self._begun.values():
            self._write(begun, self._seconds(), LOST)
        self._begun.clear()
        self._leave(self._seconds())

    def undecided(self, schedule: str, due: float, slots: int) -> None:
        """Slots that came due, and nobody was there to decide them when the time was over."""
        self._slots.append(Slots(schedule, due, slots, "undecided", "in an outage at the end"))

    def conclude(self, unfinished: Iterable[Job]) -> Run:
        """The whole of it, with the jobs that are not finished at the end."""
        if self._errors:
            raise self._errors[0]
        left: Counter[str] = Counter()
        for job in unfinished:
            left[job.state] += 1
            due = self._due_of(job)
            if (job.id, job.claim_no) not in self._begun and due < self._scenario.length:
                self._unstarted.append(self._without_seat(job, job.args, due, None))
        for begun in self._begun.values():
            ended = begun.at + self._wanted(begun.claim, json.loads(begun.claim.args))
            self._write(begun, self._scenario.length, RUNNING, max(ended - self._scenario.length, 0.0))
        self._leave(self._scenario.length)
        return Run(
            self._work, self._unstarted, self._slots, self._fired, self._jobs, self._ended, left, self._skipped
        )  # fmt: skip

    # --- what nodes tell ----------------------------------------------------------------------------------------

    def _begin(self, claim: Claim) -> None:
        due, now, number = self._due_of(claim), self._seconds(), self._number(claim)
        self._begun[claim.id, claim.claim_no] = _Begun(claim, due, now, number)
        if claim.id in self._in_vain:
            self._in_vain[claim.id] = self._in_vain[claim.id]._replace(due=None)
        if claim.scheduled_for is not None and number == 1 and due >= 0:
            self._fired.setdefault(claim.task, []).append(now - due)  # a declared schedule has its task's name

    def _end(self, claim: Claim, change: Change) -> None:
        begun = self._begun.pop((claim.id, claim.claim_no), None)
        if begun is not None:
            self._stop(begun, self._seconds(change.ended_at), change.outcome or change.state)
        elif change.state in TERMINAL:
            self._give_up(claim, change.reason or change.state)
        self._count(claim, change)

    def _rescue(self, claim: Claim, change: Change) -> None:
        """Another node ended an attempt. A job that was claimed and never begun goes on waiting."""
        place = (claim.id, claim.claim_no)
        begun = self._begun.pop(place, None)
        if begun is not None:
            self._write(begun, self._seconds(), change.outcome or LOST)
        elif place not in self._lost and change.state in TERMINAL:
            self._give_up(claim, change.reason or LOST)
        elif place not in self._lost:
            before = self._in_vain.get(claim.id, _InVain(None, 0))
            self._in_vain[claim.id] = _InVain(self._due_of(claim), before.attempts + 1)
        self._lost.discard(place)
        self._count(claim, change)

    def _expire(self, job: Job, change: Change) -> None:
        """Nobody claimed it in time. A retry that would have come after its deadline was never due."""
        due = self._due_of(job)
        if 0 <= due <= self._seconds():
            self._unstarted.append(self._without_seat(job, job.args, due, change.reason or change.state))
        self._count(job, change)

    def _reject(self, change: Change) -> None:
        begun = self._begun.pop((change.id, change.claim_no), None)
        if begun is not None:
            self._write(begun, self._seconds(), LOST)

    def _decide(self, schedule: str, decided: Decided) -> None:
        due = self._seconds(decided.scheduled_for)
        if due < 0:
            return
        self._slots.append(Slots(schedule, due, decided.slots, decided.verdict, decided.reason))
        if decided.verdict == "fired":
            self.made(schedule, 1)

    # --- writing ------------------------------------------------------------------------------------------------

    def _stop(self, begun: _Begun, ended: float, outcome: str) -> None:
        """An attempt has an outcome. If it was cut off in a thread, that goes on."""
        claim = begun.claim
        until = begun.at + self._wanted(claim, json.loads(claim.args)) if claim.task in self._in_threads else ended
        if round(until, 6) > ended:
            self._lingering.append(_Lingering(begun, round(until, 6), outcome))
        else:
            self._write(begun, ended, outcome)

    def _leave(self, now: float) -> None:
        """The seats that threads keep are lost, or the time is over."""
        for begun, until, outcome in self._lingering:
            self._write(begun, min(until, now), outcome)
        self._lingering.clear()

    def _write(self, begun: _Begun, ended: float, outcome: str, left: float = 0.0) -> None:
        claim = begun.claim
        if begun.due >= 0:
            self._work.append(
                Work(
                    self._place(claim), claim.task, claim.queue, claim.priority, begun.due, begun.at, ended,
                    begun.number, outcome, left,
                )
            )  # fmt: skip

    def _give_up(self, claim: Claim, why: str) -> None:
        due = self._due_of(claim)
        if due >= 0:
            self._unstarted.append(self._without_seat(claim, json.loads(claim.args), due, why))

    def _without_seat(self, job: Job | Claim, args: Mapping[str, Any], due: float, why: str | None) -> Unstarted:
        until, number = min(self._seconds(), self._scenario.length), self._number(job)
        return Unstarted(
            self._place(job), job.task, job.queue, job.priority, due, until, self._wanted(job, args), why,
            job.scheduled_for is not None and number == 1, number,
        )  # fmt: skip

    def _wanted(self, job: Job | Claim, args: Mapping[str, Any]) -> float:
        """For how long an attempt takes a seat: no longer than its time-out lets it, unless it is a thread."""
        seconds, _ = self._scenario.fate(job.task, identity(job.scheduled_for, args), job.attempt)
        longest = None if job.task in self._in_threads else options.longest(job.options)
        return seconds if longest is None else min(seconds, longest)

    def _place(self, job: Job | Claim) -> Place:
        return self._seconds(job.created_at), job.id

    def _count(self, job: Job | Claim, change: Change) -> None:
        if change.state in TERMINAL and self._is_ours(job):
            self._ended.setdefault(job.task, Counter())[change.state] += 1
            if change.state == "skipped" and change.reason != MISFIRE:
                self._skipped[change.reason or change.state] += 1

    def _is_ours(self, job: Job | Claim) -> bool:
        return self._seconds(job.scheduled_for or job.created_at) >= 0

    def _number(self, job: Job | Claim) -> int:
        """Which of its attempts is the next one, 1 for the first: those that never began are none."""
        return job.attempt + 1 - (self._in_vain[job.id].attempts if job.id in self._in_vain else 0)

    def _due_of(self, job: Job | Claim) -> float:
        """A slot's job is due at its slot, however late that was decided; later attempts when they may begin."""
        in_vain = self._in_vain.get(job.id)
        if in_vain is not None and in_vain.due is not None:
            return in_vain.due
        first = job.scheduled_for is not None and job.attempt == 0
        return self._seconds(job.scheduled_for if first else max(job.created_at, job.visible_at))

    def _seconds(self, instant: datetime | None = None) -> float:
        """An instant, or now, in seconds since the simulated time began."""
        return round(((instant or self._clock.now()) - self._scenario.start).total_seconds(), 6)
