"""Daily windows: the subjects that they are for, and what becomes of a subject's day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal, NamedTuple, TypeAlias

from oncue.model.jobs import Batch, State
from oncue.model.schedules import Decided

WINDOWS_QUEUE = "windows"
"""The queue of a window's jobs, unless its task names another."""
DayStatus: TypeAlias = Literal["success", "cutoff_reached", "missed"]
"""What became of a subject's day."""
DayEvent: TypeAlias = Literal["opened", "success", "cutoff_reached", "added_late", "missed"]
"""What is counted of a day."""
EVERY_DAY = 127


class Day(NamedTuple):
    """A subject's window of one day: it belongs to the local date of its cutoff."""

    date: date
    opens_at: datetime
    cutoff_at: datetime


@dataclass(frozen=True, slots=True)
class Subject:
    """One for whom a window opens every day: a user. A removed one stays as a tombstone, so that its day is decided
    once even if it is added again."""

    schedule_id: int
    name: str
    due: int
    """The minute of the day at which its window is over: 0 to 1439, in its zone."""
    tz: str | None
    """None: the zone of the window."""
    weekdays: int
    """A bit for each weekday, from 1 for Monday to 64 for Sunday."""
    days_off: tuple[date, ...]
    args: str
    """Arguments of its own, a JSON object: its jobs get them."""
    version: int
    """Grows with every write of the row. It is the fence of everything that is written of a subject without a job."""
    since: datetime
    """From when on its terms count: when it was added, or when they were changed last."""
    day: date
    """The day that the planner looks at next."""
    opens_at: datetime
    cutoff_at: datetime
    next_at: datetime | None
    """When the planner looks at it: the opening of that day, then its cutoff. None: it is removed."""
    job_id: int | None
    """The latest job of that day, once it has opened."""
    last_date: date | None
    """The last day that is decided."""
    status: DayStatus | None
    """What became of that."""
    reason: str | None
    last_run_at: datetime | None
    """When it last succeeded."""
    created_at: datetime
    updated_at: datetime
    removed_at: datetime | None


class Tally(NamedTuple):
    """One subject more to be counted for a day, under the minute of its cutoff in UTC."""

    date: date
    bucket: int
    event: DayEvent


class DuePlace(NamedTuple):
    """Where a subject stands among those that are due."""

    next_at: datetime
    name: str


FIRST_DUE = DuePlace(datetime(1970, 1, 1, tzinfo=UTC), "")


class NextDay(NamedTuple):
    """What a subject's row is about once the end of a job has decided its day: the day that comes next.

    Written if the row still has this version; else its terms were changed meanwhile, and the planner comes back to it.
    """

    version: int
    day: Day
    bucket: int
    """Of the day that is decided: the minute of its cutoff, under which it is counted."""


class OpenJob(NamedTuple):
    """The job of a subject's day that has not ended: what its end depends on."""

    id: int
    state: State
    claim_no: int
    options: str
    visible_at: datetime
    retry_count: int
    attempt: int
    crashes: int
    claimed_at: datetime | None
    started_at: datetime | None
    error: str | None
    cancel_requested_at: datetime | None


class SubjectStep(NamedTuple):
    """One conditional write of a subject's days: the guard (schedule_id, name, version), then what the row becomes,
    the slots that are decided, and the jobs that are made.

    The job of a slot that is in the ledger already is not made, unless it says which job it repeats (`retry_of`): then
    the ledger names this one from now on. A slot that is decided with the job that the ledger has keeps that row, which
    gets the reason: the job ended, and the day came to something else.
    """

    schedule_id: int
    name: str
    version: int
    day: Day
    next_at: datetime | None
    job_id: int | None
    last_date: date | None
    status: DayStatus | None
    reason: str | None
    decided: Sequence[Decided] = ()
    """Slots are told by midnight, in UTC, of their date."""
    job: Batch | None = None
    """The job of `day`, with its id."""
    hook: Batch | None = None
    """The job that a cutoff leads to, with its id."""
    tallies: Sequence[Tally] = ()


class RowOutcome(NamedTuple):
    """What came of one row of many subjects that were handed in."""

    subject: str
    outcome: Literal["added", "changed", "unchanged", "repeated", "invalid"]
    """`repeated`: a later row is for the same subject, and that one counts."""
    field: str | None = None
    """What is wrong with a row that is invalid."""
    message: str | None = None


class DayCount(NamedTuple):
    """How many subjects of a window, with their cutoff in the same minute, had this happen on a day."""

    bucket: int
    event: DayEvent
    subjects: int
