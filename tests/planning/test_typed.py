"""What people type for a scenario: durations, arrivals, shares, limits, outages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median
from typing import Any

import pytest

from oncue.model import Limits
from oncue.planning import reading
from oncue.planning.reading import check_apart, measured, outages, spread, stream
from oncue.planning.scenario import DAY, Span
from oncue.policy.triggers import Rule

START = datetime(2030, 1, 1, tzinfo=UTC)
MORNING = datetime(2030, 1, 1, 7, 30, tzinfo=UTC)
TASKS = ("report", "send_email", "thumbnail")


@pytest.mark.parametrize(
    ("text", "written"),
    [("200ms", "200ms"), (" 30s..5m ", "30s..5m"), ("0..1s", "0s..1s"), ("~30s..2m", "~30s..2m"), ("~2s", "~2s..5s")],
)
def test_durations_are_read_and_written(text: str, written: str) -> None:
    assert str(spread(text)) == written
    assert spread(written) == spread(text)
    assert spread(written).draw(Random(5)) == spread(text).draw(Random(5))


def test_draws_keep_to_what_was_said() -> None:
    dice = Random(1)
    uniform = [spread("2s..4s").draw(dice) for _ in range(2000)]
    assert 2 <= min(uniform) < 2.1
    assert 3.9 < max(uniform) <= 4
    around = sorted(spread("~10s..30s").draw(dice) for _ in range(4000))
    assert 9 < median(around) < 11
    assert 0.03 < sum(seconds > 30 for seconds in around) / 4000 < 0.07
    assert {measured([1.0, 2.5]).draw(dice) for _ in range(50)} == {1.0, 2.5}


@pytest.mark.parametrize(
    ("read", "text", "complaint"),
    [
        (spread, "soon", "expected a duration such as 200ms"),
        (spread, "5m..30s", "ends before it begins"),
        (spread, "~30s..10s", "the middle must be above 0"),
        (spread, "~0", "the middle must be above 0"),
        (lambda text: stream("report", text), "often", "expected a rate such as 20/m"),
        (lambda text: stream("report", text), "0/d", "expected a rate such as 20/m"),
        (lambda text: stream("report", text), "20", "expected a rate such as 20/m"),
        (lambda text: stream("report", text), "20@09:00-17:00", "expected a rate such as 20/m"),
        (lambda text: stream("report", text), "20/m@09:00", "expected a rate such as 20/m"),
        (lambda text: stream("report", text), "1.5@09:00", "not a whole number of jobs"),
        (lambda text: stream("report", text), "20/m@17:00-09:00", "end before they begin"),
        (lambda text: stream("report", text), "20@25:00", "there is no time '25:00'"),
        (reading.share, "most", "expected a share such as 2%"),
        (reading.share, "101%", "between nothing and all"),
        (lambda text: reading.pairs([text], TASKS), "send_mail=1s", "did you mean 'send_email'?"),
        (lambda text: reading.pairs([text], TASKS), "xyz=1s", "there are: report, send_email, thumbnail"),
        (lambda text: reading.pairs([text], ()), "xyz=1s", "declares no tasks"),
        (lambda text: reading.pairs([text], TASKS), "report", "expected task=value, not 'report'"),
        (lambda text: reading.limits([("mail", text)]), "2/day", "expected a number of jobs at once"),
        (lambda text: reading.limits([("mail", text)]), "0", "would never run"),
        (lambda text: reading.limits([("*", text)]), "2", "for one queue each"),
        (
            lambda text: reading.limits([("mail", "2"), ("mail", "1/node"), ("mail", text)]),
            "3",
            "expected mail once, not",
        ),
        (
            lambda text: reading.limits([("mail", "1/node"), ("mail", text)]),
            "3/node",
            "expected mail once for each node",
        ),
        (
            lambda text: reading.pairs([text], TASKS, queues={"report": "mail"}),
            "mail=1s",
            "'mail' is a queue, of: report",
        ),
        (lambda text: outages([text], START, DAY), "08:00", "expected a time of day and a length"),
        (lambda text: outages([text], START, DAY), "08:00+soon", "expected a time of day and a length"),
        (lambda text: outages([text], START, DAY), "08:61+1m", "there is no time '08:61'"),
        (lambda text: outages([text], START, DAY), "08:00+0s", "lasts no time"),
        (lambda text: outages([text], START, DAY), "08:00+1d", "nothing would ever run"),
        (lambda text: outages([text], START, DAY), "2030-02-30T08:00+1m", "expected a time of day and a length"),
        (lambda text: outages([text], START, DAY), "2031-01-01+1h", "not in the simulated time"),
        (lambda text: outages([text], START, 7200.0), "08:00+30m", "not in the simulated time"),
        (lambda text: outages([text], MORNING, 7200.0), "07:00+30m", "not in the simulated time"),
        (lambda text: outages(["00:30+1m", text], START, 7200.0), "08:00+30m", "not in the simulated time"),
        (lambda text: outages([text], START, DAY), "08:00+200000d", "for 100 years at most"),
        (spread, "200000d", "of 100 years at most"),
    ],
)
def test_what_cannot_be_read_is_told(read: Callable[[str], Any], text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(").replace("?", r"\?").replace("*", r"\*")):
        read(text)


def test_names_win_over_the_star_and_are_named_once() -> None:
    written = reading.pairs(["*=2s\n# a remark\nreport=3s # another"], TASKS)
    for twice in ("report", "*"):
        with pytest.raises(ValueError, match="once, not twice"):
            reading.by_name([*written, (twice, "1s")], TASKS)
    assert reading.by_name(written, TASKS) == {"report": "3s", "send_email": "2s", "thumbnail": "2s"}
    assert reading.by_name([("report", "1s")], TASKS) == {"report": "1s"}
    assert reading.share("2%") == reading.share("0.02") == 0.02
    assert reading.limits([("mail", "5"), ("mail", "2/node")]) == {"mail": Limits(5, 2)}


def test_arrivals_come_at_their_rate_in_their_hours() -> None:
    def come(text: str, start: datetime = START, days: float = 4) -> list[tuple[float, int]]:
        return list(stream("report", text).batches(start, days * DAY, Random(3)))

    all_day = come("1000/d")
    assert 3700 < len(all_day) < 4300
    assert 0 < all_day[0][0] < all_day[-1][0] < 4 * DAY
    office = come("1/m@09:00-17:00", MORNING)
    hours = [(seconds / 3600 + 7.5) % 24 for seconds, _ in office]
    assert 4 * 480 * 0.85 < len(office) < 4 * 480 * 1.15
    assert min(hours) >= 9
    assert max(hours) < 17
    assert 1700 < len(come("480/d@09:00-17:00", MORNING)) < 2150
    assert come("50@09:00", MORNING, 2) == [(1.5 * 3600, 50), (1.5 * 3600 + DAY, 50)]
    assert come("50@07:00", MORNING, 1) == [(23.5 * 3600, 50)]


def test_hours_that_have_begun_count_from_the_start() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    found = [seconds for seconds, _ in stream("report", "2/m@09:00-13:00").batches(noon, DAY / 2, Random(1))]
    assert 80 < len(found) < 160
    assert 0 < found[0] < found[-1] < 3600


@pytest.mark.parametrize(
    ("texts", "clash"),
    [
        (("20/m@22:00-24:00", "20/m@00:00-06:00", "5@09:00", "5@10:00"), False),
        (("1/m", "20/m@09:00-17:00"), True),
        (("1/m@09:00-17:00", "1/m@16:00-18:00"), True),
        (("5@09:00", "7@09:00"), True),
        (("5/d", "7@09:00"), False),
    ],
)
def test_the_arrivals_of_a_task_have_hours_of_their_own(texts: tuple[str, ...], clash: bool) -> None:
    streams = [stream("report", text) for text in texts]
    check_apart([stream(task, texts[0]) for task in TASKS])
    with pytest.raises(ValueError, match="expected report once for every hour") if clash else nullcontext():
        check_apart(streams)


@pytest.mark.parametrize("text", ["1000/d", "1/m@09:00-17:00", "50@09:00", "50@07:00"])
def test_how_many_arrive_is_known_before_they_do(text: str) -> None:
    """From half past seven on the first day to noon on the third."""
    one, length = stream("report", text), 52.5 * 3600.0
    come = sum(jobs for _, jobs in one.batches(MORNING, length, Random(3)))
    assert one.expected(MORNING, length) == pytest.approx(come, rel=0.1)


def test_too_many_jobs_are_told_with_the_cause() -> None:
    few, many = stream("report", "500000@09:00"), stream("thumbnail", "100000/s")
    reading.check_volume([few], {}, START, START + timedelta(days=2))
    with pytest.raises(ValueError, match="1,000,000 jobs in the simulated time at most, not 1,500,000; report="):
        reading.check_volume([few], {}, START, START + timedelta(days=3))
    with pytest.raises(ValueError, match="thumbnail=100000/s alone brings 8,640,000,000"):
        reading.check_volume([few, many], {}, START, START + timedelta(days=1))
    rules = {"daily": Rule("@daily"), "often": Rule("@every 1s")}
    rest = stream("report", f"{1_000_000 - 86400}@00:00")
    reading.check_volume([rest], rules, START, START + timedelta(days=1))
    with pytest.raises(ValueError, match="not 1,000,001; report=913601@00:00 alone brings 913,601"):
        reading.check_volume([stream("report", "913601@00:00")], rules, START, START + timedelta(days=1))
    with pytest.raises(ValueError, match="schedule often alone brings 1,036,799"):
        reading.check_volume([], rules, START, START + timedelta(days=12))


def test_outages_every_day_and_once() -> None:
    assert outages(["08:00+30m"], MORNING, 2 * DAY) == (Span(1800, 3600), Span(1800 + DAY, 3600 + DAY))
    assert outages(["2030-01-01T09:00+1h"], MORNING, DAY) == (Span(5400, 9000),)
    assert outages(["2030-01-01T10:00+01:00+1h"], MORNING, DAY) == (Span(5400, 9000),)
    assert outages(["08:00+30m", "08:20+1h"], MORNING, DAY) == (Span(1800, 6600),)
    assert outages(["23:00+9h"], MORNING, DAY) == (Span(0, 1800), Span(15.5 * 3600, DAY))
