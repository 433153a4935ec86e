"""Daily windows: when a subject's day opens and is over, and what is to be done about it.

A window ends at the subject's due time, its cutoff, and opens so long before. Both are instants: on the days of a clock
change a window is as long as on any other. A due time that a gap swallows is the end of the gap; of two equal ones the
first counts. The day of a window is the date for which its cutoff was worked out, so that a window across midnight
belongs to the day on which it ends. A date that a zone leaves out has no window.

    |opens_at ........ retries, the delay apart ........|cutoff_at
     the planner makes the day's job                     the planner ends it: `cutoff_reached`

`plan` says what the planner does with a subject whose time has come. Each day is decided once, in this order: a day
that is decided stays so; a day whose cutoff has passed is over (`cutoff_reached` while its date lasts, `missed` later);
a day that has begun is opened. `last_date` never goes back: a subject that moves to a zone in the west has no second
day.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from oncue.errors import InvalidSchedule
from oncue.model import Batch, Claim, Day, DayStatus, Job, Outcome, Schedule, Skipped, Subject, SubjectStep, Terms
from oncue.policy import options
from oncue.policy.durations import Duration, describe, seconds
from oncue.policy.options import WindowOptions
from oncue.policy.remembering import remembering
from oncue.policy.triggers import WINDOW, Rule
from oncue.policy.zones import first_instant, local_date, zone

DEFAULT_WINDOW, DEFAULT_RETRY = 3600.0, 600.0
SHORTEST, LONGEST = 60.0, 86_400.0
CUTOFF_REACHED: Final = "cutoff_reached"
ADDED_LATE = "added_late"
"""Why a day is over that was over before the subject's terms counted. No SLO counts it."""
OUTAGE = "outage"
PROMPTLY = timedelta(minutes=5)
"""A cutoff that the planner looks at so soon after it did not pass while nothing ran, whatever date it is by then."""
STOPPING_LOOK = timedelta(seconds=5)
"""How soon the planner looks again at a day whose job was asked to stop and has not ended."""
ONE_DAY = timedelta(days=1)
MOST_DAYS_OFF = 366
_as_json = json.JSONEncoder(ensure_ascii=False).encode
_FURTHEST = 7 * (MOST_DAYS_OFF + 2)
"""Within so many days there is one that is no day off, whatever weekdays are left out."""


class WindowRule(NamedTuple):
    """The rule of a window: how long it is open, and how far apart the attempts are."""

    length: float
    retry: float


def daily(*, window: Duration = "60m", retry: Duration = "10m", tz: str = "UTC") -> Rule:
    """The rule of a daily window: each subject's job is attempted within `window` before its due time, with attempts
    `retry` apart. `tz` is the zone of subjects that have none of their own. Raises InvalidSchedule."""
    zone(tz)
    length, delay = _checked(window, "window", SHORTEST), _checked(retry, "retry", 1.0)
    return Rule(f"{WINDOW} {describe(length)} retry {describe(delay)}", tz)


def is_window(expression: str) -> bool:
    return expression.startswith(WINDOW)


def rule_of(expression: str) -> WindowRule:
    """Raises InvalidSchedule if it is not one."""
    match expression.split():
        case [word, length, "retry", delay] if word == WINDOW:
            return WindowRule(_checked(length, "window", SHORTEST), _checked(delay, "retry", 1.0))
    raise InvalidSchedule("expression", f"expected '{WINDOW} 60m retry 10m', not {expression[:60]!r}")


def _checked(value: Duration, field: str, least: float) -> float:
    try:
        found = seconds(value, field)
    except ValueError as error:
        raise InvalidSchedule(field, str(error).removeprefix(f"{field}: ")) from None
    if not least <= found <= LONGEST:
        raise InvalidSchedule(field, f"expected between {describe(least)} and {describe(LONGEST)}, not {value!r:.40}")
    return found


# --- days -----------------------------------------------------------------------------------------------------------


class DayTerms(NamedTuple):
    """What a subject's days follow from."""

    due: int
    tz: str
    weekdays: int
    days_off: tuple[date, ...]
    length: float


