from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, timedelta
from time import thread_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncue.errors import InvalidSchedule, OncueError
from oncue.policy.cron import NEVER, Fields, normalised, parse

EPOCH = datetime(1970, 1, 1)
SECOND = timedelta(seconds=1)


def fields(expression: str) -> Fields:
    found = parse(expression)
    assert isinstance(found, Fields)
    return found


def step(expression: str) -> timedelta:
    found = parse(expression)
    assert isinstance(found, timedelta)
    return found


def local(moment: datetime) -> int:
    return (moment - EPOCH) // SECOND


def first(expression: str, count: int, since: datetime) -> list[str]:
    """The next matches, as text."""
    matcher, found, at = fields(expression), [], local(since)
    for _ in range(count):
        at = matcher.ceil(at)
        found.append(f"{EPOCH + timedelta(seconds=at):%a %Y-%m-%d %H:%M:%S}")
        at += 1
    return found


def days_of(expression: str, year: int, month: int) -> list[int]:
    matcher = fields(f"0 0 {expression}")
    return [
        day
        for day in range(1, monthrange(year, month)[1] + 1)
        if matcher.matches(local(datetime(year, month, day)))
    ]  # fmt: skip


@pytest.mark.contract("QUE-6")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/20 * * * *", ["00:00:00", "00:20:00", "00:40:00", "01:00:00"]),
        ("5,50-52 1 * * *", ["01:05:00", "01:50:00", "01:51:00", "01:52:00"]),
        ("10-40/15 2,3 * * *", ["02:10:00", "02:25:00", "02:40:00", "03:10:00"]),
        ("50/4 0,12 * * *", ["00:50:00", "00:54:00", "00:58:00", "12:50:00"]),
        ("7/100 6-8 * * *", ["06:07:00", "07:07:00", "08:07:00"]),
        ("0 */99 * * *", ["00:00:00"]),
        ("*/25 59 23 * * *", ["23:59:00", "23:59:25", "23:59:50"]),
        ("15,45 30 12 * * *", ["12:30:15", "12:30:45"]),
        ("\t 1  \t 2 * * *  ", ["02:01:00"]),
        ("007 0003 * * *", ["03:07:00"]),
    ],
)
def test_times_of_a_day(expression: str, expected: list[str]) -> None:
    found = first(expression, len(expected), datetime(2026, 1, 1))
    assert found == [f"Thu 2026-01-01 {time}" for time in expected]


@pytest.mark.contract("QUE-6")
@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("L * *", [31]),
        ("LW * *", [30]),
        ("l,lw,1 * *", [1, 30, 31]),
        ("* * FRI#2", [9]),
        ("* * 5#5", [30]),
        ("* * THU#1,sat#5", [1, 31]),
        ("* * 7#4", [25]),
        ("* * 5L", [30]),
        ("* * SUNL,0L,7L", [25]),
        ("* * MONL,TUE#1", [6, 26]),
        ("* * 5-7", [2, 3, 4, 9, 10, 11, 16, 17, 18, 23, 24, 25, 30, 31]),
        ("* * 7", [4, 11, 18, 25]),
        ("* * 0,7", [4, 11, 18, 25]),
        ("* * sun", [4, 11, 18, 25]),
        ("* * 5/2", [2, 9, 16, 23, 30]),
        ("* * 7/2", [4, 11, 18, 25]),
        ("* * */3", [3, 4, 7, 10, 11, 14, 17, 18, 21, 24, 25, 28, 31]),
        ("* * 0-7/7", [4, 11, 18, 25]),
        ("*/10 * *", [1, 11, 21, 31]),
        ("1-31/10 jan-Dec *", [1, 11, 21, 31]),
        ("* FEB *", []),
        ("13 * FRI", [2, 9, 13, 16, 23, 30]),
        ("*/2 * FRI", [9, 23]),
        ("13,16 * */5", [16]),
        ("13,16 * *,FRI", [13, 16]),
        ("*,1 * FRI", [2, 9, 16, 23, 30]),
        ("31 * MON#1", [5, 31]),
        ("L * MON#1", [5, 31]),
    ],
)
def test_days_of_january_2026_which_begins_on_a_thursday(days: str, expected: list[int]) -> None:
    assert days_of(days, 2026, 1) == expected


