"""Daily windows: days that are decided twice, too early, too late or not at all, and what follows from them."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

from oncue.engine.planner import Planner, Walk
from oncue.model import Claim, Schedule, Subject, SubjectStep, Terms
from oncue.policy import lifecycle, retry, subjects, window_steps
from oncue.policy import windows as policy
from oncue.policy.options import WindowOptions
from oncue.policy.windows import Closing, Day, DayPlan, DayTerms
from oncue.verbs import subjects as writing
from oncue.verbs.schedules.declaring import Declaring
from oncue.verbs.windows import Windows
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug

OWN = "oncue itself, before it was released: "
ONE_SUCCESS = "WIN-1: a subject's day has at most one success"
NO_SKIP = "WIN-2: no day is skipped in silence"
WITHIN_LIMIT = "WIN-3: no more attempts of a window run at once than its limit"
IN_TIME = "WIN-4: openings and cutoffs are in time, whatever the jobs do"
WITH_ITS_JOB = "WIN-5: a day comes to its outcome with the end of its job, or without one"
ONE_OUTCOME = "WIN-6: a day has one outcome, a success only if it was settled before the cutoff"
SPACED = "WIN-8: attempts are the retry delay apart, and only the cutoff ends them"
ADDED_LATE = "WIN-9: only what was over before its terms counted is added_late"
NEVER_OVERWRITTEN = "WIN-12: an outcome is never overwritten"
ONE_HOOK = "WIN-13: a cutoff leads to one hook job, and nothing else does"
MISSED = "WIN-14: a day is that of its cutoff's date, and is missed only when that is over"
TALLIES = "the tallies of a window agree with its ledger"
LEDGER = "the ledger of a window is what was decided"


@bug(
    "a run by hand that does not look whether the day has its job",
    seen_in="schedulers whose `run now` is another way in, beside the lock of the daily run: the user is served twice",
    run=runs.edited_windows,
    caught_by=ONE_SUCCESS,
)
def run_by_hand_twice(patch: Patch) -> None:
    async def run_now(self: Windows, window: str, name: str, *, by: str = "system") -> Subject:
        connected, found, current = self._app, await self.get(window), await self.subject(window, name)
        (job_id,), now = await connected.store.jobs.reserve(1), connected.now()  # type: ignore[attr-defined]
        day = Day(current.day, current.opens_at, current.cutoff_at)
        job = policy.job_of(found, current, day, job_id, now, by)._replace(retry_of=current.job_id or job_id)
        step = SubjectStep(
            found.id, name, current.version, day, current.cutoff_at, job_id, current.last_date, current.status,
            current.reason, job=job,
        )  # fmt: skip
        await connected.store.windows.advance([step], now)  # type: ignore[attr-defined]
        return current

    patch.replace(Windows, "run_now", run_now)


@bug(
    "an edit during an outage that drops the days before it",
    seen_in=OWN
    + "the row of a subject that was changed or removed went on from today, though the planner had not come "
    "to the cutoffs before that",
    run=runs.edits_in_an_outage,
    caught_by=NO_SKIP,
)
def edited_before_it_was_decided(patch: Patch) -> None:
    async def never(*_: Any) -> bool:
        return False

    patch.replace(writing, "_was_behind", never)
    patch.replace(subjects, "_is_promised", lambda subject: False)


@bug(
    "a planner that goes on from now",
    seen_in="schedulers without memory: what was due while nothing ran is never heard of",
    run=runs.windows,
    caught_by=NO_SKIP,
)
def planned_from_now(patch: Patch) -> None:
    def plan(subject: Subject, terms: DayTerms, enabled_since: datetime, now: datetime, **job: Any) -> DayPlan:
        if now < subject.cutoff_at + timedelta(minutes=1):
            return real(subject, terms, enabled_since, now, **job)  # type: ignore[no-any-return]
        return real(subject, terms, now, now, **job)  # type: ignore[no-any-return]

    real = patch.replace(policy, "plan", plan)


@bug(
    "a bound that each node has for itself",
    seen_in="executors with `max_concurrency` in memory: with three nodes three times as many run",
    run=runs.windows,
    caught_by=WITHIN_LIMIT,
)
def bound_of_each_node(patch: Patch) -> None:
    async def none(self: Declaring, connected: Any) -> None: ...

    patch.replace(Declaring, "_limit_windows", none)


@bug(
    "a tick that waits for the jobs of the one before",
    seen_in="schedulers that run the jobs in their tick: one that hangs holds up the cutoffs of all others",
    run=runs.window_cutoffs,
    caught_by=IN_TIME,
)
def tick_waits(patch: Patch) -> None:
    async def one_pass(self: Planner, window: Schedule, epoch: int, now: datetime) -> Walk:
        if await self._store.windows.due(window.id, now, 1):
            running = await self._store.jobs.outlook()
            if running.overdue_at is not None:
                return Walk(is_left=True, is_over=True)
        return await real(self, window, epoch, now)  # type: ignore[no-any-return]

    real = patch.replace(Planner, "_pass", one_pass)


@bug(
    "a cutoff that leaves the job of its day running",
    seen_in="the origin of this contract, before its success was conditional: the day was closed beside its job",
    run=runs.window_cutoffs,
    caught_by=WITH_ITS_JOB,
)
def closed_beside_its_job(patch: Patch) -> None:
    patch.replace(window_steps, "is_open", lambda subject: False)


@bug(
    "a late success that overwrites the day",
    seen_in="trackers that store the last word: the user is told of a cutoff, and the report says success",
    run=runs.window_cutoffs,
    caught_by=(NEVER_OVERWRITTEN, WITH_ITS_JOB),
)
def late_success_overwrites(patch: Patch) -> None:
    patch.replace(window_steps, "is_open", lambda subject: False)
    patch.sql("finalize", "set last_date = day,", "set last_date = date(j.scheduled_for / 1000000, 'unixepoch'),")
    patch.sql("finalize", "and oncue_subjects.job_id = c.id and (last_date is null or last_date < day)", "")


@bug(
    "a success that counts whenever it comes",
    seen_in="schedulers that compare with the cutoff when an attempt starts, not when it ends",
    run=runs.struck_window_cutoffs,
    caught_by=ONE_OUTCOME,
)
def success_after_the_cutoff(patch: Patch) -> None:
    def terms(claim: Claim, window: WindowOptions, now: datetime) -> Terms:
        return real(claim, window, now)._replace(before=None)  # type: ignore[no-any-return]

    real = patch.replace(policy, "terms_of_success", terms)


@bug(
    "a day that is closed ahead of its cutoff",
    seen_in="schedulers that round the time to minutes: the last minute of a window is lost",
    run=runs.windows,
    caught_by=ONE_OUTCOME,
)
def closed_early(patch: Patch) -> None:
    def plan(subject: Subject, terms: DayTerms, enabled_since: datetime, now: datetime, **job: Any) -> DayPlan:
        return real(subject, terms, enabled_since, now + timedelta(seconds=50), **job)  # type: ignore[no-any-return]

    real = patch.replace(policy, "plan", plan)
    patch.sql("due_subjects", "next_at <= :now", "next_at <= :now + 50000000")
    patch.sql("next_subject", "select next_at from", "select next_at - 50000000 from")


@bug(
    "a subject that is added again and forgets its day",
    seen_in="user tables with hard deletes: a user who leaves and comes back is served twice on a day",
    run=runs.edited_windows,
    caught_by=NEVER_OVERWRITTEN,
)
def day_forgotten(patch: Patch) -> None:
    def added(window: Schedule, wanted: Subject, current: Subject | None, now: datetime) -> Subject:
        if current is not None and current.removed_at is not None:
            current = dataclasses.replace(current, last_date=None, status=None, reason=None, job_id=None)
        return real(window, wanted, current, now)  # type: ignore[no-any-return]

    real = patch.replace(subjects, "added", added)


@bug(
    "a retry delay that counts from the end of an attempt",
    seen_in="the origin of this contract: the longer an attempt takes, the fewer of them fit into the window",
    run=runs.windows,
    caught_by=SPACED,
)
def spaced_from_the_end(patch: Patch) -> None:
    patch.replace(lifecycle, "_spaced", lambda claim, spacing, ended_at: retry.Ladder(spacing))


@bug(
    "a user who comes after the cutoff and counts as one that was failed",
    seen_in="the origin of this contract: every sign-up in the evening was a breach of the cutoff rate",
    run=runs.windows,
    caught_by=ADDED_LATE,
)
def added_late_is_a_cutoff(patch: Patch) -> None:
    def closing(subject: Subject, terms: DayTerms, day: Day, has_job: bool, now: datetime) -> Closing | None:
        found: Closing | None = real(subject, terms, day, has_job, now)
        return found if found is None or found.reason is None else Closing(day, "cutoff_reached", None, True)

    real = patch.replace(policy, "_closing", closing)


@bug(
    "a cutoff that the worker notices and tells nobody of",
    seen_in="hooks that hang on the scheduler's own path: where a late attempt closes the day, none runs",
    run=runs.struck_window_cutoffs,
    caught_by=ONE_HOOK,
)
def no_hook_after_a_late_success(patch: Patch) -> None:
    def terms(claim: Claim, window: WindowOptions, now: datetime) -> Terms:
        return real(claim, window, now)._replace(late_follow_ups=())  # type: ignore[no-any-return]

    real = patch.replace(policy, "terms_of_success", terms)


@bug(
    "an outage of days that is told as so many cutoffs",
    seen_in="schedulers that catch up on every day they slept through: a user gets a reset for each of them",
    run=runs.windows_in_outages,
    caught_by=MISSED,
)
def outage_is_a_cutoff(patch: Patch) -> None:
    def closing(subject: Subject, terms: DayTerms, day: Day, has_job: bool, now: datetime) -> Closing:
        found: Closing | None = real(subject, terms, day, has_job, now)
        return found or Closing(day, "cutoff_reached", None, True)

    real = patch.replace(policy, "_closing", closing)


@bug(
    "tallies that count one subject for a whole batch",
    seen_in="counters that are raised per write, not per row",
    run=runs.window_cutoffs,
    caught_by=TALLIES,
)
def tallies_per_batch(patch: Patch) -> None:
    patch.sql("tally", ":event, :subjects)", ":event, 1)")


@bug(
    "a ledger that calls every day of a subject fired",
    seen_in="run tables with one status for all: nobody can tell a day that was skipped from one that ran",
    run=runs.windows,
    caught_by=LEDGER,
)
def every_day_is_fired(patch: Patch) -> None:
    patch.sql("decide_days", "d.value ->> 5", "'fired'")
