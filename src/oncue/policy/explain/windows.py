"""Why a subject of a window has, or has not, got what its day was for; and how a window stands."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from oncue.errors import InvalidSchedule
from oncue.model import Day, Revision, Schedule, Slot, Subject
from oncue.policy import windows
from oncue.policy.days import DayFate, fate_of, row_of
from oncue.policy.explain.cluster import Cluster, no_leader, obstacles
from oncue.policy.explain.findings import Explanation, Finding, counted, error_line, length, when
from oncue.policy.explain.jobs import JobFacts, course_of
from oncue.policy.explain.revisions import switched_off
from oncue.policy.subjects import shown_due, shown_weekdays
from oncue.policy.windows import DayTerms
from oncue.policy.zones import local_date

WHO_RAN = "`oncue nodes` tells which workers are alive"


@dataclass(frozen=True, slots=True)
class DayFacts:
    """What is stored about a day of a window's subject."""

    window: Schedule
    revisions: Sequence[Revision]
    subject: Subject
    day: date
    cluster: Cluster
    rows: Sequence[Slot] = ()
    """The ledger's rows that touch the day."""
    job: JobFacts | None = None
    """The latest job of the day, if it is still there."""
    paused_at: datetime | None = None
    kept_days: int = 30
    """For how many days the ledger keeps the days of subjects."""

    @property
    def terms(self) -> DayTerms:
        return windows.terms_of(self.subject, windows.rule_of(self.window.expression), self.window.tz)

    @property
    def span(self) -> Day | None:
        """The window of the day. Of the day that the row is about, the row knows it: the terms may be newer."""
        if self.day == self.subject.day:
            return Day(self.day, self.subject.opens_at, self.subject.cutoff_at)
        return windows.day_of(self.terms, self.day)

    @property
    def row(self) -> Slot | None:
        """The row that tells of the day. A run of missed days leaves out those that have no window."""
        row = row_of(self.rows, self.day)
        return None if row is not None and row.until is not None and self.span is None else row


def day_in_question(subject: Subject, window: Schedule, now: datetime) -> date:
    """The day that a question is about if it names none: the one that is open, else today's in the subject's zone."""
    if subject.opens_at <= now < subject.cutoff_at:
        return subject.day
    return local_date(subject.tz or window.tz, now)


def explain_day(facts: DayFacts) -> Explanation:
    about = f"day {facts.day} of {facts.subject.name} in window {facts.window.name}"
    row = facts.row
    try:
        findings = _absent(facts) if row is None else _decided(facts, row)
    except InvalidSchedule as error:  # a zone that this host does not know
        findings = [Finding("unworkable", f"Its days cannot be worked out on this host: {error}.")]
    status = findings[0].code if row is None else fate_of(row)
    return Explanation(about, status, findings)


# --- what a row tells -----------------------------------------------------------------------------------------------


def _decided(facts: DayFacts, row: Slot) -> list[Finding]:
    return [*_BY_FATE[fate_of(row)](facts, row), *_course(facts, row), *_removed(facts)]


def _success(facts: DayFacts, row: Slot) -> list[Finding]:
    spare = ""
    if facts.span is not None and row.finished_at is not None:
        spare = f", {length((facts.span.cutoff_at - row.finished_at).total_seconds())} before its cutoff"
    ended = "" if row.finished_at is None else f" at {when(row.finished_at, facts.cluster.now)}"
    return [Finding("success", f"It was done{ended}{spare}, by job {row.job_id}.")]


def _cutoff_reached(facts: DayFacts, row: Slot) -> list[Finding]:
    over = "Its cutoff"
    if facts.span is not None:
        over = f"Its cutoff {when(facts.span.cutoff_at, facts.cluster.now)}"
    if row.job_id is None:
        text = f"{over} was reached before any job was made: no leader ran in its window."
        return [Finding("cutoff_reached", text, WHO_RAN)]
    return [Finding("cutoff_reached", f"{over} was reached, and no attempt of job {row.job_id} had succeeded.")]


def _added_late(facts: DayFacts, row: Slot) -> list[Finding]:
    added = when(row.decided_at, facts.cluster.now)
    text = f"It was added, or its terms were changed, after that day's cutoff: decided at {added}. The next day counts."
    return [Finding("added_late", text)]


