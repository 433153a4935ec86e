"""The life of a job: it is not lost, it is fenced by its claim_no, and it ends once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from oncue.model import TERMINAL, WAITING
from oncue.policy import options
from oncue.policy.lifecycle import BY_HAND
from oncue.sim.checker.eras import in_era_of, when
from oncue.sim.checker.evidence import Evidence, JobStory, Turn, claim_no, ends
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event, checksum, micros, micros_or_none


@promise("nothing acknowledged is lost")
def _nothing_lost(evidence: Evidence) -> Iterator[Broken]:
    """Every job that an enqueue was told of is there, or ended and was pruned; none that was refused is."""
    there = {job.id for job in evidence.final.jobs}
    for event in evidence.told("enqueue.ok", "enqueue.fail"):
        told = event.fields
        if event.kind == "enqueue.fail":
            for job_id in there.intersection(told["ids"]):
                yield Broken(f"job {job_id} was refused and is there", (event,))
            continue
        for job_id, standing, created in zip(told["ids"], told["standing"], told["created"], strict=True):
            if created and standing != job_id:
                yield Broken(f"job {job_id} was acknowledged as {standing}", (event,))
            elif standing not in there and not may_be_pruned(evidence, standing):
                yield Broken(f"job {standing} was acknowledged and is not there", (event,))


def may_be_pruned(evidence: Evidence, job_id: int) -> bool:
    """Only what has ended may be deleted, and not right away; the parts of a cluster job go with it."""
    story = evidence.jobs.get(job_id)
    ended = None if story is None else ended_at(story)
    if evidence.pruned == 0 or story is None or ended is None:
        return False
    whole = None if story.written is None else evidence.jobs.get(story.written.fields.get("whole", -1))
    of_whole = None if whole is None else ended_at(whole)
    return min(ended, ended if of_whole is None else of_whole) < evidence.pruned_before


def ended_at(story: JobStory) -> int | None:
    """When a job ended, as its row tells it."""
    changes = story.changes
    at: int | None = changes[-1].fields["ended_at"] if changes and ends(changes[-1]) else None
    return at


@promise("a key has one unfinished job")
def _one_per_key(evidence: Evidence) -> Iterator[Broken]:
    """Among the unfinished jobs of a task no two share a key, at any time."""
    holders: dict[tuple[str, str], list[int]] = defaultdict(list)
    for job in evidence.final.jobs:
        if job.key is not None and not job.finished:
            holders[job.task, job.key].append(job.id)
    for (task, key), found in holders.items():
        if len(found) > 1:
            yield Broken(f"the unfinished jobs {found} of {task} share the key {key!r}")
    if evidence.certain:
        yield from _keys_over_time(evidence)


def _keys_over_time(evidence: Evidence) -> Iterator[Broken]:
    keys: dict[int, tuple[str, str]] = {}
    holders: dict[tuple[str, str], Event] = {}
    for event in evidence.told("job", "change"):
        told, job_id = event.fields, event.fields["id"]
        begins = event.kind == "job" and told["key"] is not None and job_id not in keys
        if begins:
            keys[job_id] = (told["task"], told["key"])
        elif job_id not in keys or event.kind == "job" or not told["accepted"]:
            continue
        key, holder = keys[job_id], holders.get(keys[job_id])
        if not begins and ends(event):
            if holder is not None and holder.fields["id"] == job_id:
                del holders[key]
        elif holder is not None and holder.fields["id"] != job_id:
            yield Broken(f"job {job_id} took the key {key[1]!r} of an unfinished job", (holder, event))
        else:
            holders[key] = event


@promise("a duplicate stands for an unfinished job")
def _duplicates(evidence: Evidence) -> Iterator[Broken]:
    """A duplicate enqueue returns the id of a job that was unfinished at that moment."""
    for event in evidence.told("enqueue.ok") if evidence.certain else ():
        told = event.fields
        asked = evidence.operations.get(told.get("op", -1))
        for job_id, standing, created in zip(told["ids"], told["standing"], told["created"], strict=True):
            if created or standing == job_id or asked is None or standing not in evidence.jobs:
                continue
            changes = evidence.jobs[standing].changes
            before = [change for change in changes if when(change) < when(asked.invoke)]
            meanwhile = [change for change in changes if when(asked.invoke) <= when(change) <= when(event)]
            if before and ends(before[-1]) and not any(not ends(change) for change in meanwhile):
                message = f"job {job_id} was left out for job {standing}, which had ended"
                yield Broken(message, (before[-1], asked.invoke, event))


@promise("a job ends once, and stays as it ended")
def _ends_once(evidence: Evidence) -> Iterator[Broken]:
    """Only an operator's retry, which starts from the end, writes to a finished job."""
    for story in evidence.jobs.values():
        ended: Event | None = None
        for change in story.changes:
            if ended is not None and change.fields["from_state"] not in TERMINAL:
                yield Broken(f"job {story.id} was written after its end", (ended, change))
            ended = change if ends(change) else None


