"""Every test is dealt out once, and those that take long come first."""

from __future__ import annotations

import pytest

from tests.dealing import dealt


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize(("items", "long"), [(100, 10), (101, 33), (5, 2), (7, 0), (0, 0)])
def test_every_item_is_dealt_once_and_the_long_ones_come_first(workers: int, items: int, long: int) -> None:
    order = dealt(range(items), workers, lambda item: item < long)
    assert sorted(order) == list(range(items))
    begin = 0
    for number in range(workers if workers > 1 else 0):
        size = (items - begin) // (workers - number)
        share = [item < long for item in order[begin : begin + size]]
        assert share == sorted(share, reverse=True)
        begin += size


@pytest.mark.parametrize("workers", [2, 4, 5])
def test_long_ones_that_go_together_are_neighbours_in_one_share(workers: int) -> None:
    order = dealt(range(100), workers, lambda item: item < 40, lambda item: item % 10)
    assert sorted(order) == list(range(100))
    for group in range(10):
        places = [order.index(item) for item in range(group, 40, 10)]
        assert places == list(range(places[0], places[0] + 4))
        assert len({place // (100 // workers) for place in places}) == 1
