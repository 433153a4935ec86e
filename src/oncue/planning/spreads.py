"""How long the attempts of a task take: always the same, between two bounds, around a middle, or as measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import Protocol

from oncue.policy import durations

EXPECTED = "expected a duration such as 200ms, a range such as 30s..5m, or ~30s for most of them around 30s"
TAIL = 1.6448536269514722
"""So many standard deviations above the middle of a normal distribution, 95 % lie below."""
USUAL_TAIL = 2.5
"""Of a task of which only the middle is known: one in twenty takes longer than so many times the middle."""


class Spread(Protocol):
    def draw(self, dice: Random) -> float:
        """The seconds of one attempt."""
        ...

    def words(self) -> str:
        """As it is written on a command line."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    seconds: float

    def draw(self, dice: Random) -> float:
        return self.seconds

    def words(self) -> str:
        return durations.describe(self.seconds)


@dataclass(frozen=True, slots=True)
class Between:
    """Every duration between two bounds is as likely as any other."""

    shortest: float
    longest: float

    def draw(self, dice: Random) -> float:
        return round(dice.uniform(self.shortest, self.longest), 6)

    def words(self) -> str:
        return f"{durations.describe(self.shortest)}..{durations.describe(self.longest)}"


@dataclass(frozen=True, slots=True)
class Around:
    """Half of the attempts take longer than `middle`, one in twenty longer than `tail`: a log-normal distribution."""

    middle: float
    tail: float

    def draw(self, dice: Random) -> float:
        sigma = log(self.tail / self.middle) / TAIL
        return round(self.middle * exp(sigma * dice.gauss(0.0, 1.0)), 6)

    def words(self) -> str:
        return f"~{durations.describe(self.middle)}..{durations.describe(self.tail)}"


@dataclass(frozen=True, slots=True)
class Measured:
    """One of the durations that were measured, each as likely as any other."""

    seconds: tuple[float, ...]

    def draw(self, dice: Random) -> float:
        return dice.choice(self.seconds)

    def words(self) -> str:
        shortest, longest = durations.describe(min(self.seconds)), durations.describe(max(self.seconds))
        return f"measured, {len(self.seconds):,} times, {shortest}..{longest}"


def spread(text: str) -> Spread:
    """What somebody wrote for a task's duration. Raises ValueError."""
    word = text.strip()
    if word.startswith("~"):
        return _around(word[1:], text)
    first, dots, second = word.partition("..")
    if not dots:
        return Constant(_seconds(word, text))
    shortest, longest = _seconds(first, text), _seconds(second, text)
    if longest < shortest:
        raise ValueError(f"{EXPECTED}; {text!r} ends before it begins")
    return Between(shortest, longest)


def measured(seconds: Sequence[float]) -> Spread:
    return Measured(tuple(sorted(round(one, 6) for one in seconds)))


def _around(word: str, text: str) -> Spread:
    first, dots, second = word.partition("..")
    middle = _seconds(first, text)
    tail = _seconds(second, text) if dots else middle * USUAL_TAIL
    if not 0 < middle < tail:
        raise ValueError(f"{EXPECTED}; in {text!r} the middle must be above 0 and below what one in twenty exceeds")
    return Around(middle, tail)


def _seconds(word: str, text: str) -> float:
    try:
        return durations.seconds(word.strip())
    except ValueError:
        raise ValueError(f"{EXPECTED}, of 100 years at most; not {text!r:.100}") from None
