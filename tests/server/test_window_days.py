"""What the dashboard draws of a window's day, and of SLOs lately: pure functions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from oncue.model import AlertState, DayCount, Minute
from oncue.policy import slo
from oncue.policy.minutes import bucket
from oncue.policy.slo import Rolling
from oncue.records.windows import day_totals
from oncue.server.dashboard.slos import HEIGHT, KINDS, WIDTH, by_urgency, line_of
from oncue.server.dashboard.window_days import DaySums, by_bucket, chart, rows, stripe, together

NOW = datetime(2030, 1, 1, 9, 0, tzinfo=UTC)
NODE = UUID(int=1)


def counts(**events: int) -> list[DayCount]:
    return [DayCount(540, event, number) for event, number in events.items()]  # type: ignore[arg-type]


def test_a_day_is_summed_up_by_the_minute_of_its_cutoff() -> None:
    told = [*counts(opened=10, success=6, cutoff_reached=1), DayCount(600, "missed", 4)]
    assert by_bucket(told) == {540: DaySums(6, 1, 0, 0, 3), 600: DaySums(missed=4)}
    whole = together([*by_bucket(told).values()])
    assert whole == DaySums(**day_totals(told)) == DaySums(6, 1, 4, 0, 3)
    assert (whole.all, whole.done, whole.without) == (14, 11, 5)
    assert whole.sentence == "6 success, 1 cutoff reached, 4 missed, 3 open"
    assert together([]).sentence == "nothing"


@pytest.mark.parametrize(
    ("at", "columns", "labels"),
    [
        ([540], 60, ["09:00", "10:00"]),
        ([540, 1000], 96, ["09:00", "10:00", "11:00", "12:00", "13:00", "14:00", "15:00", "16:00", "17:00"]),
        ([0, 1439], 96, ["00:00", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "00:00"]),
        ([1439], 60, ["23:00", "00:00"]),
    ],
)
def test_the_columns_fit_the_cutoffs_of_the_day(at: list[int], columns: int, labels: list[str]) -> None:
    drawn = chart(dict.fromkeys(at, DaySums(1)), {})
    assert drawn is not None
    assert (drawn.width, drawn.labels) == (columns * 10, labels)
    assert len(drawn.bars) == len(at)
    assert all(0 <= bar.x < drawn.width for bar in drawn.bars)


def test_no_column_is_higher_than_the_chart_and_none_is_too_low_to_be_seen() -> None:
    drawn = chart({540: DaySums(10_000, 1, 1, 1, 200), 541: DaySums(1)}, {540: 150})
    assert drawn is not None
    for bar in drawn.bars:
        assert all(part.start >= 0 and part.length >= 1.5 for part in bar.parts)
    kinds = [part.kind for part in drawn.bars[0].parts]
    assert kinds == ["success", "cutoff_reached", "missed", "added_late", "open", "at_risk"]
    assert "at the present rate 150 miss it" in drawn.bars[0].title
    assert [part.kind for part in stripe(DaySums(3, open=1))] == ["success", "open"]
    assert chart({}, {}) is None
    assert chart({540: DaySums(1)}, {}, hour=3) is None


def test_many_cutoffs_are_shown_by_the_hour() -> None:
    few = {540 + at: DaySums(1) for at in range(24)}
    assert [row.name for row in rows(few, {})][:2] == ["09:00", "09:01"]
    many = {at: DaySums(open=2) for at in range(0, 1440, 10)}
    by_hour = rows(many, {540: 3, 550: 1})
    assert (len(by_hour), by_hour[9].name, by_hour[9].sums.open, by_hour[9].at_risk, by_hour[9].hour) == (
        *(24, "09:00 to 09:59"), *(12, 4, 9),
    )  # fmt: skip
    assert [row.name for row in rows(many, {}, hour=9)] == ["09:00", "09:10", "09:20", "09:30", "09:40", "09:50"]


def minutes(kind: str, name: str, *figures: dict[str, object]) -> list[Minute]:
    first = NOW - timedelta(minutes=len(figures))
    return [Minute(first + timedelta(minutes=at), NODE, kind, name, one) for at, one in enumerate(figures)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("alert", "measured", "sentence"),
    [
        (slo.TICK, minutes("tick", "", {"ms": {bucket(10): 1}}, {"ms": {bucket(100): 1}}), "from 10.3 ms to 102 ms"),
        (slo.JOB, minutes("window", "x", {"ms": {bucket(1): 1}}, {}), "from 1 s to 1 s"),
        (slo.SATURATION, minutes("queue", "x", {"samples": 2, "full": 1}, {"samples": 2}), "from 0.0 % to 50.0 %"),
        (slo.WINDOW_DEPTH, minutes("queue", "x", {"samples": 2, "depth": 8}), "from 4.0 to 4.0"),
        (slo.CUTOFF_RATE, minutes("window", "x", {"success": {"540": 3}, "cutoff_reached": {"540": 1}}),
         "from 25.0 % to 25.0 %"),
        (slo.MISSED, minutes("schedule", "x", {"missed": 2}), "from 2.0 to 2.0"),
        (slo.FAILED_RATE, minutes("totals", "x", {"failed": 1, "succeeded": 1}, {"failed": 2, "succeeded": 4}),
         "from 25.0 % to 25.0 %"),
    ],
)  # fmt: skip
def test_values_lately_are_read_off_the_minutes(alert: str, measured: list[Minute], sentence: str) -> None:
    drawn = line_of(AlertState(alert, "x", 1.0, 1.0), Rolling(measured), measured, NOW)
    assert drawn is not None
    assert alert == slo.JOB or drawn.sentence == f"In the last hour, by the minute: {sentence}"
    for path in drawn.paths:
        for point in path.split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT


def test_a_gap_breaks_the_line() -> None:
    measured = minutes("schedule", "x", {"missed": 2}, {"missed": 1})
    measured += [measured[0]._replace(minute=NOW - timedelta(minutes=30))]
    drawn = line_of(AlertState(slo.MISSED, "x", 0, 0), Rolling(measured), measured, NOW)
    assert drawn is not None
    assert len(drawn.paths) == 2
    assert line_of(AlertState(slo.PREDICTED, "x", 0, 0), Rolling([]), [], NOW) is None


def test_the_most_urgent_comes_first() -> None:
    states = [
        AlertState("of_tomorrow", "x", 0, 1), AlertState(slo.TICK, "planner", 0, 1),
        AlertState(slo.JOB, "x", 2, 1, 1, NOW),
        AlertState(slo.SATURATION, "x", 2, 1, 3, NOW, NOW), AlertState(slo.PREDICTED, "x", 0, 1),
    ]  # fmt: skip
    assert [one.alert for one in by_urgency(states)] == [
        slo.SATURATION, slo.JOB, slo.PREDICTED, slo.TICK, "of_tomorrow",
    ]  # fmt: skip
    assert {kind.alert for kind in KINDS} == set(slo.ALERTS)