_ASKED = ("task", "queue", "group", "key", "options", "max_retries")
_LIMITS = ("deadline_at", "start_by")


@promise("a row is what was asked for")
def _row_as_asked(evidence: Evidence) -> Iterator[Broken]:
    """Its task, queue, group, key, options, arguments are as it was written; its limits too, unless started over."""
    for job in evidence.final.jobs:
        story = evidence.jobs.get(job.id)
        if story is None or story.written is None:
            continue
        told = story.written.fields
        names = [name for name in _ASKED if not (name == "key" and told.get("left_out", False))]
        differing = [name for name in names if getattr(job, name) != told.get(name)]
        if "args" in told and checksum(job.args) != told["args"]:
            differing.append("args")
        if evidence.complete and not told.get("parked", False) and not _started_over(story):
            # A cluster job has begun when its parts were written: the grace of its slot is kept.
            limits = [name for name in _LIMITS if not (name == "start_by" and job.id in evidence.spread)]
            later = evidence.deadlines.get(job.id)
            asked = told if later is None else {**told, "deadline_at": later.fields["deadline_at"]}
            differing += [name for name in limits if micros_or_none(getattr(job, name)) != asked.get(name)]
        if differing:
            yield Broken(f"job {job.id} was asked for with other {', '.join(differing)}", (story.written,))


def _started_over(story: JobStory) -> bool:
    return any(change.fields["from_state"] in TERMINAL for change in story.changes)


_KEPT = ("state", "reason", "claim_no", "retry_count", "attempt", "crashes", "error")


@promise("a row is what was written last")
def _row_is_last_change(evidence: Evidence) -> Iterator[Broken]:
    """A finished row says what the change that ended it said, and no other change ended it."""
    for job in evidence.final.jobs:
        story = evidence.jobs.get(job.id)
        changes = [] if story is None else story.changes
        if changes and (ends(changes[-1]) or job.finished):
            last = changes[-1]
            differing = [name for name in _KEPT if getattr(job, name) != last.fields[name]]
            if job.finished_at is not None and micros(job.finished_at) != last.fields["ended_at"]:
                differing.append("finished_at")
            if micros_or_none(job.started_at) != last.fields["started_at"]:
                differing.append("started_at")
            if differing and (evidence.complete or ends(last)):
                yield Broken(f"the row of job {job.id} differs in {', '.join(differing)}", (last,))
        elif job.finished and evidence.complete:
            yield Broken(f"job {job.id} is {job.state} and nobody wrote that")


# --- the fence ------------------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """A claim or an attempted change, and what the row was before it: its state, its number, and who made it so."""

    event: Event
    state: str
    number: int
    before: tuple[Event, ...]


def _replayed(story: JobStory) -> Iterator[_Step]:
    """A job's events against its row, as the history has it."""
    state, number = "queued", 0
    before = () if story.written is None else (story.written,)
    for event in story.log:
        yield _Step(event, state, number, before)
        if event.kind == "claim":
            state, number, before = "running", max(number, claim_no(event)), (event,)
        elif event.fields["accepted"]:
            state, before = event.fields["state"], (event,)


@promise("only the current claim writes")
def _fenced(evidence: Evidence) -> Iterator[Broken]:
    """A change that was accepted knew the state and the claim_no of the row. A claim is settled once."""
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            yield from _settled_twice(story, turn, evidence.complete)
        if evidence.ordered:
            for step in _replayed(story):
                if step.event.kind == "change" and step.event.fields["accepted"] and _is_stale(step, evidence.complete):
                    yield Broken(f"a stale write to job {story.id} was accepted", (*step.before, step.event))


def _settled_twice(story: JobStory, turn: Turn, complete: bool) -> Iterator[Broken]:
    settled = [change for change in turn.changes if change.fields["from_state"] == "running"]
    if len(settled) > 1:
        yield Broken(f"claim {turn.number} of job {story.id} was settled twice", tuple(settled))
    if settled and complete and not turn.claims:
        yield Broken(f"job {story.id} was written under claim {turn.number}, which nobody has", tuple(settled))


def _is_stale(step: _Step, complete: bool) -> bool:
    """Whether a change did not know the row. Waiting jobs become due without an event, so those states count as one."""
    told = step.event.fields
    if not complete:
        return claim_no(step.event) < step.number
    same_state = told["from_state"] == step.state or {told["from_state"], step.state} <= WAITING
    return claim_no(step.event) != step.number or not same_state


@promise("only stale writes are rejected")
def _rejected(evidence: Evidence) -> Iterator[Broken]:
    """What a running attempt came to, told under the current claim, is never turned away."""
    for story in evidence.jobs.values() if evidence.certain else ():
        for step in _replayed(story):
            told = step.event.fields
            if step.event.kind != "change" or told["accepted"] or told["from_state"] in WAITING:
                continue
            gone = told["from_state"] in TERMINAL and may_be_pruned(evidence, story.id)
            if not gone and not _is_stale(step, complete=True):
                yield Broken(f"a current write to job {story.id} was rejected", (*step.before, step.event))