@pytest.mark.parametrize(
    ("year", "month", "expected"),
    [(2026, 5, 29), (2026, 2, 27), (2024, 2, 29), (2026, 8, 31), (2025, 11, 28), (2032, 2, 27)],
)
def test_the_last_weekday_of_a_month(year: int, month: int, expected: int) -> None:
    assert days_of("LW * *", year, month) == [expected]


@pytest.mark.contract("QUE-6")
@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("@yearly", ["Fri 2027-01-01 00:00:00", "Sat 2028-01-01 00:00:00"]),
        ("@annually", ["Fri 2027-01-01 00:00:00", "Sat 2028-01-01 00:00:00"]),
        ("@monthly", ["Wed 2026-07-01 00:00:00", "Sat 2026-08-01 00:00:00"]),
        ("@weekly", ["Sun 2026-06-07 00:00:00", "Sun 2026-06-14 00:00:00"]),
        ("@daily", ["Wed 2026-06-03 00:00:00", "Thu 2026-06-04 00:00:00"]),
        ("@midnight", ["Wed 2026-06-03 00:00:00", "Thu 2026-06-04 00:00:00"]),
        (" @HOURLY\t", ["Tue 2026-06-02 12:00:00", "Tue 2026-06-02 13:00:00"]),
    ],
)
def test_aliases(alias: str, expected: list[str]) -> None:
    assert first(alias, 2, datetime(2026, 6, 2, 11, 30)) == expected


@pytest.mark.contract("QUE-6")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("@every 90s", timedelta(seconds=90)),
        ("@EVERY   1h30m", timedelta(minutes=90)),
        ("@every 1.5h", timedelta(minutes=90)),
        ("@every .5h", timedelta(minutes=30)),
        ("@every 2.m", timedelta(minutes=2)),
        ("@every 1d2h3m4s5ms6us", timedelta(1, 4, 6, 5, 3, 2)),
        ("@every 1s6µs", timedelta(seconds=1, microseconds=6)),
        ("@every 1s6μs", timedelta(seconds=1, microseconds=6)),
        ("@every 1000000000ns", timedelta(seconds=1)),
        ("@every 1000ms", timedelta(seconds=1)),
        ("@every " + "100ms" * 10, timedelta(seconds=1)),
        ("@every 1s500ns", timedelta(seconds=1)),
        ("@every 1s501ns", timedelta(seconds=1, microseconds=1)),
        ("@every 36525d", timedelta(days=36525)),
        ("@every " + "0" * 200 + "1h", timedelta(hours=1)),
    ],
)
def test_every(expression: str, expected: timedelta) -> None:
    assert step(expression) == expected


