"""Daily windows: a subject's day has one outcome by its cutoff, whatever happens, and no day is left out."""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date
from typing import Any

from oncue.model import TERMINAL, Job, Slot
from oncue.policy import options
from oncue.policy.windows import ADDED_LATE, CUTOFF_REACHED, OUTAGE, PROMPTLY, day_of, rule_of
from oncue.sim.checker.attempts import REFUSED
from oncue.sim.checker.eras import era_of, in_era_of, when
from oncue.sim.checker.evidence import (
    Evidence,
    JobStory,
    ObservedAttempt,
    Turn,
    WindowBooks,
    closes_day,
    ends,
    is_by_hand,
)
from oncue.sim.checker.peace import Weather
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.checker.queues import limit_at, limits_of, raised, seated
from oncue.sim.checker.subject_days import (
    SLACK,
    SubjectDays,
    cutoff_of,
    date_is_over,
    expected_days,
    sent,
    subject_days,
    window_of,
)
from oncue.sim.history import Event, micros, moment

TICK = 60_000_000
"""How long the planner may take to look at a subject that was just added or changed, in microseconds."""

# --- successes ------------------------------------------------------------------------------------------------------


@promise("WIN-1: a subject's day has at most one success")
def _one_success(evidence: Evidence) -> Iterator[Broken]:
    """I1: of all the jobs of a day one succeeds at most, and the day says so at most once."""
    succeeded: Counter[tuple[int, str, date]] = Counter(
        (job.schedule_id, job.subject, job.scheduled_for.date())
        for job in evidence.final.jobs
        if job.state == "succeeded" and job.subject is not None and job.schedule_id is not None and job.scheduled_for
    )
    for (_, subject, day), count in succeeded.items():
        if count > 1:
            yield Broken(f"{count} jobs of the day {day} of {subject} succeeded")
    for days in subject_days(evidence):
        for day, finals in days.finals.items():
            successes = [final for final in finals if final.fields["status"] == "success"]
            if len(successes) > 1:
                yield Broken(f"the day {day} of {days.name} succeeded {len(successes)} times", tuple(successes))


@promise("WIN-2: no day is skipped in silence")
def _accounted_for(evidence: Evidence) -> Iterator[Broken]:
    """I2: worked out again from the subject's terms, every day that had a window has an outcome, or was missed."""
    for days in subject_days(evidence) if evidence.certain else ():
        told: set[date] = set()
        for day in expected_days(days, evidence):
            if day.date not in told and not days.is_accounted_for(day.date):
                told.add(day.date)
                events = [edit.event for edit in days.edits[-2:]]
                opened = days.opened.get(day.date)
                message = f"the day {day.date} of {days.name}, cutoff {day.cutoff_at.isoformat()}, has no outcome"
                yield Broken(message, (*events, *(() if opened is None else (opened,))))


@promise("WIN-3: no more attempts of a window run at once than its limit")
def _within_limit(evidence: Evidence) -> Iterator[Broken]:
    """I3: on all nodes together, counted over valid leases, from the start of an attempt until it really ends."""
    queues = {books.window.queue for books in evidence.final.windows}
    limits = limits_of(evidence) if queues else {}
    running: dict[tuple[str, int], list[tuple[int, int, Event]]] = defaultdict(list)
    ended = _real_ends(evidence) if limits else {}
    for number, (queue, claimed, attempt) in enumerate(seated(evidence) if limits else ()):
        began, until = when(attempt.start), min(ended.get(attempt.place, attempt.end), attempt.lease.end)
        limit = raised(limit_at(limits.get(queue, []), claimed), limit_at(limits.get(queue, []), began))
        if queue not in queues or limit is None or until <= began or evidence.is_unsure(attempt.start):
            continue
        seats = running[queue, limit.pool]
        while seats and seats[0][0] <= began:
            heapq.heappop(seats)
        heapq.heappush(seats, (until, number, attempt.start))
        if len(seats) > limit.most:
            starts = tuple(sorted((start for _, _, start in seats), key=when))
            yield Broken(f"{len(seats)} attempts ran at once in {queue}, {limit.most} may", starts)


