"""The circuit breaker of an endpoint."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.policy.breaker import (
    Circuit,
    Evidence,
    Transition,
    after,
    cool_down,
    evidence_of_not_sent,
    evidence_of_status,
)

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
CLOSED = Circuit()
SINCE_NOW = {seconds: NOW + timedelta(seconds=seconds) for seconds in (30, 60, 600)}


def lived(*told: Evidence | None, circuit: Circuit = CLOSED, threshold: int = 5) -> list[Transition]:
    """The transitions that a node writes in the course of these attempts, each of which is seen by the next."""
    written = []
    for evidence in told:
        circuit, transition = after(circuit, evidence, NOW, threshold)
        written += [transition] if transition else []
    return written


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    assert lived(*["down"] * 4) == []
    assert lived(*["down"] * 5) == [Transition(0, 1, SINCE_NOW[30])]
    assert lived("down", threshold=1) == [Transition(0, 1, SINCE_NOW[30])]


def test_an_answer_in_between_starts_the_count_anew() -> None:
    assert lived(*["down"] * 4, "up", *["down"] * 4) == []
    assert len(lived(*["down"] * 4, "up", *["down"] * 5)) == 1


def test_what_never_left_this_host_counts_for_nothing() -> None:
    assert len(lived(*["down"] * 4, None, None, "down")) == 1
    assert after(Circuit(3, 0), None, NOW, 5) == (Circuit(3, 0), None)


def test_a_probe_that_fails_doubles_the_pause() -> None:
    assert after(Circuit(1), "down", NOW, 5) == (Circuit(2), Transition(1, 2, SINCE_NOW[60]))
    assert after(Circuit(9), "down", NOW, 5) == (Circuit(10), Transition(9, 10, SINCE_NOW[600]))


def test_the_pauses() -> None:
    assert [cool_down(trips) for trips in range(1, 9)] == [30, 60, 120, 240, 480, 600, 600, 600]
    assert cool_down(10**9) == 600


def test_a_probe_that_is_answered_closes_it() -> None:
    assert after(Circuit(4), "up", NOW, 5) == (Circuit(), Transition(4, 0, None))
    assert lived(*["down"] * 6, "up", *["down"] * 4) == [
        Transition(0, 1, SINCE_NOW[30]),
        Transition(1, 2, SINCE_NOW[60]),
        Transition(2, 0, None),
    ]


def test_what_was_under_way_when_it_opened_is_one_trip() -> None:
    """They began with trips = 0: guarded by that, their writes are rejected, and an answer to one closes nothing."""
    for failures in range(4, 14):
        _, transition = after(Circuit(0, failures), "down", NOW, 5)
        assert transition == Transition(0, 1, SINCE_NOW[30])
    assert after(Circuit(0, 4), "up", NOW, 5) == (Circuit(), None)


def test_it_can_be_off() -> None:
    assert lived(*["down"] * 1000, threshold=0) == []
    assert lived("down", circuit=Circuit(3), threshold=0) == [Transition(3, 0, None)]


@pytest.mark.parametrize(
    ("statuses", "evidence"), [((500, 502, 503, 599), "down"), ((200, 204, 302, 400, 404, 410, 429, 499), "up")]
)
def test_an_endpoint_that_answers_is_up_unless_it_says_that_it_is_not(
    statuses: tuple[int, ...], evidence: Evidence
) -> None:
    assert {evidence_of_status(status) for status in statuses} == {evidence}


def test_what_was_not_sent() -> None:
    kinds = ("timeout", "network", "refused", "invalid")
    assert [evidence_of_not_sent(kind) for kind in kinds] == ["down", "down", None, None]


@given(st.lists(st.sampled_from(["up", "down", None])), st.integers(0, 9))
def test_the_row_only_moves_by_one_trip_or_to_closed(told: list[Evidence | None], threshold: int) -> None:
    trips = 0
    for transition in lived(*told, threshold=threshold):
        assert transition.known_trips == trips
        assert transition.trips in (0, trips + 1)
        assert transition.trips != trips
        assert (transition.paused_until is None) == (transition.trips == 0)
        trips = transition.trips
    assert trips == 0 or threshold
