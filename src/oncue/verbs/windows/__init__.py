"""Daily windows: their subjects, added one by one or in bulk, and what became of their days."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from typing import Any

from oncue.errors import Conflict, InvalidSubject
from oncue.model import Day, Decided, Note, RowOutcome, Schedule, Subject, SubjectStep, Tally
from oncue.policy import subjects, windows
from oncue.task import Task
from oncue.verbs.base import compare_and_set
from oncue.verbs.subjects import RUN, TERMS, OwnTables, WantedRows, terms_of, where_called
from oncue.verbs.windows.reading import WindowReading

__all__ = ["Windows"]

FEW_ROWS = 50


class Windows(WindowReading):
    """With `on=session`, a subject is written in the caller's own transaction: it is there once that is committed. On a
    synchronous connection plain code says `app.wait(app.windows.add(…, on=connection))`, which stays in its thread."""

    def add(
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
        on: object | None = None,
    ) -> Coroutine[Any, Any, Subject]:
        """Add a subject, or give it these terms if it is there: its day is over at `at`, in `tz`.

        If today's cutoff has passed, today is decided as `cutoff_reached`, reason `added_late`. A change while its day
        is open, or decided, counts from the next day on.
        """
        row = {"at": at, "tz": tz, "weekdays": weekdays, "days_off": days_off, "args": args}

        async def add() -> Subject:
            tables = await self._tables(on)
            return await self._added(tables, await self._window(tables, window), name, row, by)

        return where_called(on, add())

    def change(
        self,
        window: str | Task[Any, Any],
        name: str,
        *,
        by: str = "system",
        on: object | None = None,
        **fields: Any,
    ) -> Coroutine[Any, Any, Subject]:
        """Change what is given of `at`, `tz`, `weekdays`, `days_off` and `args`; the rest stays."""
        if not fields or fields.keys() - set(TERMS):
            raise InvalidSubject(
                "fields", f"expected some of {', '.join(TERMS)}, not {', '.join(sorted(fields)) or 'none'}"
            )

        async def change() -> Subject:
            tables = await self._tables(on)
            found = await self._window(tables, window)
            kept = terms_of(await self._subject(tables, found, name))
            return await self._added(tables, found, name, {**kept, **fields}, by)

        return where_called(on, change())

    def remove(
        self, window: str | Task[Any, Any], name: str, *, by: str = "system", on: object | None = None
    ) -> Coroutine[Any, Any, None]:
        """Remove a subject. No attempt of its day's job starts any more, and one that runs is asked to stop: that holds
        from the commit on. Raises SubjectNotFound."""

        async def remove() -> None:
            tables = await self._tables(on)
            gone = await self._removed(tables, await self._window(tables, window), name, by)
            if on is None and gone.job_id is not None:
                await self._cancel(gone.job_id, by)

        return where_called(on, remove())

    def add_many(
        self,
        window: str | Task[Any, Any],
        rows: Iterable[Mapping[str, Any]],
        *,
        by: str = "system",
        progress: Callable[[int], None] = lambda written: None,
        on: object | None = None,
    ) -> Coroutine[Any, Any, int]:
        """Add or change any number of subjects; how many were written.

        A row has `subject` and `at`, and what else `add` takes. Rows that are stored as they are wanted are left alone,
        so that a bulk that broke off is simply started again. `progress` is told how many rows are done. A row that is
        wrong raises InvalidSubject with its number; those of the thousands before it are written.
        """

        async def add_many() -> int:
            tables = await self._tables(on)
            found, left, done, written = await self._window(tables, window), iter(rows), 0, 0
            while batch := [*islice(left, subjects.MOST_ROWS)]:
                wanted = self._wanted_rows(found, batch, tables.now())
                _refuse_invalid(wanted.outcomes, done)
                outcomes = await self._put_rows(tables, found, wanted, by)
                written += sum(one.outcome in ("added", "changed") for one in outcomes)
                done += len(batch)
                progress(done)
            return written

        return where_called(on, add_many())

    async def add_each(
        self, window: str | Task[Any, Any], rows: Sequence[Mapping[str, Any]], *, by: str = "system"
    ) -> builtins.list[RowOutcome]:
        """Add or change up to 1,000 subjects, and say what came of each row. Those that are wrong are left out: the
        others are written all the same. Repeating it changes nothing."""
        if not 1 <= len(rows) <= subjects.MOST_ROWS:
            raise InvalidSubject("subjects", f"expected 1 to {subjects.MOST_ROWS:,} rows, not {len(rows):,}")
        tables = OwnTables(await self._connected())
        found = await self._window(tables, window)
        return await self._put_rows(tables, found, await self._checked_rows(found, rows, tables.now()), by)

    async def _checked_rows(self, window: Schedule, rows: Sequence[Mapping[str, Any]], now: datetime) -> WantedRows:
        """Many rows are checked in a thread, since the event loop has others to serve: what is said of an unknown zone
        takes a while to find."""
        if len(rows) <= FEW_ROWS:
            return self._wanted_rows(window, rows, now)
        return await asyncio.to_thread(self._wanted_rows, window, rows, now)

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

    async def _cancel(self, job_id: int, by: str) -> None:
        """End a job that was asked to stop, if it waits: else the next claim does."""
        from oncue.verbs.jobs import Jobs

        with contextlib.suppress(Conflict):  # it has ended by itself
            await Jobs(self._app).cancel(job_id, by=by)


def _refuse_invalid(outcomes: Sequence[RowOutcome], before: int) -> None:
    for number, one in enumerate(outcomes, before + 1):
        if one.outcome == "invalid":
            raise InvalidSubject(one.field or "subject", one.message or "", number)
