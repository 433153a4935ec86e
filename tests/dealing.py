"""Deals the tests out to the workers of a session (`pytest -n 4 --dist worksteal`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")


def alone(item: object) -> Hashable:
    """Nothing goes together."""
    return id(item)


def dealt(
    items: Sequence[T], workers: int, is_long: Callable[[T], bool], together: Callable[[T], Hashable] = alone
) -> list[T]:
    """The same items in another order: each worker's share begins with its share of the long ones.

    Long ones that have the same `together` go to the same worker, one after another: they share work in its process.

    A worker gets as many as the others, all in a row, and who has done its share takes from the end of another's. So
    what is left in the end is short. Each worker begins at another place among the long ones: some of them wait and
    others compute, and it is best if both happen at the same time.
    """
    if workers < 2:
        return list(items)
    long, short = [item for item in items if is_long(item)], iter([item for item in items if not is_long(item)])
    groups: dict[Hashable, list[T]] = {}
    for item in long:
        groups.setdefault(together(item), []).append(item)
    order: list[T] = []
    for number in range(workers):
        own = list(groups.values())[workers - 1 - number :: workers]  # the last shares are the larger ones
        start = number * len(own) // workers
        hand = [item for group in own[start:] + own[:start] for item in group]
        size = (len(items) - len(order)) // (workers - number)
        order += hand
        order += [item for _, item in zip(range(size - len(hand)), short, strict=False)]
    return order
