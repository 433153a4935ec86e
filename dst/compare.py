"""One schedule's answers over one window, beside the slots that it should have there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Protocol

from dst.oracle import Slots

TICK = timedelta.resolution
SECOND = timedelta(seconds=1)
SHOWN = 3


class Trigger(Protocol):
    """What is under test."""

    def after(self, instant: datetime, /) -> datetime | None: ...
    def latest(self, instant: datetime, /) -> datetime | None: ...
    def count(self, after: datetime, until: datetime, /) -> int: ...
    def has(self, instant: datetime, /) -> bool: ...
    def mark(self, instant: datetime, /) -> str | None: ...


@dataclass(frozen=True)
class Window:
    """After start, until end; answers are likely to go wrong at the probes, and a jump away from a slot."""

    start: datetime
    end: datetime
    probes: tuple[datetime, ...] = ()
    jump: timedelta = timedelta(hours=1)


@dataclass
class Findings:
    """How many answers were compared, and what differed."""

    compared: int = 0
    differences: list[str] = field(default_factory=list)

    def check(self, verb: str, *asked: datetime, expected: object, got: object) -> None:
        self.compared += 1
        if expected != got:
            question = f"{verb}({', '.join(_text(instant) for instant in asked)})"
            self.differences.append(f"{question}: expected {_text(expected)}, got {_text(got)}")


def compare(trigger: Trigger, slots: Slots, window: Window, findings: Findings) -> None:
    """Ask everything there is to ask."""
    expected = [slot for slot in slots if window.start < slot <= window.end]
    for name, walked in (("after", _forwards(trigger, window)), ("latest", _backwards(trigger, window))):
        _check_walk(findings, name, expected, walked)
    for probe in window.probes:
        _check_neighbours(findings, trigger, expected, window, probe)
    for since, until in _parts(window, expected):
        number = bisect_right(expected, until) - bisect_right(expected, since)
        findings.check("count", since, until, expected=number, got=trigger.count(since, until))
    for instant in _candidates(window, expected):
        findings.check("has", instant, expected=instant in slots, got=trigger.has(instant))
    for slot in expected:
        findings.check("mark", slot, expected=slots[slot], got=trigger.mark(slot))


def _forwards(trigger: Trigger, window: Window) -> Iterator[datetime]:
    slot = trigger.after(window.start)
    while slot is not None and slot <= window.end:
        yield slot
        slot = trigger.after(slot)


def _backwards(trigger: Trigger, window: Window) -> Iterator[datetime]:
    slot = trigger.latest(window.end)
    while slot is not None and slot > window.start:
        yield slot
        slot = trigger.latest(slot - TICK)


def _check_walk(findings: Findings, name: str, expected: list[datetime], walked: Iterable[datetime]) -> None:
    """A walk that does not move on is given up; one in the wrong order differs even if no slot is missing."""
    findings.compared += len(expected)
    right = expected if name == "after" else expected[::-1]
    found: list[datetime] = []
    for slot in walked:
        found.append(slot)
        if len(found) > len(expected) + SHOWN:
            break
    if found == right:
        return
    missing = [slot for slot in right if slot not in set(found)]
    extra = [slot for slot in found if slot not in set(right)]
    told = [f"{word} {_texts(slots)}" for word, slots in (("lacks", missing), ("invents", extra)) if slots]
    findings.differences.append(f"walking {name}: {'; '.join(told) or f'goes {_texts(found)}'}")


def _check_neighbours(
    findings: Findings, trigger: Trigger, expected: list[datetime], window: Window, probe: datetime
) -> None:
    """The slots around an instant; those outside the window are only known to be outside."""
    place = bisect_right(expected, probe)
    following, latest = trigger.after(probe), trigger.latest(probe)
    if place < len(expected) or (following is not None and following <= window.end):
        right = expected[place] if place < len(expected) else None
        findings.check("after", probe, expected=right, got=following)
    if place > 0 or (latest is not None and latest > window.start):
        right = expected[place - 1] if place > 0 else None
        findings.check("latest", probe, expected=right, got=latest)


def _parts(window: Window, expected: list[datetime]) -> Iterator[tuple[datetime, datetime]]:
    """The window, its parts from probe to probe, and from slot to slot."""
    yield window.start, window.end
    yield from pairwise([window.start, *window.probes, window.end])
    if expected:
        yield expected[0], expected[-1]
        yield expected[0] - TICK, expected[-1] - TICK


def _candidates(window: Window, expected: list[datetime]) -> list[datetime]:
    """Slots, what lies beside them, and where a fold may repeat them."""
    some = expected[:: max(1, len(expected) // 6)]
    distances = (TICK, SECOND, window.jump)
    beside = {slot + sign * distance for slot in some for distance in distances for sign in (-1, 1)}
    everything = {*expected, *beside, *window.probes}
    return sorted(instant for instant in everything if window.start < instant <= window.end)


def _texts(slots: list[datetime]) -> str:
    more = f" and {len(slots) - SHOWN} more" if len(slots) > SHOWN else ""
    return ", ".join(_text(slot) for slot in slots[:SHOWN]) + more


def _text(value: object) -> str:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else repr(value)
