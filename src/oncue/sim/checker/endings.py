"""Changes that depend on more than their fence, what they keep, and the jobs that follow from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from oncue.model import Job
from oncue.sim.checker.evidence import (
    LEARNED_WITHIN,
    LOST,
    Evidence,
    JobStory,
    Turn,
    claim_no,
    is_taken_away,
)
from oncue.sim.checker.jobs import may_be_pruned
from oncue.sim.checker.leaders import LEADER
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event


@promise("a success counts only before its instant")
def _in_time(evidence: Evidence) -> Iterator[Broken]:
    """A change that holds before an instant is sent before it; sent later, it writes its other ending.

    The instant is compared with the database's time when the change is sent. What was sent in time may arrive late.
    """
    for story in evidence.jobs.values() if evidence.certain else ():
        for change in story.changes:
            sent = _sent(change, evidence)
            if "before" not in change.fields or sent is None or evidence.is_unsure(sent) or evidence.is_unsure(change):
                continue
            before, ending = change.fields["before"], change.fields["ending"]
            if ending is None and sent.at >= before + evidence.tolerance:
                yield Broken(f"job {story.id} succeeded, though that was told after its time", (sent, change))
            # The sender goes by the latest time that it may be: how far that is off depends on its line.
            elif ending == "late" and sent.at + LEARNED_WITHIN + evidence.lease < before:
                yield Broken(f"job {story.id} is late, though it was in time", (sent, change))


def _sent(change: Event, evidence: Evidence) -> Event | None:
    operation = evidence.operations.get(change.fields.get("op", -1))
    return None if operation is None else operation.invoke


@promise("under an old epoch nothing is written but a release")
def _led(evidence: Evidence) -> Iterator[Broken]:
    """A change that holds while an epoch leads is written while that epoch leads; else the job is released."""
    if not evidence.ordered:
        return
    leader: tuple[str, int] | None = None
    for event in evidence.told("hold", "change"):
        told = event.fields
        if event.kind == "hold":
            leader = (event.node, told["epoch"]) if told["name"] == LEADER else leader
        elif "epoch" in told and told["accepted"]:
            is_released, leads = told["ending"] == "released", leader == (told["leader"], told["epoch"])
            if leads is is_released:
                what = "is released under the epoch that leads" if leads else "was written under an old epoch"
                yield Broken(f"job {told['id']} {what}", (event,))


@promise("jobs follow exactly from the ending that brings them")
def _followed(evidence: Evidence) -> Iterator[Broken]:
    """A job that follows from an ending is there once that ending was written, and is not there otherwise.

    One whose key was taken is left out.
    """
    if not evidence.certain:
        return
    there = {job.id for job in evidence.final.jobs} | {
        story.id for story in evidence.jobs.values() if story.written is not None
    }
    brought: dict[int, Event] = {}
    possible: dict[int, Event] = {}
    for change in evidence.told("change"):
        possible.update(dict.fromkeys(change.fields.get("might_bring", ()), change))
        if change.fields["accepted"]:
            brought.update(dict.fromkeys(change.fields.get("brings", ()), change))
    for job_id, change in brought.items():
        gone = job_id not in there and not may_be_pruned(evidence, job_id)
        if gone and not change.fields["keyed"]:
            yield Broken(f"job {job_id} is to follow from job {change.fields['id']}, and is not there", (change,))
    for job_id in possible.keys() & there - brought.keys():
        change = possible[job_id]
        yield Broken(f"job {job_id} follows from job {change.fields['id']}, which did not end so", (change,))


@promise("an attempt keeps the details that were told")
def _details(evidence: Evidence) -> Iterator[Broken]:
    """Whatever ends an attempt writes what its handler told; if its node is lost, what was saved by then stays."""
    if evidence.final.details is None or not evidence.complete:
        return
    rows = {job.id: job for job in evidence.final.jobs}
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            change = next((one for one in turn.changes if one.fields["from_state"] == "running"), None)
            if change is None or change.fields["outcome"] is None or story.id not in rows:
                continue
            if not _tells_its_outcome(turn, change):
                yield Broken(f"what an attempt of job {story.id} told was not written", (*turn.outcomes, change))
                continue
            saved = turn.details[-1].fields["details"] if turn.details else None
            expected = _read(change.fields.get("details", saved))
            kept = _kept(story, turn, rows[story.id], evidence)
            if kept is not _UNKNOWN and kept != expected:
                yield Broken(f"job {story.id} has details {kept} of claim {turn.number}, not {expected}", (change,))


def _tells_its_outcome(turn: Turn, change: Event) -> bool:
    """Whether a node that settles an attempt of its own writes what it told. A rescuer does not know that."""
    outcome = next((one for one in turn.outcomes if one.node == change.node), None)
    if outcome is None or "details" not in outcome.fields:
        return True
    if is_taken_away(change) or change.fields["outcome"] in LOST or change.fields["error"] in LOST:
        return True
    return bool(change.fields.get("details") == outcome.fields["details"])


_UNKNOWN = object()


def _kept(story: JobStory, turn: Turn, row: Job, evidence: Evidence) -> Any:
    """The details that are kept of an attempt: with it, if it is on record, else on the job's row."""
    assert evidence.final.details is not None
    if (story.id, turn.number) in evidence.final.details:
        return _read(evidence.final.details[story.id, turn.number])
    last = story.changes[-1]
    is_latest = row.claim_no == turn.number == claim_no(last) and row.finished
    return row.details if is_latest else _UNKNOWN


def _read(details: str | None) -> Any:
    return None if details is None else json.loads(details)
