"""Circuit breakers: an endpoint that fails is left alone, tried now and then, and called again once it answers."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from oncue.policy import breaker
from oncue.sim.checker.eras import era_of, when
from oncue.sim.checker.evidence import Evidence, JobStory, Turn, claim_no
from oncue.sim.checker.group_terms import Key
from oncue.sim.checker.peace import Weather
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event

CLOCK_ERROR = 1_000_000
"""How far the clock of a node behind a slow line may be off, in microseconds."""


@promise("a breaker opens by the failures of its own endpoint")
def _opens(evidence: Evidence) -> Iterator[Broken]:
    """The node that opens it has seen so many requests to this endpoint fail in a row; one, if it was open."""
    if not _is_told(evidence):
        return
    threshold, heard = _threshold(evidence), _Heard(evidence)
    trips: dict[Key, int] = {}
    for event in evidence.told("group"):
        key, now = (event.fields["queue"], event.fields["group"]), event.fields.get("trips", 0)
        before, trips[key] = trips.get(key, 0), now
        asked = _asked(evidence, event)
        if now <= before or asked is None:
            continue
        failures = heard.failures(event.node, key, when(asked))
        if failures < (1 if before else max(threshold, 1)) or threshold == 0:
            message = f"the breaker of {key[1]} opened after {failures} failures of its endpoint"
            yield Broken(message, (asked, event))
        elif not _cools_down(asked, event, now, evidence):
            yield Broken(f"the breaker of {key[1]} is open for less than its cool-down", (asked, event))


def _cools_down(asked: Event, event: Event, trips: int, evidence: Evidence) -> bool:
    if era_of(asked) != era_of(event) or evidence.is_unsure(asked):
        return True
    until = asked.at + round(breaker.cool_down(trips) * 1e6)
    return (event.fields["paused_until"] or 0) + CLOCK_ERROR >= until


@promise("a breaker closes when its endpoint answers")
def _closes(evidence: Evidence) -> Iterator[Broken]:
    """Before a probe counts as ended the breaker is closed, if the endpoint answered and nothing disturbs the node."""
    for probe in _probes(evidence):
        if probe.evidence == "up" and probe.is_unchanged:
            yield Broken(f"{probe.group} answered, and its breaker stays open", (probe.answer, probe.settled))


@promise("a failed probe keeps its breaker open for longer")
def _stays_open(evidence: Evidence) -> Iterator[Broken]:
    """Before the next probe there is another cool-down: one goes out in each, if nothing disturbs the node."""
    threshold = _threshold(evidence)
    for probe in _probes(evidence) if threshold else ():
        if probe.evidence == "down" and probe.is_unchanged:
            yield Broken(
                f"a probe of {probe.group} failed, and the next one may go at once", (probe.answer, probe.settled)
            )


def _is_told(evidence: Evidence) -> bool:
    return evidence.certain and "breaker" in evidence.places


def _threshold(evidence: Evidence) -> int:
    return max((event.fields["threshold"] for event in evidence.told("breaker")), default=0)


def _asked(evidence: Evidence, event: Event) -> Event | None:
    """The call that opened or closed a breaker. An operator's edit of a group is none."""
    operation = evidence.operations.get(event.fields.get("op", -1))
    return None if operation is None or not operation.invoke.kind.startswith("trip.") else operation.invoke


def evidence_of(answer: Event) -> breaker.Evidence | None:
    if "status" in answer.fields:
        return breaker.evidence_of_status(answer.fields["status"])
    return breaker.evidence_of_not_sent(answer.fields["failed"])


class _Heard:
    """How many failures in a row each node has seen of each endpoint."""

    def __init__(self, evidence: Evidence) -> None:
        self._instants: dict[tuple[str, Key], list[int]] = defaultdict(list)
        self._counts: dict[tuple[str, Key], list[int]] = defaultdict(list)
        for answer in evidence.told("answer"):
            story = evidence.jobs[answer.fields["id"]]
            place, meaning = (answer.node, (story.queue, story.group)), evidence_of(answer)
            if meaning is not None:
                counts = self._counts[place]
                counts.append((counts[-1] if counts else 0) + 1 if meaning == "down" else 0)
                self._instants[place].append(when(answer))

    def failures(self, node: str, key: Key, instant: int) -> int:
        place = bisect_right(self._instants[node, key], instant)
        return self._counts[node, key][place - 1] if place else 0


@dataclass(slots=True)
class _Probe:
    """An attempt that was claimed while the breaker was open, and that heard something of its endpoint."""

    group: str | None
    answer: Event
    settled: Event
    evidence: breaker.Evidence | None
    is_unchanged: bool
    """Whether the breaker was the same all the time from its claim until it was settled."""


def _probes(evidence: Evidence) -> Iterator[_Probe]:
    """The probes of nodes that nothing disturbed."""
    if not _is_told(evidence):
        return
    weather, answers = Weather(evidence), {(a.fields["id"], claim_no(a)): a for a in evidence.told("answer")}
    breakers = _Breakers(evidence)
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            answer = answers.get((story.id, turn.number))
            if answer is not None and (found := _probe(story, turn, answer, breakers)) is not None:
                assert turn.claim is not None
                if weather.was_fine(when(turn.claim), when(found.settled)):
                    yield found


def _probe(story: JobStory, turn: Turn, answer: Event, breakers: _Breakers) -> _Probe | None:
    settled = next((one for one in turn.changes if one.fields["from_state"] == "running"), None)
    if turn.claim is None or settled is None or settled.node != answer.node:
        return None
    key, start, end = (story.queue, story.group), when(turn.claim), when(settled)
    if not breakers.is_open(key, start):
        return None
    return _Probe(story.group, answer, settled, evidence_of(answer), not breakers.changed(key, start, end))


class _Breakers:
    """How often each breaker has tripped, at any time."""

    def __init__(self, evidence: Evidence) -> None:
        self._instants: dict[Key, list[int]] = defaultdict(list)
        self._trips: dict[Key, list[int]] = defaultdict(list)
        for event in evidence.told("group"):
            key, trips = (event.fields["queue"], event.fields["group"]), event.fields.get("trips", 0)
            if trips != (self._trips[key][-1] if self._trips[key] else 0):
                self._instants[key].append(when(event))
                self._trips[key].append(trips)

    def is_open(self, key: Key, instant: int) -> bool:
        place = bisect_right(self._instants[key], instant)
        return place > 0 and self._trips[key][place - 1] > 0

    def changed(self, key: Key, start: int, end: int) -> bool:
        return bisect_right(self._instants[key], end) > bisect_right(self._instants[key], start)
