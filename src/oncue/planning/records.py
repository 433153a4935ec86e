"""What a simulated run leaves behind: every attempt, every job that never got one, and every slot's fate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

Place: TypeAlias = tuple[float, int]
"""Where a job stands among those of its priority: when it was made, and its number."""


class Work(NamedTuple):
    """An attempt: when it was due, when it began and when it ended, in seconds since the start of the simulation."""

    job: Place
    task: str
    queue: str
    priority: int
    due: float
    started: float
    ended: float
    number: int
    """1 for a job's first attempt."""
    outcome: str
    left: float = 0.0
    """So many seconds more it would have taken its seat, had the simulated time not ended."""


class Unstarted(NamedTuple):
    """A job that was due and got no seat; for how long its attempt would have taken the dice are thrown all the same.

    `until` is when it was given up or when the simulation ended.
    """

    job: Place
    task: str
    queue: str
    priority: int
    due: float
    until: float
    seconds: float
    given_up: str | None
    """Why it was not started: too late, say. None if it still waits."""
    is_slot: bool
    """Whether it is the first attempt of a slot's job."""
    number: int = 1
    """1 if it would have been a job's first attempt."""


class Slots(NamedTuple):
    """One slot of a schedule, or a run of them, as decided."""

    schedule: str
    due: float
    slots: int
    verdict: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that happened."""

    work: Sequence[Work]
    unstarted: Sequence[Unstarted]
    slots: Sequence[Slots]
    fired: Mapping[str, Sequence[float]]
    """By schedule: how late the job of each slot that fired began."""
    jobs: Counter[str]
    """By task: how many were made, by a slot or by the application."""
    ended: Mapping[str, Counter[str]]
    """By task: how many of its jobs came to which end."""
    left: Counter[str]
    """The jobs that were not finished at the end, by state."""
    skipped: Counter[str] = field(default_factory=Counter)
    """The jobs that were skipped, by reason, but for slots that found no seat within their grace."""