REFUSED = [
    ("", 1, "five fields"),
    (" \t ", 1, "five fields"),
    ("61 * * * *", 1, "expected a minute from 0 to 59, not '61'"),
    ("  61 * * * *", 3, "minute"),
    ("* 24 * * *", 3, "expected an hour from 0 to 23, not '24'"),
    ("60 * * * * *", 1, "expected a second from 0 to 59, not '60'"),
    ("* * 0 * *", 5, "expected a day of the month from 1 to 31, not '0'"),
    ("* * 32 * *", 5, "day of the month"),
    ("* * * 13 *", 7, "expected a month from 1 to 12 or JAN..DEC, not '13'"),
    ("* * * 0 *", 7, "month"),
    ("* * * * 8", 9, "expected a weekday from 0 to 7 or SUN..SAT, not '8'"),
    ("* * * * FUN", 9, "not 'FUN'"),
    ("* * * MON *", 7, "month"),
    ("MON * * * *", 1, "minute"),
    ("1,2,x * * * *", 5, "not 'x'"),
    ("1,,2 * * * *", 3, "not nothing"),
    (", * * * *", 1, "not nothing"),
    ("1-70 * * * *", 3, "not '70'"),
    ("1- * * * *", 3, "not nothing"),
    ("-1 * * * *", 1, "not nothing"),
    ("1-2-3 * * * *", 3, "not '2-3'"),
    ("+1 * * * *", 1, "minute"),
    ("1.5 * * * *", 1, "minute"),
    ("*-5 * * * *", 1, "not '*'"),
    ("*5 * * * *", 1, "not '*5'"),
    ("*/0 * * * *", 3, "expected a step of at least 1, not '0'"),
    ("*/ * * * *", 3, "step of at least 1, not nothing"),
    ("*/-1 * * * *", 3, "step"),
    ("*/2/3 * * * *", 3, "step"),
    ("/5 * * * *", 1, "minute"),
    ("* * L/2 * *", 5, "L stands alone"),
    ("* * L-3 * *", 5, "L stands alone"),
    ("* * 15W * *", 5, "LW"),
    ("* * W * *", 5, "LW"),
    ("* * ? * *", 5, "write *"),
    ("* * * * ?", 9, "write *"),
    ("* * * * L", 9, "FRIL"),
    ("L * * * *", 1, "only day-of-month and day-of-week know L"),
    ("* * 1#2 * *", 5, "only day-of-week knows #"),
    ("* * * * 1#0", 11, "from 1 to 5"),
    ("* * * * MON#6", 13, "from 1 to 5"),
    ("* * * * 1#", 11, "not nothing"),
    ("* * * * #2", 9, "weekday"),
    ("* * * * 8#2", 9, "weekday"),
    ("* * * * 9L", 9, "weekday"),
    ("* * * * 1-3L", 11, "weekday"),
    ("* * * * 1L/2", 9, "weekday"),
    ("* * * * FRI-MON", 9, "write FRI-SAT,SUN-MON"),
    ("* * * * FRI-SUN", 9, "write FRI-SAT,SUN"),
    ("* * * * sat-mon", 9, "not 'sat-mon': write SAT,SUN-MON"),
    ("* * * * 5-1", 9, "write FRI-SAT,SUN-MON"),
    ("* * * * 7-1", 9, "write SUN-MON"),
    ("* * * NOV-FEB *", 7, "write NOV-DEC,JAN-FEB"),
    ("* 22-6 * * *", 3, "write 22-23,0-6"),
    ("50-10 * * * *", 1, "write 50-59,0-10"),
    ("* * * *", 8, "not 4"),
    ("*", 2, "not 1"),
    ("0 0 0 1 1 * 2026", 13, "a year is not known"),
    ("* * * * * * * *", 13, "not 8"),
    ("*\n* * * *", 10, "not 4"),
    ("* * * * *\n", 9, "weekday"),
    ("* * * * ſun", 9, "unexpected character 'ſ'"),
    ("٣ * * * *", 1, "unexpected character"),
    ("* * * * \ud800", 9, "unexpected character"),
    ("0\0 * * * *", 1, "minute"),
    ("0 0 31 2 *", 5, "never fires"),
    ("0 0 30 2 *", 5, "never fires"),
    ("0 0 31 2,4,6,9,11 *", 5, "never fires"),
    ("0 0 30,31 FEB */2", 5, "never fires"),
    ("0 0 1 * * * *", 13, "not 7"),
    ("@reboot", 1, "outlives every boot"),
    ("  @never", 3, "@hourly"),
    ("@", 1, "@hourly"),
    ("@wee\u212aly", 5, "unexpected character"),
    ("@daily 5", 8, "nothing after @daily"),
    ("@every", 7, "such as @every 1h30m"),
    ("@every 1h 30m", 11, "without blanks"),
    ("@every 1h30", 10, "not '30'"),
    ("@every h", 8, "not 'h'"),
    ("@every 5x", 8, "not '5x'"),
    ("@every -5s", 8, "not '-5s'"),
    ("@every 5S", 8, "not '5S'"),
    ("@every ٣s", 8, "expected a duration"),
    ("@every 0s", 8, "from 1 second"),
    ("@every 999999999ns", 8, "from 1 second"),
    ("@every 999ms", 8, "from 1 second"),
    ("@every 36525d1ns", 8, "100 years"),
    ("@every " + "9" * 200 + "d", 8, "100 years"),
    ("9" * 200 + " * * * *", 1, "minute"),
    ("*/" + "9" * 200 + " * * * x", 210, "weekday"),
    (" " * 251 + "* * * * *", 256, "at most 255 characters, not 260"),
]


