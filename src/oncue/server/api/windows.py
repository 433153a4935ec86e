"""Daily windows: what there are, what a day came to, and the subjects that they open for."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request

from oncue.errors import InvalidSubject, SubjectNotFound
from oncue.model import Slot, Subject
from oncue.policy import subjects
from oncue.policy.windows import ONE_DAY
from oncue.records.jobs import ExplanationRecord, explanation_record
from oncue.records.windows import (
    DaysAuditRecord,
    SubjectRecord,
    WindowRecord,
    day_records,
    days_audit_record,
    ledger_record,
    row_record,
    subject_record,
    window_record,
)
from oncue.server.api import pages
from oncue.server.api.documents import changing, looking
from oncue.server.api.idempotency import REPEATABLE
from oncue.server.api.identity import Caller
from oncue.server.api.models.windows import (
    AddedRows,
    DayOfWindow,
    NewSubject,
    SubjectChange,
    SubjectLedger,
    SubjectPage,
    SubjectRows,
    Windows,
)
from oncue.server.api.pages import LONGEST_PAGE, Limit
from oncue.server.api.problems import Answer, invalid, made
from oncue.server.api.routing import LONG_SECONDS, Routes

if TYPE_CHECKING:
    from oncue.app import Oncue

MOST_DAYS, MOST_DAYS_OF_ONE = 31, 366
"""So many days are audited at once: of many subjects, and of one."""
PREFIX = "/api/admin/windows"
WINDOW = f"{PREFIX}/{{window:path}}"
SUBJECTS = f"{WINDOW}/subjects"
SUBJECT = f"{SUBJECTS}/{{name:path}}"
TAG = "windows"

WindowName = Annotated[str, Path(description="The window's name, which is its task's.", examples=["morning_digest"])]
SubjectName = Annotated[str, Path(description="The subject's name.", examples=["ann"])]
After = Annotated[str, Query(max_length=subjects.LONGEST_NAME, description="Only names that come after this one.")]
DAY = "a date such as 2030-01-31"
Prefix = Annotated[
    str, Query(max_length=subjects.LONGEST_NAME, description="Only names that begin so.", examples=["an"])
]
ExplainedDay = Annotated[
    str | None, Query(description=f"Which day: {DAY}; else the one that is open, or today's.", examples=["2030-01-31"])
]
OfDay = Annotated[str | None, Query(description=f"Which day: {DAY}; else today, in UTC.", examples=["2030-01-31"])]
From = Annotated[str | None, Query(alias="from", description=f"The first day: {DAY}; else 30 days ago.")]
To = Annotated[str | None, Query(alias="to", description=f"The last day: {DAY}; else tomorrow.")]


def add(routes: Routes, app: Oncue) -> None:
    # Names may have slashes and take what is left of a path: longer paths come first.
    _add_one_subject(routes, app)
    _add_subjects(routes, app)
    _add_windows(routes, app)


def _add_windows(routes: Routes, app: Oncue) -> None:
    @routes.get(PREFIX, **looking(TAG, "List windows", Windows))
    async def list_windows() -> Answer:
        """By name. Code declares them: `@app.task(schedule=daily(…))`."""
        return Answer({"windows": [window_record(one) for one in await app.windows.list()]})

    @routes.get(f"{WINDOW}/day", **looking(TAG, "Show what a day came to", DayOfWindow, 404))
    async def show_window_day(window: WindowName, day: OfDay = None) -> Answer:
        """How many subjects are open, succeeded, reached their cutoff or were missed, by the minute of the cutoff in
        UTC."""
        wanted = (await app.now()).date() if day is None else _day(day, "day")
        counts = await app.windows.day(window, wanted)
        return await made(lambda: {"window": window, "day": wanted.isoformat(), "buckets": day_records(counts)})

    @routes.get(f"{WINDOW}/audit", **looking(TAG, "Audit the days of a window", DaysAuditRecord, 404))
    async def audit_window(
        request: Request,
        window: WindowName,
        start: Annotated[str | None, Query(alias="from", description=f"The first day: {DAY}; else yesterday.")] = None,
        end: Annotated[str | None, Query(alias="to", description="The last day; else today.")] = None,
        subject: Annotated[str | None, Query(description="Only this one.", examples=["ann"])] = None,
        problems: Annotated[bool, Query(description="Only what should not be.")] = False,
        limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE, description="At most so many subjects.")] = 100,
        after: After = "",
    ) -> Answer:
        """What became of every day that its subjects should have had, so many subjects at a time; go on with `next`.
        `holds` is false if a day of these is unaccounted for, doubled or lost."""
        last = (await app.now()).date() if end is None else _day(end, "to")
        first = last - ONE_DAY if start is None else _day(start, "from")
        most = MOST_DAYS if subject is None else MOST_DAYS_OF_ONE
        if not 0 <= (last - first).days < most:
            raise invalid("from", f"expected at most {most} days, from an earlier date to a later one")
        if subject is not None:
            _checked(window, subject)
        found = await app.windows.audit(window, first, last, subject=subject, after=after, limit=limit)
        is_full = subject is None and found.subjects == limit
        following = pages.following(request, after=found.last) if is_full else None
        told = found.problems if problems else found.days
        return await made(lambda: days_audit_record(window, found, told, following))

    @routes.get(WINDOW, **looking(TAG, "Show a window", WindowRecord, 404))
    async def show_window(window: WindowName) -> Answer:
        return Answer(window_record(await app.windows.get(window)))


def _add_subjects(routes: Routes, app: Oncue) -> None:
    @routes.get(SUBJECTS, **looking(TAG, "List the subjects of a window", SubjectPage, 404))
    async def list_subjects(
        request: Request, window: WindowName, limit: Limit = 100, after: After = "", prefix: Prefix = ""
    ) -> Answer:
        """By name. Go on with `next`."""

        async def read(last: Subject | None, most: int) -> list[Subject]:
            reached = after if last is None else last.name
            return await app.windows.subjects(window, after=reached, prefix=prefix, limit=most)

        return await pages.in_parts(
            request, "subjects", read, limit, subject_record, after=lambda subject: subject.name
        )

    @routes.post(
        SUBJECTS, needs="operate", keeping=REPEATABLE, patience=LONG_SECONDS,
        **changing(TAG, "Add or change subjects", AddedRows, 404, 409),
    )  # fmt: skip
    async def add_subjects(window: WindowName, body: SubjectRows, by: Caller) -> Answer:
        """Up to 1,000. The answer says what came of each row: one that is wrong is left out, and the others are written
        all the same. Sent again, it changes nothing more."""
        rows = [row.model_dump(exclude_none=True) for row in body.subjects]
        outcomes = await app.windows.add_each(window, rows, by=by)
        told = [one.outcome for one in outcomes]
        written = told.count("added") + told.count("changed")
        return await made(
            lambda: {
                "subjects": [row_record(one) for one in outcomes],
                "written": written,
                "invalid": told.count("invalid"),
            }
        )


def _add_one_subject(routes: Routes, app: Oncue) -> None:
    @routes.get(f"{SUBJECT}/ledger", **looking(TAG, "Show the days of a subject", SubjectLedger, 404))
    async def list_subject_days(
        request: Request,
        window: WindowName,
        name: SubjectName,
        start: Annotated[
            str | None, Query(alias="from", description=f"The first day: {DAY}; else 30 days ago.")
        ] = None,
        end: Annotated[str | None, Query(alias="to", description="The last day; else today and tomorrow.")] = None,
        limit: Limit = 100,
    ) -> Answer:
        """What became of them, oldest first. A day without its outcome is open; `ended` if its job has ended, and its
        cutoff will decide it. Of a removed subject they are kept too."""
        first = None if start is None else _day(start, "from")
        last = None if end is None else _day(end, "to")
        _checked(window, name)
        found = await app.windows.ledger(window, name, start=first, end=last, limit=limit + 1)
        return await pages.answer(request, "days", found, limit, ledger_record, **{"from": _following})

    @routes.get(f"{SUBJECT}/explain", **looking(TAG, "Explain a subject's day", ExplanationRecord, 404))
    async def explain_subject(window: WindowName, name: SubjectName, day: ExplainedDay = None) -> Answer:
        """Why it has, or has not, got what a day was for, in the sentences of `oncue explain`. Of a removed subject
        too."""
        _checked(window, name)
        wanted = None if day is None else _day(day, "day")
        return Answer(explanation_record(await app.windows.explain(window, name, wanted)))

    @routes.post(
        f"{SUBJECT}/run",
        needs="operate",
        **changing(TAG, "Run a subject's day now", SubjectRecord, 404, 409, status=201),
    )
    async def run_subject(request: Request, window: WindowName, name: SubjectName, by: Caller) -> Answer:
        """Opens its day before its time. Refused if the day is decided, or has its job already: there is one success a
        day at most."""
        _checked(window, name)
        opened = await app.windows.run_now(window, name, by=by)
        place = f"{request.scope.get('root_path', '')}/api/admin/jobs/{opened.job_id}"
        return Answer(subject_record(opened), 201, headers={"Location": place})

    @routes.get(SUBJECT, **looking(TAG, "Show a subject", SubjectRecord, 404))
    async def show_subject(window: WindowName, name: SubjectName) -> Answer:
        """Its terms, the day that is open or comes next, and what became of the last one."""
        _checked(window, name)
        return Answer(subject_record(await app.windows.subject(window, name)))

    @routes.put(SUBJECT, needs="operate", **changing(TAG, "Add a subject", SubjectRecord, 404, 409))
    async def put_subject(window: WindowName, name: SubjectName, body: NewSubject, by: Caller) -> Answer:
        """Adds it, or gives it these terms and no others. Terms count today if its window has not opened yet, else from
        the next day on."""
        terms = body.model_dump(exclude_none=True)
        return Answer(subject_record(await app.windows.add(window, name, by=by, **terms)))

    @routes.patch(SUBJECT, needs="operate", **changing(TAG, "Change a subject", SubjectRecord, 404, 409))
    async def change_subject(window: WindowName, name: SubjectName, body: SubjectChange, by: Caller) -> Answer:
        """Fields that are absent keep their value."""
        _checked(window, name)
        terms = {field: getattr(body, field) for field in body.model_fields_set}
        if terms.get("at", "") is None:
            del terms["at"]
        if not terms:
            return Answer(subject_record(await app.windows.subject(window, name)))
        return Answer(subject_record(await app.windows.change(window, name, by=by, **terms)))

    @routes.delete(SUBJECT, needs="operate", **changing(TAG, "Remove a subject", SubjectRecord, 404, 409))
    async def remove_subject(window: WindowName, name: SubjectName, by: Caller) -> Answer:
        """No attempt of its day's job starts any more, and one that runs is asked to stop. The answer is the subject as
        it was."""
        _checked(window, name)
        subject = await app.windows.subject(window, name)
        await app.windows.remove(window, name, by=by)
        return Answer(subject_record(subject))


def _checked(window: str, name: str) -> None:
    """A name that no subject can have is answered like an unknown subject."""
    try:
        subjects.checked_name(name)
    except InvalidSubject as error:
        raise SubjectNotFound(f"window {window!r:.200} has no such subject: {error}") from None


def _day(text: str, field: str) -> date:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise invalid(field, f"expected a date such as 2030-01-31, not {text!r:.40}") from None
    if not 1970 <= found.year < 3000:
        raise invalid(field, f"expected a date from 1970 up to 3000, not {text!r:.40}")
    return found


def _following(slot: Slot) -> Any:
    """Where the next page begins."""
    return ((slot.until or slot.scheduled_for).date() + ONE_DAY).isoformat()
