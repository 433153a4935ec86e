"""Delivery: what is cut short goes on or ends as its task chose, and nothing is cut short without a reason."""

from __future__ import annotations

from collections.abc import Iterator

from oncue.policy import options
from oncue.policy.lifecycle import BY_HAND
from oncue.sim.checker.evidence import LOST, OVERRUN, Evidence, Turn
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
    if told["error"] in LOST:
        return str(told["error"])
    if str(told["error"]).startswith(OVERRUN):
        return "TimedOut"
    if told["reason"] == "interrupted":
        return "Released"
    came_to = next((one.fields["outcome"] for one in turn.outcomes if one.node == change.node), None)
    return came_to if came_to in ("TimedOut", "Released") else None


@promise("only what is overlong is cut off for it")
def _overlong(evidence: Evidence) -> Iterator[Broken]:
    """Whoever takes an attempt away for its maximum runtime has waited for that long since it was claimed."""
    for story in evidence.jobs.values():
        if story.written is None:
            continue
        longest = options.read(story.written.fields["options"]).max_runtime
        for turn in story.turns.values():
            for change in turn.changes:
                told = change.fields
                if turn.claim is None or not str(told["error"]).startswith(OVERRUN):
                    continue
                if evidence.is_unsure(turn.claim) or evidence.is_unsure(change):
                    continue
                ran = (told["ended_at"] - min(told["started_at"] or told["ended_at"], turn.claim.at)) / 1e6
                if longest is None or ran < longest:
                    message = f"job {story.id} was cut off after {ran:g} s, its maximum runtime is {longest}"
                    yield Broken(message, (turn.claim, change))
