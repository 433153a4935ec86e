"""Daily windows around clock changes beside the oracle of `make dst`: a spread of zones here, all of them there."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from dst.examine import examine_windows
from dst.oracle import Timeline
from dst.subject import WINDOWS
from dst.windows import Answers, Asked, Calendar, Opened
from tests.policy.test_dst_oracle import MINUTE, PLACES, transitions

HOUR = timedelta(hours=1)
# Clocks that jump over midnight, over a whole date, and to midnight.
MIDNIGHTS = [
    ("America/Nuuk", datetime(2026, 3, 1), 8),
    ("America/Santiago", datetime(2026, 4, 1), 6),
    ("Asia/Beirut", datetime(2027, 3, 1), 8),
    ("Pacific/Apia", datetime(2011, 12, 1), 1),
]


@pytest.mark.contract("WIN-14", "WIN-19")
@pytest.mark.parametrize(("zone", "start", "months"), [*PLACES, *MIDNIGHTS])
def test_windows_do_what_the_oracle_says(zone: str, start: datetime, months: int) -> None:
    found = transitions(zone, start, months)
    assert found
    for transition in found:
        report = examine_windows([zone], transition, WINDOWS)
        assert report.differences == []
        assert report.compared["windows"] > 100


@pytest.mark.parametrize(
    ("zone", "day", "due", "cutoff_at"),
    [
        ("Europe/Berlin", "2026-03-29", "02:30", "2026-03-29T01:00+00:00"),
        ("Europe/Berlin", "2026-10-25", "02:30", "2026-10-25T00:30+00:00"),
        ("America/Nuuk", "2026-03-28", "23:30", "2026-03-29T01:00+00:00"),
        ("Pacific/Apia", "2011-12-30", "09:00", None),
    ],
)
def test_the_oracle_agrees_with_a_human(zone: str, day: str, due: str, cutoff_at: str | None) -> None:
    around = datetime.fromisoformat(f"{day}T12:00+00:00")
    calendar = Calendar(Timeline(ZoneInfo(zone), around - 60 * HOUR, around + 60 * HOUR, MINUTE))
    found = calendar.window(date.fromisoformat(day), time.fromisoformat(due), HOUR)
    cutoff = None if cutoff_at is None else datetime.fromisoformat(cutoff_at)
    assert found == (None if cutoff is None else Opened(date.fromisoformat(day), cutoff - HOUR, cutoff))


def _by_wall_clock(asked: Asked, day: date) -> Opened | None:
    """The opening is worked out on the wall: on the days of a clock change the window has another length."""
    found = WINDOWS.window(asked, day)
    if found is None:
        return None
    shown = found.cutoff_at.astimezone(ZoneInfo(asked.zone)) - asked.length
    return found._replace(opens_at=shown.astimezone(found.cutoff_at.tzinfo))


def _second_of_two(asked: Asked, day: date) -> Opened | None:
    local = datetime.combine(day, asked.due, ZoneInfo(asked.zone)).replace(fold=1)
    cutoff_at = datetime.fromtimestamp(local.timestamp(), UTC)
    return Opened(day, cutoff_at - asked.length, cutoff_at)


@pytest.mark.parametrize(
    "answers",
    [
        WINDOWS._replace(window=_by_wall_clock),
        WINDOWS._replace(window=_second_of_two),
        WINDOWS._replace(date_at=lambda zone, instant: instant.date()),
    ],
    ids=["the opening by the wall clock", "the second of two", "the date in UTC"],
)
def test_a_wrong_answer_is_a_difference(answers: Answers) -> None:
    for transition in transitions("Europe/Berlin", datetime(2026, 10, 1), 1):
        report = examine_windows(["Europe/Berlin"], transition, answers)
        assert report.differing["windows"] > 0
