"""How many seats of a queue with a global limit each node may hold.

Each node takes seats for itself and runs at most so many jobs of the queue at once. It looks at who else holds and
needs some, works out its share, and takes or gives back the difference, one compare-and-set at a time. All of them work
out the same shares, so that they need not talk.

A node needs a seat if it could fill it now. Needs come first. What is left is held ready, evenly by all: a job that
arrives then begins at once, and a node that is full of other work can take one as soon as a job of its own ends. Such a
node needs no seat until it has one, so without this the queue would wait until the others are empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

N = TypeVar("N")

TURN_SECONDS = 5.0
"""How long the seats that cannot be split evenly stay where they are: each node that wants one gets its turn."""


class SeatDemand(NamedTuple):
    """How many seats a node holds, and how many it could fill now, those of the jobs in its hands included."""

    holds: int
    needs: int


def shares(limit: int, wants: Mapping[N, int], turn: int = 0) -> dict[N, int]:
    """Split seats evenly among the nodes that want some; no node gets more than it wants.

    The order of `wants` must be the same for everyone. What is left over goes to others with each turn.
    """
    given, hungry, rest = _even(limit, wants)
    for place in range(rest):
        given[hungry[(turn + place) % len(hungry)]] += 1
    return given


def _even(limit: int, wants: Mapping[N, int]) -> tuple[dict[N, int], list[N], int]:
    """What every node gets at least; which nodes want more; and how many of these can have one more."""
    given = dict.fromkeys(wants, 0)
    hungry = [name for name, wanted in wants.items() if wanted > 0]
    left = limit
    while hungry:
        each = left // len(hungry)
        content = [name for name in hungry if wants[name] <= each]
        if not content:
            return given | dict.fromkeys(hungry, each), hungry, left - each * len(hungry)
        for name in content:
            given[name] = wants[name]
            left -= wants[name]
        hungry = [name for name in hungry if wants[name] > each]
    return given, hungry, 0


def aim(limit: int, name: N, nodes: Mapping[N, SeatDemand], turn: int, *, most: int, eager: bool) -> int:
    """How many seats a node should hold, once the others have what they should: see `free`.

    `most`: what any node may hold. `eager`: whether a job waits that this node could run. Then the seats that are left
    when all needs are met go round too, if they cannot be split evenly; while nothing waits, they stay where they are.
    """
    needed = shares(limit, {other: min(demand.needs, most) for other, demand in nodes.items()}, turn)
    spare = {other: most - given for other, given in needed.items()}
    left = limit - sum(needed.values())
    ready = shares(left, spare, turn)[name] if eager else _kept(left, name, nodes, needed, spare)
    return needed[name] + ready


def free(limit: int, name: N, nodes: Mapping[N, SeatDemand]) -> int:
    """How many seats a node can hold: those that no other holds."""
    return max(limit - sum(demand.holds for other, demand in nodes.items() if other != name), 0)


def _kept(left: int, name: N, nodes: Mapping[N, SeatDemand], needed: Mapping[N, int], spare: Mapping[N, int]) -> int:
    """An even part of what is left; and one more, unless as many as possible have one more already."""
    given, hungry, rest = _even(left, spare)
    more = sum(nodes[other].holds > needed[other] + given[other] for other in hungry if other != name)
    return given[name] + (name in hungry and more < rest)
