from datetime import UTC, datetime, timedelta

import pytest

from oncue.policy.moments import instant, moment, utc

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)
NINE = datetime(2030, 1, 31, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2030-01-31T09:00:00Z", NINE),
        ("2030-01-31T10:00+01:00", NINE),
        (" 2030-01-31 09:00 ", NINE),
        ("2030-01-31", NINE.replace(hour=0)),
        ("now", NOW),
        ("-3h", NINE),
        ("-1d", NOW - timedelta(days=1)),
    ],
)
def test_a_moment_is_an_instant_a_date_or_so_long_before_now(text: str, expected: datetime) -> None:
    assert moment(text).at(NOW) == expected


@pytest.mark.parametrize("text", ["", "soon", "-", "-2x", "2h", "2030-13-01", "0001-01-01T00:00+14:00"])
def test_what_is_no_moment_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected an instant such as .* or -7d, not"):
        moment(text)


def test_an_instant_has_a_time_zone_and_comes_in_utc() -> None:
    assert instant(" 2030-01-31T10:00+01:00 ") == NINE
    assert instant("2030-01-31T10:00+01:00").tzinfo is UTC
    for text in ("2030-01-31T09:00", "2030-01-31", "now", "-2h", "", "9999-12-31T23:00-02:00"):
        with pytest.raises(ValueError, match=r"expected an instant with a time zone, such as .*, not"):
            instant(text)


def test_the_edges_of_the_calendar_are_refused_and_do_not_overflow() -> None:
    for text in ("0001-01-01T00:00+14:00", "9999-12-31T23:00-02:00"):
        with pytest.raises(ValueError, match="expected an instant from the year 1 to 9999 in UTC"):
            utc(text)
