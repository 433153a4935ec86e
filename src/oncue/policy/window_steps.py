"""The writes that follow from the plan of a subject's day: the end of its job, or a step of the subject itself.

`policy/windows.py` says what is to be done; this says how it is written. The ids of jobs that are made are handed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from oncue.model import Change, Day, Decided, NextDay, OpenJob, Schedule, Subject, SubjectStep, Tally
from oncue.policy import options, windows
from oncue.policy.lifecycle import close_day
from oncue.policy.windows import DayPlan, DayTerms, JobOfDay, WindowRule

AUTHOR = "window"


class Planned(NamedTuple):
    """A subject whose time has come, what is to be done about it, and the job of its day if that has not ended."""

    subject: Subject
    plan: DayPlan
    job: OpenJob | None


def planned(window: Schedule, rule: WindowRule, subject: Subject, jobs: dict[int, OpenJob], now: datetime) -> Planned:
    terms: DayTerms = windows.terms_of(subject, rule, window.tz)
    job = jobs.get(subject.job_id or 0)
    plan = windows.plan(subject, terms, window.started_at, now, job=_standing(job))
    is_over = now >= subject.cutoff_at and is_open(subject)
    return Planned(subject, plan, job if is_over else None)


def ended(window: Schedule, one: Planned, hooks: Iterator[int], now: datetime) -> Change:
    """The end of a job whose day is over."""
    assert one.job is not None
    if not is_cutoff_of_row(one):
        return close_day(one.job, now, "missed", windows.OUTAGE)
    told = options.read(window.options).window
    ids = list(islice(hooks, 1))
    hook = None if told is None else windows.hook_of(told, one.subject.name, one.subject.day, ids, now, AUTHOR)
    hooked = () if hook is None else (hook,)
    return close_day(one.job, now, windows.CUTOFF_REACHED, windows.CUTOFF_REACHED, hooked, _next_day(one))


def key(one: Planned) -> tuple[int, str]:
    return one.subject.schedule_id, one.subject.name


def later(subject: Subject, next_at: datetime) -> SubjectStep:
    """The same row, to be looked at later."""
    return SubjectStep(
        subject.schedule_id, subject.name, subject.version, Day(subject.day, subject.opens_at, subject.cutoff_at),
        next_at, subject.job_id, subject.last_date, subject.status, subject.reason,
    )  # fmt: skip


def is_open(subject: Subject) -> bool:
    """Whether its day has a job, and no outcome yet."""
    return subject.job_id is not None and (subject.last_date is None or subject.last_date < subject.day)


def _standing(job: OpenJob | None) -> JobOfDay:
    """How it is with the job of an open day; None: it has ended."""
    if job is None:
        return "ended"
    return "under_way" if job.cancel_requested_at is None else "stopping"


def _reopens(one: Planned) -> bool:
    """Whether the day had a job before: its subject was removed and added again. That is no second day."""
    return one.plan.opens and one.subject.job_id is not None and one.plan.day.date == one.subject.day


def is_cutoff_of_row(one: Planned) -> bool:
    """Whether the day of the row comes to its cutoff, noticed while its date lasts."""
    closes = one.plan.closes
    return closes is not None and closes.day.date == one.subject.day and closes.has_hook


def _next_day(one: Planned) -> NextDay | None:
    """The day that a subject moves on to with the end of its job, if that is all: its next opening is ahead."""
    subject, plan = one.subject, one.plan
    if plan.missed or plan.opens or plan.next_at != plan.day.opens_at:
        return None
    return NextDay(subject.version, plan.day, windows.bucket_of(subject.cutoff_at))


def step(window: Schedule, one: Planned, ids: Iterator[int], hooks: Iterator[int], now: datetime) -> SubjectStep:
    """The write for a subject whose day has no job that could still succeed."""
    subject, plan = one.subject, one.plan
    decided, tallies = [*_missed(subject, plan)], [*_tallies(one)]
    closes = plan.closes
    last = (subject.last_date, subject.status, subject.reason)
    if plan.missed:
        last = (plan.missed[-1].date, "missed", windows.OUTAGE)
    if closes is not None:
        last = (closes.day.date, closes.status, closes.reason)
        reason = closes.reason or windows.CUTOFF_REACHED
        decided.append(Decided(windows.slot_of(closes.day.date), "skipped", reason, _job_of(subject, closes.day)))
    hook = None
    told = options.read(window.options).window
    if closes is not None and closes.has_hook and told is not None:
        hook_ids = list(islice(hooks, 1))
        hook = windows.hook_of(told, subject.name, closes.day.date, hook_ids, now, AUTHOR)
    job, job_id = None, subject.job_id if plan.day.date == subject.day else None
    if plan.opens:
        job_id, before = next(ids), subject.job_id if _reopens(one) else None
        job = windows.job_of(window, subject, plan.day, job_id, now, AUTHOR, before)
        if before is None:
            decided.append(Decided(windows.slot_of(plan.day.date), "fired", job_id=job_id))
    return SubjectStep(
        subject.schedule_id, subject.name, subject.version, plan.day, plan.next_at, job_id, *last,
        decided=tuple(decided), job=job, hook=hook, tallies=tuple(tallies),
    )  # fmt: skip


def _missed(subject: Subject, plan: DayPlan) -> list[Decided]:
    """The days of an outage, as one row. One that had a job has a row of its own already, which gets the reason."""
    days = [day for day in plan.missed if _job_of(subject, day) is None]
    begun = [
        Decided(windows.slot_of(day.date), "missed", windows.OUTAGE, job_id)
        for day in plan.missed
        if (job_id := _job_of(subject, day)) is not None
    ]
    if not days:
        return begun
    first, last = windows.slot_of(days[0].date), windows.slot_of(days[-1].date)
    return [*begun, Decided(first, "missed", windows.OUTAGE, until=last if len(days) > 1 else None, slots=len(days))]


def _job_of(subject: Subject, day: Day) -> int | None:
    """The job of a day, which ended and did not decide it."""
    return subject.job_id if day.date == subject.day else None


def _tallies(one: Planned) -> list[Tally]:
    plan = one.plan
    found = [Tally(day.date, windows.bucket_of(day.cutoff_at), "missed") for day in plan.missed]
    if plan.closes is not None:
        late = plan.closes.reason == windows.ADDED_LATE
        bucket = windows.bucket_of(plan.closes.day.cutoff_at)
        found.append(Tally(plan.closes.day.date, bucket, "added_late" if late else "cutoff_reached"))
    if plan.opens and not _reopens(one):
        found.append(Tally(plan.day.date, windows.bucket_of(plan.day.cutoff_at), "opened"))
    return found
