"""The writes that follow from the plan of a subject's day: the end of its job, or a step of the subject itself.

`policy/windows.py` says what is to be done; this says how it is written. The ids of jobs that are made are handed in.
Subjects are due in crowds: thousands have the same cutoff, and all that follows from their terms and their row is
worked out once for all of them (`DuePage`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from datetime import date, datetime
from typing import NamedTuple

from oncue.model import Batch, Change, Day, Decided, NextDay, OpenJob, Schedule, Subject, SubjectStep, Tally
from oncue.policy import options, windows
from oncue.policy.lifecycle import close_day
from oncue.policy.windows import DayPlan, JobOfDay

AUTHOR = "window"


class Shared(NamedTuple):
    """What follows from the plan of a day, the same for all subjects whose terms and rows are alike."""

    plan: DayPlan
    is_over: bool
    """Whether the day of the row has a job and no outcome, and its cutoff has passed."""
    is_cutoff: bool
    """Whether the day of the row comes to its cutoff, noticed while its date lasts."""
    moves_to: Day | None
    """The day that the subject moves on to with the end of its job, if that is all: its next opening is ahead."""
    bucket: int
    """The minute under which the day of the row is counted."""


class Planned(NamedTuple):
    """A subject whose time has come, what is to be done about it, and the job of its day if that has not ended."""

    subject: Subject
    plan: DayPlan
    job: OpenJob | None
    shared: Shared


class DuePage:
    """Subjects of a window that are due, looked at in one pass."""

    def __init__(self, window: Schedule, now: datetime) -> None:
        self.window = window
        self.now = now
        self._rule = windows.rule_of(window.expression)
        self._told = options.read(window.options).window
        self._known: dict[Hashable, Shared] = {}

    def planned(self, subject: Subject, job: OpenJob | None) -> Planned:
        """`job`: the one of its row, if that has not ended."""
        standing = _standing(job)
        likeness = (
            subject.due, subject.tz, subject.weekdays, subject.days_off, subject.day, subject.opens_at,
            subject.cutoff_at, subject.last_date, subject.job_id is None, standing,
            # Terms that counted before the cutoff of the row did so before every later one: since when is all the same.
            None if subject.since < subject.cutoff_at else subject.since,
        )  # fmt: skip
        shared = self._known.get(likeness)
        if shared is None:
            shared = self._known[likeness] = self._worked_out(subject, standing)
        return Planned(subject, shared.plan, job if shared.is_over else None, shared)

    def _worked_out(self, subject: Subject, standing: JobOfDay) -> Shared:
        terms = windows.terms_of(subject, self._rule, self.window.tz)
        plan = windows.plan(subject, terms, self.window.started_at, self.now, job=standing)
        closes, goes_on = plan.closes, plan.missed or plan.opens or plan.next_at != plan.day.opens_at
        return Shared(
            plan,
            is_over=self.now >= subject.cutoff_at and is_open(subject),
            is_cutoff=closes is not None and closes.day.date == subject.day and closes.has_hook,
            moves_to=None if goes_on else plan.day,
            bucket=windows.bucket_of(subject.cutoff_at),
        )

    def ended(self, one: Planned, hooks: Iterator[int]) -> Change:
        """The end of a job whose day is over."""
        assert one.job is not None
        shared = one.shared
        if not shared.is_cutoff:
            return close_day(one.job, self.now, "missed", windows.OUTAGE)
        hook = self._hook(one.subject, one.subject.day, hooks)
        moves_to, version = shared.moves_to, one.subject.version
        return close_day(
            one.job, self.now, windows.CUTOFF_REACHED, windows.CUTOFF_REACHED, () if hook is None else (hook,),
            None if moves_to is None else NextDay(version, moves_to, shared.bucket),
        )  # fmt: skip

    def _hook(self, subject: Subject, day: date, hooks: Iterator[int]) -> Batch | None:
        if self._told is None or self._told.hook is None:
            return None
        return windows.hook_of(self._told, subject.name, day, [next(hooks)], self.now, AUTHOR)

    def step(self, one: Planned, ids: Iterator[int], hooks: Iterator[int]) -> SubjectStep:
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
        if closes is not None and closes.has_hook:
            hook = self._hook(subject, closes.day.date, hooks)
        job, job_id = None, subject.job_id if plan.day.date == subject.day else None
        if plan.opens:
            job_id, before = next(ids), subject.job_id if _reopens(one) else None
            job = windows.job_of(self.window, subject, plan.day, job_id, self.now, AUTHOR, before)
            if before is None:
                decided.append(Decided(windows.slot_of(plan.day.date), "fired", job_id=job_id))
        return SubjectStep(
            subject.schedule_id, subject.name, subject.version, plan.day, plan.next_at, job_id, *last,
            decided=tuple(decided), job=job, hook=hook, tallies=tuple(tallies),
        )  # fmt: skip


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