def _real_ends(evidence: Evidence) -> dict[int, int]:
    """When attempts that were ended in their node's stead ended there."""
    found: dict[int, int] = {}
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            if any(map(closes_day, turn.changes)):
                found.update({attempt.place: _real_end(attempt, turn, evidence) for attempt in turn.attempts})
    return found


def _real_end(attempt: ObservedAttempt, turn: Turn, evidence: Evidence) -> int:
    node = attempt.start.node
    told = [when(outcome) for outcome in turn.outcomes if outcome.node == node]
    return min([*told, *([when(evidence.crashes[node])] if node in evidence.crashes else [])], default=attempt.end)


# --- openings and cutoffs -------------------------------------------------------------------------------------------


@promise("WIN-4: openings and cutoffs are in time, whatever the jobs do")
def _in_time(evidence: Evidence) -> Iterator[Broken]:
    """I4: the planner waits for no job: while nothing disturbs the cluster, it looks when it is due."""
    if evidence.late is None or not evidence.certain:
        return
    weather, most = Weather(evidence), round(evidence.late * 1e6)
    for days in subject_days(evidence):
        length = round(rule_of(days.books.window.expression).length * 1e6)
        for day, opened in days.opened.items():
            cutoff, edit = cutoff_of(evidence, opened), days.edit_before(opened)
            if cutoff is not None and edit is not None and opened.fields["verdict"] == "fired":
                due = max(cutoff - length, edit.event.at + TICK)
                if opened.at - due > most and weather.was_fine(in_era_of(opened, due), when(opened)):
                    late = (opened.at - due) / 1e6
                    yield Broken(f"the day {day} of {days.name} was opened {late:g} s late", (opened,))
        for day, finals in days.finals.items():
            for final in finals:
                if final.fields["status"] == CUTOFF_REACHED and final.fields["day"] == day.isoformat():
                    edit, due = days.edit_before(final), final.fields["cutoff_at"]
                    due = due if edit is None else max(due, edit.event.at + TICK)
                    if final.at - due > most and weather.was_fine(in_era_of(final, due), when(final)):
                        late = (final.at - due) / 1e6
                        yield Broken(f"the day {day} of {days.name} was closed {late:g} s late", (final,))


@promise("WIN-5: a day comes to its outcome with the end of its job, or without one")
def _with_its_job(evidence: Evidence) -> Iterator[Broken]:
    """I5: no outcome is written while the day's job may still succeed, and a job that succeeds is the day's success."""
    for days in subject_days(evidence) if evidence.certain else ():
        for day, finals in days.finals.items():
            opened = days.opened.get(day)
            for final in finals if opened is not None else ():
                assert opened is not None
                yield from _ended_with_it(days, day, opened, final, evidence)
        for day, opened in days.opened.items():
            end = _end_of(evidence.jobs.get(days.job[day]))
            is_told = any(final.fields["status"] == "success" for final in days.finals.get(day, ()))
            if end is not None and end.fields["state"] == "succeeded" and not is_told and not is_by_hand(end):
                yield Broken(f"the job of the day {day} of {days.name} succeeded, and the day did not", (opened, end))


def _ended_with_it(days: SubjectDays, day: date, opened: Event, final: Event, evidence: Evidence) -> Iterator[Broken]:
    end = _end_of(evidence.jobs.get(days.job[day]))
    if end is None or when(end) > when(final):
        yield Broken(f"the day {day} of {days.name} came to its outcome before its job ended", (opened, final))
    elif (final.fields["status"] == "success") != (end.fields["state"] == "succeeded"):
        message = f"the day {day} of {days.name} is {final.fields['status']}, its job {end.fields['state']}"
        yield Broken(message, (end, final))


def _end_of(story: JobStory | None) -> Event | None:
    """What ended a job; jobs of days are not started over."""
    return None if story is None else next((change for change in reversed(story.changes) if ends(change)), None)


@promise("WIN-6: a day has one outcome, a success only if it was settled before the cutoff")
def _one_outcome(evidence: Evidence) -> Iterator[Broken]:
    """I6: exactly one outcome is written, `success` by a call from before the cutoff, any other one after it."""
    yield from _settled_in_time(evidence)
    for days in subject_days(evidence) if evidence.certain else ():
        for day, finals in days.finals.items():
            written = {final.fields.get("op") for final in finals}
            told = (*finals, *(run for run in days.covering(day) if run.fields.get("op") not in written))
            if len(told) > 1:
                yield Broken(f"the day {day} of {days.name} has {len(told)} outcomes", told)
            for final in finals:
                yield from _on_its_side(days, day, final, evidence)


