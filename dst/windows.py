"""Daily windows around a transition: when each date's window opens and is over, and what date it is.

The oracle goes through a timeline, which knows what the clocks show at every minute. The cutoff of a date is the first
instant at which they show the due time on that date; if they never do, the instant at which they jump over it. A date
that they never show at all has no window. A window opens so long before its cutoff, in time that passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import NamedTuple

from dst.compare import Findings
from dst.oracle import Timeline
from dst.transitions import Transition

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
LENGTHS = (timedelta(minutes=1), timedelta(hours=1), timedelta(hours=24))
EVERY_SO_OFTEN = timedelta(hours=2)


class Opened(NamedTuple):
    """A window of one date."""

    date: date
    opens_at: datetime
    cutoff_at: datetime


class Asked(NamedTuple):
    """Whose windows: of subjects with this due time, in this zone."""

    due: time
    zone: str
    length: timedelta

    def __str__(self) -> str:
        return f"window of {self.length} before {self.due:%H:%M} in {self.zone!r}"


class Answers(NamedTuple):
    """What is asked: the window of a date, the windows from a date on, and the date at an instant."""

    window: Callable[[Asked, date], Opened | None]
    following: Callable[[Asked, date], Iterator[Opened]]
    date_at: Callable[[str, datetime], date]


class Calendar:
    """The dates of a timeline, without the first and the last, which it may not show as a whole."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        shown = {shown.date() for shown in timeline.local.values()}
        self.shown = shown - {min(shown), max(shown)}
        whole = (max(self.shown) - min(self.shown)).days + 1
        self.dates = [min(self.shown) + number * DAY for number in range(whole)]

    def window(self, day: date, due: time, length: timedelta) -> Opened | None:
        if day not in self.shown:
            return None
        wanted = datetime.combine(day, due)
        instants = self._timeline.happens.get(wanted)
        cutoff_at = instants[0] if instants else self._timeline.swallowed[wanted]
        return Opened(day, cutoff_at - length, cutoff_at)

    def date_at(self, instant: datetime) -> date:
        return self._timeline.local[instant].date()

    def probes(self) -> list[datetime]:
        """Every so often, and where the date changes, forward or back."""
        whole = [instant for instant, shown in self._timeline.local.items() if shown.date() in self.shown]
        changes = [pair for pair in pairwise(whole) if self.date_at(pair[0]) != self.date_at(pair[1])]
        return [*whole[:: EVERY_SO_OFTEN // MINUTE], *(instant for pair in changes for instant in pair)]


def due_times(transition: Transition) -> list[time]:
    """Before, in, at both edges of and after the gap or fold, and around midnight and noon."""
    low, high = sorted((transition.leaves, transition.enters))
    edges = (low, low + (high - low) // 2, high)
    near = [edge + sign * MINUTE for edge in edges for sign in (-1, 0, 1)]
    fixed = [time(0, 0), time(0, 1), time(0, 30), time(2, 30), time(9, 0), time(12, 0), time(23, 30), time(23, 59)]
    return sorted({*(one.replace(second=0, microsecond=0).time() for one in near), *fixed})


def compare(
    calendar: Calendar, zones: Sequence[str], dues: Sequence[time], answers: Answers, findings: Findings
) -> None:
    """The windows of every date of the calendar, one by one and in a row, and the dates themselves."""
    for zone in zones:
        for due in dues:
            for length in LENGTHS:
                _ask(calendar, Asked(due, zone, length), answers, findings)
    for instant in calendar.probes():
        for zone in zones:
            question = f"date in {zone!r} at {instant:%Y-%m-%dT%H:%MZ}"
            _judge(findings, question, calendar.date_at(instant), answers.date_at(zone, instant))


def _ask(calendar: Calendar, asked: Asked, answers: Answers, findings: Findings) -> None:
    expected = [calendar.window(day, asked.due, asked.length) for day in calendar.dates]
    for day, window in zip(calendar.dates, expected, strict=True):
        _judge(findings, f"{asked} on {day}", window, answers.window(asked, day))
    row = [window for window in expected if window is not None]
    following = answers.following(asked, calendar.dates[0])
    _judge(findings, f"{asked} from {calendar.dates[0]}", row, [next(following) for _ in row])


def _judge(findings: Findings, question: str, expected: object, found: object) -> None:
    findings.compared += 1
    if expected != found:
        findings.differences.append(f"{question}: expected {expected}, not {found}")
