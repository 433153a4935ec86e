"""One pass over a history that sorts its events, so that no promise has to search for what belongs together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from oncue.sim.checker.eras import in_era_of, in_eras, when
from oncue.sim.checker.evidence import (
    FOREVER,
    NO_LEASE,
    Evidence,
    Final,
    JobStory,
    LeasePeriod,
    ObservedAttempt,
    ObservedOperation,
    SubjectStory,
    Turn,
    claim_no,
    is_taken_away,
)
from oncue.sim.history import Event

ANSWERS = ("ok", "fail", "unknown")


def gather(
    events: Sequence[Event],
    final: Final,
    *,
    complete: bool,
    ordered: bool,
    tolerance: float,
    drained_within: float | None,
    late: float | None,
    lease: float | None,
    prompt: float | None,
) -> Evidence:
    events, known = in_eras(events)
    evidence = Evidence(events, final, complete, ordered, round(tolerance * 1e6), known, drained_within, late, prompt)
    gathering = _Gathering(evidence)
    gathering.sort()
    if lease is not None:
        evidence.lease, evidence.lease_is_told = round(lease * 1e6), True
    for story in evidence.jobs.values():
        _finish(story, evidence)
    return evidence


def _finish(story: JobStory, evidence: Evidence) -> None:
    story.turns = dict(sorted(story.turns.items()))
    for turn in story.turns.values():
        for attempt in turn.attempts:
            attempt.end = min((when(event) for event in _ends_of(attempt, turn, evidence)), default=FOREVER)


def _ends_of(attempt: ObservedAttempt, turn: Turn, evidence: Evidence) -> Iterator[Event]:
    node = attempt.start.node
    yield from (outcome for outcome in turn.outcomes if outcome.node == node)
    yield from (change for change in turn.changes if is_taken_away(change))
    if node in evidence.crashes:
        yield evidence.crashes[node]


class _Gathering:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._leases: dict[str, LeasePeriod] = {}
        self._started = 0

    def sort(self) -> None:
        sorters: dict[str, Callable[[Event], None]] = {
            "job": self._job,
            "claim": self._claim,
            "begin": self._begin,
            "start": self._start,
            "outcome": self._outcome,
            "change": self._change,
            "lease": self._lease,
            "lease.end": self._lease_end,
            "crash": self._crash,
            "prune": self._prune,
            "details": self._details,
            "cancel": self._cancel,
            "stop": self._stop,
            "deadline": self._deadline,
            "spread": self._spread,
            "subject": self._subject,
            "day": self._subject,
            "finalize": self._subject,
        }
        places = self._evidence.places
        for place, event in enumerate(self._evidence.events):
            found = places.get(event.kind)
            if found is None:
                places[event.kind] = [place]
            else:
                found.append(place)
            sorter = sorters.get(event.kind)
            if sorter is not None:
                sorter(event)
            if "op" in event.fields:
                self._operate(event)

    # --- jobs -------------------------------------------------------------------------------------------------------

    def _story(self, event: Event) -> JobStory:
        job_id = event.fields["id"]
        story = self._evidence.jobs.get(job_id)
        if story is None:
            story = self._evidence.jobs[job_id] = JobStory(job_id)
        return story

    def _job(self, event: Event) -> None:
        story = self._story(event)
        story.written = story.written or event

    def _claim(self, event: Event) -> None:
        story = self._story(event)
        story.log.append(event)
        turn = story.turn(claim_no(event))
        turn.claims.append(event)
        turn.lease = self._leases.get(event.node, NO_LEASE)
        if event.fields["cancel_requested"]:
            self._evidence.doomed.append((story, turn))

    def _start(self, event: Event) -> None:
        self._living(event)
        turn = self._story(event).turn(claim_no(event))
        operation = self._operation_of(turn.claim)
        unanswered = operation is not None and (operation.answer is None or operation.answer.kind != "claim.ok")
        self._started += 1
        turn.attempts.append(ObservedAttempt(self._started, event, self._leases.get(event.node, NO_LEASE), unanswered))

    def _begin(self, event: Event) -> None:
        self._story(event).turn(claim_no(event)).begins.append(event)

    def _outcome(self, event: Event) -> None:
        self._living(event)
        self._story(event).turn(claim_no(event)).outcomes.append(event)

    def _change(self, event: Event) -> None:
        story = self._story(event)
        story.log.append(event)
        if event.fields["accepted"]:
            story.turn(claim_no(event)).changes.append(event)

    def _details(self, event: Event) -> None:
        self._story(event).turn(claim_no(event)).details.append(event)

    def _prune(self, event: Event) -> None:
        evidence = self._evidence
        evidence.pruned += event.fields["jobs"]
        evidence.pruned_before = max(evidence.pruned_before, event.fields["before"])

    def _cancel(self, event: Event) -> None:
        self._evidence.cancels.append((self._story(event), event))

    def _stop(self, event: Event) -> None:
        turn = self._story(event).turn(claim_no(event))
        turn.stop = turn.stop or event
        self._evidence.stopped.append(turn)

    def _deadline(self, event: Event) -> None:
        self._evidence.deadlines[event.fields["id"]] = event

    def _spread(self, event: Event) -> None:
        self._evidence.spread.setdefault(event.fields["id"], event)

    def _subject(self, event: Event) -> None:
        whose = event.fields["schedule"], event.fields["subject"]
        story = self._evidence.subjects.get(whose)
        if story is None:
            story = self._evidence.subjects[whose] = SubjectStory(*whose)
        story.log.append(event)

    # --- nodes ------------------------------------------------------------------------------------------------------

    def _lease(self, event: Event) -> None:
        evidence, lease, until = self._evidence, self._leases.get(event.node), event.fields["until"]
        if lease is None:  # later ones may stand for many renewals
            evidence.has_leases, evidence.lease = True, max(evidence.lease, until - event.at)
        end = in_era_of(event, until)
        if lease is None or lease.closed or lease.end <= when(event):
            self._leases[event.node] = LeasePeriod(end)
        else:
            lease.end = end
        if lease is not None and lease.closed and event.fields.get("renewed", False):
            evidence.revenants.append(event)

    def _lease_end(self, event: Event) -> None:
        lease = self._leases.get(event.node)
        if lease is not None:
            lease.end, lease.closed = min(lease.end, when(event)), True

    def _crash(self, event: Event) -> None:
        self._evidence.crashes[event.node] = event

    def _living(self, event: Event) -> None:
        if event.node in self._evidence.crashes:
            self._evidence.ghosts.append(event)

    # --- operations -------------------------------------------------------------------------------------------------

    def _operation_of(self, event: Event | None) -> ObservedOperation | None:
        return None if event is None else self._evidence.operations.get(event.fields.get("op", -1))

    def _operate(self, event: Event) -> None:
        evidence, number, (_, _, part) = self._evidence, event.fields["op"], event.kind.partition(".")
        operation = evidence.operations.get(number)
        if part == "invoke":
            self._living(event)
            evidence.operations[number] = ObservedOperation(event)
        elif operation is None:
            evidence.strangers.append(event)
        elif part in ANSWERS and operation.answer is None:
            operation.answer, operation.effects_before_answer = event, len(operation.effects)
            if part != "unknown":
                self._living(event)
        elif part in ANSWERS:
            evidence.strangers.append(event)
        else:
            operation.effects.append(event)
