"""When to try again. A policy maps the number of retries used so far to a delay."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from random import Random
from typing import Any, TypeAlias

from oncue.model import Failed
from oncue.policy.durations import LONGEST, Duration, seconds

DEFAULT_MAX_RETRIES = 3
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True, init=False)
class Exponential:
    """base x factor^retry_count, at most `cap`, then spread by +-`jitter` so that failures do not march in step."""

    base: float
    factor: float
    cap: float
    jitter: float

    def __init__(self, base: Duration = "1m", factor: float = 2.0, cap: Duration = "24h", jitter: float = 0.2) -> None:
        if not 1 <= factor < inf:
            raise ValueError(f"factor: expected a number of at least 1, not {factor!r}")
        if not 0 <= jitter <= 1:
            raise ValueError(f"jitter: expected a fraction between 0 and 1, not {jitter!r}")
        object.__setattr__(self, "base", seconds(base, "base"))
        object.__setattr__(self, "factor", float(factor))
        object.__setattr__(self, "cap", seconds(cap, "cap"))
        object.__setattr__(self, "jitter", float(jitter))

    def delay(self, retry_count: int, dice: Random) -> float:
        try:
            grown = self.base * self.factor**retry_count
        except OverflowError:
            grown = self.cap if self.base else 0.0
        return min(grown, self.cap) * dice.uniform(1 - self.jitter, 1 + self.jitter)

    def bounds(self, retry_count: int) -> tuple[float, float]:
        """The shortest and the longest delay that this policy can give."""
        middle = self.delay(retry_count, _Middle())
        return middle * (1 - self.jitter), middle * (1 + self.jitter)

    def default_max_retries(self) -> int:
        return DEFAULT_MAX_RETRIES

    def stored(self) -> dict[str, Any]:
        return {
            "kind": "exponential",
            "base": self.base,
            "factor": self.factor,
            "cap": self.cap,
            "jitter": self.jitter,
        }


@dataclass(frozen=True, slots=True, init=False)
class Ladder:
    """Fixed steps, one per retry, without jitter. Its length is the number of retries: Ladder() has none."""

    steps: tuple[float, ...]

    def __init__(self, *steps: Duration) -> None:
        taken = tuple(seconds(step, f"step {number}") for number, step in enumerate(steps, 1))
        object.__setattr__(self, "steps", taken)

    def delay(self, retry_count: int, dice: Random) -> float:
        return self._step(retry_count)

    def bounds(self, retry_count: int) -> tuple[float, float]:
        step = self._step(retry_count)
        return step, step

    def _step(self, retry_count: int) -> float:
        return self.steps[min(retry_count, len(self.steps) - 1)] if self.steps else 0.0

    def default_max_retries(self) -> int:
        return len(self.steps)

    def stored(self) -> dict[str, Any]:
        return {"kind": "ladder", "steps": list(self.steps)}


def retry_after(value: Duration | datetime, field: str = "after") -> float | datetime:
    """What a `Retry-After` says: seconds, or an instant. Durations and instants with a time zone are read as well."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{field}: expected an instant with a time zone, not {value!r:.100}")
        return value
    if isinstance(value, str):
        text = value.strip()
        if text.isascii() and text.isdigit():
            return seconds(float(text), field)
        if (instant := _http_date(text)) is not None:
            return instant
    return seconds(value, field)


def _http_date(text: str) -> datetime | None:
    """An instant in one of the three spellings of HTTP, all of which begin with the day of the week."""
    if text[:3] not in _DAYS:
        return None
    from email.utils import parsedate_to_datetime  # half of the commands import this module, and none needs that one

    try:
        instant = parsedate_to_datetime(text)
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def wait(failed: Failed, ended_at: datetime, retry_count: int, policy: Policy, dice: Random) -> float:
    """Seconds from the end of a failed attempt to the next one."""
    asked = failed.delay
    if failed.until is not None:
        asked = min(max((failed.until - ended_at).total_seconds(), 0.0), LONGEST)
    if asked is not None and not failed.at_least:
        return asked
    return max(policy.delay(retry_count, dice), asked or 0.0)


Policy: TypeAlias = Exponential | Ladder
DEFAULT_POLICY = Exponential()
DEFAULT_LADDER = Ladder("30s", "2m", "10m")
"""That of a webhook's deliveries: four attempts."""


def from_stored(stored: dict[str, Any]) -> Policy:
    """The policy that a job was enqueued with."""
    if stored["kind"] == "ladder":
        return Ladder(*stored["steps"])
    return Exponential(stored["base"], stored["factor"], stored["cap"], stored["jitter"])


class _Middle(Random):
    """Dice that always land in the middle."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2