def _settled_in_time(evidence: Evidence) -> Iterator[Broken]:
    """By the rows alone."""
    for job in evidence.final.jobs:
        window = options.read(job.options).window
        if job.subject is None or job.state != "succeeded" or window is None or window.cutoff_at is None:
            continue
        tolerance = evidence.tolerance / 1e6
        if job.finished_at is not None and (job.finished_at - window.cutoff_at).total_seconds() >= tolerance:
            yield Broken(f"job {job.id} of {job.subject} succeeded at {job.finished_at}, after its cutoff")


def _on_its_side(days: SubjectDays, day: date, final: Event, evidence: Evidence) -> Iterator[Broken]:
    """Whether an outcome was told on the right side of the cutoff."""
    told, call = final.fields, sent(evidence, final)
    if told["day"] != day.isoformat() or evidence.is_unsure(call) or evidence.is_unsure(final):
        return
    if era_of(call) != era_of(final):
        return
    cutoff = told["cutoff_at"]
    if told["status"] == "success" and call.at >= cutoff + max(evidence.tolerance, 1):
        yield Broken(f"the day {day} of {days.name} succeeded by a call from after its cutoff", (call, final))
    # A node goes by the latest time that it may be: how far that is off depends on its line.
    known = SLACK if _ending(final, evidence) == "late" else evidence.tolerance
    if told["status"] != "success" and final.at + known < cutoff:
        yield Broken(f"the day {day} of {days.name} was closed before its cutoff", (final,))


def _ending(final: Event, evidence: Evidence) -> str | None:
    operation = evidence.operations.get(final.fields.get("op", -1))
    changes = () if operation is None else (one for one in operation.effects if one.kind == "change")
    return next((one.fields.get("ending") for one in changes if one.fields["id"] == final.fields["job"]), None)


# --- attempts -------------------------------------------------------------------------------------------------------


@promise("WIN-8: attempts are the retry delay apart, and only the cutoff ends them")
def _spaced(evidence: Evidence) -> Iterator[Broken]:
    """An attempt that failed is followed by one that is due at the delay after the one before was, or at once."""
    for story in evidence.jobs.values():
        window = window_of(evidence, story.id)
        if story.written is None or window is None or window.cutoff_at is None:
            continue
        due, exact, delay = story.written.fields["visible_at"], True, round(window.retry * 1e6)
        for turn in story.turns.values():
            for change in turn.changes:
                told = change.fields
                if told["from_state"] != "running":
                    continue
                if told["state"] == "failed" and told["reason"] is None and _may_go_on(turn, change):
                    yield Broken(f"job {story.id} failed before its cutoff, though it may go on", (change,))
                if told["state"] == "retrying" and exact and not _asked_for_another(turn):
                    expected = max(told["ended_at"], due + delay)
                    if abs(told["visible_at"] - expected) > 2:
                        off = (told["visible_at"] - expected) / 1e6
                        yield Broken(f"an attempt of job {story.id} is {off:g} s off its distance", (change,))
                due, exact = told["visible_at"], told["state"] == "retrying"


def _may_go_on(turn: Turn, change: Event) -> bool:
    outcome = turn.outcome
    is_final = outcome is not None and outcome.fields["final"]
    return not is_final and not is_by_hand(change) and not str(change.fields["error"]).startswith(REFUSED)


def _asked_for_another(turn: Turn) -> bool:
    return turn.outcome is not None and turn.outcome.fields["delay"] is not None


# --- what a day comes to --------------------------------------------------------------------------------------------


@promise("WIN-9: only what was over before its terms counted is added_late")
def _added_late(evidence: Evidence) -> Iterator[Broken]:
    """A day is `added_late` if the subject was added or changed after its cutoff, and only then."""
    for days in subject_days(evidence) if evidence.certain else ():
        for day, finals in days.finals.items():
            edit = days.edit_before(finals[0])
            terms = None if edit is None else day_of(edit.terms, day)
            if edit is None or terms is None or day in days.opened or finals[0].fields["status"] != CUTOFF_REACHED:
                continue
            is_late, is_told = micros(terms.cutoff_at) <= edit.since, finals[0].fields["reason"] == ADDED_LATE
            if is_late != is_told:
                what = "is" if is_told else "is not"
                yield Broken(f"the day {day} of {days.name} {what} added_late", (edit.event, finals[0]))


