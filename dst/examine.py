"""One transition of one set of rules: every expression, every policy, every zone that keeps these rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from dst import oracle, windows
from dst.cases import WIDE, cron_cases, every_cases, main_cases, probes, seconds_reach
from dst.compare import Findings, Trigger, Window, compare
from dst.oracle import POLICIES, Policy, Slots, Timeline
from dst.transitions import Transition
from dst.windows import Answers, Calendar

# How far from a window a local time in it may happen again: no clock jumps by more, not even over the date line.
MARGIN = timedelta(hours=26)
LONG_AGO = timedelta(days=30)

YEAR_EXPRESSIONS = (
    "0 0 * * *",
    "30 2 * * *",
    "*/30 1-3 * * *",
    "15,45 0-3,23 * * *",
    "0 */6 * * *",
    "30 * * * 0",
    "20 1 1,L * sun#2",
    "0 0 29-31 * *",
)
YEAR_DUE_TIMES = (time(0, 0), time(0, 30), time(2, 30), time(9, 0), time(23, 30))


@dataclass(frozen=True)
class Question:
    """What makes the trigger under test."""

    expression: str
    zone: str
    policy: Policy
    anchor: datetime

    def __str__(self) -> str:
        return f"trigger(cron({self.expression!r}, tz={self.zone!r}, dst={self.policy!r}), {self.anchor.isoformat()})"


Build = Callable[[Question], Trigger]


@dataclass
class Report:
    """What came of it: answers compared and differing by policy, and the differences in words."""

    compared: Counter[str] = field(default_factory=Counter)
    differing: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def add(self, policy: str, findings: Findings, where: str) -> None:
        self.compared[policy] += findings.compared
        self.differing[policy] += len(findings.differences)
        self.differences += [f"{where} | {difference}" for difference in findings.differences]

    def merge(self, other: Report) -> None:
        self.compared += other.compared
        self.differing += other.differing
        self.differences += other.differences


class Surroundings:
    """The time around a transition, looked at once for all expressions."""

    def __init__(self, zone: str, transition: Transition) -> None:
        self._zone = ZoneInfo(zone)
        self._transition = transition

    @cached_property
    def minutes(self) -> Timeline:
        return self._timeline(WIDE + MARGIN, timedelta(minutes=1))

    @cached_property
    def seconds(self) -> Timeline:
        return self._timeline(seconds_reach(self._transition) + self._transition.jump, timedelta(seconds=1))

    def _timeline(self, reach: timedelta, step: timedelta) -> Timeline:
        return Timeline(self._zone, self._transition.at - reach, self._transition.at + reach, step)


def examine(names: Sequence[str], transition: Transition, build: Build, short: bool = False) -> Report:
    """All expressions for the first of several zones that keep the same time, the main ones for the others.

    With `short` the main ones for all.
    """
    main = main_cases(transition)
    surroundings = Surroundings(names[0], transition)
    report = Report()
    for case in main if short else dict.fromkeys([*main, *cron_cases(transition)]):
        timeline = surroundings.seconds if case.seconds else surroundings.minutes
        window = _window(transition, case.reach)
        for policy, slots in _by_policy(case.expression, timeline):
            for name in names if case in main else names[:1]:
                asked = Question(case.expression, name, policy, window.start - LONG_AGO)
                report.add(policy, _ask(asked, slots, window, build), f"{transition} | {asked}")
    for every in every_cases(transition):
        asked = Question(every.expression, names[0], POLICIES[0], every.anchor)
        window = _window(transition, every.reach)
        slots = oracle.every(every.expression, every.anchor, window.end)
        report.add("every", _ask(asked, slots, window, build), f"{transition} | {asked}")
    return report


def examine_year(name: str, year: int, build: Build) -> Report:
    """A whole year in one window: counts that run over many days and over several transitions."""
    start, *months = (datetime(year, month, 1, tzinfo=UTC) for month in range(1, 13))
    window = Window(start, start.replace(year=year + 1), tuple(months))
    timeline = Timeline(ZoneInfo(name), window.start - MARGIN, window.end + MARGIN, timedelta(minutes=1))
    report = Report()
    for expression in YEAR_EXPRESSIONS:
        for policy, slots in _by_policy(expression, timeline):
            asked = Question(expression, name, policy, window.start - LONG_AGO)
            report.add(policy, _ask(asked, slots, window, build), f"{year} | {asked}")
    return report


def examine_windows(names: Sequence[str], transition: Transition, answers: Answers) -> Report:
    """The windows of the days around a transition, for every zone that keeps the same time."""
    calendar = Calendar(Surroundings(names[0], transition).minutes)
    return _windows(calendar, names, windows.due_times(transition), answers, str(transition))


def examine_windows_of_year(name: str, year: int, answers: Answers) -> Report:
    """The windows of every date of a year."""
    start = datetime(year, 1, 1, tzinfo=UTC)
    ends = start - MARGIN, start.replace(year=year + 1) + MARGIN
    calendar = Calendar(Timeline(ZoneInfo(name), *ends, timedelta(minutes=1)))
    return _windows(calendar, [name], YEAR_DUE_TIMES, answers, str(year))


def _windows(calendar: Calendar, names: Sequence[str], dues: Sequence[time], answers: Answers, where: str) -> Report:
    findings, report = Findings(), Report()
    try:
        windows.compare(calendar, names, dues, answers, findings)
    except Exception as error:
        findings.differences.append(f"raises {type(error).__name__}: {error}")
    report.add("windows", findings, where)
    return report


def _by_policy(expression: str, timeline: Timeline) -> Iterator[tuple[Policy, Slots]]:
    fields = oracle.fields(expression)
    times = oracle.matching(fields, timeline)
    for policy in POLICIES:
        yield policy, oracle.slots(fields, times, timeline, policy)


def _window(transition: Transition, reach: timedelta) -> Window:
    return Window(transition.at - reach, transition.at + reach, probes(transition, reach), transition.jump)


def _ask(asked: Question, slots: Slots, window: Window, build: Build) -> Findings:
    """A trigger that raises differs, whatever was expected."""
    findings = Findings()
    try:
        compare(build(asked), slots, window, findings)
    except Exception as error:
        findings.differences.append(f"raises {type(error).__name__}: {error}")
    return findings
