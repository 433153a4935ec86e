"""How much room there is for deliveries that wait for slow endpoints."""

from __future__ import annotations

import pytest

from oncue.policy.slowness import MOST_ASIDE, may_begin, room_aside

pytestmark = pytest.mark.contract("HOOK-5")


@pytest.mark.parametrize(("open_files", "room"), [(256, 128), (1024, 512), (2000, 1000), (1_000_000, MOST_ASIDE)])
def test_half_of_the_open_files_of_a_process_are_left_for_all_else(open_files: int, room: int) -> None:
    assert room_aside(open_files) == room


@pytest.mark.parametrize(
    ("aside", "of_endpoint", "begins"),
    [(0, 0, True), (3, 3, True), (4, 1, False), (4, 0, True), (5, 0, True), (6, 0, False), (8, 0, False)],
)
def test_slow_endpoints_leave_room_for_those_that_turn_slow(aside: int, of_endpoint: int, begins: bool) -> None:
    assert may_begin(aside, of_endpoint, room=8) is begins
