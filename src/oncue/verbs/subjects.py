"""How subjects are written: the rows that callers hand in are checked, compared with what is stored, and put.

The same steps lead to the application's own tables and to a caller's transaction (`on=`): they ask a `SubjectTables`.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from oncue.application.connecting import Connected
from oncue.application.portal import AtOnce, NeedsItsLoop
from oncue.engine.deciding import decide_days
from oncue.errors import InvalidJob, InvalidSchedule, InvalidSubject, SubjectNotFound
from oncue.model import Note, RowOutcome, Schedule, Subject
from oncue.policy import subjects
from oncue.policy.windows import is_window
from oncue.store.callers import is_asynchronous
from oncue.task import Task
from oncue.verbs.base import NounVerbs, compare_and_set

T = TypeVar("T")

ADD, CHANGE, REMOVE, RUN = "subject.add", "subject.change", "subject.remove", "subject.run"
ADD_MANY = "subject.add_many"
TERMS = ("at", "tz", "weekdays", "days_off", "args")
"""What a subject can be told."""
FIELDS = frozenset(("subject", *TERMS))
"""Those of a row of many."""


class Put(Protocol):
    async def __call__(
        self,
        subjects: Sequence[Subject],
        now: datetime,
        notes: Sequence[Note | None] = (),
        stops: Sequence[int | None] = (),
    ) -> list[bool]: ...


class SubjectTables(Protocol):
    """Where subjects are read and written."""

    def now(self) -> datetime: ...

    async def window(self, name: str) -> Schedule | None: ...

    async def subjects(self, schedule_id: int, names: Sequence[str]) -> list[Subject]: ...

    @property
    def put(self) -> Put: ...

    async def decide_days(self, window: Schedule, subject: Subject, now: datetime) -> bool:
        """Decide the days of a subject that are over by the terms that it has, before these change. Whether there were
        any: then its row is another one by now."""
        ...


class OwnTables:
    """The application's own, on its own connection."""

    def __init__(self, connected: Connected) -> None:
        store = self._store = connected.store
        self.now, self.window, self.subjects = connected.now, store.schedules.get, store.windows.subjects
        self.put: Put = store.windows.put

    async def decide_days(self, window: Schedule, subject: Subject, now: datetime) -> bool:
        try:
            return await decide_days(self._store, window, subject, now)
        except InvalidSchedule:  # its zone is unknown to this host: other terms are what mends that
            return False


class WantedRows(NamedTuple):
    """Rows that were checked: the subjects that they ask for, and what is known of each row already."""

    subjects: dict[str, Subject]
    outcomes: list[RowOutcome]
    places: dict[str, int]
    """The row that counts for each subject: the last one."""


class SubjectWriting(NounVerbs):
    async def _tables(self, on: object | None) -> SubjectTables:
        """The caller's own transaction, or the application's tables."""
        if on is None:
            return OwnTables(await self._connected())
        try:
            return await self._app.subjects_on(on)
        except InvalidJob as error:
            raise InvalidSubject(error.field, str(error).removeprefix(f"{error.field}: ")) from None

    async def _window(self, tables: SubjectTables, window: str | Task[Any, Any]) -> Schedule:
        name = name_of(window)
        found = await tables.window(name)
        if found is None or found.deleted_at is not None:
            raise SubjectNotFound(f"there is no window {name!r}: a worker declares it when it first starts")
        if not is_window(found.expression):
            raise SubjectNotFound(f"{name!r} is a schedule without subjects: no window")
        return found

    async def _subject(self, tables: SubjectTables, window: Schedule, name: str) -> Subject:
        found = await stored(tables, window, subjects.checked_name(name))
        if found is None or found.removed_at is not None:
            raise SubjectNotFound(f"window {window.name!r} has no subject {name!r}")
        return found

    async def _added(
        self, tables: SubjectTables, window: Schedule, name: str, row: Mapping[str, Any], by: str
    ) -> Subject:
        async def add() -> Subject | None:
            now = tables.now()
            wanted = self._wanted(window, name, row, now)
            current = await stored(tables, window, wanted.name)
            if current is not None and subjects.same_terms(current, wanted):
                return current
            if await _was_behind(tables, window, current, now):
                return None
            new = current is None or current.removed_at is not None
            put = subjects.added(window, wanted, current, now)
            note = _note(window, put.name, None if new else current, put, by)
            return await _written(tables, window, put, note)

        return await compare_and_set(f"subject {name!r}", add)

    async def _removed(self, tables: SubjectTables, window: Schedule, name: str, by: str) -> Subject:
        """The row of a subject that is removed. The job of its day, if that has not ended, was asked to stop."""

        async def remove() -> Subject | None:
            current, now = await self._subject(tables, window, name), tables.now()
            if await _was_behind(tables, window, current, now):
                return None
            gone = subjects.removed(current, now)
            return await _written(tables, window, gone, _note(window, name, current, None, by), current.job_id)

        return await compare_and_set(f"subject {name!r}", remove)

    async def _put_rows(self, tables: SubjectTables, window: Schedule, rows: WantedRows, by: str) -> list[RowOutcome]:
        """Write what is not stored as it is wanted, again and again while others change it; what came of each row."""
        now, wanted, outcomes = tables.now(), dict(rows.subjects), list(rows.outcomes)
        while wanted:
            known = {one.name: one for one in await tables.subjects(window.id, [*wanted])}
            changed = [
                name for name, one in wanted.items() if name not in known or not subjects.same_terms(known[name], one)
            ]
            if any([await _was_behind(tables, window, known.get(name), now) for name in changed]):
                continue
            put = [subjects.added(window, wanted[name], known.get(name), now) for name in changed]
            told = Note(by, ADD_MANY, f"window:{window.name}", None, {"subjects": len(put)})
            took = await tables.put(put, now, [told, *[None] * (len(put) - 1)] if put else ())
            for row, wrote in zip(put, took, strict=True):
                if wrote:
                    before = known.get(row.name)
                    new = before is None or before.removed_at is not None
                    outcomes[rows.places[row.name]] = RowOutcome(row.name, "added" if new else "changed")
            wanted = {row.name: wanted[row.name] for row, wrote in zip(put, took, strict=True) if not wrote}
        return outcomes

    # --- what rows ask for --------------------------------------------------------------------------------------

    def _wanted_rows(self, window: Schedule, rows: Sequence[Mapping[str, Any]], now: datetime) -> WantedRows:
        """The subjects that rows ask for. A row that is wrong says what it expects."""
        found = WantedRows({}, [], {})
        for place, row in enumerate(rows):
            name = row.get("subject", "")
            try:
                one = self._wanted(window, name, row, now)
            except InvalidSubject as error:
                found.outcomes.append(RowOutcome(str(name), "invalid", error.field, error.message))
                continue
            if one.name in found.places:
                found.outcomes[found.places[one.name]] = RowOutcome(one.name, "repeated")
            found.outcomes.append(RowOutcome(one.name, "unchanged"))
            found.subjects[one.name], found.places[one.name] = one, place
        return found

    def _wanted(self, window: Schedule, name: str, row: Mapping[str, Any], now: datetime) -> Subject:
        """The subject that a row asks for. Raises InvalidSubject."""
        if unknown := sorted(map(str, row.keys() - FIELDS)):
            raise InvalidSubject(unknown[0], f"there is no such field; expected some of {', '.join(TERMS)}")
        return Subject(
            schedule_id=window.id, name=subjects.checked_name(name), due=subjects.checked_due(row.get("at", "")),
            tz=subjects.checked_zone(row.get("tz")), weekdays=subjects.checked_weekdays(row.get("weekdays")),
            days_off=subjects.checked_days_off(row.get("days_off") or ()),
            args=self._args(window, name, row.get("args") or {}), version=0, since=now, day=now.date(), opens_at=now,
            cutoff_at=now, next_at=now, job_id=None, last_date=None, status=None, reason=None, last_run_at=None,
            created_at=now, updated_at=now, removed_at=None,
        )  # fmt: skip

    def _args(self, window: Schedule, name: str, own: Mapping[str, Any]) -> str:
        """The arguments of a subject's own, checked where this process has the code of the task."""
        task, most = self._app.tasks.get(window.task), self._app.settings.max_args_bytes
        if not isinstance(own, Mapping):
            raise InvalidSubject("args", f"expected an object, not {own!r:.60}")
        if task is None:
            return _dumped(own, most)
        try:
            return task.arguments.dump_for_subject(name, own, most)
        except InvalidJob as error:
            named = error.argument if error.field == "arguments" else error.field
            field = "args" if named is None else f"args.{named}"
            raise InvalidSubject(field, str(error).removeprefix(f"{error.field}: ")) from None


