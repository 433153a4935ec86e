"""Deals the tests out to the workers of a session (`pytest -n 3 --dist worksteal`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def dealt(items: Sequence[T], workers: int, is_long: Callable[[T], bool]) -> list[T]:
    """The same items in another order: each worker's share begins with its share of the long ones.

    A worker gets as many as the others, all in a row, and who has done its share takes from the end of another's. So
    what is left in the end is short. Each worker begins at another place among the long ones: some of them wait and
    others compute, and it is best if both happen at the same time.
    """
    if workers < 2:
        return list(items)
    long, short = [item for item in items if is_long(item)], iter([item for item in items if not is_long(item)])
    order: list[T] = []
    for number in range(workers):
        hand = long[workers - 1 - number :: workers]  # the last shares are the larger ones
        start = number * len(hand) // workers
        size = (len(items) - len(order)) // (workers - number)
        order += hand[start:] + hand[:start]
        order += [item for _, item in zip(range(size - len(hand)), short, strict=False)]
    return order
