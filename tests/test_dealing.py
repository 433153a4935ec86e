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
