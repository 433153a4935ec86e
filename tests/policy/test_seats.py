"""How the seats of a limited queue are shared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncue.policy.seats import aim, shares

NODES = "abcdef"
wanted = st.dictionaries(st.sampled_from(NODES), st.integers(0, 70), min_size=1).map(lambda w: dict(sorted(w.items())))
limits = st.integers(1, 60)
turns = st.integers(0, 10**9)


@given(limits, wanted, turns)
def test_all_seats_are_used_and_nobody_gets_more_than_it_wants(limit: int, wants: dict[str, int], turn: int) -> None:
    given_out = shares(limit, wants, turn)
    assert sum(given_out.values()) == min(limit, sum(wants.values()))
    assert all(0 <= given_out[name] <= wants[name] for name in wants)


@given(limits, wanted, turns)
def test_who_gets_less_than_it_wants_gets_as_much_as_anyone_else(limit: int, wants: dict[str, int], turn: int) -> None:
    given_out = shares(limit, wants, turn)
    short = [given_out[name] for name in wants if given_out[name] < wants[name]]
    assert all(most <= least + 1 for least in short for most in given_out.values())


@given(limits, st.integers(2, 6))
def test_what_cannot_be_split_goes_to_each_in_turn(limit: int, nodes: int) -> None:
    wants = dict.fromkeys(NODES[:nodes], 100)
    lucky = {
        name for turn in range(nodes) for name, seats in shares(limit, wants, turn).items() if seats > limit // nodes
    }
    assert lucky == (set(wants) if limit % nodes else set())


@given(st.data(), limits, wanted, turns)
def test_nodes_that_look_one_after_the_other_never_hold_more_than_there_are(
    data: st.DataObject, limit: int, wants: dict[str, int], turn: int
) -> None:
    """In any order, each knowing what the others hold when it looks; and in the end all of them have their shares."""
    holds = dict.fromkeys(wants, 0)
    for _ in range(3):
        for name in data.draw(st.permutations(list(wants))):
            others = sum(held for other, held in holds.items() if other != name)
            holds[name] = aim(limit, name, holds[name], wants, others, turn)
            assert sum(holds.values()) <= limit
    assert holds == shares(limit, wants, turn)


def test_a_node_keeps_a_seat_that_nobody_else_wants() -> None:
    assert aim(5, "a", 3, {"a": 0, "b": 0}, 0, 0) == 3
    assert aim(5, "a", 3, {"a": 0, "b": 4}, 2, 0) == 1
    assert aim(5, "a", 3, {"a": 0, "b": 9}, 2, 0) == 0
    assert aim(5, "a", 0, {"a": 9}, 5, 0) == 0, "others still hold them"
