"""Attempts: they never overlap, keep to their policy, and stop where they must."""

from __future__ import annotations

from collections.abc import Iterator

from oncue.model import TERMINAL
from oncue.policy import options
from oncue.sim.checker.eras import when
from oncue.sim.checker.evidence import (
    LEARNED_WITHIN,
    LOST,
    Evidence,
    ObservedAttempt,
    Turn,
    claim_no,
    closes_day,
    ends,
    is_by_hand,
    is_taken_away,
)
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event


def _place(attempt: ObservedAttempt) -> int:
    return attempt.place


def _is_rightful(attempt: ObservedAttempt, evidence: Evidence) -> bool:
    """Whether an attempt began under a valid lease, by a clock that its node knew."""
    return when(attempt.start) < attempt.lease.end and not evidence.is_unsure(attempt.start)


@promise("nothing starts after the end")
def _no_start_after_end(evidence: Evidence) -> Iterator[Broken]:
    """A zombie may still begin what it holds; a node with a valid lease must not.

    Unless an operator or a cutoff ended what it holds, of which it has not heard yet.
    """
    for story in evidence.jobs.values():
        changes = story.changes
        if not changes or not ends(changes[-1]):
            continue
        end = changes[-1]
        for turn in story.turns.values():
            if turn.number > claim_no(end):
                for claim in turn.claims:
                    yield Broken(f"job {story.id} was claimed after its end", (end, claim))
                continue
            for attempt in turn.attempts:
                held = turn.number == claim_no(end) and (is_by_hand(end) or closes_day(end))
                known = LEARNED_WITHIN + evidence.lease if held else evidence.tolerance
                is_late = when(end) + known < when(attempt.start)
                if is_late and _is_rightful(attempt, evidence):
                    yield Broken(f"job {story.id} was started after its end", (end, attempt.start))


@promise("attempts of one job never overlap under valid leases")
def _no_overlap(evidence: Evidence) -> Iterator[Broken]:
    """While the lease of its node is valid, an attempt is the only one of its job."""
    for story in evidence.jobs.values() if evidence.has_leases else ():
        attempts = story.attempts
        if len(attempts) < 2:
            continue
        attempts.sort(key=_place)
        longest = attempts[0]
        for attempt in attempts[1:]:
            at_once = when(attempt.start) + evidence.tolerance < min(longest.rightful_until, attempt.rightful_until)
            if at_once and _is_rightful(attempt, evidence):
                yield Broken(f"two attempts of job {story.id} ran at once", (longest.start, attempt.start))
            longest = max(longest, attempt, key=lambda attempt: attempt.rightful_until)


@promise("a claim is good for one attempt")
def _one_attempt(evidence: Evidence) -> Iterator[Broken]:
    """Under one claim_no a job is begun once."""
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            if len(turn.attempts) > 1:
                starts = tuple(attempt.start for attempt in turn.attempts)
                yield Broken(f"claim {turn.number} of job {story.id} was started {len(starts)} times", starts)


_LEADS_TO = {
    "Succeeded": ("succeeded",),
    "Failed": ("retrying", "failed", "cancelled"),
    "TimedOut": ("retrying", "failed", "cancelled", "skipped"),
    "Released": ("queued", "skipped"),
    "Snoozed": ("scheduled",),
    "Skipped": ("skipped",),
    "Cancelled": ("cancelled",),
}
_INSTEAD: dict[str | None, str] = {"late": "Skipped", "released": "Released"}
"""What counts in place of what an attempt came to, if it came too late, or under an epoch that led no more."""
REFUSED = "its outcome was refused"


@promise("what an attempt came to is what is written")
def _outcomes_written(evidence: Evidence) -> Iterator[Broken]:
    """A node that settles an attempt of its own writes how it ended, unless the database refused that.

    One whose lease has ended may come across its own jobs among those to be rescued, before it hears of its fate.
    """
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            for change in turn.changes:
                outcome = next((one for one in turn.outcomes if one.node == change.node), None)
                if outcome is None or is_taken_away(change) or str(change.fields["error"]).startswith(REFUSED):
                    continue
                if change.fields["from_state"] != "running":
                    continue
                if change.fields["outcome"] in LOST and not is_alive(turn, change, evidence):
                    continue
                state = change.fields["state"]
                came_to = _INSTEAD.get(change.fields.get("ending"), outcome.fields["outcome"])
                if state not in _LEADS_TO[came_to]:
                    yield Broken(f"an attempt of job {story.id} came to {came_to}, not to {state}", (outcome, change))


