"""Daily windows: the days of a subject, and what the planner does about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.errors import InvalidSchedule
from oncue.model import EVERY_DAY, Day, Subject
from oncue.policy.triggers import Rule
from oncue.policy.windows import (
    ADDED_LATE,
    CUTOFF_REACHED,
    DEFAULT_RETRY,
    DEFAULT_WINDOW,
    PROMPTLY,
    Closing,
    DayPlan,
    DayTerms,
    WindowRule,
    arguments,
    bucket_of,
    daily,
    day_of,
    days_from,
    first_day,
    is_window,
    plan,
    rule_of,
    slot_of,
    terms_of,
)
from oncue.policy.zones import local_date

HOUR, MINUTE, DAY = timedelta(hours=1), timedelta(minutes=1), timedelta(days=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
MONDAY = date(2026, 6, 1)
NINE = 9 * 60
UTC_AT_NINE = DayTerms(NINE, "UTC", EVERY_DAY, (), 3600.0)
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu",
    "Australia/Lord_Howe", "America/Nuuk", "Asia/Beirut", "Africa/Casablanca", "America/Santiago", "Antarctica/Troll",
)  # fmt: skip


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def terms(due: str = "09:00", tz: str = "UTC", weekdays: int = EVERY_DAY, *off: date, window: float = 3600) -> DayTerms:
    told = time.fromisoformat(due)
    return DayTerms(told.hour * 60 + told.minute, tz, weekdays, off, window)


def added(of: DayTerms, now: datetime, last_date: date | None = None) -> Subject:
    """A subject as it is right after it was added, or after its terms were changed."""
    day = first_day(of, last_date, now)
    return Subject(
        1, "ada", of.due, of.tz, of.weekdays, of.days_off, "{}", 1, now, *day,
        next_at=day.opens_at, job_id=None, last_date=last_date, status=None, reason=None, last_run_at=None,
        created_at=now, updated_at=now, removed_at=None,
    )  # fmt: skip


def after(subject: Subject, done: DayPlan) -> Subject:
    """The subject's row once the planner has written what it planned."""
    decided = [*done.missed, *([done.closes.day] if done.closes else [])]
    same_day = done.day.date == subject.day and not decided
    return replace(
        subject,
        day=done.day.date,
        opens_at=done.day.opens_at,
        cutoff_at=done.day.cutoff_at,
        next_at=done.next_at,
        job_id=1 if done.opens else subject.job_id if same_day else None,
        last_date=decided[-1].date if decided else subject.last_date,
    )


def succeeded(subject: Subject) -> Subject:
    """The day's job has succeeded, and the planner was not there yet."""
    return replace(subject, last_date=subject.day)


def decisions(subject: Subject, of: DayTerms, now: datetime, enabled_since: datetime = LONG_AGO) -> list[str]:
    """What becomes of which day when the planner comes by, until there is nothing more to do."""
    said: list[str] = []
    while True:
        done = plan(subject, of, enabled_since, now)
        said += [f"{day.date:%d} missed" for day in done.missed]
        if done.closes:
            said.append(f"{done.closes.day.date:%d} {done.closes.reason or done.closes.status}")
        if done.opens:
            said.append(f"{done.day.date:%d} opens")
        subject = after(subject, done)
        if not (done.missed or done.closes or done.opens):
            return said


# --- the rule -------------------------------------------------------------------------------------------------------


@pytest.mark.contract("WIN-8")
def test_a_window_is_an_hour_with_attempts_ten_minutes_apart_by_default() -> None:
    assert daily() == Rule("@window 1h retry 10m", "UTC")
    assert rule_of(daily().expression) == (DEFAULT_WINDOW, DEFAULT_RETRY) == (3600.0, 600.0)


def test_a_rule_says_how_long_how_often_and_where() -> None:
    rule = daily(window="90m", retry=timedelta(seconds=45), tz="Asia/Tokyo")
    assert rule == Rule("@window 1h30m retry 45s", "Asia/Tokyo")
    assert rule_of(rule.expression) == WindowRule(5400.0, 45.0)
    assert is_window(rule.expression)
    assert not is_window("0 9 * * *")


