"""Queues: the best job is claimed first, limits are kept, and a paused queue hands out nothing."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from oncue.model import CLUSTER_ADDRESS
from oncue.sim.checker.eras import when
from oncue.sim.checker.evidence import FOREVER, LEARNED_WITHIN, Evidence, ObservedAttempt
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event


@promise("a paused queue hands out nothing")
def _paused(evidence: Evidence) -> Iterator[Broken]:
    """Until it is open again none of its jobs is claimed. What was claimed before may begin."""
    if "pause" not in evidence.places or not evidence.certain:
        return
    paused: dict[str, Event] = {}
    for event in evidence.told("pause", "resume", "claim"):
        if event.kind == "pause":
            paused[event.fields["queue"]] = event
        elif event.kind == "resume":
            paused.pop(event.fields["queue"], None)
        elif paused and (pause := paused.get(evidence.jobs[event.fields["id"]].queue)) is not None:
            yield Broken(f"job {event.fields['id']} was claimed from a paused queue", (pause, event))


# --- the order ------------------------------------------------------------------------------------------------------

Rank: TypeAlias = tuple[int, int, int]
"""Where a job stands among those that wait: less its priority, then its age, then its number."""


class _Line:
    """The jobs of one task in a queue, in one of its groups or for one address, that certainly wait to be claimed."""

    def __init__(self) -> None:
        self._waiting: set[Rank] = set()
        self._heap: list[Rank] = []

    def join(self, rank: Rank) -> None:
        self._waiting.add(rank)
        heapq.heappush(self._heap, rank)

    def leave(self, rank: Rank) -> bool:
        """Whether it was there."""
        if rank not in self._waiting:
            return False
        self._waiting.remove(rank)
        return True

    def best(self) -> Rank | None:
        while self._heap and self._heap[0] not in self._waiting:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None


class _Order:
    """Who waits, as far as the history tells.

    A job that was due later is queued without an event, so it is left out until it comes back to the queue. So is one
    that may have been raised for its age: the history does not tell which ones were. A cluster job waits for its
    leader's decision, and a part whose address changes stands in another line by then.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[str | None, ...], _Line] = defaultdict(_Line)
        self._places: dict[int, tuple[str, _Line, Rank]] = {}

    def note(self, event: Event) -> None:
        told = event.fields
        if event.kind == "job":
            self._written(told["id"], event)
        elif event.kind == "age":
            raised = [job_id for job_id, place in self._places.items() if place[0] == told["queue"]]
            for job_id in raised:
                self._forget(job_id)
        elif event.kind == "address":
            if told["id"] in self._places:
                self._forget(told["id"])
        elif told["id"] in self._places and event.kind == "priority":
            self._moved(told["id"], told["priority"])
        elif told["id"] in self._places and told["accepted"]:
            _, line, rank = self._places[told["id"]]
            line.leave(rank)
            if told["state"] == "queued" and not told["crashes"]:
                line.join(rank)

    def better(self, claim: Event) -> int | None:
        """A job that should have been claimed before this one, if there is one. Suspects have a line of their own."""
        if (place := self._places.get(claim.fields["id"])) is None:
            return None
        _, line, rank = place
        was_there, best = line.leave(rank), line.best()
        return best[2] if was_there and best is not None and best < rank else None

    def _written(self, job_id: int, event: Event) -> None:
        told = event.fields
        if job_id in self._places or "priority" not in told or told.get("address") == CLUSTER_ADDRESS:
            return
        place, rank = (told.get("group"), told.get("address")), (-told["priority"], told["order_at"], job_id)
        line = self._lines[told["queue"], *place, told["task"]]
        self._places[job_id] = (told["queue"], line, rank)
        if told["state"] == "queued":
            line.join(rank)

    def _moved(self, job_id: int, priority: int) -> None:
        queue, line, rank = self._places[job_id]
        moved = (-priority, *rank[1:])
        self._places[job_id] = (queue, line, moved)
        if line.leave(rank):
            line.join(moved)

    def _forget(self, job_id: int) -> None:
        _, line, rank = self._places.pop(job_id)
        line.leave(rank)


