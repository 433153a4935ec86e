"""Expressions in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.errors import InvalidSchedule
from oncue.policy.cron import parse
from oncue.policy.cron_words import in_words

SAID = {
    "* * * * *": "every minute",
    "*/5 * * * *": "every 5 minutes",
    "*/10 * * * * *": "every 10 seconds",
    "0 3 * * *": "every day at 03:00",
    "30 2 * * MON-FRI": "at 02:30, Monday to Friday",
    "0 9,17 * * mon,WED": "at 09:00 and 17:00 on Monday and Wednesday",
    "0 30 4 1,15 * *": "at 04:30 on the 1st and 15th",
    "15 * * * *": "every hour, at minute 15",
    "0 */2 * * *": "every 2 hours, at minute 0",
    "*/10 9-17 * * MON-FRI": "every 10 minutes, from 09:00 to 17:59, Monday to Friday",
    "* 3 * * *": "every minute, in hour 3",
    "0 0-5,7 * * *": "at minute 0, in hours 0 to 5 and 7",
    "5,35 8-18/2 * JAN-MAR *": "every 2nd hour from 8 to 18, at minutes 5 and 35, in January to March",
    "0 0 L * *": "at 00:00 on the last day of the month",
    "0 0 LW * *": "at 00:00 on the last weekday of the month",
    "0 0 * * FRI#2": "at 00:00 on the second Friday of the month",
    "0 0 * * 5L": "at 00:00 on the last Friday of the month",
    "0 0 13 * FRI": "at 00:00 on the 13th and on Friday",
    "0 0 */2 * MON": "at 00:00 on every 2nd day of the month, if it is Monday",
    "0 12 1 7 *": "at 12:00 on the 1st in July",
    "0 0 2-8/2 * *": "at 00:00 on every 2nd day from the 2nd to the 8th",
    "@daily": "every day at 00:00",
    "@Weekly": "at 00:00 on Sunday",
    "@every 90s": "every 1m30s",
    "@window 60m retry 10m": "once a day for each subject, within 1h before its due time",
}


@pytest.mark.parametrize("expression", SAID)
def test_an_expression_in_words(expression: str) -> None:
    assert in_words(expression) == SAID[expression]


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(InvalidSchedule):
        in_words("every day")


def field(low: int, high: int, *special: str) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    spans = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    base = st.one_of(st.just("*"), number.map(str), spans)
    stepped = st.tuples(base, st.integers(1, 40)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    term = st.one_of(base, stepped, *(st.just(one) for one in special))
    return st.lists(term, min_size=1, max_size=3).map(",".join)


@given(
    st.tuples(
        field(0, 59), field(0, 59), field(0, 23), field(1, 28, "L", "LW"), field(1, 12, "JAN", "jul"),
        field(0, 7, "TUE", "FRI#2", "5L", "friL"),
    )
)  # fmt: skip
def test_every_expression_has_words(fields: tuple[str, ...]) -> None:
    expression = " ".join(fields)
    try:
        parse(expression)
    except InvalidSchedule:
        return  # it never fires
    assert in_words(expression)