@promise("WIN-12: an outcome is never overwritten")
def _never_overwritten(evidence: Evidence) -> Iterator[Broken]:
    """A success that comes after the cutoff's outcome changes nothing, and the last decided day never goes back."""
    for days in subject_days(evidence):
        for event in days.forgotten:
            yield Broken(f"{days.name} lost the outcome of {event.fields['was_date']}", (event,))
        for finals in days.finals.values():
            for final in finals:
                was = final.fields["was_date"]
                if was is not None and was >= final.fields["date"]:
                    message = f"the outcome of {was} of {days.name}, {final.fields['was_status']}, was overwritten"
                    yield Broken(message, (final,))


@promise("WIN-13: a cutoff leads to one hook job, and nothing else does")
def _hooks(evidence: Evidence) -> Iterator[Broken]:
    """One for each day that is `cutoff_reached`, noticed in time; none for a success, a missed or an added_late day."""
    for books in evidence.final.windows:
        window = options.read(books.window.options).window
        if window is None or window.hook is None:
            continue
        made = Counter(
            (str(_argument(job, window.hook.subject)), str(_argument(job, window.hook.day)))
            for job in evidence.final.jobs
            if job.task == window.hook.task
        )
        wanted = {
            (name, day.isoformat())
            for (name, day), status in outcomes(evidence, books).items()
            if status == CUTOFF_REACHED
        }
        for name, day in sorted(wanted | made.keys()):
            if made[name, day] != ((name, day) in wanted) and (evidence.complete or (name, day) in wanted):
                yield Broken(f"the day {day} of {name} has {made[name, day]} hook jobs")


def _argument(job: Job, name: str | None) -> Any:
    arguments = json.loads(job.args) if isinstance(job.args, str) else job.args
    return None if name is None or not isinstance(arguments, dict) else arguments.get(name)


@promise("WIN-14: a day is that of its cutoff's date, and is missed only when that is over")
def _missed(evidence: Evidence) -> Iterator[Broken]:
    """Noticed while its date lasts, a cutoff that passed is `cutoff_reached`; noticed later, its day is missed."""
    for days in subject_days(evidence) if evidence.certain else ():
        for day, opened in days.opened.items():
            edit, cutoff = days.edit_before(opened), cutoff_of(evidence, opened)
            terms = None if edit is None else day_of(edit.terms, day)
            if cutoff is not None and (terms is None or micros(terms.cutoff_at) != cutoff):
                yield Broken(f"the day {day} of {days.name} has the cutoff {moment(cutoff)}", (opened,))
        for final in (final for finals in days.finals.values() for final in finals):
            yield from _noticed(days, final, evidence)


def _noticed(days: SubjectDays, final: Event, evidence: Evidence) -> Iterator[Broken]:
    told, edit, call = final.fields, days.edit_before(final), sent(evidence, final)
    day = date.fromisoformat(told["date"])
    if edit is None or evidence.is_unsure(call) or told["status"] == "success" or told["reason"] == ADDED_LATE:
        return
    terms = day_of(edit.terms, day)
    cutoff_at = moment(told["cutoff_at"]) if told["day"] == told["date"] or terms is None else terms.cutoff_at
    if told["status"] == CUTOFF_REACHED and date_is_over(edit.terms, day, cutoff_at, moment(call.at - SLACK), PROMPTLY):
        yield Broken(f"the day {day} of {days.name} was over for long, and is cutoff_reached", (call, final))
    if told["status"] == "missed" and not date_is_over(
        edit.terms, day, cutoff_at, moment(call.at + evidence.tolerance), PROMPTLY
    ):
        yield Broken(f"the day {day} of {days.name} was not over, and is missed", (call, final))


# --- books ----------------------------------------------------------------------------------------------------------


