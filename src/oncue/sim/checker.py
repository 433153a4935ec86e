"""What must hold of every history, each promise by name. Pure: events and final rows in, violations out.

The simulator, tests with real processes and audits use this one module. Two things a history may lack:

    complete   every event is there; a killed process takes some with it
    ordered    the list is in the order of the database's commits; merged files of several processes are only nearly so

Promises that need them are checked only where they hold. The order of a job's claims is always known: by claim_no.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from oncue.model import TERMINAL, Job, Revision, Schedule, Slot
from oncue.policy import options
from oncue.policy.audit import audit
from oncue.policy.lifecycle import POISON
from oncue.policy.triggers import trigger_of
from oncue.sim.history import Event, micros, moment

FOREVER = 2**62
OVERRUN = "over its maximum runtime"


class Violation(NamedTuple):
    promise: str
    message: str
    events: tuple[Event, ...]

    def __str__(self) -> str:
        lines = [f"{self.promise}: {self.message}", *(f"    {event.line()}" for event in self.events)]
        return "\n".join(lines)


class Broken(NamedTuple):
    """What a promise finds; the checker adds the promise's name."""

    message: str
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Books:
    """A schedule with everything that the database has of it. `doubled` are slots with two jobs."""

    schedule: Schedule
    revisions: list[Revision]
    slots: list[Slot]
    doubled: list[datetime]


@dataclass(frozen=True, slots=True)
class Final:
    """What the database held in the end: the rows, and the totals by state if they are to be compared."""

    jobs: tuple[Job, ...]
    totals: Mapping[str, int] | None = None
    schedules: tuple[Books, ...] = ()
    at: datetime | None = None
    """When that was."""


@dataclass(slots=True)
class JobStory:
    """The events of one job. Accepted changes and claims are in the order of claim_no."""

    id: int
    written: Event | None = None
    claims: list[Event] = field(default_factory=list)
    starts: list[Event] = field(default_factory=list)
    changes: list[Event] = field(default_factory=list)
    outcomes: dict[tuple[str, int], Event] = field(default_factory=dict)

    def claim(self, claim_no: int) -> Event | None:
        return next((claim for claim in self.claims if claim.fields["claim_no"] == claim_no), None)

    def outcome(self, claim_no: int) -> Event | None:
        return next((event for (_, number), event in self.outcomes.items() if number == claim_no), None)


class Span(NamedTuple):
    """An attempt while it was rightfully running."""

    start: Event
    end: int


@dataclass(slots=True)
class Evidence:
    events: Sequence[Event]
    final: Final
    complete: bool
    ordered: bool
    tolerance: int
    drained_within: float | None
    jobs: dict[int, JobStory] = field(default_factory=dict)
    leases: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    slots: dict[int, list[Event]] = field(default_factory=lambda: defaultdict(list))
    """The verdicts of each schedule."""
    crashes: dict[str, int] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)

    def position(self, event: Event) -> int:
        return self.positions[id(event)]


Promise: TypeAlias = Callable[[Evidence], Iterable[Broken]]
PROMISES: dict[str, Promise] = {}


def promise(name: str) -> Callable[[Promise], Promise]:
    def declare(check: Promise) -> Promise:
        PROMISES[name] = check
        return check

    return declare


def check(
    events: Sequence[Event],
    final: Final,
    *,
    complete: bool = True,
    ordered: bool = True,
    tolerance: float = 0.0,
    drained_within: float | None = None,
) -> list[Violation]:
    """Every violation of every promise. `drained_within` asks for an end of all jobs so soon after the last fault."""
    evidence = Evidence(events, final, complete, ordered, round(tolerance * 1e6), drained_within)
    _sort(evidence)
    return [
        Violation(name, broken.message, broken.events) for name, kept in PROMISES.items() for broken in kept(evidence)
    ]


def _sort(evidence: Evidence) -> None:
    jobs = evidence.jobs
    for position, event in enumerate(evidence.events):
        evidence.positions[id(event)] = position
        if event.kind in ("lease", "lease.end"):
            evidence.leases[event.node].append(event)
        elif event.kind == "slot":
            evidence.slots[event.fields["schedule"]].append(event)
        elif event.kind == "crash":
            evidence.crashes[event.node] = event.at
        elif "id" in event.fields:
            job_id = event.fields["id"]
            _file(jobs.setdefault(job_id, JobStory(job_id)), event)
    for story in jobs.values():
        story.claims.sort(key=_claim_no)
        story.changes.sort(key=_claim_no)


