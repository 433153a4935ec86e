"""The days of a window's subjects, worked out again from their terms, beside what the history tells of them.

A subject's terms hold from one edit to the next. Each date of that time which has a window is to be accounted for: it
has an outcome of its own, or is one of a run of missed days. A day that has begun goes on under the terms that it began
with. A day that was over before its terms counted is to be accounted for only if it was the day of the edit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from oncue.model import Day
from oncue.policy import options
from oncue.policy.options import WindowOptions
from oncue.policy.windows import DayTerms, day_of, rule_of
from oncue.policy.zones import local_date
from oncue.sim.checker.evidence import Evidence, SubjectStory, WindowBooks
from oncue.sim.history import Event, micros, moment

ONE_DAY = timedelta(days=1)
SLACK = 120_000_000
"""How much later than it was read an instant may be written, in microseconds: callers wait, and clocks are set."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A subject was added, changed or removed: these terms hold from here on."""

    event: Event
    terms: DayTerms

    @property
    def since(self) -> int:
        since: int = self.event.fields["since"]
        return since

    @property
    def removed(self) -> bool:
        return bool(self.event.fields["removed"])


@dataclass(slots=True)
class SubjectDays:
    """What the history tells of one subject, by date."""

    story: SubjectStory
    books: WindowBooks
    edits: list[Edit] = field(default_factory=list)
    opened: dict[date, Event] = field(default_factory=dict)
    """When the first job of a day was made."""
    job: dict[date, int] = field(default_factory=dict)
    """The latest job of a day: a retry by hand, or one for a subject that came back, takes the place of the first."""
    finals: dict[date, list[Event]] = field(default_factory=lambda: defaultdict(list))
    """The outcomes that were written."""
    verdicts: list[Event] = field(default_factory=list)
    """The days that were decided without a job."""
    forgotten: list[Event] = field(default_factory=list)
    """When its row lost the last decided day."""
    places: dict[int, int] = field(default_factory=dict)
    """Where its events stand in its story."""

    @property
    def name(self) -> str:
        return self.story.name

    def edit_before(self, event: Event) -> Edit | None:
        """The terms that hold at an event."""
        place = self.places[id(event)]
        return next((edit for edit in reversed(self.edits) if self.places[id(edit.event)] < place), None)

    def covering(self, day: date) -> list[Event]:
        """The runs of missed days that a date belongs to."""
        told = day.isoformat()
        return [
            one
            for one in self.verdicts
            if one.fields["verdict"] == "missed" and one.fields["date"] <= told <= one.fields["until"]
        ]

    def passed_over(self, day: date) -> bool:
        """Whether a day whose job had ended in another way was missed, as one of several days at once."""
        if day not in self.opened or self.finals.get(day):
            return False
        told = day.isoformat()
        return any(
            final.fields["day"] == told for later, finals in self.finals.items() if later > day for final in finals
        )

    def is_accounted_for(self, day: date) -> bool:
        return bool(self.finals.get(day) or self.covering(day)) or self.passed_over(day)


def window_of(evidence: Evidence, job_id: int) -> WindowOptions | None:
    """What the job of a subject's day carries."""
    story = evidence.jobs.get(job_id)
    return None if story is None or story.written is None else options.read(story.written.fields["options"]).window


def cutoff_of(evidence: Evidence, opened: Event) -> int | None:
    """Until when a success of this day counts, as its job has it."""
    window = window_of(evidence, opened.fields["job"])
    return None if window is None or window.cutoff_at is None else micros(window.cutoff_at)


def sent(evidence: Evidence, event: Event) -> Event:
    """When the call was made that had this effect; the effect itself, if that is not known."""
    operation = evidence.operations.get(event.fields.get("op", -1))
    return event if operation is None else operation.invoke


def subject_days(evidence: Evidence) -> Sequence[SubjectDays]:
    """The days of every subject that the history tells of; they are sorted once."""
    if evidence.subject_days is None:
        windows = {books.window.id: books for books in evidence.final.windows}
        evidence.subject_days = [
            _sorted(SubjectDays(story, windows[story.schedule]))
            for story in evidence.subjects.values()
            if story.schedule in windows
        ]
    found: Sequence[SubjectDays] = evidence.subject_days
    return found


def _sorted(days: SubjectDays) -> SubjectDays:
    rule = rule_of(days.books.window.expression)
    for place, event in enumerate(days.story.log):
        told, days.places[id(event)] = event.fields, place
        if event.kind == "subject":
            days_off = tuple(map(date.fromisoformat, told["days_off"]))
            tz = told["tz"] or days.books.window.tz
            days.edits.append(Edit(event, DayTerms(told["due"], tz, told["weekdays"], days_off, rule.length)))
        elif event.kind == "finalize":
            if told["date"] is None:
                days.forgotten.append(event)
            else:
                days.finals[date.fromisoformat(told["date"])].append(event)
        elif told["job"] is not None:
            day = date.fromisoformat(told["date"])
            days.opened.setdefault(day, event)
            days.job[day] = told["job"]
        else:
            days.verdicts.append(event)
    return days


# --- what is to be accounted for ------------------------------------------------------------------------------------


def expected_days(days: SubjectDays, evidence: Evidence) -> Iterator[Day]:
    """The days that must have come to an outcome by the end of the history."""
    end = evidence.final.at
    if end is None:
        return
    yield from _begun(days, evidence, micros(end) - SLACK)
    for number, edit in enumerate(days.edits):
        if not edit.removed:
            later = days.edits[number + 1] if number + 1 < len(days.edits) else None
            stop = micros(end) if later is None else sent(evidence, later.event).at
            yield from _of_terms(days, edit, stop - SLACK, is_last=later is None)


def _of_terms(days: SubjectDays, edit: Edit, stop: int, *, is_last: bool) -> Iterator[Day]:
    """The days whose cutoffs are in the time of some terms; and the day of the last edit, if that was over already."""
    decided = [day for day, finals in days.finals.items() if finals[0].at < edit.event.at]
    begun = [day for day, opened in days.opened.items() if opened.at < edit.event.at]
    today = local_date(edit.terms.tz, moment(edit.since))
    first, last = max([today, *(day + ONE_DAY for day in (*decided, *begun))]), local_date(edit.terms.tz, moment(stop))
    while first <= last + ONE_DAY:
        day = day_of(edit.terms, first)
        if (
            day is not None
            and micros(day.cutoff_at) <= stop
            and (day.cutoff_at > moment(edit.since) or (is_last and first == today))
        ):
            yield day
        first += ONE_DAY


def _begun(days: SubjectDays, evidence: Evidence, stop: int) -> Iterator[Day]:
    """The days that had their jobs, unless the subject was not there at the cutoff."""
    length = timedelta(seconds=rule_of(days.books.window.expression).length)
    for day, opened in days.opened.items():
        cutoff = cutoff_of(evidence, opened)
        if cutoff is None or cutoff > stop:
            continue
        near = [edit for edit in days.edits if abs(edit.event.at - cutoff) <= SLACK]
        before = [edit for edit in days.edits if edit.event.at < cutoff]
        if before and not before[-1].removed and not near:
            yield Day(day, moment(cutoff) - length, moment(cutoff))


def date_is_over(terms: DayTerms, day: date, cutoff_at: datetime, now: datetime, prompt: timedelta) -> bool:
    """Whether a cutoff that is noticed now was noticed too late: its date is over, and it is not so long ago."""
    return local_date(terms.tz, now) > day and now >= cutoff_at + prompt
