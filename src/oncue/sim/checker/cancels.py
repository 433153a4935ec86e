"""Cancels: a request reaches the node that runs the job, and from then on nothing of it begins."""

from __future__ import annotations

from collections.abc import Iterator

from oncue.sim.checker.eras import when
from oncue.sim.checker.evidence import FOREVER, Evidence, JobStory, Turn, claim_no
from oncue.sim.checker.peace import Weather
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event


@promise("what is to be cancelled does not begin")
def _not_begun(evidence: Evidence) -> Iterator[Broken]:
    """Once an operator has asked a running job to stop, every later claim says so, and none of these is started.

    The claim that it ran under may still be started: its node does not know yet. An operator who gives the job another
    state by hand takes the request back. No job is to be cancelled without a request.
    """
    for story, turn in evidence.doomed:
        for attempt in turn.attempts:
            yield Broken(f"job {story.id} was started though it was to be cancelled", (*turn.claims, attempt.start))
    asked: set[tuple[int, int]] = set()
    for story, request in evidence.cancels if evidence.complete else ():
        for claim in _claimed_after(story, request):
            asked.add((story.id, claim_no(claim)))
            if not claim.fields["cancel_requested"]:
                yield Broken(f"a claim of job {claim.fields['id']} does not know of its cancel", (request, claim))
    for story, turn in evidence.doomed if evidence.complete else ():
        if (story.id, turn.number) not in asked:
            yield Broken(f"job {story.id} is to be cancelled, and nobody asked for that any more", tuple(turn.claims))
    for turn in evidence.stopped:
        for attempt in turn.attempts:
            if turn.stop is not None and when(turn.stop) + evidence.tolerance < when(attempt.start):
                message = f"job {attempt.start.fields['id']} was started by a node that had been told to stop it"
                yield Broken(message, (turn.stop, attempt.start))


def _claimed_after(story: JobStory, request: Event) -> Iterator[Event]:
    """The claims that should know of a request: all that follow, up to the next change by hand."""
    for turn in story.turns.values():
        if turn.number > claim_no(request):
            yield from turn.claims
        by_hand = any(change.fields["from_state"] != "running" for change in turn.changes)
        if turn.number >= claim_no(request) and by_hand:
            return


@promise("a cancel is heard in time")
def _heard(evidence: Evidence) -> Iterator[Broken]:
    """While nothing disturbs the cluster, the node is told, or the attempt ends by itself. Asked for with `late`."""
    if evidence.late is None or not evidence.certain or not evidence.cancels:
        return
    weather, most, end = Weather(evidence), round(evidence.late * 1e6), when(evidence.events[-1])
    for story, request in evidence.cancels:
        asked, heard = when(request), _heard_at(story.turn(claim_no(request)))
        if min(heard, end) - asked > most and weather.was_fine(asked, asked + most):
            yield Broken(f"nobody told job {story.id} within {evidence.late:g} s that it was cancelled", (request,))


def _heard_at(turn: Turn) -> int:
    """When the attempt was told to stop, or was over."""
    events = (*turn.outcomes, *turn.changes, *([] if turn.stop is None else [turn.stop]))
    return min((when(event) for event in events), default=FOREVER)
