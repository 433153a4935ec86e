"""Records what the nodes of a simulation do: every attempt that came due, and what became of jobs and slots."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from oncue.clock import Clock
from oncue.model import TERMINAL, Change, Claim, Decided, Job
from oncue.planning.scenario import Scenario, Span
from oncue.policy import options
from oncue.telemetry import Telemetry

ARRIVAL = "arrival"
"""The one argument of a job that the simulated application enqueues: its stream's number, and its own in there."""
FIRED, COALESCED, MISFIRE = "fired", "coalesced", "misfire"
UNDECIDED = "undecided: in an outage at the end"

Order: TypeAlias = tuple[float, int]
"""The order of jobs of one priority: when it was made, and its number."""


class DueAttempt(NamedTuple):
    """An attempt that came due. Times are in seconds since the start of the simulated time."""

    order: Order
    task: str
    queue: str
    priority: int
    due: float
    until: float
    """Until when it waited: it began then, was given up, or the simulated time ended."""
    seconds: float
    """For how long it took a seat, or would have."""
    ended: float | None
    """None if it never began."""
    number: int = 1
    """1 for a job's first attempt."""
    is_slot: bool = False
    """Whether it is the first attempt of a slot's job."""
    given_up: str | None = None
    """Why it did not begin. None if it did, or if it still waited at the end."""

    @property
    def wait(self) -> Span:
        return Span(self.due, self.until)


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that happened."""

    attempts: list[DueAttempt] = field(default_factory=list)
    slots: dict[str, Counter[str]] = field(default_factory=dict)
    """By schedule: its slots by what was decided."""
    jobs: Counter[str] = field(default_factory=Counter)
    """By task: how many were made, by a slot or by the application."""
    ended: dict[str, Counter[str]] = field(default_factory=dict)
    """By task: how many of its jobs ended in which state."""
    left: Counter[str] = field(default_factory=Counter)
    """The jobs that were not finished at the end, by state."""
    skipped: Counter[str] = field(default_factory=Counter)
    """The jobs that were skipped, by reason, but for slots that found no seat within their grace."""


def identity(scheduled_for: datetime | None, args: Mapping[str, Any]) -> str:
    """What tells a job from others of its task in every scenario."""
    return str(args.get(ARRIVAL)) if scheduled_for is None else scheduled_for.isoformat()


class _Begun(NamedTuple):
    claim: Claim
    due: float
    at: float
    number: int


class _LostClaims(NamedTuple):
    """Of a job whose node was lost between its claim and its beginning: it counts as if it had waited all along."""

    due: float | None
    """Since when it waits; None once it has begun."""
    attempts: int


class Recorder:
    """Subscribes to the telemetry of the nodes. It leaves out what came due before the simulated time."""

    def __init__(self, scenario: Scenario, clock: Clock, in_threads: Collection[str] = ()) -> None:
        self._scenario = scenario
        self._clock = clock
        self._in_threads = in_threads
        self._run = Run()
        self._begun: dict[tuple[int, int], _Begun] = {}
        self._lost: set[tuple[int, int]] = set()
        self._lost_claims: dict[int, _LostClaims] = {}
        self._overdue_threads: list[tuple[_Begun, float]] = []
        """Threads beyond their time-out keep their seats until they end."""
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

    def subscribe(self, telemetry: Telemetry) -> None:
        telemetry.subscribe(lambda event, _, told: self._hear(event, told), *self._writers)

    def _hear(self, event: str, told: Mapping[str, Any]) -> None:
        try:
            self._writers[event](told)
        except Exception as error:  # telemetry would swallow it, and the figures would be wrong
            self._errors.append(error)

    def made(self, task: str, jobs: int) -> None:
        self._run.jobs[task] += jobs

    def lose_all(self) -> None:
        """Every node is gone, and with it what ran there."""
        self._lost.update(self._begun)
        for begun in self._begun.values():
            self._write(begun, self._seconds())
        self._begun.clear()
        self._end_threads(self._seconds())

    def undecided(self, schedule: str, slots: int) -> None:
        """Slots that came due when no node was there to decide them until the time was over."""
        self._run.slots.setdefault(schedule, Counter())[UNDECIDED] += slots

    def conclude(self, unfinished: Iterable[Job]) -> Run:
        """Everything, with the jobs that are not finished at the end."""
        if self._errors:
            raise self._errors[0]
        for job in unfinished:
            self._run.left[job.state] += 1
            if (job.id, job.claim_no) not in self._begun and self._due(job) < self._scenario.length:
                self._wait(job, job.args, None)
        for begun in self._begun.values():
            ends = begun.at + self._wanted(begun.claim, json.loads(begun.claim.args))
            self._write(begun, self._scenario.length, max(ends - self._scenario.length, 0.0))
        self._end_threads(self._scenario.length)
        return self._run

    # --- events -------------------------------------------------------------------------------------------------

    def _begin(self, claim: Claim) -> None:
        self._begun[claim.id, claim.claim_no] = _Begun(claim, self._due(claim), self._seconds(), self._number(claim))
        if claim.id in self._lost_claims:
            self._lost_claims[claim.id] = self._lost_claims[claim.id]._replace(due=None)

    def _end(self, claim: Claim, change: Change) -> None:
        begun = self._begun.pop((claim.id, claim.claim_no), None)
        if begun is not None:
            self._stop(begun, self._seconds(change.ended_at))
        elif change.state in TERMINAL:
            self._wait(claim, json.loads(claim.args), change.reason or change.state)
        self._count(claim, change)

    def _rescue(self, claim: Claim, change: Change) -> None:
        """Another node ended an attempt. A job that was claimed and never began goes on waiting."""
        key = (claim.id, claim.claim_no)
        begun = self._begun.pop(key, None)
        if begun is not None:
            self._write(begun, self._seconds())
        elif key not in self._lost and change.state in TERMINAL:
            self._wait(claim, json.loads(claim.args), change.reason or "lost")
        elif key not in self._lost:
            before = self._lost_claims.get(claim.id, _LostClaims(None, 0))
            self._lost_claims[claim.id] = _LostClaims(self._due(claim), before.attempts + 1)
        self._lost.discard(key)
        self._count(claim, change)

    def _expire(self, job: Job, change: Change) -> None:
        """No node claimed it in time. A retry that would have come after its deadline was never due."""
        if self._due(job) <= self._seconds():
            self._wait(job, job.args, change.reason or change.state)
        self._count(job, change)

    def _reject(self, change: Change) -> None:
        begun = self._begun.pop((change.id, change.claim_no), None)
        if begun is not None:
            self._write(begun, self._seconds())

    def _decide(self, schedule: str, decided: Decided) -> None:
        if self._seconds(decided.scheduled_for) < 0:
            return
        has_reason = decided.reason and decided.verdict not in (FIRED, COALESCED)  # the reason of these is a slot
        what = f"{decided.verdict}: {decided.reason}" if has_reason else decided.verdict
        self._run.slots.setdefault(schedule, Counter())[what] += decided.slots
        if decided.verdict == FIRED:
            self.made(schedule, 1)

    # --- writing ------------------------------------------------------------------------------------------------

    def _stop(self, begun: _Begun, ended: float) -> None:
        """An attempt has an outcome. If its time-out ended it in a thread, the thread goes on."""
        claim = begun.claim
        until = begun.at + self._wanted(claim, json.loads(claim.args)) if claim.task in self._in_threads else ended
        if round(until, 6) > ended:
            self._overdue_threads.append((begun, round(until, 6)))
        else:
            self._write(begun, ended)

    def _end_threads(self, now: float) -> None:
        for begun, until in self._overdue_threads:
            self._write(begun, min(until, now))
        self._overdue_threads.clear()

    def _write(self, begun: _Begun, ended: float, left: float = 0.0) -> None:
        """`left` is for how long it would have gone on, had the simulated time not ended."""
        claim, due, at, number = begun
        if due >= 0:
            self._add(claim, due, at, ended - at + left, ended, number)

    def _wait(self, job: Job | Claim, args: Mapping[str, Any], given_up: str | None) -> None:
        """An attempt that came due and did not begin. How long it would have taken is drawn all the same."""
        due, until = self._due(job), min(self._seconds(), self._scenario.length)
        if due >= 0:
            self._add(job, due, until, self._wanted(job, args), None, self._number(job), given_up)

    def _add(
        self, job: Job | Claim, due: float, until: float, seconds: float, ended: float | None, number: int,
        given_up: str | None = None,
    ) -> None:  # fmt: skip
        order, is_slot = (self._seconds(job.created_at), job.id), job.scheduled_for is not None and number == 1
        self._run.attempts.append(
            DueAttempt(order, job.task, job.queue, job.priority, due, until, seconds, ended, number, is_slot, given_up)
        )

    def _wanted(self, job: Job | Claim, args: Mapping[str, Any]) -> float:
        """For how long an attempt takes a seat: no longer than its time-out lets it, unless it is a thread."""
        seconds, _ = self._scenario.draw(job.task, identity(job.scheduled_for, args), job.attempt)
        longest = None if job.task in self._in_threads else options.longest(job.options)
        return seconds if longest is None else min(seconds, longest)

    def _count(self, job: Job | Claim, change: Change) -> None:
        if change.state in TERMINAL and self._seconds(job.scheduled_for or job.created_at) >= 0:
            self._run.ended.setdefault(job.task, Counter())[change.state] += 1
            if change.state == "skipped" and change.reason != MISFIRE:
                self._run.skipped[change.reason or change.state] += 1

    def _number(self, job: Job | Claim) -> int:
        """Which of its attempts is the next one, 1 for the first: those that never began do not count."""
        return job.attempt + 1 - (self._lost_claims[job.id].attempts if job.id in self._lost_claims else 0)

    def _due(self, job: Job | Claim) -> float:
        """A slot's job is due at its slot, however late that was decided; later attempts when they may begin."""
        lost = self._lost_claims.get(job.id)
        if lost is not None and lost.due is not None:
            return lost.due
        first = job.scheduled_for is not None and job.attempt == 0
        return self._seconds(job.scheduled_for if first else max(job.created_at, job.visible_at))

    def _seconds(self, instant: datetime | None = None) -> float:
        """An instant, or now, in seconds since the simulated time began."""
        return round(((instant or self._clock.now()) - self._scenario.start).total_seconds(), 6)
