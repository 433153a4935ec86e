"""A user's day, put together from oncue's tables and this program's: what the page and the API show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

from sqlalchemy import Connection

from news_agent import chats, digests, users
from news_agent.chats import Message
from news_agent.digests import Digest
from news_agent.jobs import app, daily_digest, read
from news_agent.users import User
from oncue import Job, JobNotFound, SubjectNotFound
from oncue.model import Attempt, Day, Schedule, Slot, Subject
from oncue.policy import windows
from oncue.policy.error_summary import error_summary
from oncue.policy.zones import local_date

Status: TypeAlias = Literal["none", "upcoming", "open", "overdue", "success", "cutoff_reached", "missed"]
"""What a day came to so far: `none` is a day without a window, `upcoming` one that has not opened, `overdue` one
whose cutoff has passed without a worker that would decide the day."""


_MODULES = re.compile(r"^(?:\w+\.)+(?=\w+(?::|$))")
"""What stands before the name of an exception, as in `news_agent.model.ModelError: …`."""


class AttemptLine(NamedTuple):
    number: int
    started_at: datetime
    finished_at: datetime | None
    outcome: str
    error: str | None
    """One line of it."""
    error_class: str | None
    """Where a model failed: req, llm or parse."""


class DayLine(NamedTuple):
    """A day of the past, or several that were missed."""

    day: date
    until: date
    status: Status
    reason: str | None


@dataclass(frozen=True, slots=True)
class Today:
    """A user in the list, with what the present day came to so far."""

    user: User
    day: date | None
    status: Status
    reason: str | None
    opens_at: datetime | None
    cutoff_at: datetime | None


@dataclass(frozen=True, slots=True)
class UserDay:
    user: User
    day: date
    status: Status
    reason: str | None
    opens_at: datetime | None
    cutoff_at: datetime | None
    job_id: int | None
    next_attempt_at: datetime | None
    """When the next attempt is due, if one has failed and the day goes on."""
    is_running: bool
    attempts: list[AttemptLine]
    digest: Digest | None
    reset_at: datetime | None
    forgotten: list[Message]
    """What the agent remembered until this day's cutoff made it forget."""
    context: list[Message]
    """What the agent remembers now."""
    days: list[DayLine]
    """The last 30 days, newest first."""


class _Rows(NamedTuple):
    """What this program's own tables say of a user's day."""

    digest: Digest | None
    reset_at: datetime | None
    forgotten: list[Message]
    context: list[Message]


# --- the list -------------------------------------------------------------------------------------------------------


async def today(after: str = "", limit: int = 100) -> list[Today]:
    """Users by name, with what the day came to that is theirs now."""
    found = await read(users.page, after, limit)
    window, now = await app.windows.get(daily_digest), await app.now()
    subjects = await _subjects(window, [user.name for user in found])
    return [_today(user, subjects.get(user.name), window, now) for user in found]


async def _subjects(window: Schedule, names: Sequence[str]) -> dict[str, Subject]:
    store = (await app.internals.connected()).store
    found = await store.windows.subjects(window.id, list(names)) if names else []
    return {one.name: one for one in found if one.removed_at is None}


def _today(user: User, subject: Subject | None, window: Schedule, now: datetime) -> Today:
    if subject is None:
        return Today(user, None, "none", "no window yet", None, None)
    local = local_date(subject.tz or window.tz, now)
    if subject.last_date is not None and subject.last_date >= local and subject.status is not None:
        day = _planned(window, subject, subject.last_date)
        times = (None, None) if day is None else (day.opens_at, day.cutoff_at)
        return Today(user, subject.last_date, subject.status, subject.reason, *times)
    return Today(user, subject.day, _undecided(subject, now), None, subject.opens_at, subject.cutoff_at)


def _undecided(subject: Subject, now: datetime) -> Status:
    """What is to be said of a day that has no outcome yet."""
    if now >= subject.cutoff_at:
        return "overdue"
    return "upcoming" if subject.job_id is None else "open"


# --- one day --------------------------------------------------------------------------------------------------------


