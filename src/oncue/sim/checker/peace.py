"""What must happen, and in time: once nothing disturbs the cluster, or while nothing does."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from oncue.model import WAITING
from oncue.policy.suspicion import ALONE
from oncue.sim.checker.eras import ERA, era_of, in_era_of, when
from oncue.sim.checker.evidence import Evidence, Turn, claim_no, ends, is_taken_away
from oncue.sim.checker.group_terms import TOLD, Rooms
from oncue.sim.checker.leaders import LEADER, LEASES_TO_SETTLE
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.checker.suspicion import kept_apart
from oncue.sim.history import Event

DISTURBING = ("fault", "faults.over", "boot", "crash", "lease.end", "tick.error")
Apart: TypeAlias = Callable[[Event], int]
"""What company the job of an event may have."""
SEATING = ("boot", "crash", "lease", "lease.end", "limit", "pause", "resume", "limits", "group")


@promise("no step fails but for the database")
def _steps(evidence: Evidence) -> Iterator[Broken]:
    """A service may fail because the database cannot be reached; any other error is a bug."""
    for event in evidence.told("tick.error"):
        if not event.fields["expected"]:
            yield Broken(f"{event.fields['service']}: {event.fields['error']}", (event,))


@promise("once faults stop, everything ends in time")
def _drains(evidence: Evidence) -> Iterator[Broken]:
    """So long after the last fault every job is finished. Asked for with `drained_within`."""
    if evidence.drained_within is None:
        return
    for job in evidence.final.jobs:
        if not job.finished:
            story = evidence.jobs.get(job.id)
            events = () if story is None else (*story.claims[-1:], *story.changes[-1:])
            yield Broken(f"job {job.id} is still {job.state}", events)
    calm = max(evidence.told("faults.over"), key=when, default=None)
    for story in evidence.jobs.values() if calm is not None else ():
        end = next((change for change in reversed(story.changes) if ends(change)), None)
        if end is not None and calm is not None and era_of(end) == era_of(calm):
            waited = (end.at - calm.at) / 1e6
            if waited > evidence.drained_within:
                yield Broken(f"job {story.id} ended {waited:g} s after the last fault", (end,))


# --- in time, while nothing disturbs --------------------------------------------------------------------------------


class Weather:
    """When something disturbed the cluster. Each disturbance may be felt for three leases."""

    def __init__(self, evidence: Evidence, kinds: Sequence[str] = DISTURBING, but_for: str | None = None) -> None:
        """`but_for`: what happened to the processes of this name does not count."""
        self._settling = LEASES_TO_SETTLE * evidence.lease
        spans = sorted(_disturbances(evidence, kinds, but_for))
        self._starts = [start for start, _ in spans]
        self._ends: list[int] = []
        for _, end in spans:
            self._ends.append(max(end, self._ends[-1]) if self._ends else end)

    def was_fine(self, start: int, end: int) -> bool:
        """Whether nothing disturbed the cluster in this time, or shortly before."""
        return self.fine_since(end) < start

    def fine_since(self, now: int) -> int:
        """After when nothing disturbed the cluster until now; that may still be to come."""
        begun_by_then = bisect_right(self._starts, now)
        return self._ends[begun_by_then - 1] + self._settling if begun_by_then else -1


def _disturbances(evidence: Evidence, kinds: Sequence[str], but_for: str | None) -> Iterator[tuple[int, int]]:
    for era, known in enumerate(evidence.known):
        yield ERA * era, known
    for event in evidence.told(*kinds):
        struck = str(event.fields.get("node") or event.node)
        if but_for is not None and _name_of(struck) == but_for:
            continue
        until = event.fields.get("until")
        yield when(event), when(event) if until is None else max(when(event), in_era_of(event, until))


def _name_of(label: str) -> str:
    """Of all the processes that were started under it."""
    return label.rpartition(".")[0] or label


@promise("no slot is decided late")
def _slots_in_time(evidence: Evidence) -> Iterator[Broken]:
    """While nothing disturbs the cluster. Asked for with `late`."""
    if evidence.late is None or not evidence.ordered:
        return
    weather, most = Weather(evidence), round(evidence.late * 1e6)
    for verdict in evidence.told("slot"):
        due, waited = in_era_of(verdict, verdict.fields["at"]), verdict.at - verdict.fields["at"]
        if waited > most and verdict.fields["verdict"] != "manual" and weather.was_fine(due, when(verdict)):
            yield Broken(f"slot {verdict.fields['at']} was decided {waited / 1e6:g} s late", (verdict,))


@dataclass(slots=True)
class _Seats:
    """Who is there, what they run, and when all seats were last taken."""

    nodes: dict[str, int] = field(default_factory=dict)
    size: dict[str, int] = field(default_factory=dict)
    """How many seats every process had when it started: one that was declared lost comes back with as many."""
    held: dict[int, Event] = field(default_factory=dict)
    """The claims that are not settled."""
    lingering: dict[tuple[int, int], str] = field(default_factory=dict)
    """Attempts that were taken from their nodes, which cannot stop them: they keep their seats until they end."""
    over: set[tuple[int, int]] = field(default_factory=set)
    """Claims whose attempts have ended before they were settled."""
    closed: dict[int, str] = field(default_factory=dict)
    """Jobs that have their node to themselves, or will: there is no seat for another one there."""
    taken_until: int = 0
    limit: int | None = None
    paused: bool = False

    def note(self, event: Event, apart: Apart) -> None:
        told, full = event.fields, self.full
        if event.kind == "boot":
            self.nodes[event.node] = self.size[event.node] = told["concurrency"]
        elif event.kind == "lease" and event.node in self.size:
            self.nodes[event.node] = self.size[event.node]
        elif event.kind in ("crash", "lease.end"):
            self.nodes.pop(event.node, None)
            self.lingering = {place: node for place, node in self.lingering.items() if node != event.node}
        elif event.kind == "limit":
            self.limit = told["globally"]
        elif event.kind in ("pause", "resume"):
            self.paused = event.kind == "pause"
        elif event.kind == "claim":
            self.held[told["id"]] = event
            if apart(event) == ALONE:
                self.closed[told["id"]] = event.node
        elif event.kind == "outcome":
            self._end(told["id"], told["claim_no"])
        elif event.kind == "change" and told["accepted"]:
            self._settle(event)
        if full or self.full:
            self.taken_until = when(event)

    def _end(self, job_id: int, number: int) -> None:
        if self.lingering.pop((job_id, number), None) is None and job_id in self.held:
            self.over.add((job_id, number))

    def _settle(self, change: Event) -> None:
        place = (change.fields["id"], claim_no(change))
        claim = self.held.pop(place[0], None)
        self.closed.pop(place[0], None)
        if place in self.over:
            self.over.remove(place)
        elif claim is not None and claim.node in self.nodes and is_taken_away(change):
            self.lingering[place] = claim.node

    @property
    def full(self) -> bool:
        limited = self.limit is not None and len(self.held) >= self.limit
        if self.closed:
            shut = set(self.closed.values())
            taken = [claim.node for claim in self.held.values()] + list(self.lingering.values())
            free = sum(seats for node, seats in self.nodes.items() if node not in shut)
            return self.paused or limited or sum(node not in shut for node in taken) >= free
        return self.paused or limited or len(self.held) + len(self.lingering) >= sum(self.nodes.values())


@promise("no job is claimed late")
def _jobs_in_time(evidence: Evidence) -> Iterator[Broken]:
    """While nothing disturbs the cluster, seats are free, and its group and rates let it. Asked for with `late`.

    Jobs that are kept apart wait for others.
    """
    if evidence.late is None or not evidence.certain or not _can_tell_seats(evidence):
        return
    weather, most, seats, rooms = Weather(evidence), round(evidence.late * 1e6), _Seats(), Rooms(evidence)
    apart: Apart = lambda event: kept_apart(evidence.jobs[event.fields["id"]], event)  # noqa: E731
    waiting: dict[int, Event] = {}

    def late(job_id: int, now: Event) -> bool:
        story = evidence.jobs[job_id]
        if story.address is not None:  # which may be that of no node, or of one that is full
            return False
        shut_until = rooms.shut_until((story.queue, story.group), now)
        since = max(_due(waiting[job_id], now), when(now) if seats.full else seats.taken_until, shut_until)
        return when(now) - since > most and weather.was_fine(since, when(now))

    for event in evidence.told("job", "claim", "outcome", "change", *SEATING):
        if event.kind == "claim" and event.fields["id"] in waiting:
            since = waiting[event.fields["id"]]
            if late(event.fields["id"], event):
                waited = (when(event) - _due(since, event)) / 1e6
                yield Broken(f"job {event.fields['id']} waited {waited:g} s beside free seats", (since, event))
        seats.note(event, apart)
        if event.kind in TOLD:
            rooms.note(event)
        _note_waiting(waiting, event, apart)
    for job_id, since in waiting.items():
        if late(job_id, evidence.events[-1]):
            yield Broken(f"job {job_id} waits for ever beside free seats", (since,))


@promise("what nobody runs is taken over in time")
def _taken_over(evidence: Evidence) -> Iterator[Broken]:
    """What a dead node held, or one that never heard of its claim, does not stay so in peace. Asked for with `late`."""
    if evidence.late is None or not evidence.certain:
        return
    # That a node is declared lost is no excuse here: that may be what comes too late.
    weather = Weather(evidence, [kind for kind in DISTURBING if kind != "lease.end"])
    most, end = round(evidence.late * 1e6), when(evidence.events[-1])
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            since = _abandoned_at(turn, evidence)
            if since is None:
                continue
            ways = [change for change in turn.changes if change.fields["from_state"] == "running"]
            settled = when(ways[0]) if ways else end
            waited = settled - max(since, weather.fine_since(settled))
            if waited > most:
                yield Broken(f"nobody took job {story.id} over for {waited / 1e6:g} s", (*turn.claims, *ways[:1]))


@promise("a rescue is prompt")
def _prompt(evidence: Evidence) -> Iterator[Broken]:
    """If nothing else is wrong, what a dead node held is taken over when its lease ends. Asked for with `prompt`."""
    if evidence.prompt is None or not evidence.certain:
        return
    skies: dict[str, Weather] = {}
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            crash = None if turn.claim is None else evidence.crashes.get(turn.claim.node)
            ways = [change for change in turn.changes if change.fields["error"] == "node_lost"]
            if crash is None or not ways or when(crash) > turn.lease.end:
                continue
            name = _name_of(crash.node)
            weather = skies.setdefault(name, Weather(evidence, DISTURBING, but_for=name))
            waited = when(ways[0]) - turn.lease.end
            if waited > evidence.prompt * 1e6 and weather.was_fine(when(crash), when(ways[0])):
                yield Broken(
                    f"job {story.id} was rescued {waited / 1e6:g} s after the lease had ended", (crash, ways[0])
                )


def _abandoned_at(turn: Turn, evidence: Evidence) -> int | None:
    """Since when no node runs what was claimed, if so: its node is gone, or was not told of it."""
    if turn.claim is None:
        return None
    crash = evidence.crashes.get(turn.claim.node)
    if turn.lease.closed or (crash is not None and when(crash) <= turn.lease.end):
        return turn.lease.end
    operation = evidence.operations.get(turn.claim.fields.get("op", -1))
    answer = None if operation is None else operation.answer
    return when(answer) if answer is not None and answer.kind == "claim.unknown" else None


@promise("a claim is begun in time")
def _begun(evidence: Evidence) -> Iterator[Broken]:
    """In peace a node soon begins what it has claimed, or gives it back. Asked for with `late`.

    It may keep it for half a lease, beside that; one that has to run alone, until everything else there has ended.
    """
    if evidence.late is None or not evidence.certain:
        return
    weather, most = Weather(evidence), round(evidence.late * 1e6) + evidence.lease // 2
    end = when(evidence.events[-1])
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            if turn.claim is None or kept_apart(story, turn.claim) == ALONE:
                continue
            ways = (*(attempt.start for attempt in turn.attempts), *turn.changes)
            claimed, begun = when(turn.claim), min((when(event) for event in ways), default=end)
            if begun - claimed > most and weather.was_fine(claimed, begun):
                message = f"job {story.id} was claimed, and not begun for {(begun - claimed) / 1e6:g} s"
                yield Broken(message, (turn.claim, *ways[:1]))


def _can_tell_seats(evidence: Evidence) -> bool:
    """Whether the history tells how many seats there are, and any node may take any job."""
    exclusive = any(event.fields["name"] != LEADER for event in evidence.told("hold"))
    return not exclusive and any(True for _ in evidence.told("boot"))


def _note_waiting(waiting: dict[int, Event], event: Event, apart: Apart) -> None:
    """Keep who waits, and what made it wait. Parked jobs and those that are kept apart wait for others."""
    told = event.fields
    if event.kind == "job" and not told.get("parked", False):
        waiting.setdefault(told["id"], event)
    elif event.kind == "claim":
        waiting.pop(told["id"], None)
    elif event.kind == "change" and told["accepted"]:
        waiting.pop(told["id"], None)
        if told["state"] in WAITING and not apart(event):
            waiting[told["id"]] = event


def _due(event: Event, now: Event) -> int:
    """When a job could first be claimed, by the clock of now: it may have been set since the job was written."""
    return max(when(event), in_era_of(now, event.fields["visible_at"]))