@given(st.integers(60_000, 86_400_000), st.integers(1000, 86_400_000))
def test_a_rule_is_read_as_it_was_written(window: int, retry: int) -> None:
    """To the millisecond."""
    written = daily(window=window / 1000, retry=retry / 1000)
    assert rule_of(written.expression) == pytest.approx((window / 1000, retry / 1000), abs=1e-6)
    assert daily(window=rule_of(written.expression).length, retry=rule_of(written.expression).retry) == written


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"window": "59s"}, "window"),
        ({"window": "25h"}, "window"),
        ({"window": "soon"}, "window"),
        ({"window": True}, "window"),
        ({"window": -60}, "window"),
        ({"retry": "500ms"}, "retry"),
        ({"retry": "2d"}, "retry"),
        ({"tz": "Europe/Berlyn"}, "tz"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(told: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        daily(**told)
    assert str(refused.value).startswith(field)


@pytest.mark.parametrize(
    "expression",
    ["@window", "@window 1h", "@window 1h retry", "@window 1h every 10m", "@windows 1h retry 10m", "0 9 * * *", ""],
)
def test_what_is_no_rule_of_a_window_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule, match="expression"):
        rule_of(expression)


def test_a_subject_without_a_zone_has_the_one_of_its_window() -> None:
    subject = added(UTC_AT_NINE, at("2026-06-01T06:00"))
    rule = WindowRule(1800.0, 60.0)
    assert terms_of(replace(subject, tz=None), rule, "Asia/Tokyo") == DayTerms(NINE, "Asia/Tokyo", EVERY_DAY, (), 1800)
    assert terms_of(replace(subject, tz="UTC"), rule, "Asia/Tokyo").tz == "UTC"


# --- days -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("WIN-8", "WIN-14", "WIN-19")
@pytest.mark.parametrize(
    ("of", "day", "opens_at", "cutoff_at"),
    [
        (terms("09:00"), "2026-06-01", "2026-06-01T08:00", "2026-06-01T09:00"),
        (terms("09:00", "Europe/Berlin"), "2026-06-01", "2026-06-01T06:00", "2026-06-01T07:00"),
        # Across midnight: the date is the one of the cutoff.
        (terms("00:00"), "2026-06-02", "2026-06-01T23:00", "2026-06-02T00:00"),
        (terms("00:20"), "2026-06-02", "2026-06-01T23:20", "2026-06-02T00:20"),
        (terms("00:20", "Pacific/Kiritimati"), "2026-06-02", "2026-06-01T09:20", "2026-06-01T10:20"),
        (terms("23:59", "Pacific/Pago_Pago"), "2026-06-01", "2026-06-02T09:59", "2026-06-02T10:59"),
        # Berlin's clocks go from 02:00 to 03:00: the end of the gap.
        (terms("02:30", "Europe/Berlin"), "2026-03-29", "2026-03-29T00:00", "2026-03-29T01:00"),
        (terms("02:00", "Europe/Berlin"), "2026-03-29", "2026-03-29T00:00", "2026-03-29T01:00"),
        (terms("03:30", "Europe/Berlin"), "2026-03-29", "2026-03-29T00:30", "2026-03-29T01:30"),
        # And from 03:00 back to 02:00: the first of two. A window is as long as on any day.
        (terms("02:30", "Europe/Berlin"), "2026-10-25", "2026-10-24T23:30", "2026-10-25T00:30"),
        (terms("03:00", "Europe/Berlin"), "2026-10-25", "2026-10-25T01:00", "2026-10-25T02:00"),
        (terms("03:00", "Europe/Berlin", window=10800), "2026-10-25", "2026-10-24T23:00", "2026-10-25T02:00"),
        # Half an hour, on Lord Howe.
        (terms("02:15", "Australia/Lord_Howe"), "2026-10-04", "2026-10-03T14:30", "2026-10-03T15:30"),
        # A gap at midnight.
        (terms("00:00", "Asia/Beirut"), "2026-03-29", "2026-03-28T21:00", "2026-03-28T22:00"),
        (terms("00:30", "America/Santiago"), "2026-09-06", "2026-09-06T03:00", "2026-09-06T04:00"),
        # A gap that ends at midnight: the cutoff is the first instant of the next date, and the day is the date before.
        (terms("23:30", "America/Nuuk"), "2026-03-28", "2026-03-29T00:00", "2026-03-29T01:00"),
        # Samoa left out the 30th of December.
        (terms("09:00", "Pacific/Apia"), "2011-12-29", "2011-12-29T18:00", "2011-12-29T19:00"),
        (terms("09:00", "Pacific/Apia"), "2011-12-31", "2011-12-30T18:00", "2011-12-30T19:00"),
    ],
)  # fmt: skip
def test_the_window_of_a_date(of: DayTerms, day: str, opens_at: str, cutoff_at: str) -> None:
    assert day_of(of, date.fromisoformat(day)) == Day(date.fromisoformat(day), at(opens_at), at(cutoff_at))


@pytest.mark.parametrize("due", ["00:00", "09:00", "23:59"])
@pytest.mark.parametrize(
    ("tz", "left_out"),
    [("Pacific/Apia", "2011-12-30"), ("Pacific/Fakaofo", "2011-12-30"), ("Pacific/Kwajalein", "1993-08-21")],
)
def test_a_date_that_a_zone_leaves_out_has_no_window(tz: str, left_out: str, due: str) -> None:
    day = date.fromisoformat(left_out)
    assert day_of(terms(due, tz), day) is None
    found = [one.date for one in islice(days_from(terms(due, tz), day - DAY), 2)]
    assert found == [day - DAY, day + DAY]


def test_weekdays_and_days_off_have_no_window() -> None:
    weekend = terms("09:00", "UTC", 0b1100000, MONDAY + 6 * DAY)
    assert [one.date for one in islice(days_from(weekend, MONDAY), 3)] == [
        MONDAY + 5 * DAY,
        MONDAY + 12 * DAY,
        MONDAY + 13 * DAY,
    ]
    assert day_of(weekend, MONDAY) is None
    assert day_of(weekend, MONDAY + 6 * DAY) is None


def test_a_year_of_days_off_ends() -> None:
    off = tuple(MONDAY + number * 7 * DAY for number in range(366))
    assert next(days_from(terms("09:00", "UTC", 1, *off), MONDAY)).date == MONDAY + 366 * 7 * DAY


@pytest.mark.contract("WIN-9", "WIN-14")
@pytest.mark.parametrize(
    ("of", "last_date", "now", "expected"),
    [
        (terms("09:00"), None, "2026-06-01T06:00", "2026-06-01"),
        (terms("09:00"), None, "2026-06-01T08:30", "2026-06-01"),
        (terms("09:00"), None, "2026-06-01T09:00", "2026-06-01"),  # over already
        (terms("09:00"), "2026-06-01", "2026-06-01T06:00", "2026-06-02"),
        (terms("09:00"), "2026-05-30", "2026-06-01T06:00", "2026-06-01"),
        (terms("00:20"), None, "2026-06-01T23:50", "2026-06-01"),
        # It is the 2nd in Kiritimati already, and in Pago Pago still the 31st.
        (terms("09:00", "Pacific/Kiritimati"), None, "2026-06-01T10:30", "2026-06-02"),
        (terms("09:00", "Pacific/Pago_Pago"), None, "2026-06-01T10:30", "2026-05-31"),
        # A subject that has had its 2nd in the east has it no second time in the west.
        (terms("09:00", "Pacific/Pago_Pago"), "2026-06-02", "2026-06-01T10:30", "2026-06-03"),
        (terms("09:00", "UTC", 0b0111110), None, "2026-06-01T06:00", "2026-06-02"),
        (terms("09:00", "UTC", EVERY_DAY, MONDAY), None, "2026-06-01T06:00", "2026-06-02"),
    ],
)
def test_the_day_with_which_terms_begin(of: DayTerms, last_date: str | None, now: str, expected: str) -> None:
    decided = None if last_date is None else date.fromisoformat(last_date)
    assert first_day(of, decided, at(now)).date == date.fromisoformat(expected)


def test_the_ledger_tells_a_day_by_its_midnight() -> None:
    assert slot_of(MONDAY) == at("2026-06-01T00:00")


def test_a_cutoff_is_counted_under_its_minute_in_utc() -> None:
    assert bucket_of(at("2026-06-01T09:05")) == 545
    assert bucket_of(datetime(2026, 6, 1, 0, 30, 59, tzinfo=ZoneInfo("Europe/Berlin"))) == 22 * 60 + 30


def test_the_arguments_of_a_job() -> None:
    own = json.dumps({"topics": ["chess"], "user": "another"})
    told = json.loads(arguments(own, "ada", MONDAY, ("user", "day")))
    assert told == {"topics": ["chess"], "user": "ada", "day": "2026-06-01"}
    assert json.loads(arguments(own, "ada", MONDAY, (None, None))) == json.loads(own)


# --- what the planner does ------------------------------------------------------------------------------------------

ADDED = at("2026-06-01T06:00")
TODAY = Day(MONDAY, at("2026-06-01T08:00"), at("2026-06-01T09:00"))
TOMORROW = Day(MONDAY + DAY, at("2026-06-02T08:00"), at("2026-06-02T09:00"))
NEW = added(UTC_AT_NINE, ADDED)
OPENED = replace(NEW, job_id=7, next_at=TODAY.cutoff_at)


def planned(subject: Subject, now: str, of: DayTerms = UTC_AT_NINE, enabled_since: datetime = LONG_AGO) -> DayPlan:
    return plan(subject, of, enabled_since, at(now))


@pytest.mark.contract("WIN-8", "WIN-9")
def test_before_its_opening_a_day_is_left_alone() -> None:
    assert planned(NEW, "2026-06-01T07:59:59.999999") == DayPlan(None, (), False, TODAY, TODAY.opens_at)


@pytest.mark.contract("WIN-8", "WIN-9")
@pytest.mark.parametrize("now", ["2026-06-01T08:00", "2026-06-01T08:30", "2026-06-01T08:59:59.999999"])
def test_a_day_opens_from_its_opening_to_its_cutoff(now: str) -> None:
    assert planned(NEW, now) == DayPlan(None, (), True, TODAY, TODAY.cutoff_at)


@pytest.mark.contract("WIN-9", "WIN-10")
def test_a_day_that_is_open_waits_for_its_cutoff() -> None:
    assert planned(OPENED, "2026-06-01T08:30") == DayPlan(None, (), False, TODAY, TODAY.cutoff_at)


@pytest.mark.contract("WIN-7", "WIN-9")
def test_a_day_that_is_decided_stays_so() -> None:
    done = succeeded(OPENED)
    assert planned(done, "2026-06-01T08:30") == DayPlan(None, (), False, TODAY, TODAY.cutoff_at)
    assert planned(done, "2026-06-01T09:00") == DayPlan(None, (), False, TOMORROW, TOMORROW.opens_at)
    assert planned(done, "2026-06-02T08:10") == DayPlan(None, (), True, TOMORROW, TOMORROW.cutoff_at)


@pytest.mark.contract("WIN-6", "WIN-9", "WIN-13")
@pytest.mark.parametrize("subject", [NEW, OPENED])
@pytest.mark.parametrize("now", ["2026-06-01T09:00", "2026-06-01T23:59:59.999999"])
def test_a_cutoff_counts_while_its_date_lasts(subject: Subject, now: str) -> None:
    closes = Closing(TODAY, CUTOFF_REACHED, None, True)
    assert planned(subject, now) == DayPlan(closes, (), False, TOMORROW, TOMORROW.opens_at)


@pytest.mark.contract("WIN-14")
@pytest.mark.parametrize("subject", [NEW, OPENED])
def test_after_its_date_a_cutoff_that_nothing_saw_is_missed(subject: Subject) -> None:
    assert planned(subject, "2026-06-02T00:00") == DayPlan(None, (TODAY,), False, TOMORROW, TOMORROW.opens_at)
    assert planned(subject, "2026-06-02T08:00") == DayPlan(None, (TODAY,), True, TOMORROW, TOMORROW.cutoff_at)


@pytest.mark.contract("WIN-6", "WIN-9", "WIN-13", "WIN-14")
@pytest.mark.parametrize("tz", ["UTC", "Pacific/Kiritimati", "America/New_York"])
def test_a_planner_that_is_there_closes_the_last_minute_of_a_date(tz: str) -> None:
    """The date is over a minute after the cutoff. That alone is no outage."""
    of = terms("23:59", tz)
    subject = added(of, at("2026-06-01T16:00"))
    for late in (timedelta(0), MINUTE, PROMPTLY - timedelta(microseconds=1)):
        closes = plan(subject, of, LONG_AGO, subject.cutoff_at + late).closes
        assert closes is not None
        assert (closes.status, closes.reason, closes.has_hook) == (CUTOFF_REACHED, None, True)
    done = plan(subject, of, LONG_AGO, subject.cutoff_at + PROMPTLY)
    assert (done.closes, [day.date for day in done.missed]) == (None, [subject.day])


@pytest.mark.contract("WIN-6", "WIN-14", "WIN-19")
def test_a_cutoff_that_a_gap_puts_on_the_next_date_is_no_outage() -> None:
    of = terms("23:30", "America/Nuuk")
    subject = added(of, at("2026-03-28T12:00"))
    assert (subject.day, local_date(of.tz, subject.cutoff_at)) == (date(2026, 3, 28), date(2026, 3, 29))
    assert decisions(subject, of, subject.cutoff_at) == ["28 cutoff_reached"]


@pytest.mark.contract("WIN-14")
@pytest.mark.parametrize(
    ("back", "expected"),
    [
        ("2026-06-04T07:00", ["01 missed", "02 missed", "03 missed"]),
        ("2026-06-04T08:30", ["01 missed", "02 missed", "03 missed", "04 opens"]),
        ("2026-06-04T09:30", ["01 missed", "02 missed", "03 missed", "04 cutoff_reached"]),
        ("2026-06-05T00:01", ["01 missed", "02 missed", "03 missed", "04 missed"]),
    ],
)
@pytest.mark.parametrize("subject", [NEW, OPENED])
def test_an_outage_of_days(subject: Subject, back: str, expected: list[str]) -> None:
    assert decisions(subject, UTC_AT_NINE, at(back)) == expected
    done = planned(subject, back)
    assert [day.date for day in done.missed] == [MONDAY + number * DAY for number in range(len(done.missed))]
    assert (done.closes is not None) == ("cutoff_reached" in expected[-1])


@pytest.mark.contract("WIN-14")
def test_a_day_that_was_decided_before_an_outage_is_no_part_of_it() -> None:
    assert decisions(succeeded(OPENED), UTC_AT_NINE, at("2026-06-03T08:30")) == ["02 missed", "03 opens"]


@pytest.mark.contract("WIN-2", "WIN-5", "WIN-14")
def test_an_outage_within_a_window_costs_nothing() -> None:
    assert decisions(NEW, UTC_AT_NINE, at("2026-06-01T08:59")) == ["01 opens"]
    assert decisions(OPENED, UTC_AT_NINE, at("2026-06-01T08:59")) == []


@pytest.mark.contract("WIN-9")
@pytest.mark.parametrize("now", ["2026-06-01T09:00", "2026-06-01T12:00"])
def test_a_subject_added_after_its_cutoff_has_no_hook(now: str) -> None:
    done = planned(added(UTC_AT_NINE, at(now)), now)
    assert done == DayPlan(Closing(TODAY, CUTOFF_REACHED, ADDED_LATE, False), (), False, TOMORROW, TOMORROW.opens_at)


@pytest.mark.contract("WIN-9")
def test_a_subject_added_across_midnight_has_its_next_window_at_once() -> None:
    of = terms("00:20")
    now = at("2026-06-01T23:50")
    assert decisions(added(of, now), of, now) == ["01 added_late", "02 opens"]


@pytest.mark.contract("WIN-9", "WIN-14")
@pytest.mark.parametrize(
    ("back", "expected"),
    [
        ("2026-06-02T08:30", ["01 added_late", "02 opens"]),
        ("2026-06-02T09:30", ["01 added_late", "02 cutoff_reached"]),
        ("2026-06-04T08:30", ["01 added_late", "02 missed", "03 missed", "04 opens"]),
        ("2026-06-04T09:30", ["01 added_late", "02 missed", "03 missed", "04 cutoff_reached"]),
    ],
)
def test_a_subject_added_late_before_an_outage_loses_no_day(back: str, expected: list[str]) -> None:
    """Every day has its outcome, in their order: each closing is a step of its own."""
    assert decisions(added(UTC_AT_NINE, at("2026-06-01T12:00")), UTC_AT_NINE, at(back)) == expected


def test_a_subject_added_before_its_window_was_enabled() -> None:
    assert decisions(NEW, UTC_AT_NINE, at("2026-06-01T09:30"), at("2026-06-01T09:15")) == []


@pytest.mark.parametrize(
    ("enabled", "back", "expected"),
    [
        ("2026-06-04T07:00", "2026-06-04T07:00", []),
        ("2026-06-04T08:30", "2026-06-04T08:30", ["04 opens"]),
        ("2026-06-04T09:00", "2026-06-04T09:00", []),
        ("2026-06-04T08:59", "2026-06-04T09:00", ["04 cutoff_reached"]),
        # Enabled while nothing ran.
        ("2026-06-02T08:00", "2026-06-04T08:30", ["02 missed", "03 missed", "04 opens"]),
    ],
)
def test_the_days_on_which_a_window_is_disabled_are_none_of_its_own(
    enabled: str, back: str, expected: list[str]
) -> None:
    assert decisions(NEW, UTC_AT_NINE, at(back), at(enabled)) == expected
    assert decisions(succeeded(OPENED), UTC_AT_NINE, at(back), at(enabled)) == expected


@pytest.mark.contract("WIN-5", "WIN-6")
def test_a_day_that_had_opened_is_decided_though_its_window_was_disabled() -> None:
    assert decisions(OPENED, UTC_AT_NINE, at("2026-06-01T12:00"), at("2026-06-01T11:00")) == ["01 cutoff_reached"]
    assert decisions(OPENED, UTC_AT_NINE, at("2026-06-03T12:00"), at("2026-06-03T11:00")) == ["01 missed"]


@pytest.mark.contract("WIN-9", "WIN-14", "WIN-19")
def test_a_subject_that_moves_in_its_window_goes_on_from_its_next_day() -> None:
    """It moves from Los Angeles to Tokyo, where it is tomorrow already."""
    here, there = terms("09:00", "America/Los_Angeles"), terms("09:00", "Asia/Tokyo")
    subject = replace(added(here, at("2026-06-01T06:00")), day=MONDAY, job_id=7)
    day = day_of(here, MONDAY)
    assert day is not None
    moved = replace(subject, opens_at=day.opens_at, cutoff_at=day.cutoff_at, tz=there.tz, since=at("2026-06-01T15:30"))
    # The cutoff of the 2nd passed at midnight UTC, eight hours after the cutoff of the 1st.
    assert decisions(moved, there, at("2026-06-01T16:00")) == ["01 cutoff_reached"]
    assert planned(moved, "2026-06-01T16:00", there).day == day_of(there, MONDAY + DAY)
    # Back in the west, the 2nd is over, and the 3rd is next.
    at_home = replace(succeeded(replace(moved, day=MONDAY + DAY, cutoff_at=at("2026-06-02T00:00"))), tz=here.tz)
    assert planned(at_home, "2026-06-02T00:00", here).day.date == MONDAY + 2 * DAY


@pytest.mark.contract("WIN-6", "WIN-14")
def test_two_cutoffs_that_pass_in_one_moment_are_decided_one_by_one() -> None:
    """A move to the east in the window: the next day's cutoff comes before the cutoff of the day that is open."""
    here, there = terms("23:00", "America/Los_Angeles"), terms("12:00", "Pacific/Kiritimati")
    day = day_of(here, MONDAY)
    assert day is not None
    subject = replace(added(here, day.opens_at), since=day.opens_at, job_id=7, tz=there.tz)
    tomorrow = day_of(there, MONDAY + DAY)
    assert tomorrow is not None
    assert tomorrow.cutoff_at < day.cutoff_at
    found = decisions(subject, there, day.cutoff_at)
    assert found[:2] == ["01 cutoff_reached", "02 added_late"]


# --- for any terms and any life ---------------------------------------------------------------------------------------

ANY_TERMS = st.builds(
    DayTerms,
    st.integers(0, 1439),
    st.sampled_from(ZONES),
    st.integers(1, EVERY_DAY),
    st.lists(st.integers(0, 400).map(lambda days: MONDAY - 200 * DAY + days * DAY), max_size=5).map(tuple),
    st.sampled_from((60.0, 600.0, 3600.0, 5 * 3600.0, 86_400.0)),
)
ANY_INSTANT = st.integers(-200 * 1440, 200 * 1440).map(lambda minutes: at("2026-06-01T00:00") + minutes * MINUTE)
PAUSES = st.lists(
    st.one_of(
        st.sampled_from((timedelta(0), timedelta(seconds=1), MINUTE, 10 * MINUTE, HOUR, DAY, 30 * DAY)),
        st.integers(1, 40_000).map(lambda minutes: minutes * MINUTE),
    ),
    max_size=30,
)


@given(ANY_TERMS, ANY_INSTANT)
@pytest.mark.contract("WIN-8", "WIN-14", "WIN-19")
def test_days_come_in_their_order(of: DayTerms, now: datetime) -> None:
    days = list(islice(days_from(of, local_date(of.tz, now)), 10))
    for day in days:
        assert day.cutoff_at - day.opens_at == timedelta(seconds=of.length)
        assert of.weekdays >> day.date.weekday() & 1
        assert day.date not in of.days_off
        shown = day.cutoff_at.astimezone(ZoneInfo(of.tz))
        assert local_date(of.tz, day.cutoff_at) == day.date or (shown.hour, shown.minute) == (0, 0)
    for earlier, later in pairwise(days):
        assert earlier.date < later.date
        assert earlier.cutoff_at < later.cutoff_at


class _Life:
    """A subject's life, with a planner that comes by at these instants; what becomes of each day."""

    def __init__(self, of: DayTerms, begins: datetime) -> None:
        self.terms = of
        self.now = self.enabled_since = begins
        self.subject = added(of, begins)
        self.begins = self.subject.day
        self.outcomes: dict[date, str] = {}

    def passes(self) -> Iterator[DayPlan]:
        """The planner comes by: as often as it has something to do."""
        while True:
            done = plan(self.subject, self.terms, self.enabled_since, self.now)
            yield done
            self.write(done)
            if not (done.closes or done.missed or done.opens):
                return

    def write(self, done: DayPlan) -> None:
        for day in done.missed:
            self.decide(day.date, "missed")
            assert day.cutoff_at <= self.now
            assert local_date(self.terms.tz, self.now) > day.date
        if done.closes is not None:
            self.decide(done.closes.day.date, done.closes.status)
            assert done.closes.day.cutoff_at <= self.now
        self.subject = after(self.subject, done)

    def decide(self, day: date, outcome: str) -> None:
        assert day not in self.outcomes
        assert all(earlier < day for earlier in self.outcomes)
        self.outcomes[day] = outcome

    def succeed(self) -> None:
        """The job of the day succeeds, if it can."""
        one = self.subject
        if one.job_id is not None and one.day not in self.outcomes and self.now < one.cutoff_at:
            self.decide(one.day, "success")
            self.subject = succeeded(one)

    def over(self) -> set[date]:
        """The days whose cutoff has passed, by going through all of them."""
        days: Sequence[date] = [
            self.begins + number * DAY for number in range((self.now.date() - self.begins).days + 3)
        ]
        found = (day_of(self.terms, day) for day in days)
        return {day.date for day in found if day is not None and day.cutoff_at <= self.now}


@given(ANY_TERMS, ANY_INSTANT, PAUSES, st.randoms(use_true_random=False))
@pytest.mark.contract("WIN-1", "WIN-2", "WIN-6", "WIN-9", "WIN-14")
def test_every_day_has_one_outcome(of: DayTerms, begins: datetime, pauses: list[timedelta], dice: object) -> None:
    """Whenever the planner comes by, each day that is over is decided: once, in their order, and none is left out."""
    life = _Life(of, begins)
    for pause in (timedelta(0), *pauses):
        life.now += pause
        for _ in life.passes():
            pass
        assert life.outcomes.keys() >= life.over()
        assert all(day in life.over() or outcome == "success" for day, outcome in life.outcomes.items())
        if dice.random() < 0.5:  # type: ignore[attr-defined]
            life.succeed()


@given(ANY_TERMS, ANY_INSTANT, PAUSES)
@pytest.mark.contract("WIN-9", "WIN-19")
def test_planning_again_changes_nothing(of: DayTerms, begins: datetime, pauses: list[timedelta]) -> None:
    """`next_at` grows with every step, unless a day is decided by it; `last_date` never goes back."""
    life = _Life(of, begins)
    for pause in (timedelta(0), *pauses):
        life.now += pause
        before = life.subject
        for done in life.passes():
            assert done.next_at >= (before.next_at or done.next_at) or done.closes or done.missed
            life_before = before
            before = after(before, done)
            assert (before.last_date or date.min) >= (life_before.last_date or date.min)
        again = plan(life.subject, of, life.enabled_since, life.now)
        current = Day(life.subject.day, life.subject.opens_at, life.subject.cutoff_at)
        assert again == DayPlan(None, (), False, current, life.subject.next_at or life.now)
        assert again.next_at > life.now


@given(ANY_TERMS, ANY_INSTANT, PAUSES, st.sets(st.integers(0, 29), max_size=5))
def test_days_without_an_outcome_were_over_while_the_window_was_disabled(
    of: DayTerms, begins: datetime, pauses: list[timedelta], disabled: set[int]
) -> None:
    life = _Life(of, begins)
    excused: set[date] = set()
    for number, pause in enumerate((timedelta(0), *pauses)):
        over = life.over()
        life.now += pause
        if number in disabled:
            life.enabled_since = life.now
            excused |= life.over() - over
        for _ in life.passes():
            pass
        assert life.over() - life.outcomes.keys() <= excused


@given(ANY_TERMS, ANY_TERMS, ANY_INSTANT, PAUSES)
@pytest.mark.contract("WIN-1", "WIN-14", "WIN-19")
def test_changed_terms_give_no_day_twice(
    first: DayTerms, second: DayTerms, begins: datetime, pauses: list[timedelta]
) -> None:
    """Terms that change outside of the window count from then on, in any zone."""
    life, moves = _Life(first, begins), [second, first]
    for pause in (timedelta(0), *pauses):
        life.now += pause
        for _ in life.passes():
            pass
        if life.subject.job_id is None or life.subject.last_date == life.subject.day:
            life.terms = moves[0]
            moves.reverse()
            life.subject = added(life.terms, life.now, life.subject.last_date)
        life.succeed()