def _file(story: JobStory, event: Event) -> None:
    if event.kind == "job":
        story.written = story.written or event
    elif event.kind == "claim":
        story.claims.append(event)
    elif event.kind == "start":
        story.starts.append(event)
    elif event.kind == "change" and event.fields["accepted"]:
        story.changes.append(event)
    elif event.kind == "outcome":
        story.outcomes.setdefault((event.node, event.fields["claim_no"]), event)


def _claim_no(event: Event) -> int:
    number: int = event.fields["claim_no"]
    return number


def _ends(change: Event) -> bool:
    return change.fields["state"] in TERMINAL


# --- the promises ---------------------------------------------------------------------------------------------------


@promise("nothing acknowledged is lost")
def _nothing_lost(evidence: Evidence) -> Iterator[Broken]:
    there = {job.id for job in evidence.final.jobs}
    for event in evidence.events:
        told = event.fields
        if event.kind == "enqueue.ok":
            for job_id, standing, created in zip(told["ids"], told["standing"], told["created"], strict=True):
                if standing not in there or (created and standing != job_id):
                    yield Broken(f"job {standing} was acknowledged and is not there", (event,))
        elif event.kind == "enqueue.fail":
            for job_id in there.intersection(told["ids"]):
                yield Broken(f"job {job_id} was refused and is there", (event,))


@promise("a key has one unfinished job")
def _one_per_key(evidence: Evidence) -> Iterator[Broken]:
    holders: dict[tuple[str, str], list[int]] = defaultdict(list)
    for job in evidence.final.jobs:
        if job.key is not None and not job.finished:
            holders[job.task, job.key].append(job.id)
    for (task, key), found in holders.items():
        if len(found) > 1:
            yield Broken(f"the unfinished jobs {found} of {task} share the key {key!r}")


@promise("a job ends once, and stays as it ended")
def _ends_once(evidence: Evidence) -> Iterator[Broken]:
    for story in evidence.jobs.values():
        ended: Event | None = None
        for change in story.changes:
            if ended is not None and change.fields["from_state"] not in TERMINAL:
                yield Broken(f"job {story.id} was written after its end", (ended, change))
            ended = change if _ends(change) else None


_KEPT = ("state", "reason", "claim_no", "retry_count", "attempt", "crashes")


@promise("a row is what was written last")
def _row_is_last_change(evidence: Evidence) -> Iterator[Broken]:
    for job in evidence.final.jobs:
        story = evidence.jobs.get(job.id)
        last = story.changes[-1] if story is not None and story.changes else None
        if last is not None and (_ends(last) or job.finished):
            differing = [name for name in _KEPT if getattr(job, name) != last.fields[name]]
            if job.finished_at is not None and micros(job.finished_at) != last.fields["ended_at"]:
                differing.append("finished_at")
            if differing and (evidence.complete or _ends(last)):
                yield Broken(f"the row of job {job.id} differs in {', '.join(differing)}", (last,))
        elif job.finished and evidence.complete:
            yield Broken(f"job {job.id} is {job.state} and nobody wrote that")


@promise("only the current claim writes")
def _fenced(evidence: Evidence) -> Iterator[Broken]:
    for story in evidence.jobs.values():
        settled: dict[int, Event] = {}
        for change in story.changes:
            if change.fields["from_state"] != "running":
                continue
            claim_no = _claim_no(change)
            if claim_no in settled:
                yield Broken(f"claim {claim_no} of job {story.id} was settled twice", (settled[claim_no], change))
            settled[claim_no] = change
            if evidence.complete and story.claim(claim_no) is None:
                yield Broken(f"job {story.id} was written under claim {claim_no}, which nobody has", (change,))
            if evidence.ordered:
                yield from _stale(evidence, story, change)


def _stale(evidence: Evidence, story: JobStory, change: Event) -> Iterator[Broken]:
    position = evidence.position(change)
    for claim in story.claims:
        if _claim_no(claim) > _claim_no(change) and evidence.position(claim) < position:
            yield Broken(f"a stale write to job {story.id} was accepted", (claim, change))


@promise("claim_no grows with every claim")
def _claims_grow(evidence: Evidence) -> Iterator[Broken]:
    rows = {job.id: job for job in evidence.final.jobs}
    for story in evidence.jobs.values():
        for earlier, later in pairwise(story.claims):
            if _claim_no(earlier) == _claim_no(later):
                yield Broken(f"job {story.id} was claimed twice under one number", (earlier, later))
            elif evidence.ordered and evidence.position(earlier) > evidence.position(later):
                yield Broken(f"claim_no of job {story.id} went back", (later, earlier))
        row = rows.get(story.id)
        if row is not None and story.claims and row.claim_no < _claim_no(story.claims[-1]):
            yield Broken(f"the row of job {story.id} forgot a claim", (story.claims[-1],))


