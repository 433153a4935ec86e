"""Tries out what the arithmetic says: so many nodes are named only if the engine has kept the target with them.

Arithmetic gives all seats to whoever is due. The engine's nodes take jobs ahead and know little of each other, and with
more nodes there is more to do: a slot that found its last run still waiting makes a job after all. So the number is
simulated, and if it does not do, larger ones are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count

from oncue.planning.capacity import Capacity, Choice
from oncue.planning.figures import Figures

TRIES = 4
"""Each costs as much time as the simulation that was asked for."""
MOST_NODES = 200
"""So many nodes take a while to simulate: beyond that, and beyond what was asked for, there is arithmetic only."""


def tried(first: Figures, simulate: Callable[[int], Figures]) -> Figures:
    """The same figures, with a number of nodes that does. `simulate` says how any number of nodes does."""
    if not first.attempts:
        return first
    known = {first.scenario.nodes: first}
    enough = _search(first, simulate, known)
    return replace(first, capacity=_told(first.capacity, enough, known))


def _search(first: Figures, simulate: Callable[[int], Figures], known: dict[int, Figures]) -> int | None:
    here, likely = first.scenario.nodes, first.capacity.for_all
    if likely is None and not first.kept:
        return None
    candidate = min(likely or here, here) if first.kept else max(likely or here, here + 1)
    for step in (2**number for number in count()):
        if first.kept and candidate >= here:
            return here
        if len(known) > TRIES or candidate > max(MOST_NODES, here):
            break
        known[candidate] = found = simulate(candidate)
        if found.kept:
            return candidate
        candidate = max(found.capacity.for_all or 0, candidate + step)
    return here if first.kept else None


def _told(capacity: Capacity, enough: int | None, known: Mapping[int, Figures]) -> Capacity:
    failed = [nodes for nodes, found in known.items() if not found.kept]
    too_few = max(failed) if enough is None and capacity.for_all is not None and failed else None
    for_most = capacity.for_most
    if for_most is not None and for_most <= max(_late(known), default=0):  # the engine knows better
        for_most = enough
    choices = {choice.nodes: choice for choice in capacity.choices if not _is_refuted(choice, known)}
    for nodes, found in known.items():
        choices[nodes] = Choice(nodes, found.besides_outages, found.utilisation, simulated=True)
    return replace(
        capacity, for_all=enough, for_most=for_most, too_few=too_few, likely=capacity.for_all,
        choices=tuple(choices[nodes] for nodes in sorted(choices)),
    )  # fmt: skip


def _late(known: Mapping[int, Figures]) -> list[int]:
    """The numbers of nodes with which more than one in a hundred began too late."""
    return [
        nodes
        for nodes, found in known.items()
        if found.besides_outages.p99 > found.scenario.target + found.scenario.slack
    ]


def _is_refuted(choice: Choice, known: Mapping[int, Figures]) -> bool:
    """Whether arithmetic has so many in time, and the engine was too late with more nodes than that."""
    return any(
        nodes > choice.nodes
        and not found.kept
        and choice.waits.max <= found.scenario.target < found.besides_outages.max
        for nodes, found in known.items()
    )
