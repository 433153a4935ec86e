"""One subject of a window: its terms, its days lately, and why a day is as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from oncue.errors import InvalidSubject, SubjectNotFound
from oncue.model import Schedule, Subject
from oncue.observe.visible import visible_json
from oncue.policy.days import PROBLEMS, DayFate, SubjectDay
from oncue.policy.explain import day_in_question
from oncue.policy.subjects import checked_name, shown_due, shown_weekdays
from oncue.policy.windows import ONE_DAY, rule_of
from oncue.server.api.problems import invalid
from oncue.server.dashboard.deeds import Done
from oncue.server.dashboard.rendering import shell

if TYPE_CHECKING:
    from oncue.server.dashboard.deeds import Deed
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

DAYS_SHOWN = 30
CHANGES_SHOWN = 20
LONGEST_FIELD = 10_000
"""Longer arguments are not for a form."""
KINDS: dict[DayFate, str] = {
    "success": "succeeded", "cutoff_reached": "failed", "missed": "missed", "added_late": "skipped", "open": "running",
    "ended": "retrying", "pending": "scheduled", **dict.fromkeys(PROBLEMS, "error"),
}  # fmt: skip
"""The colour of what a day has come to."""
EVERY_DAY = 127


class Standing(NamedTuple):
    """How it is with the day that a subject's row is about."""

    word: str
    kind: str
    until: datetime | None = None
    """When it goes on."""


class SubjectAddress(NamedTuple):
    """What a page or an action is about."""

    window: str
    subject: str


class DaySquare(NamedTuple):
    """A day of the strip."""

    day: date
    word: str
    kind: str
    title: str
    link: str
    is_shown: bool
    job_id: int | None = None
    reason: str | None = None


# --- addresses ------------------------------------------------------------------------------------------------------


def _is_odd(name: str) -> bool:
    """Whether a browser or a proxy would change a path with this name."""
    return bool({"", ".", ".."} & set(name.split("/"))) or name != name.strip()


def window_link(view: View, window: str, **query: Any) -> str:
    """The page of a window. One that a path cannot say, or that reads like a subject's, stands in the query."""
    if _is_odd(window) or "/subjects" in window:
        return view.link("/window", window=window, **query)
    return view.link(f"/windows/{quote(window, safe='/:@')}", **query)


def subject_link(view: View, window: str, subject: str, **query: Any) -> str:
    """The page of a subject. It may have any printable name, and takes what is left of the path."""
    if _is_odd(window) or "/" in window or _is_odd(subject):
        return view.link("/window/subject", window=window, subject=subject, **query)
    return view.link(f"/windows/{quote(window, safe=':@')}/subjects", subject, **query)


def asked_day(view: View) -> date | None:
    """The day of the query."""
    text = view.text("day")
    if text is None:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = date.min
    if not 1970 < found.year < 3000:
        raise invalid("day", f"expected a date such as 2030-01-31, not {text!r:.40}")
    return found


# --- how it stands --------------------------------------------------------------------------------------------------


def standing(subject: Subject, now: datetime) -> Standing:
    if subject.removed_at is not None:
        return Standing("removed", "idle")
    last = last_day(subject)
    if last is not None and subject.last_date is not None and subject.last_date >= subject.day:
        return last
    if subject.job_id is not None:
        return Standing("open", "running", subject.cutoff_at)
    if now >= subject.opens_at:
        return Standing("pending", "scheduled", subject.cutoff_at)
    return Standing("waits", "scheduled", subject.opens_at)


def last_day(subject: Subject) -> Standing | None:
    """What the last day that is decided came to."""
    if subject.status is None:
        return None
    fate: DayFate = "added_late" if subject.reason == "added_late" else subject.status
    return Standing(fate.replace("_", " "), KINDS[fate])


def _squares(
    view: View, window: Schedule, subject: Subject, days: Sequence[SubjectDay], first: date, last: date, shown: date
) -> list[DaySquare]:
    by_day = {one: told for told in days for one in _each(told)}
    found = []
    for day in (first + ONE_DAY * number for number in range((last - first).days + 1)):
        told, link = by_day.get(day), subject_link(view, window.name, subject.name, day=day)
        if told is None:
            word = _untold(subject, day)
            found.append(DaySquare(day, word, "none", f"{day}: {word}", link, day == shown))
            continue
        word = told.fate.replace("_", " ")
        title = f"{day}: {word}" + (f" ({told.reason})" if told.reason else "")
        found.append(DaySquare(day, word, KINDS[told.fate], title, link, day == shown, told.job_id, told.reason))
    return found


def _untold(subject: Subject, day: date) -> str:
    """What is said of a day that neither the ledger nor the terms tell of."""
    if day < subject.created_at.date():
        return "not added yet"
    return "not open yet" if day >= subject.day and subject.removed_at is None else "no window"


def _each(told: SubjectDay) -> list[date]:
    """The days of a run of missed ones, too."""
    until = min(told.until or told.day, told.day + timedelta(days=2 * DAYS_SHOWN))
    return [told.day + ONE_DAY * number for number in range((until - told.day).days + 1)]


def _where(view: View) -> SubjectAddress:
    window = view.parameters.get("window") or view.query.get("window", "")
    subject = view.parameters.get("name") or view.query.get("subject", "")
    try:
        return SubjectAddress(window, checked_name(subject))
    except InvalidSubject as error:
        raise SubjectNotFound(f"window {window!r:.200} has no such subject: {error}") from None