@promise("a job is claimed only when it waits")
def _claimed_when_waiting(evidence: Evidence) -> Iterator[Broken]:
    """Its last claim was settled, and its time has come; what is to be cancelled is claimed at once, to be refused."""
    for story in evidence.jobs.values():
        ready: Event | None = story.written
        for claim in story.claims:
            before = [change for change in story.changes if _claim_no(change) < _claim_no(claim)]
            ready = before[-1] if before else ready
            if evidence.complete and _claim_no(claim) > 1 and not _settles(before, _claim_no(claim) - 1):
                yield Broken(f"job {story.id} was claimed while it was running", (claim,))
            early = ready is not None and claim.at + evidence.tolerance < ready.fields["visible_at"]
            if ready is not None and early and not claim.fields["cancel_requested"]:
                yield Broken(f"job {story.id} was claimed before its time", (ready, claim))


def _settles(changes: Sequence[Event], claim_no: int) -> bool:
    return any(_claim_no(change) == claim_no for change in changes)


@promise("nothing starts after the end")
def _no_start_after_end(evidence: Evidence) -> Iterator[Broken]:
    """A zombie may still begin what it holds; a node with a valid lease must not."""
    for story in evidence.jobs.values():
        for number, end in enumerate(story.changes):
            if not _ends(end):
                continue
            revived = any(change.fields["from_state"] in TERMINAL for change in story.changes[number + 1 :])
            for claim in story.claims:
                if _claim_no(claim) > _claim_no(end) and not revived:
                    yield Broken(f"job {story.id} was claimed after its end", (end, claim))
            for start in story.starts:
                late = end.at + evidence.tolerance < start.at and _claim_no(start) <= _claim_no(end)
                if late and not revived and _lease_end(evidence, start) > start.at:
                    yield Broken(f"job {story.id} was started after its end", (end, start))


@promise("attempts of one job never overlap under valid leases")
def _no_overlap(evidence: Evidence) -> Iterator[Broken]:
    if not evidence.leases:
        return
    for story in evidence.jobs.values():
        spans = [_span(evidence, story, start) for start in sorted(story.starts, key=evidence.position)]
        for number, earlier in enumerate(spans):
            for later in spans[number + 1 :]:
                if later.start.at + evidence.tolerance < min(earlier.end, later.end):
                    yield Broken(f"two attempts of job {story.id} ran at once", (earlier.start, later.start))


def _span(evidence: Evidence, story: JobStory, start: Event) -> Span:
    """From its start until it ended, its node died, its lease ended, or it was fenced for being overlong."""
    ends = [_attempt_end(evidence, story, start), _lease_end(evidence, start)]
    ends += [
        change.at
        for change in story.changes
        if _claim_no(change) == _claim_no(start) and str(change.fields["error"]).startswith(OVERRUN)
    ]
    return Span(start, min(ends))


def _attempt_end(evidence: Evidence, story: JobStory, start: Event) -> int:
    outcome = story.outcomes.get((start.node, _claim_no(start)))
    return min(FOREVER if outcome is None else outcome.at, evidence.crashes.get(start.node, FOREVER))


def _lease_end(evidence: Evidence, start: Event) -> int:
    """When the lease that was valid at this start ended for the first time."""
    until, place = 0, evidence.position(start)
    for event in evidence.leases[start.node]:
        before = event.at < start.at or (event.at == start.at and evidence.position(event) < place)
        if not before and event.at >= until:
            break
        until = event.at if event.kind == "lease.end" else int(event.fields["until"])
        if not before and event.kind == "lease.end":
            break
    return until


@promise("a limited queue keeps its limit")
def _limit_kept(evidence: Evidence) -> Iterator[Broken]:
    """Attempts count from their start to their end, or to the end of their node's lease."""
    most = next((event.fields["globally"] for event in evidence.events if event.kind == "limit"), FOREVER)
    starts = [(start, story) for story in evidence.jobs.values() for start in story.starts]
    running: list[Span] = []
    for start, story in sorted(starts, key=lambda pair: evidence.position(pair[0])) if most < FOREVER else ():
        span = _span(evidence, story, start)
        running = [other for other in running if other.end > start.at] + [span] * (span.end > start.at)
        if len(running) > most:
            yield Broken(f"{len(running)} attempts ran at once, {most} may", tuple(other.start for other in running))


