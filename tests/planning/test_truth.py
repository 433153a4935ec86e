"""Whole simulations against what can be worked out by hand, or by a formula of queueing theory."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import pytest

from oncue import Oncue, cron
from oncue.cli.scenarios import in_processes, queues
from oncue.model import Limits
from oncue.planning import running
from oncue.planning.figures import Figures, Peak, ScheduleFigures, figures, searched
from oncue.planning.reading import spread, stream
from oncue.planning.scenario import Span
from oncue.planning.sentences import sentences
from tests.planning.test_arithmetic import START, a_scenario

HOUR = 3600.0


def simulate(app: Oncue, durations: str, *arrivals: str, nodes: int = 1, **changed: Any) -> Figures:
    """So long takes every task; `arrivals` are those of `--arrivals`."""
    scenario = a_scenario(
        durations={name: spread(durations) for name in app.tasks},
        arrivals=tuple(stream(*text.split("=")) for text in arrivals), nodes=nodes, **changed,
    )  # fmt: skip
    return figures(scenario, running.run(app, scenario), queues(app), in_processes(app))


def search(app: Oncue, durations: str, *arrivals: str, **changed: Any) -> Figures:
    first = simulate(app, durations, *arrivals, **changed)
    return searched(first, lambda nodes: simulate(app, durations, *arrivals, **{**changed, "nodes": nodes}))


def an_app(**tasks: Mapping[str, Any]) -> Oncue:
    app = Oncue()
    for name, options in tasks.items():

        async def handler() -> None: ...

        app.task(name=name, **options)(handler)
    return app


def test_half_of_a_seat() -> None:
    found = simulate(an_app(tick={"schedule": cron("* * * * *")}), "30s", concurrency=1, length=HOUR)
    assert (found.utilisation, found.busiest_hour, found.lateness.max) == (0.5, Peak(0.5, START), 0.0)
    assert found.ended == {"succeeded": 60}


def test_a_crowd_drains_round_by_round() -> None:
    """101 jobs of 30 s on six seats of two nodes: the n-th begins in round n // 6."""
    found = simulate(an_app(work={}), "30s", "work=101@00:00", nodes=2, concurrency=3, length=HOUR)
    waits = [number // 6 * 30.0 for number in range(101)]
    exact = tuple(waits[ceil(share * 101) - 1] for share in (0.5, 0.95, 0.99, 1.0))
    assert found.lateness == (101, *exact)
    assert found.most_waiting == (95, START)
    assert found.waiting.area() == pytest.approx(sum(waits))
    assert found.utilisation == pytest.approx(101 * 30 / (6 * HOUR))


def test_jobs_at_random_wait_as_long_as_the_formula_says() -> None:
    """One seat, a Poisson stream, always 2 s: on average they wait for load * 2 s / (2 * (1 - load))."""
    found = simulate(an_app(work={}), "2s", "work=900/h", concurrency=1, length=2 * HOUR, seed=3)
    assert found.utilisation == pytest.approx(0.5, rel=0.05)
    assert found.waiting.area() / found.lateness.of == pytest.approx(1.0, rel=0.1)


def test_the_slots_of_an_outage() -> None:
    """Six slots from 00:05 to 00:30 are in it. At 00:32 the last two are no older than ten minutes."""
    each = {"missed": "each", "max_instances": 50}
    kinds: dict[str, Mapping[str, Any]] = {
        "latest": {}, "coalesced": {"grace": "1h"}, "some": {**each, "grace": "10m"}, "every": {**each, "grace": "1h"},
        "none": {"missed": "none"},
    }  # fmt: skip
    app = an_app(**{name: {**terms, "schedule": cron("*/5 * * * *")} for name, terms in kinds.items()})
    found = simulate(app, "1s", outages=(Span(120.0, 1920.0), Span(3300.0, HOUR)), concurrency=64, length=HOUR)

    def told(one: ScheduleFigures) -> tuple[int, int, float, dict[str, int]]:
        return one.slots, one.ran, one.latest, dict(one.did_not_run)

    over = {"undecided: in an outage at the end": 1}
    assert {one.name: told(one) for one in found.schedules} == {
        "latest": (12, 6, 120.0, {"missed: misfire": 5, **over}),
        "coalesced": (12, 6, 120.0, {"coalesced": 5, **over}),
        "some": (12, 7, 420.0, {"missed: misfire": 4, **over}),
        "every": (12, 11, 1620.0, over),
        "none": (12, 5, 0.0, {"missed: misfire": 6, **over}),
    }


def test_a_thread_that_is_over_its_time_keeps_its_seat() -> None:
    app = Oncue()
    brief: Mapping[str, Any] = {"timeout": "10s", "max_retries": 0}

    @app.task(**brief)
    def stuck() -> None: ...

    @app.task(**brief)
    async def cut() -> None: ...

    threads = simulate(app, "1m", "stuck=5@00:00", concurrency=1, length=HOUR)
    assert threads.ended == {"failed": 5}
    assert threads.utilisation == pytest.approx(5 * 60 / HOUR)
    assert threads.lateness.max == pytest.approx(4 * 60, abs=2.0)
    coroutines = simulate(app, "1m", "cut=5@00:00", concurrency=1, length=HOUR)
    assert (coroutines.utilisation, coroutines.lateness.max) == (pytest.approx(5 * 10 / HOUR), 40.0)


def test_who_is_claimed_and_lost_before_it_begins_has_waited_all_along() -> None:
    """Twenty jobs of 90 s on two seats; after five minutes an outage of ten. Nobody is counted twice."""
    app = an_app(work={"timeout": None})
    found = simulate(app, "90s", "work=20@00:00", outages=(Span(300.0, 900.0),), length=HOUR)
    assert found.retries == 2  # what ran when the outage began
    assert found.lateness.of == 22
    assert found.lateness.p95 >= 900.0
    assert found.outside_outages.max == pytest.approx(found.lateness.max - 600.0)


def test_a_retry_that_would_come_after_the_deadline_is_never_due() -> None:
    """It fails at once, after a minute and after three; five minutes are over before the fourth attempt."""
    app = an_app(call={"deadline": "5m"})
    found = simulate(app, "2s", "call=5@00:00", failures={"call": 1.0}, longest_waits={"call": 300.0}, concurrency=9)
    assert found.lateness.of == 15
    assert (found.target_met, found.skipped) == (True, {"deadline": 5})


def test_what_one_outage_cuts_off_runs_again_at_once() -> None:
    """It ran one job at a time on each node once, and needed six nodes."""
    app = an_app(work={})
    found = search(app, "5m", "work=6@00:00", nodes=2, concurrency=9, outages=(Span(60.0, 600.0),), length=HOUR)
    assert (found.capacity.nodes_for_all, found.capacity.nodes_for_99_percent) == (1, 1)


@pytest.mark.parametrize(
    ("tasks", "durations", "arrivals", "changed", "nodes"),
    [
        # Four rounds of ten seats: the last begins after 60 s.
        ({"work": {}}, "20s", ["work=40@00:00"], {}, 5),
        # While the crowd is there the slots make no jobs, as the one before still waits; with more nodes they do.
        (
            {"crowd": {}, **{f"s{n}": {"schedule": cron("*/5 * * * *")} for n in range(6)}},
            "1m", ["crowd=20@00:05"], {"target": 30.0}, 13,
        ),
        # The slot has 10 s, whatever the target is: it needs a seat beside the crowd.
        (
            {"crowd": {}, "s": {"schedule": cron("1 * * * *"), "grace": "10s"}},
            "90s", ["crowd=9@00:00"], {"target": 600.0}, 5,
        ),
        # What piles up in the outage, and what was waiting before it: what was cut off is older, and runs again first.
        ({"work": {}}, "60s", ["work=20@00:00"], {"outages": (Span(60.0, 960.0),), "target": 120.0}, 5),
        # Six rounds of ten, three of them on a node at most, beside a crowd that would take all the seats there are.
        (
            {"crowd": {}, "few": {"queue": "scarce"}}, "20s", ["few=60@00:10", "crowd=60@00:10"],
            {"target": 100.0, "concurrency": 8, "queues": ("default", "scarce"), "limits": {"scarce": Limits(10, 3)}},
            4,
        ),
    ],
)  # fmt: skip
def test_the_number_of_nodes_is_true(
    tasks: Mapping[str, Mapping[str, Any]], durations: str, arrivals: list[str], changed: dict[str, Any], nodes: int
) -> None:
    """With so many the engine keeps the target, with one fewer it does not."""
    app = an_app(**tasks)
    waits = {name: task.schedule.grace for name, task in app.tasks.items() if task.schedule is not None}
    changed = {"length": HOUR, "longest_waits": waits, **changed}
    found = search(app, durations, *arrivals, **changed)
    assert found.capacity.nodes_for_all == nodes
    assert simulate(app, durations, *arrivals, nodes=nodes, **changed).target_met
    assert not simulate(app, durations, *arrivals, nodes=nodes - 1, **changed).target_met


def test_a_number_that_does_not_do_is_not_named() -> None:
    """Where no number that was tried keeps the target, that is said, with the largest of them."""
    app = an_app(work={})
    first = simulate(app, "20s", "work=40@00:00", length=HOUR)
    ran: list[int] = []

    def never(nodes: int) -> Figures:
        ran.append(nodes)
        return simulate(app, "20s", "work=40@00:00", length=HOUR, nodes=1)

    found = searched(first, never)
    assert ran == [5, 6, 8, 12]
    assert (found.capacity.nodes_for_all, found.capacity.too_few) == (None, 12)
    assert sentences(found)[0].text == "1 node is too few, and so are 12: some jobs wait for 6.3 min."


def test_a_number_that_is_too_large_to_be_tried_is_arithmetic() -> None:
    app = an_app(work={})
    found = search(app, "20s", "work=500@00:00", length=2 * HOUR, target=0.0)
    assert (found.capacity.nodes_for_all, found.capacity.nodes_by_arithmetic) == (None, 250)
    told = "some jobs wait for 83 min; by arithmetic it takes about 250 nodes."
    assert sentences(found)[0].text == f"1 node is too few: {told}"