def _missed(facts: DayFacts, row: Slot) -> list[Finding]:
    others = f", with {counted(row.slots - 1, 'other day')} up to {row.until.date()}" if row.until is not None else ""
    noticed = when(row.decided_at, facts.cluster.now)
    if row.job_id is not None:
        text = (
            f"It was missed: no leader ran from its cutoff to the end of its date. Job {row.job_id} ended without it."
        )
        return [Finding("missed", text)]
    text = f"It was missed{others}: no leader ran from its cutoff to the end of its date; noticed at {noticed}."
    return [Finding("missed", text, WHO_RAN)]


def _open(facts: DayFacts, row: Slot) -> list[Finding]:
    span, now = facts.span, facts.cluster.now
    if span is None:
        return [Finding("open", f"Job {row.job_id} is for it.")]
    if span.cutoff_at <= now:
        text = f"Its cutoff passed at {when(span.cutoff_at, now)}, and no leader has ended it yet."
        return [Finding("open", text), *no_leader(facts.cluster, "no day is decided"), *_off(facts)]
    text = f"It is open, since {when(span.opens_at, now)}: job {row.job_id} has until its cutoff {_at(span, now)}."
    return [Finding("open", text), *_off(facts)]


def _ended(facts: DayFacts, row: Slot) -> list[Finding]:
    span, now, state = facts.span, facts.cluster.now, row.state
    is_open = span is not None and now < span.cutoff_at and facts.subject.removed_at is None
    retry = f"try again before its cutoff: `oncue retry {row.job_id}`" if is_open and facts.window.enabled else None
    cutoff = "" if span is None else f" {_at(span, now)}"
    text = f"Its job {row.job_id} ended as {state} and is not tried again; the day is left to its cutoff{cutoff}."
    return [Finding("ended", text, retry), *_off(facts)]


def _lost(facts: DayFacts, row: Slot) -> list[Finding]:
    quoted = f"{shlex.quote(facts.window.name)} --subject {shlex.quote(facts.subject.name)}"
    return [Finding("lost", f"Job {row.job_id} is not there.", f"check the ledger: `oncue audit {quoted}`")]


_BY_FATE: dict[DayFate, Callable[[DayFacts, Slot], list[Finding]]] = {
    "success": _success,
    "cutoff_reached": _cutoff_reached,
    "added_late": _added_late,
    "missed": _missed,
    "open": _open,
    "ended": _ended,
    "lost": _lost,
}


def _course(facts: DayFacts, row: Slot) -> list[Finding]:
    """How the day's job stands: from the job, or from what the ledger kept of it."""
    if facts.job is not None:
        return course_of(facts.job)
    if row.job_id is None or row.state is None:
        return []
    why = "" if row.state_reason is None else f" ({row.state_reason})"
    return [Finding("settled", f"Job {row.job_id} {row.state}{why}{error_line(row.error)}; it was pruned since.")]


# --- what no row tells ----------------------------------------------------------------------------------------------


def _absent(facts: DayFacts) -> list[Finding]:
    for why in (_removed, _not_yet_added, _no_window_that_day, _past, _off):
        if found := why(facts):
            return found
    span, now = facts.span, facts.cluster.now
    assert span is not None, "a day without a window is told before"
    if now < span.opens_at:
        text = f"Its window opens at {when(span.opens_at, now)}, for its cutoff at {when(span.cutoff_at, now)}."
        first = Finding("not_open_yet", text, _run_now(facts))
    elif now < span.cutoff_at:
        since = when(span.opens_at, now)
        text = f"Its window is open since {since}, until {when(span.cutoff_at, now)}; no leader has made its job yet."
        first = Finding("pending", text)
    else:
        text = f"Its cutoff passed at {when(span.cutoff_at, now)}, and no leader has written what the day came to yet."
        first = Finding("pending", text)
    return [first, *_in_the_way(facts)]


def _removed(facts: DayFacts) -> list[Finding]:
    removed_at = facts.subject.removed_at
    if removed_at is None:
        return []
    text = f"{facts.subject.name} was removed from the window at {when(removed_at, facts.cluster.now)}."
    return [Finding("removed", text, f"add it again: `oncue subjects add {_typed(facts)} --at …`")]


