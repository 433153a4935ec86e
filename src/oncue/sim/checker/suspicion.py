"""Suspicion: a death counts against the jobs that had begun, and no other job fails for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from oncue.policy import options
from oncue.policy.suspicion import ALONE, COHORT, DEATHS_ALONE, FREE, IN_COHORT, isolation
from oncue.sim.checker.attempts import is_alive
from oncue.sim.checker.eras import when
from oncue.sim.checker.evidence import LOST, Evidence, JobStory, ObservedAttempt, Turn, ends
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event


def max_crashes(story: JobStory) -> int | None:
    told = "{}" if story.written is None else story.written.fields["options"]
    return options.read(told).max_crashes


def kept_apart(story: JobStory, event: Event) -> int:
    """What company a job may have, as the event tells its crashes."""
    crashes: int = event.fields["crashes"]
    return isolation(crashes, max_crashes(story)) if crashes else FREE


def _by_node(evidence: Evidence) -> dict[str, list[tuple[ObservedAttempt, int]]]:
    """The attempts of each node in the order of their starts, with the company that they may have."""
    found: dict[str, list[tuple[ObservedAttempt, int]]] = defaultdict(list)
    for story in evidence.jobs.values():
        for attempt in story.attempts:
            found[attempt.start.node].append((attempt, kept_apart(story, attempt.start)))
    for attempts in found.values():
        attempts.sort(key=lambda pair: pair[0].place)
    return {node: attempts for node, attempts in found.items() if any(apart for _, apart in attempts)}


@promise("cohorts are small")
def _cohorts(evidence: Evidence) -> Iterator[Broken]:
    """Of jobs whose process died under them more than once a node runs a few at once, so that the guilty is found."""
    for node, attempts in _by_node(evidence).items():
        running: list[ObservedAttempt] = []
        for attempt, apart in attempts:
            if apart == IN_COHORT:
                since = when(attempt.start) + evidence.tolerance
                running = [*(other for other in running if since < other.end), attempt]
                if len(running) > COHORT:
                    yield Broken(f"{node} ran a cohort of {len(running)}", tuple(one.start for one in running))


@promise("alone means alone")
def _alone(evidence: Evidence) -> Iterator[Broken]:
    """While a job runs that has to run alone, nothing else runs on its node."""
    for node, attempts in _by_node(evidence).items():
        longest, alone = attempts[0]
        for attempt, apart in attempts[1:]:
            at_once = when(attempt.start) + evidence.tolerance < longest.end
            if at_once and ALONE in (apart, alone):
                yield Broken(f"{node} ran something beside a job that has to be alone", (longest.start, attempt.start))
            if attempt.end >= longest.end or apart == ALONE:
                longest, alone = attempt, apart


@promise("what may have killed its process begins on record")
def _begun_on_record(evidence: Evidence) -> Iterator[Broken]:
    """After a death a job begins again only when the database knows that it does."""
    for story in evidence.jobs.values() if evidence.complete else ():
        for turn in story.turns.values():
            for attempt in turn.attempts:
                if attempt.start.fields["crashes"] and not any(when(b) <= when(attempt.start) for b in turn.begins):
                    yield Broken(f"job {story.id} began, and that was not on record", (attempt.start,))


@promise("poison takes two deaths alone")
def _poison(evidence: Evidence) -> Iterator[Broken]:
    """A job fails as poison after `max_crashes` deaths, not before and not later, the last two of them alone."""
    for story in evidence.jobs.values():
        most, alone = max_crashes(story), 0
        for turn in story.turns.values():
            for attempt in turn.attempts:
                if most is not None and attempt.start.fields["crashes"] >= most:
                    crashes = attempt.start.fields["crashes"]
                    yield Broken(f"job {story.id} started after {crashes} crashes", (attempt.start,))
            for change in turn.changes:
                alone = alone + 1 if _died_alone(story, turn, change) else alone if change.fields["crashes"] else 0
                yield from _called_poison(evidence, story, change, alone)


def _died_alone(story: JobStory, turn: Turn, change: Event) -> bool:
    claim = turn.claim
    grown = claim is not None and change.fields["crashes"] > claim.fields["crashes"]
    return claim is not None and grown and kept_apart(story, claim) == ALONE


def _called_poison(evidence: Evidence, story: JobStory, change: Event, alone: int) -> Iterator[Broken]:
    most, crashes, poison = max_crashes(story), change.fields["crashes"], change.fields["reason"] == "poison"
    if most is not None and crashes >= most and not ends(change):
        yield Broken(f"job {story.id} goes on after {crashes} crashes", (change,))
    if poison and (most is None or crashes < most):
        yield Broken(f"job {story.id} was called poison too early", (change,))
    elif poison and evidence.complete and alone < DEATHS_ALONE:
        yield Broken(f"job {story.id} is poison after {alone} deaths alone", (change,))


@promise("only a lost node's jobs are rescued")
def _rescues(evidence: Evidence) -> Iterator[Broken]:
    """A rescue may count as a crash, so nothing else may count as one."""
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            for change in turn.changes:
                if turn.claim is not None and change.fields["from_state"] == "running":
                    yield from _rescue(evidence, story, turn, turn.claim, change)


def _rescue(evidence: Evidence, story: JobStory, turn: Turn, claim: Event, change: Event) -> Iterator[Broken]:
    before, after = claim.fields["crashes"], change.fields["crashes"]
    if after not in (0, before, before + 1):  # an attempt that its process survived clears the job
        yield Broken(f"job {story.id} went from {before} to {after} crashes", (claim, change))
    elif after > before and is_alive(turn, change, evidence):
        yield Broken(f"job {story.id} was taken from a node that is alive", (claim, change))


@promise("a death is charged to those that had begun")
def _charges(evidence: Evidence) -> Iterator[Broken]:
    """It counts against each of them, and against no job with crashes that had not begun."""
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            for change in turn.changes:
                told = change.fields
                lost = told["from_state"] == "running" and told["error"] in LOST and not ends(change)
                if turn.claim is not None and lost:
                    yield from _charge(evidence, story, turn, turn.claim, change)


def _charge(evidence: Evidence, story: JobStory, turn: Turn, claim: Event, change: Event) -> Iterator[Broken]:
    before, after = claim.fields["crashes"], change.fields["crashes"]
    most, begun = max_crashes(story), not before or any(when(begin) <= when(change) for begin in turn.begins)
    if most is None and after:
        yield Broken(f"job {story.id} is never poison, and was charged with a death", (claim, change))
    elif after > before and evidence.complete and not begun:
        yield Broken(f"job {story.id} had not begun, and was charged with a death", (claim, change))
    elif evidence.is_unsure(change):
        return  # a rescuer that does not know the time may look at what has just begun
    elif most is not None and after == before and begun and (evidence.complete or not before):
        yield Broken(f"job {story.id} had begun, and was not charged with a death", (claim, change))
