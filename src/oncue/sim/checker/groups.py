"""Groups and rates: each group keeps its limit, its rate and its pause, and the groups of a queue take turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from oncue.sim.checker.eras import era_of, in_era_of, when
from oncue.sim.checker.evidence import LEARNED_WITHIN, Evidence
from oncue.sim.checker.group_terms import TOLD, GroupTerms, Key, Rooms, StartRate
from oncue.sim.checker.peace import Weather
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event, micros

ROUNDING = 1_000
"""Instants are whole microseconds, and a rate need not be: so much may add up over a history."""
PASSED_OVER = 5
"""So often a group may be passed over: what other nodes had under way when its turn came may arrive before that."""


@promise("a group keeps its limit")
def _limit_kept(evidence: Evidence) -> Iterator[Broken]:
    """A claim counts what runs of the group in the database: with what it takes, no more than the limit of then."""
    terms = GroupTerms(evidence)
    for event in _told(evidence):
        terms.note(event)
        if event.kind == "claim" and (key := terms.key(event))[1] is not None:
            limit, running = terms.limit(key), terms.running[key]
            if limit is not None and len(running) > limit:
                others = [evidence.jobs[other].claims[-1] for other in running if other != event.fields["id"]]
                yield Broken(f"{len(running)} jobs of the group {key[1]} ran at once, {limit} may", (*others, event))


@promise("a paused group hands out nothing")
def _paused(evidence: Evidence) -> Iterator[Broken]:
    """Until its pause is over, or it is resumed, none of its jobs is claimed. What was claimed before may begin.

    A node that does not know yet that the clock was set back may take a pause for over, and end it.
    """
    terms, paused = GroupTerms(evidence), dict[Key, Event]()
    for event in _told(evidence):
        terms.note(event)
        if event.kind == "group":
            paused[event.fields["queue"], event.fields["group"]] = event
        if event.kind != "claim" or event.fields["claimed_at"] >= terms.paused_until(key := terms.key(event)):
            continue
        if era_of(event) == 0 or when(paused[key]) >= evidence.known[era_of(event)]:
            yield Broken(f"job {event.fields['id']} was claimed from the paused group {key[1]}", (event,))


# --- rates ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Span:
    """The claims of a group, or of a queue, while one rate held."""

    key: Key
    pace: StartRate
    claims: list[Event] = field(default_factory=list)

    def too_fast(self, bursts: int = 1) -> Iterator[tuple[Event, Event]]:
        """Claims that came too early, each with the one before.

        Each claim uses the rate up by one more step, from a burst before it at the earliest. One that comes before the
        rate allows it is the end of a time with more claims than the rate gives, one, and a burst; and there is no
        such time without one.
        """
        used, before = 0.0, None
        for claim in sorted(self.claims, key=_claimed_at):
            at = _claimed_at(claim)
            if before is not None and at + ROUNDING < used:
                yield before, claim
            used, before = max(used, at - bursts * self.pace.burst) + self.pace.every, claim


@promise("a group keeps its rate")
def _group_rate(evidence: Evidence) -> Iterator[Broken]:
    """Over any time no more of its jobs are claimed than its rate gives, one, and a burst. Set anew, it counts anew."""
    for span in _Spans(evidence, of_queues=False).all():
        for before, claim in span.too_fast():
            message = f"job {claim.fields['id']} of the group {span.key[1]} was claimed faster than its rate"
            yield Broken(message, (before, claim))


@promise("a queue keeps its rate")
def _queue_rate(evidence: Evidence) -> Iterator[Broken]:
    """The same of a whole queue, once every node knows of its rate. Turns that come back allow for another burst."""
    for span in _Spans(evidence, of_queues=True).all():
        for before, claim in span.too_fast(bursts=2):
            message = f"job {claim.fields['id']} of the queue {span.key[0]} was claimed faster than its rate"
            yield Broken(message, (before, claim))


class _Spans:
    """Sorts the claims of a history into spans. One ends where a rate is set anew, and where the clock is set."""

    def __init__(self, evidence: Evidence, *, of_queues: bool) -> None:
        self._evidence = evidence
        self._of_queues = of_queues
        self._terms = GroupTerms(evidence)
        self._spans: dict[Key, _Span] = {}
        self._known_at: dict[str, int] = {}
        """When every node knew the rate of a queue."""

    def all(self) -> Iterator[_Span]:
        era = 0
        for event in _told(self._evidence):
            self._terms.note(event)
            if era_of(event) != era:
                yield from self._spans.values()
                era, self._spans = era_of(event), {}
            if event.kind in ("limits", "group"):
                yield from self._ended(event)
            elif event.kind == "claim" and not self._evidence.is_unsure(event):
                self._add(event)
        yield from self._spans.values()

    def _ended(self, event: Event) -> list[_Span]:
        queue, group = event.fields["queue"], event.fields.get("group")
        if event.kind == "limits":
            self._known_at[queue] = event.at + LEARNED_WITHIN
        over = [key for key, span in self._spans.items() if key == (queue, group) or span.pace != self._terms.pace(key)]
        return [self._spans.pop(key) for key in over]

    def _add(self, claim: Event) -> None:
        queue, group = self._terms.key(claim)
        if group is None and not self._of_queues:
            return
        key = (queue, None if self._of_queues else group)
        pace, known_at = self._terms.pace(key), self._known_at.get(queue, 0) if self._of_queues else 0
        if pace is not None and _claimed_at(claim) >= known_at:
            self._spans.setdefault(key, _Span(key, pace)).claims.append(claim)


def _claimed_at(claim: Event) -> int:
    at: int = claim.fields["claimed_at"]
    return at


@promise("turns without a job are given back")
def _turns(evidence: Evidence) -> Iterator[Broken]:
    """A node that took turns of a queue's rate uses them, or gives them back before it takes more, in peace."""
    if "turns" not in evidence.places or not evidence.certain:
        return
    weather, terms = Weather(evidence), GroupTerms(evidence)
    calm = max((when(event) for event in evidence.told("faults.over")), default=0)
    taken: dict[tuple[str, str], tuple[Event, int]] = {}
    for event in evidence.told("limits", "claim", "turns"):
        terms.note(event)
        queue = terms.key(event)[0] if event.kind == "claim" else event.fields["queue"]
        if event.kind == "limits":
            taken = {place: turns for place, turns in taken.items() if place[1] != queue}
            continue
        since, turns = taken.pop((event.node, queue), (event, 0))
        used = 1 if event.kind == "claim" else max(0, -event.fields["turns"])
        if used:
            taken[event.node, queue] = (since, turns - used)
            continue
        if turns > 0 and when(since) > calm and weather.was_fine(when(since), when(event)):
            yield Broken(f"{turns} turns of the queue {queue} were neither used nor given back", (since, event))
        taken[event.node, queue] = (event, event.fields["turns"])


