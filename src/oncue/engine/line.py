"""The claims that wait here for a seat, and which of them may take one.

A lane is something that may be limited: a queue, or the tasks that run in processes. The allowance of a lane says how
many of its attempts may run here at once; a claim starts when there is room in all the lanes that it runs in.

Claims wait in the order in which they came. One whose turn comes while there is no room for it is held: it steps
aside, behind others that run in the same lanes, and blocks nobody. So whatever is held came before everything that
waits, and is taken first as soon as there is room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator
from datetime import datetime
from itertools import count
from sys import maxsize
from typing import TypeAlias

from oncue.model import Claim
from oncue.policy.suspicion import ALONE, ROOM, isolation_of

Lane: TypeAlias = str

PROCESSES: Lane = "in processes"
"""The tasks that run in processes. No queue is called so: a queue's name has no space."""


class Line:
    """`waiting` may be taken from directly while nothing is `allowed`: then nothing is limited, and nothing held."""

    def __init__(self, in_processes: Container[str] = frozenset()) -> None:
        self.waiting: deque[Claim] = deque()
        self.allowed: dict[Lane, int] = {}
        self._in_processes = in_processes
        self._running: dict[Lane, int] = {}
        self._held: dict[tuple[Lane, ...], deque[tuple[int, Claim]]] = {}
        self._numbers = count()

    def __iter__(self) -> Iterator[Claim]:
        for held in self._held.values():
            yield from (claim for _, claim in held)
        yield from self.waiting

    @property
    def length(self) -> int:
        if not self._held:
            return len(self.waiting)
        return len(self.waiting) + sum(map(len, self._held.values()))

    # --- allowances ---------------------------------------------------------------------------------------------

    def allow(self, lane: Lane, most: int | None, running: int) -> None:
        """At most so many attempts of a lane, of which so many are running now; None for no limit."""
        if most is not None:
            self.allowed[lane] = most
            self._running[lane] = running
        elif self.allowed.pop(lane, None) is not None:
            del self._running[lane]
            if not self.allowed:
                self._let_everyone_wait()

    def _let_everyone_wait(self) -> None:
        held = sorted(entry for line in self._held.values() for entry in line)
        self._held.clear()
        self.waiting.extendleft(claim for _, claim in reversed(held))

    def running_in(self, lane: Lane) -> int | None:
        """How many attempts of a limited lane are running; None if it is not limited, and nobody counts them."""
        return self._running.get(lane)

    def waiting_in(self, lane: Lane) -> int:
        """How many claims of a lane wait here, whether they are held or not."""
        if lane == PROCESSES:
            return sum(claim.task in self._in_processes for claim in self)
        return sum(claim.queue == lane for claim in self)

    # --- coming and going ---------------------------------------------------------------------------------------

    def ready(self) -> int:
        """How many may take a seat now, at most: some of those that wait may have to be held."""
        ready = len(self.waiting)
        for lanes, held in self._held.items():
            ready += min(len(held), self._room(lanes))
        return ready

    def take(self) -> Claim | None:
        """The oldest claim that may start. It is counted as running until it has `left`."""
        lanes = self._first_with_room() if self._held else None
        if lanes is not None:
            return self._entered(self._unheld(lanes), lanes)
        while self.waiting:
            claim = self.waiting.popleft()
            lanes = self._lanes(claim)
            if self._room(lanes) > 0:
                return self._entered(claim, lanes)
            self._held.setdefault(lanes, deque()).append((next(self._numbers), claim))
        return None

    def left(self, claim: Claim) -> None:
        """An attempt has ended, or did not start after all."""
        for lane in self._lanes(claim):
            if lane in self._running:
                self._running[lane] -= 1

    def remove(self, job_id: int, claim_no: int) -> list[Claim]:
        """Take a claim out of the line, if it is there."""
        found = [claim for claim in self if (claim.id, claim.claim_no) == (job_id, claim_no)]
        for claim in found:
            if claim in self.waiting:
                self.waiting.remove(claim)
            else:
                lanes = self._lanes(claim)
                self._keep(lanes, deque(entry for entry in self._held[lanes] if entry[1] is not claim))
        return found

    def drop(self, claimed_before: datetime | None = None) -> list[Claim]:
        """Take everything out of the line, or what was claimed by then. Each part of it is in the order of age.

        One that is to run alone may have to wait for long: it is late much later.
        """
        dropped: list[Claim] = []
        for lanes, held in tuple(self._held.items()):
            while held and (claimed_before is None or held[0][1].claimed_at <= claimed_before):
                dropped.append(held.popleft()[1])
            self._keep(lanes, held)
        waiting = self.waiting
        while waiting and (claimed_before is None or waiting[0].claimed_at <= claimed_before):
            dropped.append(waiting.popleft())
        patient = [claim for claim in dropped if claimed_before is not None and _has_time(claim, claimed_before)]
        waiting.extend(patient)
        return [claim for claim in dropped if claim not in patient]

    # --- lanes --------------------------------------------------------------------------------------------------

    def _lanes(self, claim: Claim) -> tuple[Lane, ...]:
        return (claim.queue, PROCESSES) if claim.task in self._in_processes else (claim.queue,)

    def _room(self, lanes: tuple[Lane, ...]) -> int:
        """How many more may start that run in all of these lanes."""
        room = maxsize
        for lane in lanes:
            if lane in self.allowed:
                room = min(room, self.allowed[lane] - self._running[lane])
        return max(room, 0)

    def _first_with_room(self) -> tuple[Lane, ...] | None:
        roomy = [lanes for lanes in self._held if self._room(lanes) > 0]
        return min(roomy, key=lambda lanes: self._held[lanes][0][0], default=None)

    def _unheld(self, lanes: tuple[Lane, ...]) -> Claim:
        held = self._held[lanes]
        _, claim = held.popleft()
        self._keep(lanes, held)
        return claim

    def _keep(self, lanes: tuple[Lane, ...], held: deque[tuple[int, Claim]]) -> None:
        if held:
            self._held[lanes] = held
        else:
            self._held.pop(lanes, None)

    def _entered(self, claim: Claim, lanes: tuple[Lane, ...]) -> Claim:
        for lane in lanes:
            if lane in self._running:
                self._running[lane] += 1
        return claim


def _has_time(claim: Claim, claimed_before: datetime) -> bool:
    return isolation_of(claim) == ALONE and claim.claimed_at > claimed_before - ROOM
