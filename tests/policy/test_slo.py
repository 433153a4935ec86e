"""What is read off the minutes, when it is a breach, and when it is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.model import AlertState, DayCount, Figures, Minute, MinuteKind, Queue, Sample
from oncue.policy import minutes, prediction, slo
from oncue.policy.prediction import OpenBucket, Speed
from oncue.policy.slo import Judgement, Reading, Rolling, SloRules
from oncue.policy.windows import WindowRule

NOW = datetime(2030, 1, 1, 8, 30, tzinfo=UTC)
RULES = SloRules()
RULE = WindowRule(3600, 600)
EMPTY = Sample(NOW, ())


def row(kind: MinuteKind, name: str, figures: Figures, *, ago: int = 1, node: int = 1) -> Minute:
    return Minute(NOW - timedelta(minutes=ago), UUID(int=node), kind, name, figures)


def read(alert: str, *rows: Minute, rules: SloRules = RULES) -> Reading | None:
    found = slo.readings(Rolling(rows), EMPTY, (), rules, NOW)
    return next((reading for reading in found if reading.alert == alert), None)


# --- minutes --------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(1, 86_400_000), min_size=1, max_size=200), st.integers(0, 3))
def test_a_percentile_is_right_within_five_percent_on_however_many_nodes(durations: list[float], nodes: int) -> None:
    parts = [durations[number :: nodes + 1] for number in range(nodes + 1)]
    total = minutes.summed({minutes.bucket(one): 1} for part in parts for one in part)
    exact = sorted(durations)[max(-(-len(durations) * 95 // 100) - 1, 0)]
    assert minutes.percentile(total, 0.95) == pytest.approx(exact, rel=0.0501)


def test_there_is_no_percentile_of_nothing() -> None:
    assert minutes.percentile({}, 0.95) is None


def test_figures_add_up_name_by_name() -> None:
    assert minutes.summed([{"ok": 1, "ms": {"3": 1}}, {"ok": 2, "ms": {"3": 1, "4": 5}}, {"error": 1}]) == {
        "ok": 3, "ms": {"3": 2, "4": 5}, "error": 1,
    }  # fmt: skip


# --- judging --------------------------------------------------------------------------------------------------------


def judge(*breached: bool) -> list[Judgement]:
    """Evaluations a minute apart, and what each of them leads to."""
    states: tuple[AlertState, ...] = ()
    made = []
    for number, is_breach in enumerate(breached):
        reading = Reading("saturation", "windows", 0.9 if is_breach else 0.1, 0.8, "")
        made.append(slo.judged(states, [reading], RULES, NOW + timedelta(minutes=number)))
        states = made[-1].states
    return made


@pytest.mark.contract("WIN-17")
def test_the_third_breach_in_a_row_is_told_once_and_its_end_once() -> None:
    made = judge(True, True, True, True, False, False)
    assert [len(one.begun) for one in made] == [0, 0, 1, 0, 0, 0]
    assert [len(one.over) for one in made] == [0, 0, 0, 0, 1, 0]
    (begun,), (over,) = made[2].begun, made[4].over
    assert (begun.since, begun.warned_at) == (NOW, NOW + timedelta(minutes=2))
    assert (over.value, over.since) == (0.1, NOW)


@pytest.mark.contract("WIN-17")
def test_breaches_that_are_not_in_a_row_are_not_told() -> None:
    assert not any(one.begun for one in judge(True, True, False, True, True, False))


def test_a_warning_of_what_is_gone_is_over() -> None:
    states = judge(True, True, True)[-1].states
    last = slo.judged(states, [], RULES, NOW)
    assert (last.states, len(last.over)) == ((), 1)
    assert last.over[0].text.startswith("there is nothing to measure any more; last: "), "it does not sound like news"


def test_a_value_at_its_threshold_is_no_breach() -> None:
    assert not Reading("saturation", "windows", 0.8, 0.8, "").breached


# --- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("WIN-17")
def test_saturation_and_depth_are_those_of_all_samples() -> None:
    rows = [
        row("queue", "windows", {"samples": 3, "depth": 30, "full": 3}, ago=2, node=1),
        row("queue", "windows", {"samples": 1, "depth": 2, "full": 0}, ago=1, node=2),  # another node leads by now
    ]
    saturation, depth = read(slo.SATURATION, *rows), read(slo.WINDOW_DEPTH, *rows)
    assert saturation is not None
    assert depth is not None
    assert (saturation.value, depth.value) == (0.75, 8)
    assert not depth.breached


@pytest.mark.contract("WIN-17")
@pytest.mark.parametrize(
    ("depths", "rises"),
    [
        (range(15), True), (range(2, 15), True),  # up to two minutes may lack a sample
        (range(12), False), ([*range(14), 13], False), ([5] * 15, False), ([], False),
    ],
)  # fmt: skip
def test_a_depth_rises_if_every_minute_has_more_than_the_one_before(depths: list[int], rises: bool) -> None:
    rows = [
        row("queue", "windows", {"samples": 1, "depth": depth, "full": 0}, ago=len(depths) - number)
        for number, depth in enumerate(depths)
    ]
    reading = read(slo.WINDOW_DEPTH, *rows)
    assert (reading is not None and reading.breached) is rises


@pytest.mark.contract("WIN-17")
def test_the_cutoff_rate_names_the_cutoff_that_most_users_missed() -> None:
    reading = read(
        slo.CUTOFF_RATE,
        row("window", "digest", {"success": {"540": 90}, "cutoff_reached": {"540": 1}}, node=1),
        row("window", "digest", {"success": {"600": 5}, "cutoff_reached": {"600": 4}}, node=2),
    )
    assert reading is not None
    assert (reading.value, reading.due_bucket) == (0.05, 600)


@pytest.mark.contract("QUE-20")
def test_of_many_queues_the_breached_ones_are_read_and_else_the_fullest() -> None:
    def queues(*depths: int) -> list[Queue]:
        return [Queue(f"q{number}", None, depth, 0, 0, 0, 0, 0, 0) for number, depth in enumerate(depths)]

    def deep(*depths: int) -> list[str]:
        found = slo.readings(Rolling([]), EMPTY, queues(*depths), RULES, NOW)
        return [reading.of for reading in found if reading.alert == slo.QUEUE_DEPTH]

    assert deep(3, 7, 5) == ["q1"]
    assert deep(1001, 7, 2000) == ["q2", "q0"]


@pytest.mark.contract("QUE-20")
def test_the_failed_rate_counts_from_the_oldest_totals_in_the_window() -> None:
    totals = [
        row("totals", "mail", {"failed": 10, "succeeded": 100}, ago=9, node=2),
        row("totals", "mail", {"failed": 14, "succeeded": 190}, ago=3, node=1),
    ]
    mail = Queue("mail", None, 0, 0, 0, 200, 30, 0, 0)
    (reading,) = (
        one for one in slo.readings(Rolling(totals), EMPTY, [mail], RULES, NOW) if one.alert == slo.FAILED_RATE
    )
    assert reading.value == pytest.approx(20 / 120, abs=0.0001)


# --- predicting -----------------------------------------------------------------------------------------------------


def at(bucket: int) -> datetime:
    return NOW.replace(hour=bucket // 60, minute=bucket % 60)


def predict(*buckets: OpenBucket, speed: Speed, later: int = 0) -> Reading | None:
    return prediction.predicted("digest", RULE, buckets, speed, later, RULES, NOW)


@pytest.mark.contract("WIN-17")
def test_the_users_who_will_miss_are_those_that_the_rate_does_not_reach() -> None:
    reading = predict(OpenBucket(540, at(540), 600, 514), speed=Speed(10, 0.0))
    assert reading is not None
    assert (reading.value, reading.due_bucket) == (214, 540)
    assert reading.text == "at the present rate 214 users of digest miss 09:00 (UTC)"
    assert reading.breached


@pytest.mark.contract("WIN-17")
def test_later_cutoffs_get_what_the_earlier_ones_leave() -> None:
    early, late = OpenBucket(540, at(540), 300, 290), OpenBucket(560, at(560), 300, 290)
    reading = predict(early, late, speed=Speed(10, 0.0))
    assert reading is not None
    assert (reading.value, reading.due_bucket) == (80, 560), "10 of the first half hour are left, and 200 follow"
    assert predict(early, late, speed=Speed(12, 0.0)) == Reading(
        slo.PREDICTED, "digest", 0, 3.0, "at the present rate 0 users of digest miss 09:00 (UTC)", 540
    )


def test_who_waits_for_another_attempt_misses_if_all_that_are_left_fail() -> None:
    waits = OpenBucket(540, at(540), 100, 10)
    for failing, misses in ((0.0, 0), (0.5, 1), (1.0, 10)):
        reading = predict(waits, speed=Speed(0.0, failing), later=10)
        assert reading is not None
        assert reading.value == misses, "three attempts are left in half an hour"


def test_no_window_is_open_no_prediction() -> None:
    assert predict(speed=Speed(1, 0.0)) is None


def test_open_cutoffs_are_those_with_users_left_in_windows_that_are_open() -> None:
    today, yesterday = NOW.date(), NOW.date() - timedelta(days=1)
    days = {
        yesterday: [DayCount(540, "opened", 50), DayCount(540, "success", 50)],
        today: [
            DayCount(540, "opened", 100), DayCount(540, "success", 90), DayCount(555, "opened", 7),
            DayCount(480, "opened", 9), DayCount(480, "success", 8), DayCount(480, "cutoff_reached", 1),
            DayCount(700, "opened", 5),  # opened by hand: its window has not begun
        ],
    }  # fmt: skip
    assert prediction.open_buckets(days, RULE, NOW) == [
        OpenBucket(540, at(540), 100, 10),
        OpenBucket(555, at(555), 7, 7),
    ]


def test_a_window_across_midnight_is_open_on_both_dates() -> None:
    late = NOW.replace(hour=23, minute=40)
    tomorrow = late.date() + timedelta(days=1)
    days = {day: [DayCount(10, "opened", 4)] if day == tomorrow else [] for day in prediction.dates_around(late)}
    (found,) = prediction.open_buckets(days, RULE, late)
    assert found.cutoff_at == datetime(2030, 1, 2, 0, 10, tzinfo=UTC)


def test_the_rate_counts_minutes_in_which_something_was_to_do() -> None:
    rows = [
        row("queue", "windows", {"samples": 1, "depth": 0, "running": 0}, ago=9),
        row("queue", "windows", {"samples": 1, "depth": 5, "running": 2}, ago=3),
        row("window", "digest", {"ms": {"1": 4}, "ok": 3, "error": 1, "success": {"540": 3}}, ago=2, node=1),
        row("window", "digest", {"ms": {"1": 1}, "ok": 1, "success": {"540": 1}}, ago=2, node=2),
    ]
    assert prediction.speed("digest", "windows", Rolling(rows)) == Speed(2.0, pytest.approx(0.2))
    assert prediction.speed("digest", "windows", Rolling(rows[:2])) is None


@pytest.mark.contract("WIN-17")
def test_while_no_attempt_has_ended_the_rate_is_at_most_that_all_that_run_end_now() -> None:
    """A queue that is paused, or that no worker serves, had no prediction: its users missed without a warning."""
    paused = [row("queue", "windows", {"samples": 2, "depth": 600, "running": 0}, ago=ago) for ago in (1, 2, 3)]
    stuck = [row("queue", "windows", {"samples": 2, "depth": 600, "running": 40}, ago=ago) for ago in (1, 2)]
    assert prediction.speed("digest", "windows", Rolling(paused[:1])) is None, "its jobs were just made"
    assert prediction.speed("digest", "windows", Rolling(stuck)) == Speed(10.0, 0.0)
    going = prediction.speed("digest", "windows", Rolling(paused))
    assert going == Speed(0.0, 0.0)
    reading = predict(OpenBucket(540, at(540), 300, 300), speed=going)
    assert reading is not None
    assert reading.breached
    assert reading.text == "at the present rate 300 users of digest miss 09:00 (UTC)"