@promise("retries keep to their policy")
def _retries(evidence: Evidence) -> Iterator[Broken]:
    for story in evidence.jobs.values():
        if story.written is None:
            continue
        for change in story.changes:
            if change.fields["from_state"] == "running":
                yield from _retry(story, story.written, change)


def _retry(story: JobStory, written: Event, change: Event) -> Iterator[Broken]:
    told, limit = change.fields, written.fields["max_retries"]
    outcome, claim = story.outcome(_claim_no(change)), story.claim(_claim_no(change))
    used = told["retry_count"] if claim is None else claim.fields["retry_count"]
    if told["state"] == "retrying":
        if told["retry_count"] > limit or (claim is not None and told["retry_count"] != used + 1):
            yield Broken(f"job {story.id} was retried outside of its budget of {limit}", (change,))
        shortest, longest = _bounds(written, told["retry_count"] - 1, outcome)
        delay = (told["visible_at"] - told["ended_at"]) / 1e6
        if not shortest - 2e-6 <= delay <= longest + 2e-6:
            expected = f"{shortest:g} to {longest:g} s"
            yield Broken(f"job {story.id} is retried after {delay:g} s, not {expected}", (change,))
    elif told["retry_count"] != used:
        yield Broken(f"job {story.id} was charged a retry without one", (change,))
    elif told["state"] == "failed" and used < limit and _plain_failure(outcome) and told["reason"] is None:
        yield Broken(f"job {story.id} failed with retries left", (change,))


def _plain_failure(outcome: Event | None) -> bool:
    return outcome is not None and outcome.fields["outcome"] == "Failed" and not outcome.fields["final"]


def _bounds(written: Event, retry_count: int, outcome: Event | None) -> tuple[float, float]:
    asked = None if outcome is None else outcome.fields["delay"]
    if asked is not None:
        return asked, asked
    return options.read(written.fields["options"]).retry.bounds(retry_count)


@promise("suspects run one at a time")
def _suspects_alone(evidence: Evidence) -> Iterator[Broken]:
    spans: dict[str, list[Span]] = defaultdict(list)
    for story in evidence.jobs.values():
        for start in story.starts:
            if start.fields["crashes"]:
                spans[start.node].append(Span(start, _attempt_end(evidence, story, start)))
    for node, found in spans.items():
        found.sort(key=lambda span: evidence.position(span.start))
        for earlier, later in pairwise(found):
            if later.start.at < earlier.end:
                yield Broken(f"{node} ran two suspects at once", (earlier.start, later.start))


@promise("a poisonous job ends after three crashes")
def _poison(evidence: Evidence) -> Iterator[Broken]:
    for story in evidence.jobs.values():
        for start in story.starts:
            if start.fields["crashes"] >= POISON:
                yield Broken(f"job {story.id} started after {start.fields['crashes']} crashes", (start,))
        for change in story.changes:
            if change.fields["crashes"] >= POISON and not _ends(change):
                yield Broken(f"job {story.id} goes on after {change.fields['crashes']} crashes", (change,))
            if change.fields["reason"] == "poison" and change.fields["crashes"] < POISON:
                yield Broken(f"job {story.id} was called poison too early", (change,))


@promise("only a lost node's jobs are rescued")
def _rescues(evidence: Evidence) -> Iterator[Broken]:
    """A rescue counts as a crash, so nothing else may count as one."""
    for story in evidence.jobs.values():
        for change in story.changes:
            claim = story.claim(_claim_no(change))
            if claim is None or change.fields["from_state"] != "running":
                continue
            before, after = claim.fields["crashes"], change.fields["crashes"]
            if after not in (0, before, before + 1):  # an attempt that its process survived clears the job
                yield Broken(f"job {story.id} went from {before} to {after} crashes", (claim, change))
            elif after > before and evidence.leases and _lease_end(evidence, claim) > change.at + evidence.tolerance:
                yield Broken(f"job {story.id} was taken from a node that is alive", (claim, change))


@promise("the totals are what ended")
def _totals(evidence: Evidence) -> Iterator[Broken]:
    totals = evidence.final.totals
    if totals is None:
        return
    for state in sorted(TERMINAL):
        changes = [change.fields for story in evidence.jobs.values() for change in story.changes]
        written = sum((change["state"] == state) - (change["from_state"] == state) for change in changes)
        rows = sum(job.state == state for job in evidence.final.jobs)
        if (evidence.complete and totals[state] != written) or totals[state] < rows:
            yield Broken(f"{totals[state]} jobs are counted as {state}; {written} were written, {rows} are there")