async def of_user(number: int, day: date | None = None) -> UserDay:
    """A day of a user; the one that the user's list entry shows unless it is given. Raises UserNotFound."""
    user = await read(users.by_id, number)
    window, now = await app.windows.get(daily_digest), await app.now()
    subject = (await _subjects(window, [user.name])).get(user.name)
    wanted = day or _today(user, subject, window, now).day or local_date(user.tz, now)
    ledger = [] if subject is None else await app.windows.ledger(daily_digest, user.name)
    slot = await _slot(user.name, wanted)
    job = await _job(slot)
    rows = await read(_rows, user.id, wanted)
    status, reason = _status(subject, slot, wanted, now)
    opens_at, cutoff_at = _times(window, subject, job, wanted)
    return UserDay(
        user, wanted, status, reason, opens_at, cutoff_at, None if slot is None else slot.job_id,
        job.visible_at if job is not None and job.state == "retrying" and status == "open" else None,
        job is not None and job.state == "running", [] if job is None else await _attempts(job), *rows,
        days=[_line(subject, one, now) for one in reversed(ledger)],
    )  # fmt: skip


def _rows(connection: Connection, user_id: int, day: date) -> _Rows:
    return _Rows(
        digests.of(connection, user_id, day), chats.reset_of(connection, user_id, day),
        chats.forgotten(connection, user_id, day), chats.context(connection, user_id),
    )  # fmt: skip


async def _slot(name: str, day: date) -> Slot | None:
    """What the ledger says of a day. A run of missed days is one row."""
    try:
        rows = await app.windows.ledger(daily_digest, name, start=day, end=day + windows.ONE_DAY)
    except SubjectNotFound:
        return None
    return rows[-1] if rows else None


async def _job(slot: Slot | None) -> Job | None:
    if slot is None or slot.job_id is None:
        return None
    try:
        return await app.jobs.get(slot.job_id)
    except JobNotFound:  # jobs are kept for a week, the ledger for a month
        return None


async def _attempts(job: Job) -> list[AttemptLine]:
    return [_attempt(one) for one in await app.jobs.attempts(job.id)]


def _attempt(one: Attempt) -> AttemptLine:
    error_class = (one.details or {}).get("error_class")
    error = _MODULES.sub("", error_summary(one.error)) or None
    return AttemptLine(one.attempt, one.started_at, one.finished_at, one.outcome, error, error_class)


def _status(subject: Subject | None, slot: Slot | None, day: date, now: datetime) -> tuple[Status, str | None]:
    if subject is not None and subject.last_date == day and subject.status is not None:
        return subject.status, subject.reason
    if subject is not None and subject.day == day and not _is_decided(subject):
        return _undecided(subject, now), None
    if slot is not None:
        return _status_of(subject, slot, now), _reason(slot)
    return ("upcoming" if subject is not None and subject.day < day else "none"), None


def _status_of(subject: Subject | None, slot: Slot, now: datetime) -> Status:
    """A day that had its job and is over without a success has reached its cutoff, however the job ended."""
    if slot.verdict == "missed":
        return "missed"
    if subject is not None and slot.job_id is not None and subject.job_id == slot.job_id and not _is_decided(subject):
        return _undecided(subject, now)
    return "success" if slot.state == "succeeded" else "cutoff_reached"


def _reason(slot: Slot) -> str | None:
    return None if slot.reason == windows.CUTOFF_REACHED else slot.reason


def _is_decided(subject: Subject) -> bool:
    return subject.last_date is not None and subject.last_date >= subject.day


def _line(subject: Subject | None, slot: Slot, now: datetime) -> DayLine:
    last = slot.until or slot.scheduled_for
    return DayLine(slot.scheduled_for.date(), last.date(), _status_of(subject, slot, now), _reason(slot))


def _times(
    window: Schedule, subject: Subject | None, job: Job | None, day: date
) -> tuple[datetime | None, datetime | None]:
    """When the window of a day opens and is over: as it was for the day's job, else by the user's present terms."""
    if subject is not None and subject.day == day:
        return subject.opens_at, subject.cutoff_at
    if job is not None:
        length = windows.rule_of(window.expression).length
        return job.order_at - timedelta(seconds=length), job.order_at
    planned = None if subject is None else _planned(window, subject, day)
    return (None, None) if planned is None else (planned.opens_at, planned.cutoff_at)


def _planned(window: Schedule, subject: Subject, day: date) -> Day | None:
    return windows.day_of(windows.terms_of(subject, windows.rule_of(window.expression), window.tz), day)