@pytest.mark.contract("QUE-6")
@pytest.mark.parametrize(("expression", "position", "said"), REFUSED, ids=[repr(text[:30]) for text, _, _ in REFUSED])
def test_refusals_say_what_is_wrong_and_where(expression: str, position: int, said: str) -> None:
    with pytest.raises(InvalidSchedule, match=re.escape(said)) as caught:
        parse(expression)
    assert caught.value.position == position
    assert caught.value.field == "expression"
    assert str(caught.value).startswith("expression: ")
    assert str(caught.value).endswith(f"(at position {position})")
    assert len(str(caught.value)) < 250
    assert isinstance(caught.value, OncueError)


def test_the_whole_message() -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse("61 * * * *")
    assert str(caught.value) == "expression: expected a minute from 0 to 59, not '61' (at position 1)"


@pytest.mark.parametrize(
    "expression",
    ["0 0 29 2 *", "0 0 29 2 */7", "0 0 * 2 MON#5", "0 0 31 2 MON", "0 0 31 1,2 *", "0 0 30 * 0", "0 0 L 2 *"],
)
def test_what_fires_rarely_is_not_refused(expression: str) -> None:
    assert fields(expression).ceil(local(datetime(2026, 1, 1))) < NEVER


@pytest.mark.parametrize(
    ("expression", "wild"),
    [
        ("0 0 * * *", False),
        ("*/5 0 * * *", True),
        ("0 */2 * * *", True),
        ("0 *,1 * * *", True),
        ("0-59 0-23 * * *", False),
        ("* 0 0 * * *", True),
        ("0 0 0 * * *", False),
        ("0 * 0 * * *", True),
        ("0 0 * * * *", True),
        ("@hourly", True),
        ("@daily", False),
    ],
)
def test_a_star_in_the_time_makes_it_a_rhythm(expression: str, wild: bool) -> None:
    assert fields(expression).wild is wild


def test_blanks_are_normalised() -> None:
    assert normalised(" \t1  2\t* *   * ") == "1 2 * * *"


def refused_at(text: str) -> int | None:
    try:
        parse(text)
    except InvalidSchedule as error:
        return error.position or -1
    return None