@promise("no step fails but for the database")
def _steps(evidence: Evidence) -> Iterator[Broken]:
    for event in evidence.events:
        if event.kind == "tick.error" and not event.fields["expected"]:
            yield Broken(f"{event.fields['service']}: {event.fields['error']}", (event,))


@promise("once faults stop, everything ends in time")
def _drains(evidence: Evidence) -> Iterator[Broken]:
    if evidence.drained_within is None:
        return
    for job in evidence.final.jobs:
        if not job.finished:
            last: Any = evidence.jobs.get(job.id)
            events = (*last.claims[-1:], *last.changes[-1:]) if last is not None else ()
            yield Broken(f"job {job.id} is still {job.state}", events)
    calm = max((event.at for event in evidence.events if event.kind == "faults.over"), default=None)
    if calm is None:
        return
    for story in evidence.jobs.values():
        end = next((change for change in reversed(story.changes) if _ends(change)), None)
        if end is not None and end.at - calm > evidence.drained_within * 1e6:
            yield Broken(f"job {story.id} ended {(end.at - calm) / 1e6:g} s after the last fault", (end,))


# --- slots ----------------------------------------------------------------------------------------------------------


@promise("a slot is decided once")
def _decided_once(evidence: Evidence) -> Iterator[Broken]:
    revisions = {books.schedule.id: books.revisions for books in evidence.final.schedules}
    for schedule, verdicts in evidence.slots.items():
        reached: Event | None = None
        for verdict in sorted(verdicts, key=_place):
            inside = reached is not None and verdict.fields["at"] <= reached.fields["until"]
            if inside and reached is not None and not _is_beside(verdict, reached, revisions.get(schedule, ())):
                yield Broken(f"slot {verdict.fields['at']} was decided twice", (reached, verdict))
            if reached is None or verdict.fields["until"] > reached.fields["until"]:
                reached = verdict


def _is_beside(verdict: Event, run: Event, revisions: Sequence[Revision]) -> bool:
    """Whether a verdict by hand in the span of a run is about none of its slots: an extra run, or of a later rule."""
    at = verdict.fields["at"]
    if verdict.fields["verdict"] != "manual" or at == run.fields["at"]:
        return False
    begun = [revision for revision in revisions if micros(revision.started_at) < run.fields["at"]]
    return verdict.fields["reason"] == "run_now" or (bool(begun) and not trigger_of(begun[-1]).has(moment(at)))


def _place(verdict: Event) -> tuple[int, int]:
    return verdict.fields["at"], verdict.fields["until"]


@promise("a slot and its job are written together")
def _slot_with_job(evidence: Evidence) -> Iterator[Broken]:
    if evidence.complete and evidence.ordered:
        yield from _made_at_once(evidence)
    for books in evidence.final.schedules:
        made_for = {slot.job_id for slot in books.slots}
        for job in evidence.final.jobs:
            if job.schedule_id == books.schedule.id and job.retry_of is None and job.id not in made_for:
                yield Broken(f"job {job.id} of {books.schedule.name} belongs to no slot")


def _made_at_once(evidence: Evidence) -> Iterator[Broken]:
    for verdicts in evidence.slots.values():
        for verdict in verdicts:
            job, place = verdict.fields["job"], evidence.position(verdict)
            following = evidence.events[place + 1] if place + 1 < len(evidence.events) else verdict
            if job is not None and (following.kind, following.fields.get("id")) != ("job", job):
                yield Broken(f"slot {verdict.fields['at']} was decided without its job {job}", (verdict,))
            elif job is None and verdict.fields["verdict"] in ("fired", "manual"):
                yield Broken(f"slot {verdict.fields['at']} fired without a job", (verdict,))


@promise("no slot is decided early")
def _not_early(evidence: Evidence) -> Iterator[Broken]:
    for verdicts in evidence.slots.values():
        for verdict in verdicts:
            early = verdict.at + evidence.tolerance < verdict.fields["until"]
            if early and verdict.fields["verdict"] != "manual":
                yield Broken(f"slot {verdict.fields['until']} was decided before its time", (verdict,))


