"""Which row of the ledger decides an instant.

A row of its own decides the instant that it is for. A run of slots, `scheduled_for` up to `until`, decides only those
instants in it that were slots of its revision: after the rule was edited, an instant between two of them is a slot that
no leader has decided.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate

from oncue.errors import InvalidSchedule
from oncue.model import Revision, Slot
from oncue.policy.triggers import Trigger, trigger_of


class Decisions:
    """What a ledger's rows decide, oldest first. Made once, to be asked about many instants."""

    def __init__(self, rows: Sequence[Slot], revisions: Sequence[Revision]) -> None:
        self._rows = {row.scheduled_for: row for row in rows}
        self._runs = [row for row in rows if row.until is not None]
        self._starts = [row.scheduled_for for row in self._runs]
        self._latest_ends = list(accumulate((row.until or row.scheduled_for for row in self._runs), max))
        """How far the runs up to each one go: usually they are apart, but one row must not hide another."""
        told_of = {row.revision for row in self._runs}
        self._triggers = {one.revision: _workable(one) for one in revisions if one.revision in told_of}

    def row_of(self, at: datetime, *, in_doubt: bool = True) -> Slot | None:
        """The row that decides this instant.

        Of a run whose slots this host cannot work out, it is unknown. `in_doubt` it does: nothing is
        run that may have been decided.
        """
        if at in self._rows:
            return self._rows[at]
        return next((run for run in self._runs_around(at) if self._has(run, at, in_doubt)), None)

    def _runs_around(self, at: datetime) -> Iterator[Slot]:
        place = bisect_right(self._starts, at) - 1
        while place >= 0 and self._latest_ends[place] >= at:
            run = self._runs[place]
            if run.until is not None and run.until >= at:
                yield run
            place -= 1

    def _has(self, run: Slot, at: datetime, in_doubt: bool) -> bool:
        trigger = self._triggers.get(run.revision)
        return in_doubt if trigger is None else trigger.has(at)


def _workable(revision: Revision) -> Trigger | None:
    try:
        return trigger_of(revision)
    except InvalidSchedule:
        return None
