"""What an explanation is made of, and how it words instants and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from oncue.policy.durations import describe
from oncue.policy.error_summary import error_summary

LONGEST_ERROR = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that matters: a code for programs, a sentence for people, and what could be done about it."""

    code: str
    text: str
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was asked about, how it stands, and why."""

    subject: str
    status: str
    findings: Sequence[Finding]

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]


def instant(moment: datetime) -> str:
    """An instant to the second, or as exactly as it is; `oncue … --at` reads it back."""
    timespec = "seconds" if moment.microsecond == 0 else "microseconds"
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def when(moment: datetime, now: datetime) -> str:
    """An instant, and how far away it is."""
    away = (moment - now).total_seconds()
    shown = instant(moment.replace(microsecond=0))
    if abs(away) < 1:
        return f"{shown} (now)"
    return f"{shown} (in {length(away)})" if away > 0 else f"{shown} ({length(-away)} ago)"


def length(seconds: float) -> str:
    """A duration as people would say it: to the second, and to the millisecond below."""
    return describe(round(seconds)) if seconds >= 1 else f"{round(seconds * 1000)}ms"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def error_line(error: str | None) -> str:
    """`: ` and the line that says what an error was; nothing without one."""
    line = error_summary(error)
    if not line:
        return ""
    return f": {line}" if len(line) <= LONGEST_ERROR else f": {line[: LONGEST_ERROR - 1]}…"
