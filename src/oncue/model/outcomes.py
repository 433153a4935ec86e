"""What an attempt came to, and the one conditional write that settles it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

from oncue.model.jobs import State


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned. `reason` says why its result could not be kept, if so."""

    result: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised. Where it says nothing of when to try again, the job's policy decides."""

    error: str
    delay: float | None = None
    final: bool = False
    until: datetime | None = None
    """Instead of a delay: not before this instant."""
    at_least: bool = False
    """The policy's delay counts as well, if it is longer."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The attempt outlived its time-out, its maximum runtime or its deadline, and was cut off."""

    error: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The node that held the job is gone."""

    cause: str = "node_lost"


@dataclass(frozen=True, slots=True)
class Released:
    """The node gave the job back: it is shutting down, or cannot run it."""

    cause: str = "released"


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to be called again later, at no cost."""

    delay: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """There was nothing to do, or it was too late to do it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A handler or an operator gave the job up."""

    reason: str = "cancelled"


Outcome: TypeAlias = Succeeded | Failed | TimedOut | Lost | Released | Snoozed | Skipped | Cancelled


class Change(NamedTuple):
    """One conditional write: the guard (id, from_state, claim_no), then what the row becomes.

    `outcome` names how the attempt ended; None means that no attempt had started. A job that is not finished by
    the change keeps such an attempt as a row of its own.
    """

    id: int
    from_state: State
    claim_no: int
    state: State
    reason: str | None
    outcome: str | None
    visible_at: datetime
    retry_count: int
    attempt: int
    crashes: int
    started_at: datetime | None
    ended_at: datetime | None
    result: str | None
    error: str | None
    isolation: int = 0
    """What company the job may have when it runs next (`policy.suspicion`): 0 any, 1 a cohort, 2 none."""