def terms_of(subject: Subject, rule: WindowRule, tz: str) -> DayTerms:
    """`tz` is the zone of the window, for subjects without one."""
    return DayTerms(subject.due, subject.tz or tz, subject.weekdays, subject.days_off, rule.length)


@lru_cache(maxsize=10_000)
def day_of(terms: DayTerms, day: date) -> Day | None:
    """The window that belongs to a date; None on a weekday that is left out, on a day off, and if there is no such
    date in the zone. Remembered: thousands of subjects have the same terms."""
    if not terms.weekdays >> day.weekday() & 1 or day in terms.days_off:
        return None
    cutoff_at = first_instant(terms.tz, datetime.combine(day, time(*divmod(terms.due, 60))))
    return None if cutoff_at is None else Day(day, cutoff_at - timedelta(seconds=terms.length), cutoff_at)


def days_from(terms: DayTerms, first: date) -> Iterator[Day]:
    """The windows of this date and later ones."""
    empty, day = 0, first
    while empty < _FURTHEST:
        found = day_of(terms, day)
        empty = empty + 1 if found is None else 0
        if found is not None:
            yield found
        day += ONE_DAY


def first_day(terms: DayTerms, last_date: date | None, now: datetime) -> Day:
    """The day with which new or changed terms begin: today, unless that is decided; today may be over."""
    today = local_date(terms.tz, now)
    return next(days_from(terms, today if last_date is None else max(today, last_date + ONE_DAY)))


def bucket_of(cutoff_at: datetime) -> int:
    """The minute of the day, in UTC, under which a cutoff is counted."""
    utc = cutoff_at.astimezone(UTC)
    return utc.hour * 60 + utc.minute


@lru_cache(maxsize=10_000)
def missed_at(tz: str, day: Day) -> datetime:
    """From when on a day was missed, if it has no outcome by then: its date is over, and its cutoff some time ago.
    Remembered, as `day_of` is."""
    midnight = datetime.combine(day.date + ONE_DAY, time())
    ends = first_instant(tz, midnight) or first_instant(tz, midnight + ONE_DAY) or day.cutoff_at
    return max(ends, day.cutoff_at + PROMPTLY)


def slot_of(day: date) -> datetime:
    """How the ledger tells a day."""
    return datetime.combine(day, time(), UTC)


# --- what is to be done ---------------------------------------------------------------------------------------------


class Closing(NamedTuple):
    """What a day comes to without a success."""

    day: Day
    status: DayStatus
    reason: str | None
    has_hook: bool


class DayPlan(NamedTuple):
    """What is to be done about a subject whose time has come."""

    closes: Closing | None
    """What the day of its row comes to, or the last one that went by. It is later than those that were missed."""
    missed: tuple[Day, ...]
    """The days of an outage, oldest first; they have no job, unless the first is the day of the row."""
    opens: bool
    """Whether the job of `day` is made now: it begins, or its subject was removed and added again."""
    day: Day
    """The day that its row is about from now on. Its cutoff may have passed as well: then the planner comes back."""
    next_at: datetime


JobOfDay: TypeAlias = Literal["under_way", "stopping", "ended"]
"""How it is with the job of a day that has one: `ended` is without a success, which would have decided the day."""


