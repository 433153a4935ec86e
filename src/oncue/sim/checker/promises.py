"""How a promise is written: a named function from the evidence to what breaks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from oncue.sim.checker.evidence import Evidence
from oncue.sim.history import Event

MOST_EVENTS = 6
"""How many events one violation shows."""
MOST_VIOLATIONS = 3
"""How many violations of one promise a report shows."""


class Violation(NamedTuple):
    promise: str
    message: str
    events: tuple[Event, ...]

    def __str__(self) -> str:
        lines = [f"{self.promise}: {self.message}", *(f"    {event.line()}" for event in self.events[:MOST_EVENTS])]
        left_out = len(self.events) - MOST_EVENTS
        return "\n".join([*lines, f"    and {left_out} more events"] if left_out > 0 else lines)


class Broken(NamedTuple):
    """What a promise finds; the checker adds the promise's name."""

    message: str
    events: tuple[Event, ...] = ()


Promise: TypeAlias = Callable[[Evidence], Iterable[Broken]]
DECLARED: dict[str, Promise] = {}


def promise(name: str) -> Callable[[Promise], Promise]:
    def declare(check: Promise) -> Promise:
        assert name not in DECLARED, f"there are two promises called {name!r}"
        DECLARED[name] = check
        return check

    return declare


def report(found: Sequence[Violation]) -> str:
    """What was found, for people: a few violations of each promise, and how many more there are."""
    totals, shown = Counter(violation.promise for violation in found), Counter[str]()
    lines = []
    for violation in found:
        shown[violation.promise] += 1
        if shown[violation.promise] <= MOST_VIOLATIONS:
            lines.append(str(violation))
        elif shown[violation.promise] == totals[violation.promise]:
            lines.append(f"{violation.promise}: and {totals[violation.promise] - MOST_VIOLATIONS} more of these")
    return "\n".join(lines)
