"""Operations, in the manner of Jepsen: each call was begun by a living process, and its answer tells the truth.

    invoke ... effects ... ok        it happened, before the answer
    invoke ............... fail      it did not happen, and never will
    invoke ... effects?... unknown   it may have happened, or may yet: the reply was lost, or its process died

Histories without operations (those of real processes) have none of this to check.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncue.sim.checker.evidence import Evidence, ObservedOperation
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event

EFFECTS = {"claim": "claim", "apply": "change", "decide": "step", "revise": "revision"}
"""What an answered call has certainly done. An enqueue may have found that its jobs were there already."""


@promise("an answer tells the truth")
def _truthful(evidence: Evidence) -> Iterator[Broken]:
    """What was answered `ok` had happened by then; what was answered `fail` did not happen and never does."""
    if not evidence.certain:
        return
    for operation in evidence.operations.values():
        answer = operation.answer
        verb, _, told = ("", "", "") if answer is None else answer.kind.partition(".")
        if answer is None or told == "unknown":
            continue
        late = operation.effects[operation.effects_before_answer :]
        if told == "fail" and operation.effects:
            yield Broken("a call failed and had effects", _events(operation))
        elif late:
            yield Broken("a call had effects after its answer", (operation.invoke, answer, *late))
        elif told == "ok" and not _is_done(operation, verb):
            yield Broken("a call was answered and did nothing", _events(operation))
    yield from _acknowledged_early(evidence)


def _is_done(operation: ObservedOperation, verb: str) -> bool:
    return verb not in EFFECTS or any(effect.kind == EFFECTS[verb] for effect in operation.effects)


def _acknowledged_early(evidence: Evidence) -> Iterator[Broken]:
    """A job is written before anybody is told of it."""
    written: set[int] = set()
    for event in evidence.told("job", "enqueue.ok"):
        if event.kind == "job":
            written.add(event.fields["id"])
            continue
        missing = [standing for standing in event.fields["standing"] if standing not in written]
        if missing:
            yield Broken(f"the jobs {missing} were acknowledged before they were written", (event,))


def _events(operation: ObservedOperation) -> tuple[Event, ...]:
    answer = () if operation.answer is None else (operation.answer,)
    return (operation.invoke, *operation.effects, *answer)


@promise("nothing happens that nobody asked for")
def _asked_for(evidence: Evidence) -> Iterator[Broken]:
    """Effects and answers belong to calls that were begun, and an enqueue writes the jobs that it was given."""
    if not evidence.certain:
        return
    for event in evidence.strangers:
        yield Broken(f"no call {event.fields['op']} waits for this", (event,))
    for operation in evidence.operations.values():
        if operation.invoke.kind != "enqueue.invoke" or "ids" not in operation.invoke.fields:
            continue
        asked = set(operation.invoke.fields["ids"])
        for effect in operation.effects:
            if effect.kind == "job" and effect.fields["id"] not in asked:
                yield Broken(f"job {effect.fields['id']} was not asked for", (operation.invoke, effect))


@promise("only the living act")
def _living(evidence: Evidence) -> Iterator[Broken]:
    """What a process had under way when it died may still take effect; it begins and learns nothing more."""
    for event in evidence.ghosts if evidence.ordered else ():
        yield Broken(f"{event.node} acts after its death", (evidence.crashes[event.node], event))


@promise("a claim whose reply was lost is not run")
def _answered(evidence: Evidence) -> Iterator[Broken]:
    """A node starts only jobs that it was told it has."""
    for story in evidence.jobs.values() if evidence.certain else ():
        for turn in story.turns.values():
            for attempt in turn.attempts:
                if attempt.unanswered:
                    yield Broken(f"job {story.id} was started without its claim", (*turn.claims, attempt.start))
                elif turn.claims and all(claim.node != attempt.start.node for claim in turn.claims):
                    yield Broken(f"job {story.id} was started by another node", (*turn.claims, attempt.start))