def plan(
    subject: Subject, terms: DayTerms, enabled_since: datetime, now: datetime, *, job: JobOfDay = "under_way"
) -> DayPlan:
    """What the planner does now. A day that was over before its window was enabled is no day of it."""
    current = Day(subject.day, subject.opens_at, subject.cutoff_at)
    is_decided = subject.last_date is not None and subject.last_date >= subject.day
    if now < current.cutoff_at:
        if is_decided or (subject.job_id is not None and job == "under_way"):
            return DayPlan(None, (), False, current, current.cutoff_at)
        if subject.job_id is not None and job == "stopping":
            return DayPlan(None, (), False, current, min(now + STOPPING_LOOK, current.cutoff_at))
        opens = now >= current.opens_at
        return DayPlan(None, (), opens, current, current.cutoff_at if opens else current.opens_at)
    over = [] if is_decided else [current]
    following = days_from(terms, max(current.date, subject.last_date or current.date) + ONE_DAY)
    upcoming = next(following)
    while upcoming.cutoff_at <= now:
        over.append(upcoming)
        upcoming = next(following)
    missed: list[Day] = []
    for place, day in enumerate(over):
        has_job = day is current and subject.job_id is not None
        if subject.since < day.cutoff_at <= enabled_since and not has_job:
            continue
        closes = _closing(subject, terms, day, has_job, now)
        if closes is None:
            missed.append(day)
        elif later := over[place + 1 :]:  # each closing is written by itself; the next pass goes on from here
            return DayPlan(closes, tuple(missed), False, later[0], later[0].cutoff_at)
        else:
            return _moving_on(closes, missed, upcoming, now)
    return _moving_on(None, missed, upcoming, now)


def _closing(subject: Subject, terms: DayTerms, day: Day, has_job: bool, now: datetime) -> Closing | None:
    """What a day that is over comes to; None if it was missed: its date is over too, and nothing ran at its cutoff."""
    if day.cutoff_at <= subject.since and not has_job:
        return Closing(day, CUTOFF_REACHED, ADDED_LATE, False)
    if local_date(terms.tz, now) <= day.date or now < day.cutoff_at + PROMPTLY:
        return Closing(day, CUTOFF_REACHED, None, True)
    return None


def is_behind(plan: DayPlan, now: datetime) -> bool:
    """Whether days are over and undecided that were promised: they are decided before the subject's terms change. A
    day that was over before its terms counted was not."""
    if plan.closes is not None and plan.closes.reason == ADDED_LATE:
        return bool(plan.missed) or plan.day.cutoff_at <= now
    return plan.closes is not None or bool(plan.missed)


def _moving_on(closes: Closing | None, missed: list[Day], upcoming: Day, now: datetime) -> DayPlan:
    opens = now >= upcoming.opens_at
    return DayPlan(closes, tuple(missed), opens, upcoming, upcoming.cutoff_at if opens else upcoming.opens_at)


# --- jobs -----------------------------------------------------------------------------------------------------------


def arguments(own: str, subject: str, day: date, names: tuple[str | None, str | None]) -> str:
    """The arguments of a job: the subject's own, its name and the date, under the names of the task's parameters."""
    whose, when = names
    told = {} if own == "{}" else json.loads(own)
    if whose is not None:
        told[whose] = subject
    if when is not None:
        told[when] = day.isoformat()
    return _as_json(told)


def job_of(
    window: Schedule, subject: Subject, day: Day, job_id: int, now: datetime, by: str, retry_of: int | None = None
) -> Batch:
    """The job of a subject's day. It stands where its cutoff puts it: the earliest one is first."""
    told = options.read(window.options).window
    assert told is not None, f"schedule {window.name}: its options are not those of a window"
    names = told.subject, told.day
    return Batch(
        task=window.task, queue=window.queue, priority=window.priority, state="queued",
        options=_options_of_day(window.options, day.cutoff_at, missed_at(subject.tz or window.tz, day)),
        max_retries=window.max_retries, max_runtime=window.max_runtime, created_at=now, visible_at=now,
        deadline_at=None, enqueued_by=by, retry_of=retry_of, ids=[job_id],
        args=[arguments(subject.args, subject.name, day.date, names)], order_at=day.cutoff_at,
    )  # fmt: skip


@remembering(4096)
def _options_of_day(text: str, cutoff_at: datetime, missed_at: datetime) -> str:
    """The options of a window's jobs of a day: subjects with the same cutoff have the same."""
    told = options.read(text)
    assert told.window is not None
    of_job = dataclasses.replace(told.window, cutoff_at=cutoff_at, missed_at=missed_at, max_concurrency=None)
    return dataclasses.replace(told, window=of_job).stored()