@given(st.text() | st.text("0123456789*/-,#LW@ \tMONFRI", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    position = refused_at(text)
    assert position is None or 1 <= position <= len(text) + 1


@pytest.mark.parametrize("text", ["9" * 1_000_000, " " * 1_000_000, "*," * 500_000, "@every " + "1s" * 500_000])
def test_a_megabyte_is_refused_at_once(text: str) -> None:
    started = thread_time()
    with pytest.raises(InvalidSchedule):
        parse(text)
    assert thread_time() - started < 0.01


MATCHERS: list[tuple[str, Callable[[datetime], bool]]] = [
    ("*/7 * * * *", lambda at: at.minute % 7 == 0),
    ("30 2 * * *", lambda at: (at.hour, at.minute) == (2, 30)),
    ("5-50/9 3,21 */3 * *", lambda at: at.minute in range(5, 51, 9) and at.hour in (3, 21) and at.day % 3 == 1),
    ("0 0 1 1 *", lambda at: (at.hour, at.minute, at.day, at.month) == (0, 0, 1, 1)),
    ("59 23 L * *", lambda at: (at.hour, at.minute) == (23, 59) and (at + timedelta(1)).day == 1),
    ("1 1 31 * MON", lambda at: (at.hour, at.minute) == (1, 1) and (at.day == 31 or at.weekday() == 0)),
    ("1 1 * 2-4 MON", lambda at: (at.hour, at.minute) == (1, 1) and at.month in (2, 3, 4) and at.weekday() == 0),
    ("0 12 * * TUE#5", lambda at: (at.hour, at.minute) == (12, 0) and at.weekday() == 1 and at.day > 28),
    ("0 12 29 2 *", lambda at: (at.hour, at.minute) == (12, 0) and (at.month, at.day) == (2, 29)),
]
MINUTE = timedelta(minutes=1)
YEAR = [datetime(2027, 12, 1) + number * MINUTE for number in range(92 * 1440)]


@pytest.mark.parametrize(("expression", "matches"), MATCHERS, ids=[text for text, _ in MATCHERS])
def test_searching_agrees_with_looking_at_every_minute(expression: str, matches: Callable[[datetime], bool]) -> None:
    matcher, start, end = fields(expression), local(YEAR[0]), local(YEAR[-1]) + 60
    expected = [local(at) for at in YEAR if matches(at)]
    upwards, at = [], matcher.ceil(start)
    while at < end:
        upwards.append(at)
        at = matcher.ceil(at + 1)
    downwards, at = [], matcher.floor(end - 1)
    while at >= start:
        downwards.append(at)
        at = matcher.floor(at - 1)
    assert upwards == expected
    assert downwards[::-1] == expected
    for place in range(start, end, 86_400 * 5 + 4_321):
        assert matcher.count(place, end) == sum(at >= place for at in expected)
        assert matcher.count(start, place) == sum(at < place for at in expected)
        assert matcher.count(place, place) == matcher.count(place, place - 1) == 0


@given(
    st.sampled_from(["* * * * * *", "7-40/3 * * * * *", "59 59 23 L * *", "5 0 0 * * 1-5", "0 30 1,2 LW * SUN#2"]),
    st.integers(0, 250 * 365 * 86_400),
)
def test_a_match_is_its_own_ceiling_and_floor_and_is_counted_once(expression: str, at: int) -> None:
    matcher = fields(expression)
    above, below = matcher.ceil(at), matcher.floor(at)
    assert below <= at <= above
    assert matcher.matches(above)
    assert matcher.floor(above) == matcher.ceil(above) == above
    if below >= 0:
        assert matcher.matches(below)
    assert matcher.count(at, above + 1) == 1
    assert matcher.count(at, above) == 0
    assert matcher.count(below, at) == (0 if below == at else 1)
    assert matcher.matches(at) is (above == at)


def test_the_calendar_ends() -> None:
    rare = fields("0 0 29 2 *")
    assert rare.ceil(local(datetime(9996, 2, 29))) == local(datetime(9996, 2, 29))
    assert rare.ceil(local(datetime(9996, 3, 1))) == NEVER
    assert rare.floor(local(datetime(1970, 1, 1))) == -NEVER
    assert fields("* * * * *").ceil(local(datetime(9999, 12, 31, 23, 59))) == local(datetime(9999, 12, 31, 23, 59))


@settings(max_examples=50)
@given(st.dates(date(1970, 1, 1), date(2400, 1, 1)), st.sampled_from(["0 0 29 2 */7", "0 0 * 2 MON#5", "0 0 29 FEB *"]))
def test_rare_days_are_found_quickly(day: date, expression: str) -> None:
    matcher, at = fields(expression), local(datetime.combine(day, datetime.min.time()))
    started = thread_time()
    matcher.ceil(at)
    assert thread_time() - started < 0.05
