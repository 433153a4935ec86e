"""How the seats of a limited queue are shared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncue.policy.seats import SeatDemand, aim, free, shares

NODES = "abcdef"
wanted = st.dictionaries(st.sampled_from(NODES), st.integers(0, 70), min_size=1).map(lambda w: dict(sorted(w.items())))
limits = st.integers(1, 60)
turns = st.integers(0, 10**9)
mosts = st.integers(1, 70)


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


@given(st.data(), limits, wanted, turns, mosts)
def test_nodes_that_look_one_after_the_other_never_hold_more_than_there_are(
    data: st.DataObject, limit: int, needs: dict[str, int], turn: int, most: int
) -> None:
    """In any order, each knowing what the others hold when it looks. In the end no seat is left that somebody may hold,
    whoever can use one now has its share of them first, and nobody changes anything any more."""
    eager = {name: data.draw(st.booleans()) for name in needs}
    holds = dict.fromkeys(needs, 0)
    for name in data.draw(st.permutations(list(needs))):
        holds[name] = data.draw(st.integers(0, limit - sum(holds.values())))

    def look(name: str) -> int:
        nodes = {other: SeatDemand(holds[other], needs[other]) for other in needs}
        return min(aim(limit, name, nodes, turn, most=most, eager=eager[name]), free(limit, name, nodes))

    for _ in range(2 * len(needs) + 2):
        for name in data.draw(st.permutations(list(needs))):
            holds[name] = look(name)
            assert sum(holds.values()) <= limit
    assert all(look(name) == holds[name] for name in needs)
    fair = shares(limit, {name: min(need, most) for name, need in needs.items()}, turn)
    assert all(fair[name] <= holds[name] <= most for name in needs)
    if len(set(eager.values())) == 1:
        assert sum(holds.values()) == min(limit, most * len(needs))


def test_what_nobody_needs_is_held_ready_by_all() -> None:
    def node_a(*standings: tuple[int, int], eager: bool = False, turn: int = 0) -> int:
        nodes = {name: SeatDemand(*standing) for name, standing in zip("abc", standings, strict=False)}
        return min(aim(5, "a", nodes, turn, most=5, eager=eager), free(5, "a", nodes))

    assert node_a((5, 0)) == 5
    assert node_a((5, 0), (0, 0)) == 3
    assert node_a((2, 0), (3, 0)) == 2, "it does not matter who holds the odd one"
    assert node_a((2, 0), (3, 0), eager=True, turn=0) == 2, "b must give it back first, but will:"
    assert [node_a((3, 0), (2, 0), eager=True, turn=turn) for turn in range(4)] == [3, 2, 3, 2]
    assert node_a((3, 0), (2, 4)) == 1, "b could use four now"
    assert node_a((3, 0), (2, 9)) == 0
    assert node_a((3, 0), (1, 1), (1, 1)) == 1
    assert node_a((0, 9), (5, 0)) == 0, "others still hold them"