@promise("the best job is claimed first")
def _best_first(evidence: Evidence) -> Iterator[Broken]:
    """Of the jobs of a task that wait in a queue, or in one group, the one of the highest priority, then the oldest."""
    order = _Order()
    for event in evidence.told("job", "change", "claim", "priority", "age", "address") if evidence.certain else ():
        if event.kind != "claim":
            order.note(event)
        elif (better := order.better(event)) is not None:
            waits = evidence.jobs[better].written
            message = f"job {event.fields['id']} was claimed before job {better}"
            yield Broken(message, (event,) if waits is None else (waits, event))


# --- limits ---------------------------------------------------------------------------------------------------------


class _Limit(NamedTuple):
    """From when on which limit holds. Those that share a pool count the same attempts."""

    since: int
    most: int
    pool: int


class _Seated(NamedTuple):
    """An attempt in its queue, with the instant of its claim."""

    queue: str
    claimed: int
    attempt: ObservedAttempt


@promise("a limited queue keeps its limit")
def _limit_kept(evidence: Evidence) -> Iterator[Broken]:
    """Attempts count from their start to their end, or to the end of their node's lease.

    A lower limit holds for what is claimed once every node has learned of it; what ran already goes on beside that.
    """
    limits = limits_of(evidence)
    running: dict[tuple[str, int], list[tuple[int, int, Event]]] = defaultdict(list)
    for number, (queue, claimed, attempt) in enumerate(seated(evidence) if limits else ()):
        began, until = when(attempt.start), attempt.rightful_until
        limit = raised(limit_at(limits.get(queue, []), claimed), limit_at(limits.get(queue, []), began))
        if limit is None or until <= began or evidence.is_unsure(attempt.start):
            continue
        seats = running[queue, limit.pool]
        while seats and seats[0][0] <= began:
            heapq.heappop(seats)
        heapq.heappush(seats, (until, number, attempt.start))
        if len(seats) > limit.most:
            starts = tuple(sorted((start for _, _, start in seats), key=when))
            yield Broken(f"{len(seats)} attempts ran at once in the queue {queue}, {limit.most} may", starts)


def limits_of(evidence: Evidence) -> dict[str, list[_Limit]]:
    """The limits of each queue, in the order in which they begin to hold."""
    limits: dict[str, list[_Limit]] = defaultdict(list)
    somebody_works = False
    for event in evidence.told("limit", "lease"):
        if event.kind == "lease":
            somebody_works = True
            continue
        found, told = limits[event.fields["queue"]], event.fields["globally"]
        while found and found[-1].since > when(event):
            found.pop()  # it was changed again before it held
        most, before = FOREVER if told is None else told, found[-1].most if found else FOREVER
        delay = LEARNED_WITHIN + evidence.lease if most < before and somebody_works else 0
        found.append(_Limit(when(event) + delay, most, len(found) if most < before or not found else found[-1].pool))
    return limits


def limit_at(limits: list[_Limit], instant: int) -> _Limit | None:
    place = bisect_right(limits, instant, key=lambda limit: limit.since)
    return limits[place - 1] if place else None


def raised(then: _Limit | None, now: _Limit | None) -> _Limit | None:
    """The limit that an attempt was claimed under, or the higher one that holds when it starts."""
    return now if then is not None and now is not None and now.pool == then.pool else then


def seated(evidence: Evidence) -> list[_Seated]:
    found = [
        _Seated(story.queue, when(turn.claim or attempt.start), attempt)
        for story in evidence.jobs.values()
        for turn in story.turns.values()
        for attempt in turn.attempts
    ]
    return sorted(found, key=lambda seated: seated.attempt.place)
