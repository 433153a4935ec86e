"""What an attempt came to, and the one conditional write that settles it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from oncue.model.jobs import Batch, LeaderEpoch, State
from oncue.model.windows import DayStatus, NextDay


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
    error_class: str | None = None
    """What kind of failure it was, if that is known: `req`, `llm`, `parse` or `unknown`."""


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
    begun: bool = True
    """False: nothing was done yet, so that no attempt is counted."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """There was nothing to do, or it was too late to do it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A handler or an operator gave the job up."""

    reason: str = "cancelled"


Outcome: TypeAlias = Succeeded | Failed | TimedOut | Lost | Released | Snoozed | Skipped | Cancelled


class Terms(NamedTuple):
    """What the end of an attempt depends on beside its claim, and what follows from it."""

    before: datetime | None = None
    """A success counts only before this instant."""
    late: Outcome = Skipped("late")
    """What a success counts as from that instant on."""
    leader: LeaderEpoch | None = None
    """Whatever it came to counts only while this epoch leads; else the job is released."""
    follow_ups: tuple[Batch, ...] = ()
    """Jobs that follow from a success. Without ids: the settler reserves them."""
    late_follow_ups: tuple[Batch, ...] = ()
    """Jobs that follow from a success that comes too late."""
    day_status: DayStatus | None = None
    """What the day of a window comes to with a success."""
    late_day_status: DayStatus | None = None
    """What it comes to with a success that comes too late."""


Applied: TypeAlias = Literal["late", "released"] | bool | None
"""What became of a change. True: it was written as it stands; `late` or `released`: that ending was written instead.
False: its guard did not hold. None: another session holds the row."""


class Change(NamedTuple):
    """One conditional write: the guard (id, from_state, claim_no), then what the row becomes.

    `outcome` names how the attempt ended; None means that no attempt had started. A job that is not finished by
    the change keeps such an attempt as a row of its own.

    Two more guards may be asked for: `before` an instant, and while a `leader` leads. Where only these do not hold,
    `late` or `released` is written instead. If neither holds, the job is released.
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
    details: str | None = None
    """What the handler told of the attempt: a JSON object. None leaves what was saved while it ran."""
    day_status: DayStatus | None = None
    """Of the job of a window's day: what the day comes to with this."""
    follow_ups: tuple[Batch, ...] = ()
    """Jobs that are written with it, in the same transaction. A job whose key is taken is left out."""
    next_day: NextDay | None = None
    """Of the job of a window's day: the day that its subject's row is about from then on, if that is known already."""
    before: datetime | None = None
    late: Change | None = None
    leader: LeaderEpoch | None = None
    released: Change | None = None
    ending: Literal["late", "released"] | None = None
    """Which ending of another change this is, if it is one."""

    def as_written(self, written: Applied) -> Change:
        """The ending that was written."""
        if written == "late" and self.late is not None:
            return self.late
        if written == "released" and self.released is not None:
            return self.released
        return self