def outcomes(evidence: Evidence, books: WindowBooks) -> dict[tuple[str, date], str]:
    """What the days of a window came to, `added_late` among it: by the ledger, and by the history where the ledger
    does not tell, since the job of a day ended in another way."""
    found: dict[tuple[str, date], str] = {}
    for name, rows in books.ledger.items():
        for row in rows:
            status = _outcome_of(row)
            if status is not None and row.until is None:
                found[name, row.scheduled_for.date()] = status
    for days in subject_days(evidence):
        if days.books is books:
            for day, finals in days.finals.items():
                last = finals[-1].fields
                found[days.name, day] = ADDED_LATE if last["reason"] == ADDED_LATE else last["status"]
            for day in days.opened:
                if (days.name, day) not in found and days.passed_over(day):
                    found[days.name, day] = "missed"
    return found


def _outcome_of(row: Slot) -> str | None:
    if row.verdict == "missed":
        return "missed"
    if row.verdict == "skipped":
        return row.reason
    ends_of_days = {CUTOFF_REACHED: CUTOFF_REACHED, OUTAGE: "missed"}
    if row.state == "succeeded":
        return "success"
    return ends_of_days.get(row.state_reason or "") if row.state == "skipped" else None


@promise("the tallies of a window agree with its ledger")
def _tallied(evidence: Evidence) -> Iterator[Broken]:
    """As many subjects are counted for a day as the ledger has of them: opened, and by what they came to."""
    for books in evidence.final.windows:
        expected = Counter(
            (day.isoformat(), status) for (_, day), status in outcomes(evidence, books).items()
        ) + Counter(
            (row.scheduled_for.date().isoformat(), "opened")
            for rows in books.ledger.values()
            for row in rows
            if row.job_id is not None
        )
        expected += _of_runs(books, evidence)
        for key in sorted(expected.keys() | books.tallies.keys()):
            told, found = books.tallies.get(key, 0), expected[key]
            if told != found if evidence.certain else told < found:
                yield Broken(f"{told} subjects are counted as {key[1]} on {key[0]}; the ledger has {found}")


def _of_runs(books: WindowBooks, evidence: Evidence) -> Counter[tuple[str, str]]:
    """The days of runs of missed ones, by the terms that held when they were decided."""
    found: Counter[tuple[str, str]] = Counter()
    for days in subject_days(evidence):
        for verdict in days.verdicts if days.books is books else ():
            edit, first = days.edit_before(verdict), date.fromisoformat(verdict.fields["date"])
            last = date.fromisoformat(verdict.fields["until"])
            if edit is not None and first != last:
                span = [date.fromordinal(number) for number in range(first.toordinal(), last.toordinal() + 1)]
                windows = [day.isoformat() for day in span if day in (first, last) or day_of(edit.terms, day)]
                had_outcome = {day.isoformat() for day, finals in days.finals.items() if finals}
                found.update((day, "missed") for day in windows if day not in had_outcome)
    return found


@promise("the ledger of a window is what was decided")
def _ledger(evidence: Evidence) -> Iterator[Broken]:
    """Each verdict on a day is a row, each row was a verdict, and each has its job, or none."""
    if not evidence.certain:
        return
    for days in subject_days(evidence):
        told = Counter(map(_told, days.verdicts))
        told.update((*_told(opened)[:3], days.job[day]) for day, opened in days.opened.items())
        kept = Counter(map(_kept, days.books.ledger.get(days.name, ())))
        for verdict in sorted((told - kept) + (kept - told), key=repr):
            where = (
                "was decided, and is not in the ledger" if told[verdict] else "is in the ledger, and was not decided"
            )
            yield Broken(f"the day {verdict[0]} of {days.name} as {verdict[1]} {where}")
    made_for = {event.fields["job"] for days in subject_days(evidence) for event in days.opened.values()}
    for job in evidence.final.jobs:
        if job.subject is not None and job.retry_of is None and job.id not in made_for:
            yield Broken(f"job {job.id} of {job.subject} belongs to no day")
        if job.subject is not None and job.state not in TERMINAL and job.finished_at is not None:
            yield Broken(f"job {job.id} of {job.subject} has not ended, and says when it did")


def _told(event: Event) -> tuple[str, str, int, int | None]:
    told = event.fields
    return told["date"], told["verdict"], told["days"], told["job"]


def _kept(row: Slot) -> tuple[str, str, int, int | None]:
    return row.scheduled_for.date().isoformat(), row.verdict, row.slots, row.job_id