# --- turns of groups ------------------------------------------------------------------------------------------------


class _PassedOver:
    """The jobs of groups that certainly wait to be claimed, and how often other groups came first.

    A job that was due later is queued without an event, so it is left out until it comes back to the queue.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._weather = Weather(evidence)
        self._rooms = Rooms(evidence)
        self._waiting: dict[tuple[str, str], dict[Key, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
        """By queue and task, then by group: since when each job waits."""
        self._passed: dict[tuple[Key, Key], list[Event]] = defaultdict(list)
        """By group that waits and group that came first: the claims."""

    def note(self, event: Event) -> Iterator[Broken]:
        if event.kind in ("limits", "group"):
            self._rooms.note(event)
            return
        key, job_id = self._rooms.key(event), event.fields["id"]
        written = self._evidence.jobs[job_id].written
        groups = self._waiting[key[0], "" if written is None else written.fields["task"]]
        if event.kind == "claim" and key[1] is not None and not event.fields["crashes"]:
            for other in [group for group, jobs in groups.items() if jobs and group != key]:
                yield from self._claimed(event, key, other, min(groups[other].values()))
        if event.kind != "job":
            self._rooms.note(event)
        groups[key].pop(job_id, None)
        queued = event.kind != "claim" and event.fields["state"] == "queued" and event.fields.get("accepted", True)
        if queued and key[1] is not None and not event.fields.get("crashes"):
            groups[key][job_id] = when(event)

    def _claimed(self, claim: Event, key: Key, other: Key, waits_since: int) -> Iterator[Broken]:
        """A job of one group is claimed while one of another group waits."""
        since = max(waits_since, self._rooms.own_shut_until(other, claim))
        at, claims = in_era_of(claim, _claimed_at(claim)), self._passed[other, key]
        claims[:] = [before for before in claims if when(before) > since]
        is_same = bool(claims) and _claimed_at(claims[-1]) >= _claimed_at(claim)
        if at <= since or is_same or self._takes(claim, other) or not self._weather.was_fine(since, when(claim)):
            return
        claims.append(claim)
        if len(claims) > PASSED_OVER:
            message = f"the group {other[1]} had its turn, and {key[1]} was claimed from {len(claims)} times"
            yield Broken(message, tuple(claims))
            claims.clear()

    def _takes(self, claim: Event, group: Key) -> bool:
        """Whether the same call takes jobs of another group too."""
        operation = self._evidence.operations.get(claim.fields.get("op", -1))
        effects = [] if operation is None else operation.effects
        return any(effect.kind == "claim" and self._rooms.key(effect) == group for effect in effects)


@promise("the groups of a queue take turns")
def _turns_of_groups(evidence: Evidence) -> Iterator[Broken]:
    """While a group has room and a job that waits, no other group is claimed from again and again, in peace.

    A job that is kept apart comes when it can. Claims of one instant count as one.
    """
    passed_over = _PassedOver(evidence)
    for event in _told(evidence, "job"):
        yield from passed_over.note(event)


@promise("of an idle group only its settings stay")
def _forgotten(evidence: Evidence) -> Iterator[Broken]:
    """When everything has ended, there is a row for each group with settings, as they were set, and for no other."""
    rows, at = evidence.final.groups, evidence.final.at
    if rows is None or at is None or not all(job.finished for job in evidence.final.jobs):
        return
    events = {(event.fields["queue"], event.fields["group"]): event for event in evidence.told("group")}
    for key in sorted({*rows, *events}):
        event, row = events.get(key), rows.get(key)
        asked = NOTHING if event is None else _in_force(event.fields, micros(at))
        there = NOTHING if row is None else _in_force(row, micros(at))
        if asked != there:
            yield Broken(
                f"the group {key[1]} has other settings in the end: {there}", () if event is None else (event,)
            )
        elif row is not None and there == NOTHING and not row.get("trips"):
            yield Broken(f"the group {key[1]} is idle and not forgotten")
    if evidence.final.wakeups:
        yield Broken(f"{evidence.final.wakeups} notes of what happened in groups were never read")


NOTHING = (None, None, None)


def _in_force(told: Mapping[str, Any], now: int) -> tuple[Any, Any, Any]:
    """Settings without a pause that is over."""
    rate, paused_until = told["rate"], told["paused_until"]
    is_over = paused_until is None or paused_until <= now
    return told["limit"], None if rate is None else tuple(rate), None if is_over else paused_until


def _told(evidence: Evidence, *more: str) -> Iterator[Event]:
    """What happened in groups and to rates, if a state can be told from that and there are any."""
    has_terms = "limits" in evidence.places or "group" in evidence.places
    return evidence.told(*TOLD, *more) if evidence.certain and has_terms else iter(())
