"""Schedules: every slot is decided once, together with its job, never early, and all of them are accounted for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from oncue.model import TERMINAL, Revision, Slot
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
    """When a slot fires, or a run is started over, fewer of its schedule's jobs are unfinished.

    A parked job was let go some time between its slot's decision and its first claim: so many as could run at once at
    any moment of that may do so then.
    """
    most = {
        (books.schedule.id, revision.revision): revision.max_instances
        for books in evidence.final.schedules
        for revision in books.revisions
    }
    runs = _Runs(most)
    for event in evidence.told("revision", "slot", "job", "change", "claim") if evidence.certain else ():
        among = runs.note(event)
        if among is not None:
            what = f"slot {event.fields['at']} fired" if event.kind == "slot" else f"job {event.fields['id']} ran"
            yield Broken(f"{what} while {among} were unfinished", (event,))


class _Runs:
    """The unfinished jobs of every schedule. `most`: how many each of its revisions allows."""

    def __init__(self, most: Mapping[tuple[int, int], int]) -> None:
        self._most = most
        self._revisions: dict[int, int] = {}
        self._owners: dict[int, int] = {}
        self._parked: dict[int, int] = {}
        """Those that no node has claimed yet, and under which revision they were made."""
        self._unfinished: dict[int, set[int]] = defaultdict(set)

    @staticmethod
    def job_of(event: Event) -> int:
        job: int = event.fields["job" if event.kind == "slot" else "id"]
        return job

    def note(self, event: Event) -> list[int] | None:
        """What ran already beside a job that begins to, if there were too many."""
        told = event.fields
        if event.kind == "revision":
            self._revisions[told["schedule"]] = told["revision"]
            return None
        job = self.job_of(event)
        if event.kind == "slot" and job is not None:
            self._owners[job] = told["schedule"]
            if told["reason"] == "backfill":
                self._parked[job] = self._revisions.get(told["schedule"], 1)
                return None
            return self._add(job)
        if event.kind == "job" and told.get("retry_of") is not None and told["schedule"] is not None:
            self._owners[job] = told["schedule"]
            return self._add(job)
        return self._run(event, job) if job in self._owners else None

    def _run(self, event: Event, job: int) -> list[int] | None:
        if event.kind == "claim" and job in self._parked:
            return self._add(job, self._parked.pop(job))
        if event.kind == "change" and event.fields["accepted"]:
            if ends(event):
                self._parked.pop(job, None)  # if an operator starts it over, it waits for no turn any more
                self._unfinished[self._owners[job]].discard(job)
            elif event.fields["from_state"] in TERMINAL:
                return self._add(job)
        return None

    def _add(self, job: int, since: int | None = None) -> list[int] | None:
        owner = self._owners[job]
        running, now = self._unfinished[owner], self._revisions.get(owner, 1)
        before = sorted(running)
        running.add(job)
        most = max(self._most.get((owner, revision), FOREVER) for revision in range(since or now, now + 1))
        return before if len(before) >= most else None


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


@promise("what is deleted fires no more")
def _gone(evidence: Evidence) -> Iterator[Broken]:
    """A schedule that was deleted decides nothing after that, whatever its revisions say.

    The deletion is its last revision, and gives up what was due by then.
    """
    names = {books.schedule.id: books.schedule.name for books in evidence.final.schedules if books.schedule.deleted_at}
    edits: dict[int, Event] = {}
    later: dict[int, list[Event]] = {}
    for event in evidence.told("revision", "slot") if names and evidence.certain else ():
        schedule = event.fields["schedule"]
        if event.kind == "revision":
            edits[schedule], later[schedule] = event, []
        elif schedule in edits and event.fields.get("op") != edits[schedule].fields.get("op"):
            later[schedule].append(event)
    for schedule, name in names.items():
        for slot in later.get(schedule, ()):
            yield Broken(f"slot {slot.fields['at']} was decided after {name} was deleted", (edits[schedule], slot))


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
    for fate in sorted(decided.keys() - rows.keys(), key=repr):
        yield Broken(f"slot {fate[0]} of {books.schedule.name} is not in the ledger as decided", (decided[fate],))
    for fate in sorted(rows.keys() - decided.keys(), key=repr):
        yield Broken(f"slot {fate[0]} of {books.schedule.name} is in the ledger, and nobody decided it so")


def _told(verdict: Event) -> tuple[int, str, int, int | None]:
    told = verdict.fields
    return told["at"], told["verdict"], told["slots"], told["job"]


def _kept(row: Slot) -> tuple[int, str, int, int | None]:
    return micros(row.scheduled_for), row.verdict, row.slots, row.job_id
