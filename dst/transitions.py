"""Where the clocks change: found by looking at the offset of every hour, then halving the hour in which it changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Transition:
    """An instant at which a zone's offset changes."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def leaves(self) -> datetime:
        """The local time that would have come, had the clock not jumped."""
        return self.at.replace(tzinfo=None) + self.before

    @property
    def enters(self) -> datetime:
        """The local time that came instead."""
        return self.at.replace(tzinfo=None) + self.after

    @property
    def jump(self) -> timedelta:
        return abs(self.after - self.before)

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ}, {self.leaves:%a %H:%M} -> {self.enters:%a %H:%M}"


@dataclass(frozen=True)
class Rules:
    """All that a stretch of time shows of a zone; zones with equal rules keep the same time throughout it."""

    first: timedelta
    transitions: tuple[Transition, ...]


def find(name: str, start: datetime, end: datetime, stride: timedelta = HOUR) -> Rules:
    """Two changes within one stride that undo each other would be missed."""
    zone = ZoneInfo(name)
    return Rules(_offset(zone, start), tuple(_changes(zone, start, end, stride)))


def quiet(rules: Rules, at: datetime) -> Transition:
    """An instant like any other, in the shape of a transition, for zones without one."""
    return Transition(at, rules.first, rules.first)


def _changes(zone: ZoneInfo, start: datetime, end: datetime, stride: timedelta) -> Iterator[Transition]:
    earlier, before = start, _offset(zone, start)
    while earlier < end:
        later = earlier + stride
        after = _offset(zone, later)
        if after != before:
            yield Transition(_halved(zone, earlier, later), before, after)
        earlier, before = later, after


def _halved(zone: ZoneInfo, earlier: datetime, later: datetime) -> datetime:
    """The first whole second with the later offset."""
    before = _offset(zone, earlier)
    while later - earlier > SECOND:
        middle = earlier + (later - earlier) // 2 // SECOND * SECOND
        earlier, later = (middle, later) if _offset(zone, middle) == before else (earlier, middle)
    return later


def _offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    assert instant.tzinfo is UTC
    return offset