def hook_of(window: WindowOptions, subject: str, day: date, job_ids: list[int], now: datetime, by: str) -> Batch | None:
    """The job that the cutoff of a day leads to, if its task declares one."""
    hook = window.hook
    if hook is None:
        return None
    return Batch(
        task=hook.task, queue=hook.queue, priority=hook.priority, state="queued", options=hook.options,
        max_retries=hook.max_retries, max_runtime=hook.max_runtime, created_at=now, visible_at=now,
        deadline_at=None, enqueued_by=by, retry_of=None, ids=job_ids,
        args=[arguments("{}", subject, day, (hook.subject, hook.day))],
    )  # fmt: skip


def terms_of_success(claim: Claim, window: WindowOptions, now: datetime) -> Terms:
    """A success counts before the cutoff. After it, the day is over, and this attempt is what ends it."""
    assert claim.scheduled_for is not None, f"job {claim.id}: the job of a window's day has its slot"
    subject = json.loads(claim.args).get(window.subject)
    hook = hook_of(window, str(subject), claim.scheduled_for.date(), [], now, "window")
    return Terms(
        before=window.cutoff_at,
        late=Skipped(CUTOFF_REACHED),
        late_follow_ups=() if hook is None else (hook,),
        day_status="success",
        late_day_status=CUTOFF_REACHED,
    )


def terms_of_refusal(claim: Claim, refused: Outcome, now: datetime) -> Terms | None:
    """A job that is refused since its cutoff has passed decides its day, as a success that comes too late does: the
    planner may be kept from it, or its window may be disabled."""
    window = options.read(claim.options).window if refused == Skipped(CUTOFF_REACHED) else None
    return None if window is None else terms_of_success(claim, window, now)


def terms_as_of(terms: Terms, window: WindowOptions, now: datetime) -> Terms:
    """A success that is told when its date is over, after an outage, finds its day missed: no hook follows."""
    if terms.late_day_status is None or window.missed_at is None or now < window.missed_at:
        return terms
    return terms._replace(late=Skipped(OUTAGE), late_follow_ups=(), late_day_status="missed")


# --- by hand --------------------------------------------------------------------------------------------------------


def why_not_again(
    job: Job, window: Schedule | None, subject: Subject | None, latest: Job | None, now: datetime
) -> str | None:
    """Why the day of a finished job gets no further one, if so. `latest` is the latest job of the subject's row."""
    if window is None or window.deleted_at is not None:
        return "its window is deleted"
    if subject is None or subject.removed_at is not None:
        return f"{job.subject} is no subject of window {window.name} any more"
    day = f"the day {slot_date(job)} of {subject.name}"
    if subject.last_date is not None and subject.last_date >= slot_date(job):
        return f"{day} is decided" + (f": {subject.status}" if subject.last_date == slot_date(job) else "")
    if subject.day != slot_date(job) or now >= subject.cutoff_at:
        return f"{day} was over at its cutoff; only the job of an open day is retried"
    if not window.enabled:
        return f"window {window.name} is disabled"
    if latest is not None and not latest.finished:
        return f"job {latest.id} is for {day} already, and is {latest.state}"
    return None


def again(job: Job, subject: Subject, new_id: int, now: datetime, by: str) -> SubjectStep:
    """Repeat the job of a day that is open: the new job is the day's from now on. The ended job stays as it is."""
    day = Day(subject.day, subject.opens_at, subject.cutoff_at)
    repeat = Batch(
        task=job.task, queue=job.queue, priority=job.priority, state="queued", options=job.options,
        max_retries=job.max_retries, max_runtime=job.max_runtime, created_at=now, visible_at=now, deadline_at=None,
        enqueued_by=by, retry_of=job.id, ids=[new_id], args=[json.dumps(job.args, ensure_ascii=False)],
        order_at=day.cutoff_at,
    )  # fmt: skip
    return SubjectStep(
        subject.schedule_id, subject.name, subject.version, day, day.cutoff_at, new_id, subject.last_date,
        subject.status, subject.reason, job=repeat,
    )  # fmt: skip


def slot_date(job: Job) -> date:
    """The day that a window's job is for."""
    assert job.scheduled_for is not None, f"job {job.id}: the job of a window's day has its slot"
    return job.scheduled_for.date()
