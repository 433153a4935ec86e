"""The claims that wait here for a seat, and which of them may take one.

A pool is what may be limited: a queue, or the tasks that run in processes. The allowance of a pool says how many of its
attempts may run here at once. A claim starts when there is room in all of its pools.

Claims wait in the order in which they came. If there is no room for a claim when its turn comes, it is held, behind
others of the same pools, and the claims after it go on. So a held claim came before everything that waits, and is taken
first as soon as there is room.
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

Pool: TypeAlias = str

PROCESSES: Pool = "in processes"
"""The tasks that run in processes. No queue is called so: a queue's name has no space."""


class WaitingClaims:
    """`waiting` may be taken from directly while nothing is `allowed`: then nothing is limited, and nothing held."""

    def __init__(self, in_processes: Container[str] = frozenset()) -> None:
        self.waiting: deque[Claim] = deque()
        self.allowed: dict[Pool, int] = {}
        self._in_processes = in_processes
        self._running: dict[Pool, int] = {}
        self._held: dict[tuple[Pool, ...], deque[tuple[int, Claim]]] = {}
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

    def allow(self, pool: Pool, most: int | None, running: int) -> None:
        """At most so many attempts of a pool, of which so many are running now; None for no limit."""
        if most is not None:
            self.allowed[pool] = most
            self._running[pool] = running
        elif self.allowed.pop(pool, None) is not None:
            del self._running[pool]
            if not self.allowed:
                self._hold_none()

    def _hold_none(self) -> None:
        held = sorted(entry for claims in self._held.values() for entry in claims)
        self._held.clear()
        self.waiting.extendleft(claim for _, claim in reversed(held))

    def running_in(self, pool: Pool) -> int | None:
        """How many attempts of a limited pool are running; None if it is not limited: then they are not counted."""
        return self._running.get(pool)

    def waiting_in(self, pool: Pool) -> int:
        """How many claims of a pool wait here, whether they are held or not."""
        if pool == PROCESSES:
            return sum(claim.task in self._in_processes for claim in self)
        return sum(claim.queue == pool for claim in self)

    # --- coming and going ---------------------------------------------------------------------------------------

    def ready(self) -> int:
        """How many may take a seat now, at most: some of those that wait may have to be held."""
        ready = len(self.waiting)
        for pools, held in self._held.items():
            ready += min(len(held), self._room(pools))
        return ready

    def take(self) -> Claim | None:
        """The oldest claim that may start. It is counted as running until it has `left`."""
        pools = self._first_with_room() if self._held else None
        if pools is not None:
            return self._entered(self._unheld(pools), pools)
        while self.waiting:
            claim = self.waiting.popleft()
            pools = self._pools(claim)
            if self._room(pools) > 0:
                return self._entered(claim, pools)
            self._held.setdefault(pools, deque()).append((next(self._numbers), claim))
        return None

    def left(self, claim: Claim) -> None:
        """An attempt has ended, or did not start after all."""
        for pool in self._pools(claim):
            if pool in self._running:
                self._running[pool] -= 1

    def remove(self, job_id: int, claim_no: int) -> list[Claim]:
        """Take a claim out, if it waits here."""
        found = [claim for claim in self if (claim.id, claim.claim_no) == (job_id, claim_no)]
        for claim in found:
            if claim in self.waiting:
                self.waiting.remove(claim)
            else:
                pools = self._pools(claim)
                self._keep(pools, deque(entry for entry in self._held[pools] if entry[1] is not claim))
        return found

    def drop(self, claimed_before: datetime | None = None) -> list[Claim]:
        """Take everything out, or what was claimed by then. Each part of it is in the order of age.

        A claim that is to run alone may wait much longer before it is late.
        """
        dropped: list[Claim] = []
        for pools, held in tuple(self._held.items()):
            while held and (claimed_before is None or held[0][1].claimed_at <= claimed_before):
                dropped.append(held.popleft()[1])
            self._keep(pools, held)
        waiting = self.waiting
        while waiting and (claimed_before is None or waiting[0].claimed_at <= claimed_before):
            dropped.append(waiting.popleft())
        patient = [claim for claim in dropped if claimed_before is not None and _has_time(claim, claimed_before)]
        waiting.extend(patient)
        return [claim for claim in dropped if claim not in patient]

    # --- pools --------------------------------------------------------------------------------------------------

    def _pools(self, claim: Claim) -> tuple[Pool, ...]:
        return (claim.queue, PROCESSES) if claim.task in self._in_processes else (claim.queue,)

    def _room(self, pools: tuple[Pool, ...]) -> int:
        """How many more may start that run in all of these pools."""
        room = maxsize
        for pool in pools:
            if pool in self.allowed:
                room = min(room, self.allowed[pool] - self._running[pool])
        return max(room, 0)

    def _first_with_room(self) -> tuple[Pool, ...] | None:
        roomy = [pools for pools in self._held if self._room(pools) > 0]
        return min(roomy, key=lambda pools: self._held[pools][0][0], default=None)

    def _unheld(self, pools: tuple[Pool, ...]) -> Claim:
        held = self._held[pools]
        _, claim = held.popleft()
        self._keep(pools, held)
        return claim

    def _keep(self, pools: tuple[Pool, ...], held: deque[tuple[int, Claim]]) -> None:
        if held:
            self._held[pools] = held
        else:
            self._held.pop(pools, None)

    def _entered(self, claim: Claim, pools: tuple[Pool, ...]) -> Claim:
        for pool in pools:
            if pool in self._running:
                self._running[pool] += 1
        return claim


def _has_time(claim: Claim, claimed_before: datetime) -> bool:
    return isolation_of(claim) == ALONE and claim.claimed_at > claimed_before - ROOM
