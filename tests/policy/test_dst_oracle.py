"""Schedules around clock changes beside the oracle of `make dst`: a spread of zones here, all of them there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dst import oracle
from dst.compare import Trigger
from dst.examine import Build, Question, Surroundings, examine
from dst.oracle import Policy, Slots, Timeline
from dst.subject import build
from dst.transitions import Transition, find

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)

# A zone, and the first day of the months in which to look for its transitions.
PLACES = [
    ("Europe/Berlin", datetime(2026, 3, 1), 1),
    ("America/New_York", datetime(2030, 3, 1), 1),
    ("America/St_Johns", datetime(2027, 3, 1), 1),
    ("Australia/Lord_Howe", datetime(2029, 3, 1), 8),
    ("Africa/Casablanca", datetime(2026, 2, 1), 2),
    ("Antarctica/Troll", datetime(2025, 3, 1), 8),
    ("Antarctica/Casey", datetime(2020, 10, 1), 6),
    ("America/Asuncion", datetime(2023, 3, 1), 8),
    ("Pacific/Chatham", datetime(2035, 3, 1), 7),
    ("Africa/Juba", datetime(2021, 1, 1), 2),
    ("America/Havana", datetime(2036, 11, 1), 1),
]
# An hour and half an hour with all expressions, the others with the main ones.
IN_FULL = {"Europe/Berlin", "Australia/Lord_Howe"}


def transitions(zone: str, start: datetime, months: int) -> tuple[Transition, ...]:
    begin = start.replace(tzinfo=UTC)
    return find(zone, begin, begin + months * 31 * DAY).transitions


@pytest.mark.contract("QUE-6", "SLOT-16")
@pytest.mark.parametrize(("zone", "start", "months"), PLACES)
def test_schedules_do_what_the_oracle_says(zone: str, start: datetime, months: int) -> None:
    found = transitions(zone, start, months)
    assert found
    for transition in found:
        report = examine([zone], transition, build, short=zone not in IN_FULL)
        assert report.differences == []
        assert min(report.compared[kind] for kind in ("debian", "once", "all", "every")) > 100


HAND_MADE = [
    # Berlin's clocks go from 02:00 to 03:00 at 01:00 UTC.
    ("30 2 * * *", "debian", "2026-03-29", {"01:00": "gap"}),
    ("0,30 2 * * *", "debian", "2026-03-29", {"01:00": "gap"}),
    ("30 2,3 * * *", "debian", "2026-03-29", {"01:00": "gap", "01:30": None}),
    ("0 2,3 * * *", "debian", "2026-03-29", {"01:00": "gap"}),
    ("30 2 * * *", "once", "2026-03-29", {}),
    ("30 2 * * *", "all", "2026-03-29", {}),
    ("*/30 2 * * *", "debian", "2026-03-29", {}),
    ("30 2 * * mon", "debian", "2026-03-29", {}),
    ("30 2 29 3 mon", "debian", "2026-03-29", {"01:00": "gap"}),
    ("30 2 * * sunL", "debian", "2026-03-29", {"01:00": "gap"}),
    ("0 */6 * * *", "debian", "2026-03-29", {"04:00": None, "10:00": None, "16:00": None, "22:00": None}),
    # And from 03:00 back to 02:00 at 01:00 UTC.
    ("30 2 * * *", "debian", "2026-10-25", {"00:30": "first"}),
    ("30 2 * * *", "once", "2026-10-25", {"00:30": "first"}),
    ("30 2 * * *", "all", "2026-10-25", {"00:30": "first", "01:30": "second"}),
    ("*/30 2 * * *", "once", "2026-10-25", {"00:00": "first", "00:30": "first"}),
    ("30 2/22 * * 0#4", "debian", "2026-10-25", {"00:30": "first"}),
    ("0 3 * * *", "debian", "2026-10-25", {"02:00": None}),
]


@pytest.mark.contract("SLOT-16")
@pytest.mark.parametrize(("expression", "policy", "day", "expected"), HAND_MADE)
def test_the_oracle_agrees_with_a_human(
    expression: str, policy: Policy, day: str, expected: dict[str, str | None]
) -> None:
    start = datetime.fromisoformat(f"{day}T00:00+00:00")
    timeline = Timeline(ZoneInfo("Europe/Berlin"), start - DAY, start + 2 * DAY, MINUTE)
    fields = oracle.fields(expression)
    slots = oracle.slots(fields, oracle.matching(fields, timeline), timeline, policy)
    assert {f"{slot:%H:%M}": mark for slot, mark in slots.items() if start <= slot < start + DAY} == expected


class Listed:
    """A trigger that knows its slots by heart."""

    def __init__(self, slots: Slots) -> None:
        self.marks = slots
        self.slots = sorted(slots)

    def after(self, instant: datetime) -> datetime | None:
        place = bisect_right(self.slots, instant)
        return self.slots[place] if place < len(self.slots) else None

    def latest(self, instant: datetime) -> datetime | None:
        place = bisect_right(self.slots, instant)
        return self.slots[place - 1] if place else None

    def count(self, after: datetime, until: datetime) -> int:
        return bisect_right(self.slots, until) - bisect_right(self.slots, after)

    def has(self, instant: datetime) -> bool:
        return instant in self.marks

    def mark(self, instant: datetime) -> str | None:
        return self.marks.get(instant)


class CountsOneTooMany(Listed):
    def count(self, after: datetime, until: datetime) -> int:
        return bisect_right(self.slots, until) - bisect_left(self.slots, after)


class LatestIsBefore(Listed):
    def latest(self, instant: datetime) -> datetime | None:
        place = bisect_left(self.slots, instant)
        return self.slots[place - 1] if place else None


class HasEveryMinute(Listed):
    def has(self, instant: datetime) -> bool:
        return not instant.second and not instant.microsecond


class StandsStill(Listed):
    def after(self, instant: datetime) -> datetime | None:
        place = bisect_left(self.slots, instant)
        return self.slots[place] if place < len(self.slots) else None


class NeverMarks(Listed):
    def mark(self, instant: datetime) -> str | None:
        return None


class Refuses(Listed):
    def after(self, instant: datetime) -> datetime | None:
        raise OverflowError("no such day")


def by_heart(transition: Transition, kind: type[Listed] = Listed, policy: Policy | None = None) -> Build:
    """The oracle as the trigger under test, perhaps with another policy than the one asked for."""
    surroundings = Surroundings("Europe/Berlin", transition)

    def build(asked: Question) -> Trigger:
        if asked.expression.startswith("@every"):
            return kind(oracle.every(asked.expression, asked.anchor, transition.at + 2 * DAY))
        timeline = surroundings.seconds if len(asked.expression.split()) == 6 else surroundings.minutes
        fields = oracle.fields(asked.expression)
        return kind(oracle.slots(fields, oracle.matching(fields, timeline), timeline, policy or asked.policy))

    return build


GAP, FOLD = (transitions("Europe/Berlin", datetime(2026, month, 1), 1)[0] for month in (3, 10))


@pytest.mark.parametrize("transition", [GAP, FOLD])
def test_a_right_trigger_shows_no_difference(transition: Transition) -> None:
    assert examine(["Europe/Berlin"], transition, by_heart(transition)).differences == []


@pytest.mark.parametrize("kind", [CountsOneTooMany, LatestIsBefore, HasEveryMinute, StandsStill, NeverMarks, Refuses])
def test_a_wrong_answer_is_reported(kind: type[Listed]) -> None:
    report = examine(["Europe/Berlin"], FOLD, by_heart(FOLD, kind), short=True)
    assert min(report.differing[policy] for policy in oracle.POLICIES) > 0


@pytest.mark.parametrize(
    ("transition", "asked", "done", "question", "words"),
    [
        (GAP, "debian", "once", "'30 2 * * *'", "walking after: lacks 2026-03-29T01:00:00Z"),
        (FOLD, "debian", "all", "'30 2 * * *'", "walking latest: invents 2026-10-25T01:30:00Z"),
        (FOLD, "all", "once", "'0 * * * *'", "has(2026-10-25T01:00:00Z): expected True, got False"),
        (FOLD, "once", "all", "'*/20 30 2 * * *'", "walking after: invents 2026-10-25T01:30:00Z"),
    ],
)
def test_a_wrong_policy_is_reported_with_all_that_is_needed_to_see_it(
    transition: Transition, asked: Policy, done: Policy, question: str, words: str
) -> None:
    report = examine(["Europe/Berlin"], transition, by_heart(transition, policy=done), short=True)
    found = [line for line in report.differences if f"{question}, tz='Europe/Berlin', dst={asked!r}" in line]
    assert any(words in line and str(transition) in line for line in found)
    assert report.differing["every"] == 0