# --- the page -------------------------------------------------------------------------------------------------------


def add(dashboard: Dashboard) -> None:
    for path in ("/window/subject", "/windows/{window}/subjects/{name:path}"):
        dashboard.page(path, "subject.html", title="Subject", room="windows")(show_subject)

    @dashboard.action("/subjects/add", needs="operate")
    async def add_subject(deed: Deed) -> Done:
        window, name = deed.text("window"), deed.text("subject")
        added = await deed.app.windows.add(window, name, at=deed.text("at"), **_terms(deed), by=deed.by)
        return Done(_told(added))

    @dashboard.action("/subjects/change", needs="operate")
    async def change_subject(deed: Deed) -> Done:
        window, name = deed.text("window"), _raw(deed, "subject")
        changed = await deed.app.windows.change(window, name, at=deed.text("at"), **_terms(deed), by=deed.by)
        return Done(_told(changed))

    @dashboard.action("/subjects/remove", needs="operate")
    async def remove_subject(deed: Deed) -> Done:
        await deed.app.windows.remove(deed.text("window"), _raw(deed, "subject"), by=deed.by)
        return Done(f"{_raw(deed, 'subject')} is removed.")

    @dashboard.action("/subjects/run", needs="operate")
    async def run_subject(deed: Deed) -> Done:
        opened = await deed.app.windows.run_now(deed.text("window"), _raw(deed, "subject"), by=deed.by)
        return Done(f"{opened.name}: job {opened.job_id} is for its day {opened.day}.")


async def show_subject(view: View) -> dict[str, Any]:
    app, where = view.app, _where(view)
    now, window = await app.now(), await app.windows.get(where.window)
    subject = await app.windows.subject(window.name, where.subject, removed=True)
    day = asked_day(view) or day_in_question(subject, window, now)
    last = now.date() + ONE_DAY
    last = day if day > last or day <= last - timedelta(days=DAYS_SHOWN) else last
    first = last - timedelta(days=DAYS_SHOWN - 1)
    audited = await app.windows.audit(window.name, first, last, subject=subject.name)
    squares = _squares(view, window, subject, audited.days, first, last, day)
    return {
        "title": subject.name, "window": window, "window_href": window_link(view, window.name), "subject": subject,
        "rule": rule_of(window.expression), "now": now, "day": day, "standing": standing(subject, now),
        "last_day": last_day(subject), "due": shown_due(subject.due), "weekdays": shown_weekdays(subject.weekdays),
        "is_every_day": subject.weekdays == EVERY_DAY, "args": json.loads(subject.args),
        "args_text": None if len(subject.args) > LONGEST_FIELD else _own(subject) or "", "squares": squares,
        "told": [one for one in reversed(squares) if one.kind != "none"],
        "earlier": subject_link(view, where.window, where.subject, day=first - ONE_DAY),
        "why": await app.windows.explain(window.name, subject.name, day),
        "why_shell": shell("oncue explain", window.name, subject=subject.name, day=day),
        "changes": await app.audit_log.list(subject=f"subject:{window.name}/{subject.name}", limit=CHANGES_SHOWN),
        "shells": _shells(window, subject),
    }  # fmt: skip


def _own(subject: Subject) -> str | None:
    """Its arguments as a text that means the same after it was shown: JSON has escapes of its own."""
    return None if subject.args == "{}" else visible_json(json.loads(subject.args))


def _shells(window: Schedule, subject: Subject) -> dict[str, str]:
    """What the buttons do, as command lines."""
    names = window.name, subject.name
    terms: dict[str, Any] = {
        "at": shown_due(subject.due), "tz": subject.tz,
        "weekdays": None if subject.weekdays == EVERY_DAY else shown_weekdays(subject.weekdays),
        "days_off": ",".join(map(str, subject.days_off)) or None,
        "args": _own(subject),
    }  # fmt: skip
    return {
        "run": shell("oncue subjects run", *names), "remove": shell("oncue subjects remove", *names),
        "edit": shell("oncue subjects edit", *names, **terms), "add": shell("oncue subjects add", *names, **terms),
        "audit": shell("oncue audit", window.name, subject=subject.name, _from=f"-{DAYS_SHOWN}d"),
    }  # fmt: skip


# --- what forms say -------------------------------------------------------------------------------------------------


def _raw(deed: Deed, name: str) -> str:
    """A name as it is: a subject's may begin with a space."""
    return next((value for key, value in deed.fields if key == name), "")


def _terms(deed: Deed) -> dict[str, Any]:
    """The fields of the form beside `at`. What is empty is taken back; arguments that are not asked for stay."""
    days = (deed.maybe("days_off") or "").replace(";", ",").replace(" ", ",").split(",")
    terms = {"tz": deed.maybe("tz"), "weekdays": deed.maybe("weekdays"), "days_off": [day for day in days if day]}
    return {**terms, "args": _arguments(deed.maybe("args") or "{}")} if deed.has("args") else terms


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidSubject("args", f'expected a JSON object such as {{"language": "de"}}, not {text!r:.60}')
    return found


def _told(subject: Subject) -> str:
    span = f"from {subject.opens_at:%Y-%m-%d %H:%M} UTC to its cutoff at {subject.cutoff_at:%Y-%m-%d %H:%M} UTC"
    return f"{subject.name}: the window of {subject.day} is {span}."