@promise("claim_no grows with every claim")
def _claims_grow(evidence: Evidence) -> Iterator[Broken]:
    """The number that fences a claim is never given twice and never goes back, in the row neither."""
    rows = {job.id: job for job in evidence.final.jobs}
    for story in evidence.jobs.values():
        claims = story.claims
        for earlier, later in pairwise(claims):
            if claim_no(earlier) == claim_no(later):
                yield Broken(f"job {story.id} was claimed twice under one number", (earlier, later))
        if evidence.ordered:
            for earlier, later in pairwise(event for event in story.log if event.kind == "claim"):
                if claim_no(later) < claim_no(earlier):
                    yield Broken(f"claim_no of job {story.id} went back", (earlier, later))
        row = rows.get(story.id)
        if row is not None and claims and row.claim_no < claim_no(claims[-1]):
            yield Broken(f"the row of job {story.id} forgot a claim", (claims[-1],))


@promise("a job is claimed only when it waits")
def _claimed_when_waiting(evidence: Evidence) -> Iterator[Broken]:
    """Its last claim was settled, and its time has come; what is to be cancelled is claimed at once, to be refused."""
    for story in evidence.jobs.values():
        ready, settled = story.written, True
        for turn in story.turns.values():
            for claim in turn.claims:
                if evidence.complete and claim_no(claim) > 1 and not settled:
                    yield Broken(f"job {story.id} was claimed while it was running", (claim,))
                excused = claim.fields["cancel_requested"] or evidence.is_unsure(claim)
                if ready is None or excused or evidence.is_unsure(ready):
                    continue
                if when(claim) + evidence.tolerance < in_era_of(ready, ready.fields["visible_at"]):
                    yield Broken(f"job {story.id} was claimed before its time", (ready, claim))
            ready, settled = (turn.changes[-1] if turn.changes else ready), bool(turn.changes)


@promise("an at-most-once attempt is not repeated")
def _at_most_once(evidence: Evidence) -> Iterator[Broken]:
    """Such a job goes on only if its own handler, still alive, asked for that, or an operator did."""
    for story in evidence.jobs.values():
        if story.written is None or options.read(story.written.fields["options"]).delivery != "at_most_once":
            continue
        for turn in story.turns.values():
            for change in turn.changes:
                if change.fields["from_state"] == "running" and not ends(change) and not _may_go_on(turn, change):
                    yield Broken(f"job {story.id} is attempted again", (*turn.claims, change))


def _may_go_on(turn: Turn, change: Event) -> bool:
    how = change.fields["outcome"]
    cut_off = turn.outcome is not None and turn.outcome.fields["outcome"] == "TimedOut"
    return how in (None, BY_HAND) or (how in ("failed", "snoozed") and not cut_off)


@promise("attempts are counted as they begin")
def _attempts_counted(evidence: Evidence) -> Iterator[Broken]:
    """A change counts the attempt that it ends, if there was one, and only that. One that had done nothing yet may
    say so, and count as none."""
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            for change in turn.changes:
                told = change.fields
                if turn.claim is None or told["from_state"] != "running":
                    continue
                before, counted = turn.claim.fields["attempt"], told["outcome"] is not None
                if told["attempt"] != before + counted:
                    message = f"job {story.id} went from {before} to {told['attempt']} attempts"
                    yield Broken(message, (turn.claim, change))
                elif counted or not all(one.fields.get("begun", True) for one in turn.outcomes):
                    continue
                elif evidence.is_unsure(change):
                    continue  # a rescuer that does not know the time may look at what has just begun
                elif any(_is_before(attempt.start, change, evidence) for attempt in turn.attempts):
                    yield Broken(f"an attempt of job {story.id} was not counted", (turn.attempts[0].start, change))


@promise("every attempt is on record")
def _on_record(evidence: Evidence) -> Iterator[Broken]:
    """Of each attempt that a job went on after there is a row, and no other, as far back as they are kept."""
    if evidence.final.attempts is None or not evidence.complete:
        return
    there = {job.id for job in evidence.final.jobs}
    for story in evidence.jobs.values():
        if story.id not in there:
            continue
        left = {claim_no(change): change for change in story.changes if _goes_on_record(change)}
        kept = set(evidence.final.attempts.get(story.id, ()))
        for number, change in left.items():
            if number not in kept and (change.fields["ended_at"] or 0) >= evidence.pruned_before:
                yield Broken(f"the attempt of job {story.id} under claim {number} is not on record", (change,))
        for number in sorted(kept - left.keys()):
            yield Broken(f"an attempt of job {story.id} under claim {number} is on record, and was not its last")


def _goes_on_record(change: Event) -> bool:
    return change.fields["outcome"] is not None and not ends(change)


def _is_before(start: Event, change: Event, evidence: Evidence) -> bool:
    return when(start) + evidence.tolerance < when(change)