def is_alive(turn: Turn, change: Event, evidence: Evidence) -> bool:
    """Whether the node that made a claim could still hold it when it was settled, by the database's clock."""
    return turn.lease.end > when(change) + evidence.tolerance and not evidence.is_unsure(change)


# --- retries --------------------------------------------------------------------------------------------------------


@promise("retries keep to their policy")
def _retries(evidence: Evidence) -> Iterator[Broken]:
    """As many as the budget allows, each after a delay that the policy can give, and none is charged but for one.

    A snooze is none, and lasts as long as was asked. The attempts of a window have a rule of their own.
    """
    for story in evidence.jobs.values():
        if story.written is None or options.read(story.written.fields["options"]).window is not None:
            continue
        for turn in story.turns.values():
            for change in turn.changes:
                told = change.fields
                if told["from_state"] == "running":
                    yield from _retry(story.id, story.written, turn, change)
                elif told["from_state"] in TERMINAL and (told["retry_count"] or told["crashes"]):
                    yield Broken(f"job {story.id} was started over without its whole budget", (change,))


def _retry(job_id: int, written: Event, turn: Turn, change: Event) -> Iterator[Broken]:
    told, limit = change.fields, written.fields["max_retries"]
    used = told["retry_count"] if turn.claim is None else turn.claim.fields["retry_count"]
    if told["state"] == "retrying":
        if told["retry_count"] > limit or (turn.claim is not None and told["retry_count"] != used + 1):
            yield Broken(f"job {job_id} was retried outside of its budget of {limit}", (change,))
        outcome = None if is_taken_away(change) else turn.outcome  # what it asked for was not heard any more
        shortest, longest = _bounds(written, told["retry_count"] - 1, outcome, told["ended_at"])
        delay = (told["visible_at"] - told["ended_at"]) / 1e6
        if not shortest - 2e-6 <= delay <= longest + 2e-6:
            expected = f"{shortest:g} to {longest:g} s"
            yield Broken(f"job {job_id} is retried after {delay:g} s, not {expected}", (change,))
    elif told["retry_count"] != used:
        yield Broken(f"job {job_id} was charged a retry without one", (change,))
    elif told["outcome"] == "snoozed" and turn.outcome is not None and not _as_asked(turn.outcome, change):
        yield Broken(f"job {job_id} snoozes for another time than it asked for", (turn.outcome, change))
    elif told["state"] == "failed" and used < limit and _plain_failure(turn.outcome) and told["reason"] is None:
        yield Broken(f"job {job_id} failed with retries left", (change,))


def _as_asked(outcome: Event, change: Event) -> bool:
    """Whether a job that is to come back does so after the delay that it asked for."""
    delay: float = (change.fields["visible_at"] - change.fields["ended_at"]) / 1e6
    return outcome.fields["delay"] is not None and abs(delay - outcome.fields["delay"]) <= 2e-6


def _plain_failure(outcome: Event | None) -> bool:
    """A time-out is one, too."""
    return outcome is not None and outcome.fields["outcome"] in ("Failed", "TimedOut") and not outcome.fields["final"]


def _bounds(written: Event, retry_count: int, outcome: Event | None, ended_at: int) -> tuple[float, float]:
    shortest, longest = options.read(written.fields["options"]).retry.bounds(retry_count)
    told = {} if outcome is None else outcome.fields
    asked = told.get("delay")
    if told.get("until") is not None:
        asked = max(told["until"] - ended_at, 0) / 1e6
    if asked is None:
        return shortest, longest
    return (max(shortest, asked), max(longest, asked)) if told["at_least"] else (asked, asked)
