"""Delivery: what is cut short goes on or ends as its task chose, and nothing is cut short without a reason."""

from __future__ import annotations

from collections.abc import Iterator

from oncue.policy import options
from oncue.policy.lifecycle import BY_HAND
from oncue.sim.checker.eras import era_of
from oncue.sim.checker.evidence import LOST, OVERRUN, Evidence, Turn, closes_day
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event

_GOES_ON = {("queued", None), ("cancelled", "cancelled")}
_WAYS: dict[tuple[str, bool], set[tuple[str, str | None]]] = {
    ("node_lost", False): _GOES_ON,
    ("node_lost", True): {("skipped", "skipped_timeout")},
    ("worker_startup_recovery", False): _GOES_ON,
    ("worker_startup_recovery", True): {("failed", "worker_startup_recovery")},
    ("TimedOut", False): {("retrying", None), ("failed", None), ("cancelled", "cancelled")},
    ("TimedOut", True): {("skipped", "skipped_timeout")},
    ("Released", False): {("queued", None)},
    ("Released", True): {("skipped", "interrupted")},
}
"""What may become of an attempt that something cut short, and whether it was to be the only one: state and reason."""


@promise("what is cut short ends as its delivery says")
def _cut_short(evidence: Evidence) -> Iterator[Broken]:
    """Lost, overlong or given back: at least once means that it goes on, at most once that it ends and says why."""
    for story in evidence.jobs.values():
        if story.written is None:
            continue
        only_one = options.read(story.written.fields["options"]).delivery == "at_most_once"
        for turn in story.turns.values():
            for change in turn.changes:
                how, told = _what_cut(turn, change), change.fields
                began = told["outcome"] is not None
                if how is not None and (told["state"], told["reason"]) not in _WAYS[how, only_one and began]:
                    message = f"job {story.id} ({how}) is {told['state']}, reason {told['reason']}"
                    yield Broken(message, (*turn.claims, change))


def _what_cut(turn: Turn, change: Event) -> str | None:
    """What cut an attempt short, if anything did: who takes it away says so, or else it is its own node's word."""
    told = change.fields
    if told["from_state"] != "running" or BY_HAND in (told["outcome"], told["reason"]) or told["reason"] == "poison":
        return None
    if closes_day(change):
        return None
    if told["error"] in LOST:
        return str(told["error"])
    if str(told["error"]).startswith(OVERRUN):
        return "TimedOut"
    if told["reason"] == "interrupted" or told.get("ending") == "released":
        return "Released"
    came_to = next((one.fields["outcome"] for one in turn.outcomes if one.node == change.node), None)
    return came_to if came_to in ("TimedOut", "Released") else None


@promise("nothing is cut off before its time")
def _in_time(evidence: Evidence) -> Iterator[Broken]:
    """What is taken away for being overlong has been claimed for as long as its maximum runtime.

    That counts from when its node asked for it: a claim that was held up on its way is as old as it says.
    """
    for story in evidence.jobs.values():
        if story.written is None:
            continue
        for turn in story.turns.values():
            for change in turn.changes:
                # An operator who starts such a job over keeps its error.
                settled = change.fields["from_state"] == "running" and str(change.fields["error"]).startswith(OVERRUN)
                if turn.claim is not None and settled:
                    yield from _overlong(evidence, story.written, turn.claim, change)


def _overlong(evidence: Evidence, written: Event, claim: Event, change: Event) -> Iterator[Broken]:
    longest = options.read(written.fields["options"]).max_runtime
    if longest is None:
        yield Broken(f"job {claim.fields['id']} may take for ever, and was cut off", (claim, change))
    elif era_of(claim) == era_of(change) and not evidence.is_unsure(change):
        had = change.at - _asked_at(evidence, claim)
        if had + evidence.tolerance < longest * 1e6:
            yield Broken(f"job {claim.fields['id']} was cut off after {had / 1e6:g} s of {longest:g}", (claim, change))


def _asked_at(evidence: Evidence, claim: Event) -> int:
    operation = evidence.operations.get(claim.fields.get("op", -1))
    if operation is None or era_of(operation.invoke) != era_of(claim):
        return claim.at
    return operation.invoke.at