@promise("no more runs than max_instances")
def _max_instances(evidence: Evidence) -> Iterator[Broken]:
    """When a slot fires, fewer of its schedule's jobs are unfinished. Parked jobs count from their first claim."""
    if not (evidence.complete and evidence.ordered):
        return
    limits = {books.schedule.id: max(r.max_instances for r in books.revisions) for books in evidence.final.schedules}
    owners: dict[int, int] = {}
    unfinished: dict[int, set[int]] = defaultdict(set)
    for event in evidence.events:
        told = event.fields
        if event.kind == "slot" and told["job"] is not None and told["reason"] != "backfill":
            running = unfinished[told["schedule"]]
            if len(running) >= limits.get(told["schedule"], FOREVER):
                yield Broken(f"slot {told['at']} fired while {sorted(running)} were unfinished", (event,))
            running.add(told["job"])
        if event.kind == "slot" and told["job"] is not None:
            owners[told["job"]] = told["schedule"]
        elif event.kind == "change" and told["accepted"] and told["id"] in owners and _ends(event):
            unfinished[owners[told["id"]]].discard(told["id"])
        elif event.kind == "claim" and told["id"] in owners:
            unfinished[owners[told["id"]]].add(told["id"])


@promise("cursors only grow")
def _cursors(evidence: Evidence) -> Iterator[Broken]:
    if not evidence.ordered:
        return
    moved: dict[int, tuple[Event, int]] = {}
    for event in evidence.events:
        if event.kind not in ("step", "revision") or not event.fields.get("accepted", True):
            continue
        version = event.fields["version"] + (event.kind == "step")
        before, last = moved.get(event.fields["schedule"], (None, 0))
        if before is not None and event.fields["cursor"] < before.fields["cursor"]:
            yield Broken(f"the cursor of schedule {event.fields['schedule']} went back", (before, event))
        if before is not None and version <= last:
            yield Broken(f"a stale decision on schedule {event.fields['schedule']} was accepted", (before, event))
        moved[event.fields["schedule"]] = (event, version)


@promise("epochs only grow, and each has one holder")
def _epochs(evidence: Evidence) -> Iterator[Broken]:
    if not evidence.ordered:
        return
    held: dict[str, Event] = {}
    ended: set[tuple[str, str]] = set()
    for event in evidence.events:
        if event.kind == "hold.end":
            names = [event.fields["name"]] if "name" in event.fields else list(held)
            ended.update((name, event.node) for name in names)
        if event.kind != "hold":
            continue
        name, before = event.fields["name"], held.get(event.fields["name"])
        if before is not None and before.node != event.node:
            if event.fields["epoch"] <= before.fields["epoch"]:
                yield Broken(f"the {name} lease changed hands without a new epoch", (before, event))
            if event.at < before.fields["until"] and (name, before.node) not in ended:
                yield Broken(f"the {name} lease was taken from a holder whose time was not over", (before, event))
        elif before is not None and event.fields["epoch"] < before.fields["epoch"]:
            yield Broken(f"the epoch of the {name} lease went back", (before, event))
        held[name] = event
        ended.discard((name, event.node))


@promise("only the current leader decides")
def _led(evidence: Evidence) -> Iterator[Broken]:
    if not evidence.ordered:
        return
    leader: Event | None = None
    for event in evidence.events:
        if event.kind == "hold" and event.fields["name"] == "leader":
            leader = event
        elif event.kind == "step" and event.fields["accepted"] and not _is_led_by(event, leader):
            yield Broken("a decision under an old epoch was accepted", (*([leader] if leader else []), event))


def _is_led_by(step: Event, leader: Event | None) -> bool:
    """Whether a decision was the current leader's. Those by hand need no leader."""
    epoch = step.fields["epoch"]
    return epoch is None or (leader is not None and (leader.node, leader.fields["epoch"]) == (step.node, epoch))


@promise("every slot is accounted for")
def _accounted_for(evidence: Evidence) -> Iterator[Broken]:
    for books in evidence.final.schedules:
        schedule = books.schedule
        found = audit(
            books.revisions, books.slots, schedule.cursor, schedule.horizon, schedule.created_at,
            max(schedule.cursor, schedule.created_at), doubled=books.doubled,
        )  # fmt: skip
        for fate in found.problems:
            when = fate.scheduled_for.isoformat()
            yield Broken(f"slot {when} of {schedule.name} is {fate.verdict}: {fate.reason}")


@promise("once faults stop, somebody leads and no slot waits")
def _led_in_peace(evidence: Evidence) -> Iterator[Broken]:
    for event in evidence.events:
        if event.kind == "calm" and (len(event.fields["leaders"]) != 1 or event.fields["waiting"]):
            yield Broken(f"{event.fields['leaders']} lead, and {event.fields['waiting']} wait", (event,))
