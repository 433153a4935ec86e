"""Each SLO and alert fires in a simulated breach and stays silent in a healthy run; fail-over; what is told of it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncue.policy import slo
from oncue.policy.slo import SloRules
from oncue.sim.driver import finish
from oncue.sim.script import Act
from tests.engine.slo_world import SloWorld

SLOW = Act("ok", 600.0)
Make = Callable[..., SloWorld]


@pytest.fixture
def make() -> Iterator[Make]:
    worlds: list[SloWorld] = []

    def one(**fields: Any) -> SloWorld:
        worlds.append(SloWorld(**fields))
        return worlds[-1]

    yield one
    for world in worlds:
        world.close()


@pytest.mark.contract("WIN-17", "QUE-20")
def test_a_healthy_run_is_silent(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    world = make(latency=0.01)
    world.boot("alpha")
    world.boot("beta")
    world.world.schedule("minutely", "* * * * *", Act("ok", 0.05))
    for due in range(62, 100):
        world.add(20, Act("ok", 3.0), due=due)
    world.add(1, Act("fail", 0.05), Act("ok", 0.05), due=70, first=100)  # its second attempt succeeds
    seen: set[str] = set()
    breaches = 0
    with caplog.at_level(logging.WARNING, "oncue"):
        for _ in range(30):
            world.world.enqueue(Act("ok", 0.05))
            world.run(1)
            seen |= {state.alert for state in world.states}
            breaches += sum(state.breaches for state in world.states)
    assert world.told == []
    assert [record.message for record in caplog.records] == []
    assert breaches == 0
    assert seen == set(slo.ALERTS) - {slo.MISSED}, "all are evaluated; of missed slots there is nothing to tell"


@pytest.mark.contract("WIN-17")
def test_slow_ticks_are_told(make: Make) -> None:
    world = make(latency=1.0, prompt=0.0)
    world.boot()
    world.add(10)
    state = world.go_on(slo.TICK)
    assert (state.of, state.threshold) == ("planner", 300)
    assert state.value > 300


@pytest.mark.contract("WIN-17")
def test_seats_that_are_all_taken_are_told(make: Make) -> None:
    world = make(seats=2)
    world.boot()
    world.add(10, SLOW)
    state = world.go_on(slo.SATURATION)
    assert (state.of, state.threshold) == ("windows", 0.8)
    assert state.value > 0.8


@pytest.mark.contract("WIN-17")
def test_an_average_depth_over_the_limit_is_told(make: Make) -> None:
    world = make(seats=1, rules=SloRules(depth_avg_max=50))
    world.boot()
    world.add(60, SLOW)
    state = world.go_on(slo.WINDOW_DEPTH)
    assert (state.of, state.threshold) == ("windows", 50)
    assert state.value == pytest.approx(59, abs=1)


@pytest.mark.contract("WIN-17")
def test_a_depth_that_rises_all_the_time_is_told(make: Make) -> None:
    world = make()
    finish(world.world.operator.queues.pause("windows"))
    world.boot()
    for due in range(60, 90):
        world.add(1, due=due)
    world.run(12)
    assert slo.WINDOW_DEPTH not in world.warned
    state = world.go_on(slo.WINDOW_DEPTH, 20)
    assert state.value < state.threshold
    assert "ever more" in state.text


@pytest.mark.contract("WIN-17")
def test_long_attempts_are_told(make: Make) -> None:
    world = make()
    world.boot()
    world.add(20, Act("ok", 45.0))
    state = world.go_on(slo.JOB)
    assert state.threshold == 30_000
    assert state.value == pytest.approx(45_000, rel=0.06)


@pytest.mark.contract("WIN-17", "WIN-9")
def test_users_that_reach_their_cutoff_are_told_but_not_those_added_late(make: Make) -> None:
    world = make()
    world.boot()
    world.run(10)
    world.add(50, due=5)  # their cutoff was five minutes ago
    world.add(50, due=15)
    world.run(8)
    assert world.state(slo.CUTOFF_RATE).value == 0
    world.add(3, Act("fail", 0.05), due=25)
    world.add(47, due=25, first=10)
    world.run(4)
    state = world.go_on(slo.CUTOFF_RATE)
    assert (state.value, state.threshold, state.due_bucket) == (pytest.approx(3 / 50, rel=0.01), 0.01, 25)


@pytest.mark.contract("WIN-17", "WIN-14")
def test_days_that_an_outage_took_are_a_missed_schedule_and_no_cutoff_rate(make: Make) -> None:
    world = make()
    world.boot()
    world.add(5, due=60)
    world.run(1)
    world.world.crash("alpha")
    world.run(3 * 24 * 60)
    world.boot("beta")
    state = world.go_on(slo.MISSED)
    assert state.value == 10, "the days that were over when the node came back, of five users"
    assert slo.CUTOFF_RATE not in world.warned


@pytest.mark.contract("QUE-20")
def test_a_deep_queue_is_told_and_when_it_is_over(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    world = make(rules=SloRules(queue_depth=20))
    finish(world.world.operator.queues.pause("default"))
    world.boot()
    for _ in range(21):
        world.world.enqueue()
    with caplog.at_level(logging.WARNING, "oncue.slo"):
        state = world.go_on(slo.QUEUE_DEPTH)
        assert (state.of, state.value, state.threshold, state.breaches) == ("default", 21, 20, 3)
        finish(world.world.operator.queues.resume("default"))
        world.world.hint()
        world.run(3)
    assert world.told == [("slo.breach", "queue_depth", "default"), ("slo.over", "queue_depth", "default")]
    begun, over = (record.message for record in caplog.records)
    assert begun.startswith(
        "slo breach alert=queue_depth of=default value=21 threshold=20 window=15m due_bucket=- since="
    )
    assert over.startswith("slo over alert=queue_depth of=default value=0 threshold=20 ")


@pytest.mark.contract("QUE-20")
def test_a_share_of_failed_jobs_is_told(make: Make) -> None:
    world = make()
    world.boot()
    for number in range(12):
        world.world.enqueue(Act("give_up" if number % 4 == 0 else "ok", 0.05))
        world.run(1)
    state = world.go_on(slo.FAILED_RATE)
    assert (state.of, state.threshold) == ("default", 0.1)
    assert state.value == pytest.approx(0.25, abs=0.08)


@pytest.mark.contract("QUE-20")
def test_a_job_that_runs_for_too_long_is_told(make: Make) -> None:
    world = make(rules=SloRules(running_for=600))
    world.boot()
    world.add(1, Act("ok", 3000.0))
    world.run(10)
    assert slo.RUNNING_LONG not in world.warned
    state = world.go_on(slo.RUNNING_LONG)
    assert state.value > 600


@pytest.mark.contract("QUE-20")
def test_a_schedule_that_missed_its_window_is_told(make: Make) -> None:
    world = make()
    world.boot()
    world.run(1)
    world.world.schedule("minutely", "* * * * *", grace=60.0)
    world.world.crash("alpha")
    world.run(20)
    world.boot("beta")
    state = world.go_on(slo.MISSED, 10)
    assert (state.of, state.value, state.threshold) == ("minutely", pytest.approx(19, abs=1), 0)


@pytest.mark.contract("WIN-17")
def test_predicted_misses_are_told_early_enough_to_act(make: Make) -> None:
    """One seat, a minute for each: sixty of a hundred users can be served before the cutoff."""
    world = make(seats=1)
    world.boot()
    world.add(100, Act("ok", 60.0), due=60)
    state = world.go_on(slo.PREDICTED)
    assert world.world.clock.now().minute <= 10
    assert state.due_bucket == 60
    assert state.value > 20
    assert f"at the present rate {state.value:g} users of scripted miss 01:00 (UTC)" == state.text
    world.run(20)  # the longer it goes on, the better the rate is known: a job takes 60 s, and a poll follows it
    assert world.state(slo.PREDICTED).value == pytest.approx(100 - 60 / 65 * 60, abs=5)


@pytest.mark.contract("WIN-17")
def test_users_who_wait_for_another_attempt_are_not_predicted_to_miss_while_attempts_succeed(make: Make) -> None:
    world = make()
    world.boot()
    world.add(20, due=60)
    world.add(2, Act("fail", 0.05), Act("ok", 0.05), due=60, first=50)
    world.run(12)
    assert slo.PREDICTED not in world.warned
    world.add(20, Act("fail", 0.05), due=90)  # the model is away: all of them fail, again and again
    world.go_on(slo.PREDICTED)


# --- the whole cluster ----------------------------------------------------------------------------------------------


@pytest.mark.contract("WIN-17")
def test_a_count_of_breaches_survives_a_fail_over_and_is_told_once(make: Make) -> None:
    world = make(rules=SloRules(queue_depth=20))
    finish(world.world.operator.queues.pause("default"))
    world.boot("alpha")
    world.run(1)
    world.boot("beta")
    for _ in range(21):
        world.world.enqueue()
    world.run(2)
    assert world.state(slo.QUEUE_DEPTH).breaches == 2
    leader = next(name for name, member in world.world.members.items() if member.leads)
    world.world.crash(leader)
    world.run(3)
    assert world.told == [("slo.breach", "queue_depth", "default")]
    assert world.state(slo.QUEUE_DEPTH).breaches >= 3


@pytest.mark.contract("WIN-17")
def test_what_two_nodes_measured_is_seen_together_and_survives_a_fail_over(make: Make) -> None:
    world = make(seats=20, concurrency=10)
    world.boot("alpha")
    world.boot("beta")
    world.run(1)
    world.add(60, Act("ok", 45.0))
    world.run(5)
    rows = [row for row in finish(world.world.store.alerts.minutes(world.world.clock.now().replace(minute=0)))
            if row.kind == "window"]  # fmt: skip
    assert len({row.node_id for row in rows}) == 2
    whole = slo.Rolling(rows).whole("window", "scripted")
    assert whole["ok"] == 60
    assert whole["success"] == {"60": 60}
    leader = next(name for name, member in world.world.members.items() if member.leads)
    world.world.crash(leader)
    world.run(3)
    assert slo.JOB in world.warned
    assert world.state(slo.JOB).warned_at is not None


@pytest.mark.contract("WIN-15")
def test_the_events_have_their_measurements_and_metadata(make: Make) -> None:
    world = make(seats=3)
    member = world.boot()
    world.hear(member, "sched.tick.stop", "sched.queue.depth", "sched.executor.in_flight", "sched.job.stop",
               "sched.finalize")  # fmt: skip
    world.add(1, Act("ok", 2.0), due=61)
    world.add(1, Act("fail", 1.0), due=61, first=1)
    world.run(3)
    ticks = world.heard["sched.tick.stop"]
    assert all(set(numbers) == {"duration_ms"} for numbers, _ in ticks)
    assert {name: sum(told[name] for _, told in ticks) for name in ticks[0][1]} == {
        "users_scanned": 2, "eligible_in_window": 2, "enqueued": 2, "cutoff_finalized": 0,
    }  # fmt: skip
    numbers, told = world.heard["sched.queue.depth"][-1]
    assert (numbers, told["today"]) == ({"depth": 0}, "2030-01-01")
    assert len(world.heard["sched.queue.depth"]) == len(ticks)
    seats = [
        (numbers["in_flight"], told["max_concurrency"]) for numbers, told in world.heard["sched.executor.in_flight"]
    ]
    assert seats == [(1, 3), (2, 3), (1, 3), (0, 3)]
    stops = {told["result"]: (numbers, told) for numbers, told in world.heard["sched.job.stop"]}
    assert stops["ok"] == ({"duration_ms": pytest.approx(2000)}, {"result": "ok", "window": "scripted"})
    assert stops["error"][1]["error_class"] == "unknown"
    assert [told for _, told in world.heard["sched.finalize"]] == [
        {"status": "success", "due_bucket": 61, "today": "2030-01-01", "window": "scripted", "reason": None}
    ]
    world.run(60)
    assert [told["status"] for _, told in world.heard["sched.finalize"]] == ["success", "cutoff_reached"]


@pytest.mark.contract("WIN-16")
def test_nothing_is_said_of_single_users_but_in_the_debug_log(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    world = make()
    world.boot().frozen = frozenset({"reconciler"})  # it would stop the attempt, if it looked in time
    world.add(2, Act("fail", 1.0), due=10)
    world.add(1, Act("ok", 602.0), due=10, first=5)  # it is done just after its cutoff
    with caplog.at_level(logging.DEBUG, "oncue"):
        world.run(30)
    of_users = [record for record in caplog.records if re.search("job |user", record.getMessage())]
    loud = [record.getMessage() for record in of_users if record.levelno > logging.DEBUG and record.name != "oncue.slo"]
    assert loud == []
    assert any("late success" in record.getMessage() for record in of_users)
    assert any("it failed, as the script says" in record.getMessage() for record in of_users)
