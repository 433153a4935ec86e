"""Series, percentiles, and how many nodes the work needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.model import Limits
from oncue.planning.capacity import PROCESSES, Demand, needed, served
from oncue.planning.charts import chart, marks, nice, parts
from oncue.planning.reading import constant
from oncue.planning.scenario import DAY, Scenario, Span, joined, within
from oncue.planning.series import Bucket, Series, percentiles

START = datetime(2030, 1, 1, tzinfo=UTC)


def a_scenario(**changed: Any) -> Scenario:
    usual: dict[str, Any] = {
        "start": START, "length": DAY, "nodes": 1, "concurrency": 2, "processes": 1, "queues": ("default",), "seed": 1,
        "durations": {"work": constant(1.0)}, "assumed": (), "failures": {}, "arrivals": (), "outages": (),
        "limits": {}, "target": 60.0,
    }  # fmt: skip
    return Scenario(**{**usual, **changed})


def a_demand(*dues: float, seconds: float = 10.0, queue: str = "default", priority: int = 0) -> list[Demand]:
    return [Demand(due, priority, (due, number), seconds, (queue,)) for number, due in enumerate(dues)]


def waits(demand: list[Demand], seats: int, limits: dict[str, int]) -> list[float]:
    return [waited for _, waited in served(demand, seats, limits)]


# --- series ---------------------------------------------------------------------------------------------------------


def test_a_series_counts_what_covers_an_instant() -> None:
    series = Series([Span(0, 10), Span(5, 10), Span(7, 7), Span(20, 30)])
    assert (series.instants, series.values) == ([0, 5, 10, 20, 30], [1, 2, 0, 1, 0])
    assert series.peak() == (2, 5)
    assert series.peak(12, 40) == (1, 20)
    assert series.peak(8, 9) == (2, 8)
    assert series.area() == 25
    assert series.buckets(30, 3) == [Bucket(0, 2, 1.5), Bucket(10, 0, 0), Bucket(20, 1, 1.0)]


instants = st.integers(0, 100_000_000).map(lambda micros: micros / 1e6)
some_spans = st.lists(st.tuples(instants, instants).map(lambda pair: Span(pair[0], sum(pair))), max_size=30)


@given(some_spans, st.integers(1, 20))
def test_buckets_leave_nothing_out(spans: list[Span], count: int) -> None:
    series = Series(spans)
    buckets = series.buckets(200.0, count)
    assert max(bucket.highest for bucket in buckets) == series.peak()[0]
    assert sum(bucket.mean for bucket in buckets) * 200 / count == pytest.approx(sum(span.length for span in spans))


def test_percentiles_are_values_that_were_there() -> None:
    assert percentiles(range(1, 101)) == (100, 50, 95, 99, 100)
    assert percentiles([7.0]) == (1, 7, 7, 7, 7)
    assert percentiles([]) == (0, 0, 0, 0, 0)


def test_spans_are_joined_and_measured() -> None:
    assert joined([Span(5, 6), Span(0, 2), Span(1, 3)]) == [Span(0, 3), Span(5, 6)]
    assert joined([Span(0, 3), Span(5, 6)], gap=2) == [Span(0, 6)]
    assert within([Span(0, 3), Span(5, 6)], 2, 5.5) == 1.5


# --- seats ----------------------------------------------------------------------------------------------------------


def test_a_job_that_finds_no_seat_waits() -> None:
    assert waits(a_demand(0, 0, 0, 5), 2, {}) == [0, 0, 10, 5]
    assert waits(a_demand(0, 10, 20), 1, {}) == [0, 0, 0]
    assert waits([], 1, {}) == []


def test_the_urgent_go_first() -> None:
    demand = sorted([*a_demand(0), *a_demand(1, 2), *a_demand(3, priority=9)])
    assert waits(demand, 1, {}) == [0, 7, 19, 28]


def test_among_equals_the_older_job_goes_first() -> None:
    """A retry is due later than it was made."""
    retry, fresh = Demand(2, 0, (0, 1), 10, ("a",)), Demand(1, 0, (1, 2), 10, ("a",))
    assert waits([Demand(0, 0, (0, 0), 10, ("a",)), fresh, retry], 1, {}) == [0, 8, 19]


def test_a_job_that_is_given_up_takes_no_seat() -> None:
    """Five jobs of 100 s that wait for 150 s at most, on a seat: two run, and three are gone by then."""
    crowd = [Demand(0.0, 0, (0.0, number), 100.0, ("q",), 150.0) for number in range(5)]
    found = needed(a_scenario(concurrency=1, nodes=1, length=1000.0), crowd)
    one = found.choices[0]
    assert (one.nodes, one.waits.p50, one.waits.max, one.utilisation) == (1, 150.0, 150.0, 0.2)
    assert found.nodes_for_all == 5


def test_a_limit_holds_back_its_queue_alone() -> None:
    demand = sorted([*a_demand(0, 0, queue="mail"), *a_demand(1)])
    assert waits(demand, 5, {"mail": 1}) == [0, 0, 10]
    demand = [Demand(0, 0, (0, 1), 10, ("mail", PROCESSES)), Demand(0, 0, (0, 2), 10, ("default", PROCESSES))]
    assert waits(demand, 5, {PROCESSES: 1}) == [0, 10]


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 2), st.integers(1, 20), st.sampled_from("ab")), max_size=40),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_seats_are_never_overbooked_and_never_idle(
    wanted: list[tuple[int, int, int, str]], seats: int, limit: int
) -> None:
    """Against a model that looks at every second."""
    numbered = enumerate(wanted)
    demand = sorted(Demand(due, priority, (0, n), seconds, (queue,)) for n, (due, priority, seconds, queue) in numbered)
    left = list(enumerate(demand))
    running: list[tuple[float, str]] = []
    expected = []
    second = 0
    while left:
        running = [one for one in running if one[0] > second]
        due = sorted((one for one in left if one[1].due <= second), key=lambda one: (-one[1].priority, one[1].order))
        for number, one in due:
            full = one.limits[0] == "a" and sum(queue == "a" for _, queue in running) >= limit
            if len(running) < seats and not full:
                running.append((second + one.seconds, one.limits[0]))
                expected.append(second - one.due)
                left.remove((number, one))
        second += 1
    assert sorted(waits(demand, seats, {"a": limit})) == sorted(expected)


# --- nodes ----------------------------------------------------------------------------------------------------------


def test_the_peak_says_how_many_nodes() -> None:
    """Forty jobs of 30 s at once; with two seats a node, 40 / (2 n) rounds of 30 s."""
    demand = a_demand(*[3600.0] * 40, seconds=30.0)
    found = needed(a_scenario(), demand)
    assert (found.peak_seats, found.peak_at) == (40, START + timedelta(hours=1))
    assert found.nodes_for_all == 7  # three rounds: nobody waits for longer than 60 s
    assert needed(a_scenario(target=0.0), demand).nodes_for_all == 20
    assert [choice.nodes for choice in found.choices] == [1, 2, 6, 7, 8]
    assert [choice.waits.max for choice in found.choices] == [570, 270, 90, 60, 60]


def test_a_few_late_ones_may_be_worth_no_node() -> None:
    demand = sorted(
        [*a_demand(*[float(n * 100) for n in range(995)], seconds=1.0), *a_demand(*[50.0] * 5, seconds=50.0)]
    )
    found = needed(a_scenario(concurrency=1, target=10.0), demand)
    assert (found.nodes_for_all, found.nodes_for_99_percent) == (5, 1)


def test_where_a_limit_is_the_cause_no_node_helps() -> None:
    demand = a_demand(*[0.0] * 20, seconds=30.0, queue="mail")
    found = needed(a_scenario(limits={"mail": Limits(globally=2)}), demand)
    assert (found.nodes_for_all, found.held_up_by) == (None, ("mail",))
    assert needed(a_scenario(limits={"mail": Limits(per_node=1)}), demand).nodes_for_all == 7


def test_what_piles_up_in_an_outage_is_counted_from_its_end_and_told_apart() -> None:
    """A job a minute for an hour in which nothing runs, then all of them at once: seven rounds of ten seats."""
    demand = a_demand(*[float(minute * 60) for minute in range(120)], seconds=10.0)
    found = needed(a_scenario(outages=(Span(0.0, 3600.0),)), demand)
    assert (found.nodes_for_all, found.nodes_without_outages) == (5, 1)
    assert (found.peak_seats, found.peak_at, found.peak_after_outage) == (61, START + timedelta(hours=1), True)
    usual = needed(a_scenario(), demand)
    assert (usual.nodes_for_all, usual.nodes_without_outages, usual.peak_seats, usual.peak_after_outage) == (
        1,
        1,
        1,
        False,
    )


def test_process_seats_grow_with_the_nodes() -> None:
    demand = [Demand(0.0, 0, (0.0, number), 30.0, ("default", PROCESSES)) for number in range(8)]
    found = needed(a_scenario(concurrency=64, processes=2, target=1.0), demand)
    assert (found.nodes_for_all, found.held_up_by, found.bottlenecks) == (4, (), (PROCESSES,))


# --- charts ---------------------------------------------------------------------------------------------------------


def test_a_chart_of_characters() -> None:
    assert chart([0, 0.1, 4, 8], START, DAY, height=2)[:2] == ["8 ┤   █", "4 ┤ ▁██"]
    lines = chart([0, 1, 3, 2] * 2, START, 2 * DAY, height=4)
    assert lines == ["  3 ┤  █   █", "    ┤  █▅  █▅", "1.5 ┤ ▃██ ▃██", "    ┤ ███ ███", "  0 └┬───────", "     Jan 01"]


@pytest.mark.parametrize(("width", "columns"), [(200, 72), (77, 72), (60, 55), (5, 10)])
def test_a_chart_fits_its_terminal(width: int, columns: int) -> None:
    """Beside its labels, of which 1.5 is the longest."""
    assert parts(3, width) == columns
    assert len(chart([3] * columns, START, 2 * DAY)[0]) == columns + 5


@pytest.mark.parametrize(
    ("hours", "labels"),
    [
        (1, ["Jan 01", "00:15", "00:30", "00:45"]),
        (48, ["Jan 01", "06:00", "12:00", "18:00", "Jan 02", "06:00", "12:00", "18:00"]),
        (30 * 24, ["Jan 01", "Jan 08", "Jan 15", "Jan 22", "Jan 29"]),
        (2 * 365 * 24, ["2030-01", "2030-04", "2030-07", "2030-10", "2031-01", "2031-05", "2031-08", "2031-11"]),
    ],
)
def test_time_lines_have_round_marks(hours: int, labels: list[str]) -> None:
    assert [label for _, label in marks(START, hours * 3600.0)] == labels


def test_scales_end_at_round_numbers() -> None:
    assert [nice(value) for value in (0, 1, 2.5, 7, 10, 276, 4100)] == [1, 1, 3, 8, 10, 300, 5000]


def test_a_scenario_draws_the_same_for_the_same_attempt() -> None:
    scenario = a_scenario(durations={"work": constant(2.0)}, failures={"work": 0.5})
    drawn = [scenario.draw("work", str(number), 0) for number in range(50)]
    assert drawn == [
        a_scenario(nodes=9, durations={"work": constant(2.0)}, failures={"work": 0.5}).draw("work", str(n), 0)
        for n in range(50)
    ]
    assert {fails for _, fails in drawn} == {True, False}
    assert a_scenario(durations={"work": constant(0.0)}).draw("work", "1", 0) == (0.001, False)
    assert drawn != [a_scenario(seed=2, failures={"work": 0.5}).draw("work", str(number), 0) for number in range(50)]