def _not_yet_added(facts: DayFacts) -> list[Finding]:
    since, now = facts.subject.since, facts.cluster.now
    if facts.span is not None and since < facts.span.cutoff_at:
        return []
    if facts.span is None and local_date(facts.terms.tz, since) <= facts.day:
        return []
    if local_date(facts.terms.tz, facts.subject.created_at) > facts.day:
        text = f"{facts.subject.name} is a subject since {when(facts.subject.created_at, now)} only."
        return [Finding("not_a_subject_yet", text)]
    text = f"Its terms are from {when(since, now)}; the ledger has no row for that day, which was before."
    return [Finding("other_terms", text)]


def _no_window_that_day(facts: DayFacts) -> list[Finding]:
    if facts.span is not None:
        return []
    if facts.day in facts.subject.days_off:
        return [Finding("day_off", f"{facts.day} is a day off of {facts.subject.name}.")]
    if not facts.subject.weekdays >> facts.day.weekday() & 1:
        days = shown_weekdays(facts.subject.weekdays)
        return [Finding("weekday_left_out", f"{facts.day} is a {facts.day:%A}; {facts.subject.name} has {days}.")]
    text = f"There is no {facts.day} {shown_due(facts.subject.due)} in {facts.terms.tz}: the zone leaves the date out."
    return [Finding("no_such_date", text)]


def _past(facts: DayFacts) -> list[Finding]:
    """A day that the planner has passed."""
    span, now = facts.span, facts.cluster.now
    if span is None or facts.day >= facts.subject.day:
        return []
    if (now - span.cutoff_at).days >= facts.kept_days:
        text = f"The ledger keeps the days of subjects for {counted(facts.kept_days, 'day')}: that one is not known."
        return [Finding("past_retention", text)]
    text = "It is over, and the ledger has no row for it: its window was disabled then, or the row was deleted."
    return [Finding("unaccounted", text, _audit(facts))]


def _off(facts: DayFacts) -> list[Finding]:
    if facts.window.enabled:
        return []
    off = switched_off(facts.window.name, facts.revisions, facts.revisions[-1], facts.cluster.now)
    return [Finding(off.code, off.text.replace("The schedule is ", "The window is ", 1), off.suggestion)]


def _in_the_way(facts: DayFacts) -> list[Finding]:
    window = facts.window
    return [
        *no_leader(facts.cluster, "no window is opened and no day is decided"),
        *obstacles(window.queue, window.task, facts.paused_at, facts.cluster),
    ]


def _at(span: Day, now: datetime) -> str:
    return f"at {when(span.cutoff_at, now)}"


def _run_now(facts: DayFacts) -> str | None:
    return f"do it now: `oncue subjects run {_typed(facts)}`" if facts.day == facts.subject.day else None


def _audit(facts: DayFacts) -> str:
    quoted = f"{shlex.quote(facts.window.name)} --subject {shlex.quote(facts.subject.name)}"
    return f"`oncue audit {quoted} --from {facts.day} --to {facts.day}`"


def _typed(facts: DayFacts) -> str:
    return f"{shlex.quote(facts.window.name)} {shlex.quote(facts.subject.name)}"


# --- a window -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """What is stored about a window as a whole."""

    window: Schedule
    revisions: Sequence[Revision]
    cluster: Cluster
    paused_at: datetime | None = None
    next_at: datetime | None = None
    """When the planner has to look at a subject of any window next."""


def explain_window(facts: WindowFacts) -> Explanation:
    window, now = facts.window, facts.cluster.now
    rule = windows.rule_of(window.expression)
    about = f"window {window.name} (task {window.task}, queue {window.queue})"
    named = shlex.quote(window.name)
    text = (
        f"It opens {length(rule.length)} before the due time of each subject; attempts are {length(rule.retry)} apart."
    )
    opens = Finding("window", text, f"`oncue explain {named} --subject NAME` tells why one waits")
    if not window.enabled:
        off = switched_off(window.name, facts.revisions, facts.revisions[-1], now)
        return Explanation(about, off.code, [off, opens])
    blocked = [
        *no_leader(facts.cluster, "no window is opened and no day is decided"),
        *obstacles(window.queue, window.task, facts.paused_at, facts.cluster),
    ]
    return Explanation(about, blocked[0].code if blocked else "enabled", [*blocked, opens, *_next_look(facts)])


def _next_look(facts: WindowFacts) -> list[Finding]:
    if facts.next_at is None:
        return [Finding("no_subjects", "No subject of any window waits for its opening or its cutoff.")]
    text = f"The next opening or cutoff of any window is at {when(facts.next_at, facts.cluster.now)}."
    return [Finding("next_look", text)]
