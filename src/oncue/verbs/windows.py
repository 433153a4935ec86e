"""Daily windows: their subjects, added one by one or in bulk, and what became of their days."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any

from oncue.application.connecting import Connected
from oncue.engine.planner import decide_days
from oncue.errors import Conflict, InvalidJob, InvalidSchedule, InvalidSubject, SubjectNotFound
from oncue.model import Day, DayCount, Decided, Note, Schedule, Slot, Subject, SubjectStep, Tally
from oncue.policy import subjects, windows
from oncue.policy.windows import is_window
from oncue.task import Task
from oncue.verbs.base import NounVerbs, checked_limit, compare_and_set

ADD, CHANGE, REMOVE, RUN = "subject.add", "subject.change", "subject.remove", "subject.run"
ADD_MANY = "subject.add_many"
BATCH = 1000
LEDGER_DAYS = 30


class Windows(NounVerbs):
    # --- reading ------------------------------------------------------------------------------------------------

    async def list(self) -> builtins.list[Schedule]:
        """The windows that there are, by name."""
        return await (await self._connected()).store.windows.all()

    async def get(self, window: str | Task[Any, Any]) -> Schedule:
        """One window. Raises SubjectNotFound."""
        name = window.name if isinstance(window, Task) else window
        found = await (await self._connected()).store.schedules.get(name)
        if found is None or found.deleted_at is not None:
            raise SubjectNotFound(f"there is no window {name!r}")
        if not is_window(found.expression):
            raise SubjectNotFound(f"{name!r} is a schedule without subjects: no window")
        return found

    async def subject(self, window: str | Task[Any, Any], name: str) -> Subject:
        """One subject of a window. Raises SubjectNotFound."""
        found = await self._stored(await self._connected(), await self.get(window), subjects.checked_name(name))
        if found is None or found.removed_at is not None:
            raise SubjectNotFound(f"window {_name(window)!r} has no subject {name!r}")
        return found

    async def subjects(
        self, window: str | Task[Any, Any], *, after: str = "", limit: int = 100
    ) -> builtins.list[Subject]:
        """The subjects of a window by name; `after` is the name to go on from."""
        connected, found = await self._connected(), await self.get(window)
        return await connected.store.windows.page(found.id, after, checked_limit(limit))

    async def day(self, window: str | Task[Any, Any], day: date | None = None) -> builtins.list[DayCount]:
        """How many subjects came to what on a day, by the minute of their cutoff in UTC; today unless it is given."""
        connected, found = await self._connected(), await self.get(window)
        return await connected.store.windows.day(found.id, connected.now().date() if day is None else day)

    async def ledger(
        self, window: str | Task[Any, Any], name: str, *, start: date | None = None, end: date | None = None
    ) -> builtins.list[Slot]:
        """What became of the days of a subject, oldest first: of the last 30 unless a span is given."""
        connected, found = await self._connected(), await self.get(window)
        last = connected.now().date() + windows.ONE_DAY if end is None else end
        first = last - timedelta(days=LEDGER_DAYS) if start is None else start
        begin, until = windows.slot_of(first), windows.slot_of(last)
        return await connected.store.windows.ledger(found.id, subjects.checked_name(name), begin, until, 1000)

    # --- changing -----------------------------------------------------------------------------------------------

    async def add(
        self,
        window: str | Task[Any, Any],
        name: str,
        *,
        at: str,
        tz: str | None = None,
        weekdays: str | Iterable[str] | None = None,
        days_off: Iterable[date | str] = (),
        args: Mapping[str, Any] | None = None,
        by: str = "system",
    ) -> Subject:
        """Add a subject, or give it these terms if it is there: its day is over at `at`, in `tz`.

        If today's cutoff has passed, today is decided as `cutoff_reached`, reason `added_late`. A change while its day
        is open, or decided, counts from the next day on.
        """
        connected, found = await self._connected(), await self.get(window)
        row = {"at": at, "tz": tz, "weekdays": weekdays, "days_off": days_off, "args": args}

        async def add() -> Subject | None:
            now = connected.now()
            wanted = self._wanted(found, name, row, now)
            current = await self._stored(connected, found, wanted.name)
            if current is not None and subjects.same_terms(current, wanted):
                return current
            if await self._was_behind(connected, found, current, now):
                return None
            new = current is None or current.removed_at is not None
            return await self._put(
                connected, found, subjects.added(found, wanted, current, now), ADD if new else CHANGE, by
            )

        return await compare_and_set(f"subject {name!r}", add)

    async def change(self, window: str | Task[Any, Any], name: str, *, by: str = "system", **fields: Any) -> Subject:
        """Change what is given of `at`, `tz`, `weekdays`, `days_off` and `args`; the rest stays."""
        known = ("at", "tz", "weekdays", "days_off", "args")
        if not fields or fields.keys() - set(known):
            raise InvalidSubject(
                "fields", f"expected some of {', '.join(known)}, not {', '.join(sorted(fields)) or 'none'}"
            )
        current = await self.subject(window, name)
        kept: dict[str, Any] = {
            "at": subjects.shown_due(current.due), "tz": current.tz,
            "weekdays": subjects.shown_weekdays(current.weekdays), "days_off": current.days_off,
            "args": json.loads(current.args),
        }  # fmt: skip
        return await self.add(window, name, by=by, **{**kept, **fields})

    async def remove(self, window: str | Task[Any, Any], name: str, *, by: str = "system") -> None:
        """Remove a subject. A job of its day that has not ended is cancelled. Raises SubjectNotFound."""
        connected, found = await self._connected(), await self.get(window)

        async def remove() -> Subject | None:
            current, now = await self.subject(found.name, name), connected.now()
            if await self._was_behind(connected, found, current, now):
                return None
            return await self._put(connected, found, subjects.removed(current, now), REMOVE, by)

        gone = await compare_and_set(f"subject {name!r}", remove)
        if gone.job_id is not None and await connected.store.windows.unfinished([gone.job_id]):
            from oncue.verbs.jobs import Jobs

            await Jobs(self._app).cancel(gone.job_id, by=by)

    async def add_many(
        self,
        window: str | Task[Any, Any],
        rows: Iterable[Mapping[str, Any]],
        *,
        by: str = "system",
        progress: Callable[[int], None] = lambda written: None,
    ) -> int:
        """Add or change any number of subjects; how many were written.

        A row has `subject` and `at`, and what else `add` takes. Rows that are stored as they are wanted are left alone,
        so that a bulk that broke off is simply started again. `progress` is told how many rows are done. A row that is
        wrong raises InvalidSubject with its number; those of the thousands before it are written.
        """
        connected, found = await self._connected(), await self.get(window)
        left, done, written = iter(rows), 0, 0
        while batch := [*islice(left, BATCH)]:
            written += await self._put_batch(connected, found, batch, done, by)
            done += len(batch)
            progress(done)
        return written

    async def run_now(self, window: str | Task[Any, Any], name: str, *, by: str = "system") -> Subject:
        """Open a subject's day before its time. Raises Conflict if that is decided, or has its job already."""
        connected, found = await self._connected(), await self.get(window)

        async def run() -> Subject | None:
            current, now = await self.subject(found.name, name), connected.now()
            if current.job_id is not None:
                raise Conflict(f"the day {current.day} of {name!r} has its job already", current.job_id)
            if not found.enabled:
                raise Conflict(f"window {found.name!r} is disabled")
            if now >= current.cutoff_at or (current.last_date is not None and current.last_date >= current.day):
                raise Conflict(
                    f"the day {current.day} of {name!r} is over: {current.status or 'its cutoff has passed'}"
                )
            (job_id,) = await connected.store.jobs.reserve(1)
            day = Day(current.day, current.opens_at, current.cutoff_at)
            step = SubjectStep(
                found.id, current.name, current.version, day, current.cutoff_at, job_id, current.last_date,
                current.status, current.reason, decided=(Decided(windows.slot_of(day.date), "manual", None, job_id),),
                job=windows.job_of(found, current, day, job_id, now, by),
                tallies=(Tally(day.date, windows.bucket_of(day.cutoff_at), "opened"),),
            )  # fmt: skip
            note = Note(by, RUN, f"subject:{found.name}/{current.name}", None, {"day": day.date.isoformat()})
            (took,) = await connected.store.windows.advance([step], now, notes=[note])
            return await self.subject(found.name, name) if took else None

        return await compare_and_set(f"subject {name!r}", run)

    # --- rows ---------------------------------------------------------------------------------------------------

    def _wanted(self, window: Schedule, name: str, row: Mapping[str, Any], now: datetime) -> Subject:
        """The subject that a row asks for. Raises InvalidSubject."""
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
        task = self._app.tasks.get(window.task)
        if not isinstance(own, Mapping):
            raise InvalidSubject("args", f"expected an object, not {own!r:.60}")
        if task is None:
            return json.dumps(own, ensure_ascii=False)
        try:
            return task.arguments.dump_for_subject(name, own, self._app.settings.max_args_bytes)
        except InvalidJob as error:
            raise InvalidSubject(f"args.{error.field}", str(error).removeprefix(f"{error.field}: ")) from None

    async def _put(self, connected: Connected, window: Schedule, row: Subject, action: str, by: str) -> Subject | None:
        note = Note(
            by, action, f"subject:{window.name}/{row.name}", None, {"at": subjects.shown_due(row.due), "tz": row.tz}
        )
        (took,) = await connected.store.windows.put([row], connected.now(), [note])
        return await self._stored(connected, window, row.name) if took else None

    async def _put_batch(
        self, connected: Connected, window: Schedule, batch: Sequence[Mapping[str, Any]], before: int, by: str
    ) -> int:
        now, wanted = connected.now(), dict[str, Subject]()
        for number, row in enumerate(batch, before + 1):
            try:
                one = self._wanted(window, row.get("subject", ""), row, now)
            except InvalidSubject as error:
                message = str(error).removeprefix(f"{error.field}: ")
                raise InvalidSubject(error.field, f"{message} (row {number})") from None
            wanted[one.name] = one
        written = 0
        while wanted:
            stored = {one.name: one for one in await connected.store.windows.subjects(window.id, [*wanted])}
            changed = [
                name for name, one in wanted.items() if name not in stored or not subjects.same_terms(stored[name], one)
            ]
            if any([await self._was_behind(connected, window, stored.get(name), now) for name in changed]):
                continue
            rows = [subjects.added(window, wanted[name], stored.get(name), now) for name in changed]
            told = Note(by, ADD_MANY, f"window:{window.name}", None, {"subjects": len(rows)})
            took = await connected.store.windows.put(rows, now, [told, *[None] * (len(rows) - 1)] if rows else ())
            written += sum(took)
            wanted = {row.name: wanted[row.name] for row, wrote in zip(rows, took, strict=True) if not wrote}
        return written

    async def _was_behind(self, connected: Connected, window: Schedule, current: Subject | None, now: datetime) -> bool:
        """Whether days of a subject were over that the planner had not come to: they are decided by its old terms, and
        the row is another one afterwards."""
        if current is None or current.removed_at is not None or now < current.cutoff_at or not window.enabled:
            return False
        try:
            return await decide_days(connected.store, window, current, now)
        except InvalidSchedule:  # its zone is unknown to this host: other terms are what mends that
            return False

    async def _stored(self, connected: Connected, window: Schedule, name: str) -> Subject | None:
        found = await connected.store.windows.subjects(window.id, [name])
        return found[0] if found else None


def _name(window: str | Task[Any, Any]) -> str:
    return window.name if isinstance(window, Task) else window
