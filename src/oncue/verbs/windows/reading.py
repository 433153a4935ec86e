"""How windows, their subjects and what became of their days are read."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from oncue.application.connecting import Connected
from oncue.errors import InvalidSubject, SubjectNotFound
from oncue.model import DayCount, Schedule, Slot, Subject
from oncue.policy import days, subjects, windows
from oncue.policy.days import DaysAudit
from oncue.task import Task
from oncue.verbs.base import checked_limit
from oncue.verbs.subjects import OwnTables, SubjectTables, SubjectWriting, stored

if TYPE_CHECKING:
    from oncue.policy.explain import Explanation

LEDGER_DAYS = 30
LONGEST_LOOK = 1000
"""So many subjects are looked at for those with a prefix."""


class WindowReading(SubjectWriting):
    async def list(self) -> builtins.list[Schedule]:
        """The windows that there are, by name."""
        return await (await self._connected()).store.windows.all()

    async def get(self, window: str | Task[Any, Any]) -> Schedule:
        """One window. Raises SubjectNotFound."""
        return await self._window(OwnTables(await self._connected()), window)

    async def subject(self, window: str | Task[Any, Any], name: str, *, removed: bool = False) -> Subject:
        """One subject of a window; with `removed`, one that was removed too. Raises SubjectNotFound."""
        tables, found = OwnTables(await self._connected()), await self.get(window)
        return await (self._ever(tables, found, name) if removed else self._subject(tables, found, name))

    async def subjects(
        self, window: str | Task[Any, Any], *, after: str = "", prefix: str = "", limit: int = 100
    ) -> builtins.list[Subject]:
        """The subjects of a window by name; `after` is the name to go on from, `prefix` how a name begins."""
        connected, found = await self._connected(), await self.get(window)
        most = checked_limit(limit)
        if not prefix:
            return await connected.store.windows.page(found.id, after, most)
        goes_on = after.startswith(prefix)
        begin = [] if goes_on else await connected.store.windows.subjects(found.id, [prefix])
        told, reached, looked = [one for one in begin if one.removed_at is None], after if goes_on else prefix, 0
        while len(told) < most and looked < LONGEST_LOOK:
            rows = await connected.store.windows.page(found.id, reached, most)
            near = [*takewhile(lambda one: one.name.casefold().startswith(prefix.casefold()), rows)]
            # Where a database sorts `Ann` between `ann` and `anna`, names that are written otherwise stand in between.
            told += [one for one in near if one.name.startswith(prefix)]
            if len(near) < most:
                break
            reached, looked = rows[-1].name, looked + most
        return told[:most]

    async def day(self, window: str | Task[Any, Any], day: date | None = None) -> builtins.list[DayCount]:
        """How many subjects came to what on a day, by the minute of their cutoff in UTC; today unless it is given."""
        connected, found = await self._connected(), await self.get(window)
        return await connected.store.windows.day(found.id, connected.now().date() if day is None else day)

    async def ledger(
        self,
        window: str | Task[Any, Any],
        name: str,
        *,
        start: date | None = None,
        end: date | None = None,
        limit: int = 1000,
    ) -> builtins.list[Slot]:
        """What became of the days of a subject, oldest first: of the last 30 unless a span is given."""
        connected, found = await self._connected(), await self.get(window)
        last = connected.now().date() + windows.ONE_DAY if end is None else end
        first = last - timedelta(days=LEDGER_DAYS) if start is None else start
        begin, until, most = windows.slot_of(first), windows.slot_of(last), checked_limit(limit)
        return await connected.store.windows.ledger(found.id, subjects.checked_name(name), begin, until, most)

    async def audit(
        self,
        window: str | Task[Any, Any],
        start: date | None = None,
        end: date | None = None,
        *,
        subject: str | None = None,
        after: str = "",
        limit: int = 1000,
    ) -> DaysAudit:
        """What became of every day that subjects should have had, by default yesterday and today: of up to `limit`
        subjects by name, from `after` on, or of one. The name of the last subject is where the next page begins."""
        connected, found = await self._connected(), await self.get(window)
        now = connected.now()
        last = now.date() if end is None else end
        first = last - windows.ONE_DAY if start is None else start
        if first > last:
            raise InvalidSubject("start", f"expected a date up to {last}, not {first}")
        if subject is None:
            audited = await connected.store.windows.page(found.id, after, checked_limit(limit))
        else:
            audited = await connected.store.windows.subjects(found.id, [subjects.checked_name(subject)])
            if not audited:
                raise SubjectNotFound(f"window {found.name!r} has no subject {subject!r}")
        rows = await self._rows(connected, found, [one.name for one in audited], first, last)
        # Read after the rows that may be theirs, as those of other schedules are.
        revisions, rule = await connected.store.schedules.revisions(found.id), windows.rule_of(found.expression)
        judged = [
            day
            for one in audited
            for day in days.audit(
                one, windows.terms_of(one, rule, found.tz), revisions, rows.get(one.name, ()), (first, last), now
            )
        ]
        return DaysAudit(first, last, len(audited), judged, audited[-1].name if audited else None)

    async def _rows(
        self, connected: Connected, window: Schedule, names: Sequence[str], first: date, last: date
    ) -> dict[str, builtins.list[Slot]]:
        """The ledger's rows of these subjects, by their names."""
        found: dict[str, builtins.list[Slot]] = {}
        span = windows.slot_of(first), windows.slot_of(last)
        for name, row in await connected.store.windows.ledgers(window.id, names, *span) if names else []:
            found.setdefault(name, []).append(row)
        return found

    async def explain(self, window: str | Task[Any, Any], name: str, day: date | None = None) -> Explanation:
        """Why a subject has, or has not, got what a day was for: of the day that is open, or today's, unless one is
        given. Of a removed subject too. Raises SubjectNotFound."""
        from oncue.policy import explain
        from oncue.verbs import explaining

        connected, found = await self._connected(), await self.get(window)
        subject = await self._ever(OwnTables(connected), found, name)
        return explain.explain_day(await explaining.day_facts(connected, found, subject, day, self._app.aging))

    async def _ever(self, tables: SubjectTables, window: Schedule, name: str) -> Subject:
        """A subject that there is, or was."""
        subject = await stored(tables, window, subjects.checked_name(name))
        if subject is None:
            raise SubjectNotFound(f"window {window.name!r} has no subject {name!r}")
        return subject
