"""Who may hold how many seats of a queue whose jobs are limited across all nodes.

Each node takes seats for itself and runs at most so many jobs of the queue at once. It looks at who else holds and
wants some, works out its share, and takes or gives back the difference, one compare-and-set at a time. All of them work
out the same shares, so that they need not talk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

N = TypeVar("N")

TURN_SECONDS = 5.0
"""How long the seats that cannot be split evenly stay where they are: each node that wants one gets its turn."""


def shares(limit: int, wants: Mapping[N, int], turn: int = 0) -> dict[N, int]:
    """Split seats evenly among those who want some; nobody gets more than it wants.

    The order of `wants` must be the same for everyone. What is left over goes to others with each turn.
    """
    given = dict.fromkeys(wants, 0)
    hungry = [name for name, wanted in wants.items() if wanted > 0]
    left = limit
    while hungry:
        each = left // len(hungry)
        content = [name for name in hungry if wants[name] <= each]
        if not content:
            return given | _uneven(hungry, each, left - each * len(hungry), turn)
        for name in content:
            given[name] = wants[name]
            left -= wants[name]
        hungry = [name for name in hungry if wants[name] > each]
    return given


def _uneven(hungry: list[N], each: int, rest: int, turn: int) -> dict[N, int]:
    first = turn % len(hungry)
    lucky = {hungry[(first + place) % len(hungry)] for place in range(rest)}
    return {name: each + (name in lucky) for name in hungry}


def aim(limit: int, name: N, holds: int, wants: Mapping[N, int], held_by_others: int, turn: int) -> int:
    """How many seats to hold from here on: its share, but never one that another still holds.

    While nobody goes short, a node keeps what it has: the next job then finds a seat at once.
    """
    share = shares(limit, wants, turn)[name]
    free = max(limit - held_by_others, 0)
    if sum(wants.values()) <= limit:
        others = sum(wanted for other, wanted in wants.items() if other != name)
        share = max(share, min(holds, limit - others))
    return min(share, free)
