"""Schedules: every slot is decided once, together with its job, never early, and all of them are accounted for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from oncue.model import Revision, Slot
from oncue.policy.audit import audit
from oncue.policy.triggers import trigger_of
from oncue.sim.checker.evidence import FOREVER, Books, Evidence, ends
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event, micros, moment


@promise("a slot is decided once")
def _decided_once(evidence: Evidence) -> Iterator[Broken]:
    """No slot has two verdicts, neither by itself nor as part of a run of slots."""
    revisions = {books.schedule.id: books.revisions for books in evidence.final.schedules}
    for schedule, verdicts in _verdicts(evidence).items():
        reached: Event | None = None
        for verdict in sorted(verdicts, key=_place):
            inside = reached is not None and verdict.fields["at"] <= reached.fields["until"]
            if inside and reached is not None and not _is_beside(verdict, reached, revisions.get(schedule, ())):
                yield Broken(f"slot {verdict.fields['at']} was decided twice", (reached, verdict))
            if reached is None or verdict.fields["until"] > reached.fields["until"]:
                reached = verdict


def _verdicts(evidence: Evidence) -> dict[int, list[Event]]:
    verdicts: dict[int, list[Event]] = defaultdict(list)
    for event in evidence.told("slot"):
        verdicts[event.fields["schedule"]].append(event)
    return verdicts


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
    """In one transaction: the job is the next thing in the history, and of the same operation."""
    if evidence.certain:
        yield from _made_at_once(evidence)
    made_for = {slot.job_id for books in evidence.final.schedules for slot in books.slots}
    names = {books.schedule.id: books.schedule.name for books in evidence.final.schedules}
    for job in evidence.final.jobs:
        if job.schedule_id in names and job.retry_of is None and job.id not in made_for:
            yield Broken(f"job {job.id} of {names[job.schedule_id]} belongs to no slot")


def _made_at_once(evidence: Evidence) -> Iterator[Broken]:
    waiting: Event | None = None
    for event in evidence.events:
        if waiting is not None and not _is_job_of(waiting, event):
            yield _without_job(waiting)
        waiting = event if event.kind == "slot" and event.fields["job"] is not None else None
        if event.kind == "slot" and waiting is None and event.fields["verdict"] in ("fired", "manual"):
            yield Broken(f"slot {event.fields['at']} fired without a job", (event,))
    if waiting is not None:
        yield _without_job(waiting)


def _is_job_of(verdict: Event, event: Event) -> bool:
    same_job = event.kind == "job" and event.fields["id"] == verdict.fields["job"]
    return same_job and event.fields.get("op") == verdict.fields.get("op")


def _without_job(verdict: Event) -> Broken:
    return Broken(f"slot {verdict.fields['at']} was decided without its job {verdict.fields['job']}", (verdict,))


@promise("no slot is decided early")
def _not_early(evidence: Evidence) -> Iterator[Broken]:
    """Not before the database's clock has reached it, unless by hand."""
    for verdict in evidence.told("slot"):
        early = verdict.at + evidence.tolerance < verdict.fields["until"]
        if early and verdict.fields["verdict"] != "manual" and not evidence.is_unsure(verdict):
            yield Broken(f"slot {verdict.fields['until']} was decided before its time", (verdict,))


@promise("no more runs than max_instances")
def _max_instances(evidence: Evidence) -> Iterator[Broken]:
    """When a slot fires, fewer of its schedule's jobs are unfinished. Parked jobs count from their first claim."""
    most = {
        (books.schedule.id, revision.revision): revision.max_instances
        for books in evidence.final.schedules
        for revision in books.revisions
    }
    revisions: dict[int, int] = {}
    owners: dict[int, int] = {}
    unfinished: dict[int, set[int]] = defaultdict(set)
    for event in evidence.told("revision", "slot", "change", "claim") if evidence.certain else ():
        told = event.fields
        if event.kind == "revision":
            revisions[told["schedule"]] = told["revision"]
        elif event.kind == "slot" and told["job"] is not None:
            owners[told["job"]] = told["schedule"]
            if told["reason"] == "backfill":
                continue
            running = unfinished[told["schedule"]]
            if len(running) >= most.get((told["schedule"], revisions.get(told["schedule"], 1)), FOREVER):
                yield Broken(f"slot {told['at']} fired while {sorted(running)} were unfinished", (event,))
            running.add(told["job"])
        elif event.kind == "claim" and told["id"] in owners:
            unfinished[owners[told["id"]]].add(told["id"])
        elif event.kind == "change" and told["id"] in owners and told["accepted"] and ends(event):
            unfinished[owners[told["id"]]].discard(told["id"])


@promise("cursors only grow")
def _cursors(evidence: Evidence) -> Iterator[Broken]:
    """Each decision and each edit of a schedule goes on from the one before; what knew less was rejected."""
    moved: dict[int, tuple[Event, int]] = {}
    for event in evidence.told("step", "revision") if evidence.ordered else ():
        if not event.fields.get("accepted", True):
            continue
        version = event.fields["version"] + (event.kind == "step")  # an edit tells the version that it made
        before, last = moved.get(event.fields["schedule"], (None, 0))
        if before is not None and event.fields["cursor"] < before.fields["cursor"]:
            yield Broken(f"the cursor of schedule {event.fields['schedule']} went back", (before, event))
        if before is not None and version <= last:
            yield Broken(f"a stale decision on schedule {event.fields['schedule']} was accepted", (before, event))
        moved[event.fields["schedule"]] = (event, version)


@promise("every slot is accounted for")
def _accounted_for(evidence: Evidence) -> Iterator[Broken]:
    """Worked out again from the revisions, every slot up to the cursor is in the ledger, once."""
    for books in evidence.final.schedules:
        schedule = books.schedule
        found = audit(
            books.revisions, books.slots, schedule.cursor, schedule.horizon, schedule.created_at,
            max(schedule.cursor, schedule.created_at), doubled=books.doubled,
        )  # fmt: skip
        for fate in found.problems:
            when = fate.scheduled_for.isoformat()
            yield Broken(f"slot {when} of {schedule.name} is {fate.verdict}: {fate.reason}")


@promise("the ledger is what was decided")
def _ledger(evidence: Evidence) -> Iterator[Broken]:
    """Each verdict is a row, and each row was a verdict, as far back as the ledger goes."""
    if not evidence.complete or not evidence.final.schedules:
        return
    verdicts = _verdicts(evidence)
    for books in evidence.final.schedules:
        yield from _compared(books, verdicts.get(books.schedule.id, []))


def _compared(books: Books, verdicts: Sequence[Event]) -> Iterator[Broken]:
    horizon = 0 if books.schedule.horizon is None else micros(books.schedule.horizon)
    decided = {_told(verdict): verdict for verdict in verdicts if verdict.fields["at"] >= horizon}
    rows = {_kept(row): row for row in books.slots if micros(row.scheduled_for) >= horizon}
    for fate in decided.keys() - rows.keys():
        yield Broken(f"slot {fate[0]} of {books.schedule.name} is not in the ledger as decided", (decided[fate],))
    for fate in rows.keys() - decided.keys():
        yield Broken(f"slot {fate[0]} of {books.schedule.name} is in the ledger, and nobody decided it so")


def _told(verdict: Event) -> tuple[int, str, int, int | None]:
    told = verdict.fields
    return told["at"], told["verdict"], told["slots"], told["job"]


def _kept(row: Slot) -> tuple[int, str, int, int | None]:
    return micros(row.scheduled_for), row.verdict, row.slots, row.job_id