async def stored(tables: SubjectTables, window: Schedule, name: str) -> Subject | None:
    """What there is of this name, a removed one too."""
    found = await tables.subjects(window.id, [name])
    return found[0] if found else None


async def _written(
    tables: SubjectTables, window: Schedule, row: Subject, note: Note, stops: int | None = None
) -> Subject | None:
    (took,) = await tables.put([row], tables.now(), [note], [stops])
    return await stored(tables, window, row.name) if took else None


def _note(window: Schedule, name: str, before: Subject | None, after: Subject | None, by: str) -> Note:
    """What the audit log tells: all terms of a subject that comes or goes, else those that were changed."""
    action = ADD if before is None else REMOVE if after is None else CHANGE
    old, new = ({} if one is None else terms_of(one) for one in (before, after))
    told = [field for field in TERMS if old.get(field) != new.get(field)]
    was, now = ({field: terms[field] for field in told if field in terms} or None for terms in (old, new))
    return Note(by, action, f"subject:{window.name}/{name}", was, now)


def terms_of(subject: Subject) -> dict[str, Any]:
    """What a subject was told."""
    return {
        "at": subjects.shown_due(subject.due), "tz": subject.tz, "weekdays": subjects.shown_weekdays(subject.weekdays),
        "days_off": [day.isoformat() for day in subject.days_off], "args": json.loads(subject.args),
    }  # fmt: skip


def _dumped(own: Mapping[str, Any], most: int) -> str:
    try:
        text = json.dumps(dict(own), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidSubject("args", f"expected values that JSON has; {error}") from None
    if len(text.encode("utf-8", "backslashreplace")) > most:
        raise InvalidSubject("args", f"expected at most {most:,} bytes of JSON")
    return text


def name_of(window: str | Task[Any, Any]) -> str:
    return window.name if isinstance(window, Task) else window


def where_called(on: object | None, steps: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """On a synchronous connection of the caller nothing is ever waited for: `app.wait` takes all steps in the caller's
    own thread. On an asynchronous one only its own event loop can take them."""
    if on is None:
        return steps
    if not is_asynchronous(on):
        return AtOnce(steps)
    kind = f"{type(on).__module__}.{type(on).__qualname__}"
    return NeedsItsLoop(steps, InvalidSubject("on", f"{kind} is asynchronous: use `await` with it, not `app.wait`"))


async def _was_behind(tables: SubjectTables, window: Schedule, current: Subject | None, now: datetime) -> bool:
    """Whether days of a subject were over that the planner had not come to, and are decided now."""
    if current is None or current.removed_at is not None or now < current.cutoff_at or not window.enabled:
        return False
    return await tables.decide_days(window, current, now)
