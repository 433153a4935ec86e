"""Whether every slot that a schedule should have had is in the ledger, exactly once, and what became of it.

The slots are derived again, from the revisions and nothing else, and laid beside the ledger's rows. Where the two
differ something is wrong: a slot without a row is unaccounted for, a slot with two rows is doubled, a row
that no revision asked for is unexpected. What lies beyond the cursor is pending: no leader has decided it yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice, zip_longest
from typing import Literal, TypeAlias

from oncue.model import Revision, Slot, Verdict
from oncue.policy import triggers
from oncue.policy.triggers import TICK, Trigger, trigger_of

Finding: TypeAlias = Literal["pending", "unaccounted", "doubled", "unexpected", "lost"]
MOST_NAMED = 1000
"""How many missing slots of one gap are named one by one."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a slot, or of a run of them up to `until`."""

    scheduled_for: datetime
    verdict: Verdict | Finding
    reason: str | None = None
    until: datetime | None = None
    slots: int = 1
    row: Slot | None = None

    @property
    def holds(self) -> bool:
        return self.verdict not in ("unaccounted", "doubled", "unexpected", "lost")


@dataclass(frozen=True, slots=True)
class Audit:
    """The fates of a schedule's slots in [start, end], oldest first."""

    start: datetime
    end: datetime
    fates: Sequence[Fate]
    notes: Sequence[str] = field(default=())

    @property
    def problems(self) -> list[Fate]:
        return [fate for fate in self.fates if not fate.holds]

    @property
    def holds(self) -> bool:
        return not self.problems

    def counts(self) -> dict[str, int]:
        """How many slots met with each fate."""
        counted: dict[str, int] = {}
        for fate in self.fates:
            counted[fate.verdict] = counted.get(fate.verdict, 0) + fate.slots
        return counted


def audit(
    revisions: Sequence[Revision],
    rows: Sequence[Slot],
    cursor: datetime,
    horizon: datetime | None,
    start: datetime,
    end: datetime,
    *,
    doubled: Sequence[datetime] = (),
) -> Audit:
    """Lay the ledger's rows beside the slots that the revisions ask for. `doubled` are slots with two jobs."""
    notes = []
    if horizon is not None and start < horizon:
        notes.append(f"slots from before {horizon.isoformat()} are no longer kept")
        start = horizon
    fates = [_told(row) for row in rows]
    fates += [Fate(slot, "doubled", "it has two jobs") for slot in doubled]
    fates += _overlapping(revisions, rows)
    for trigger, after, until in _stretches(revisions, start, end):
        inside = [row for row in rows if (row.until or row.scheduled_for) > after and row.scheduled_for <= until]
        fates += _missing(trigger, after, until, inside, cursor)
        fates += _miscounted(trigger, inside)
    fates += _unasked(revisions, rows)
    return Audit(start, end, sorted(fates, key=lambda fate: fate.scheduled_for), tuple(notes))


def _told(row: Slot) -> Fate:
    if row.job_id is not None and row.state is None:
        return Fate(row.scheduled_for, "lost", f"its job {row.job_id} is not there", row=row)
    return Fate(row.scheduled_for, row.verdict, row.reason, row.until, row.slots, row)


def _stretches(
    revisions: Sequence[Revision], start: datetime, end: datetime
) -> Iterator[tuple[Trigger, datetime, datetime]]:
    """The rule of each enabled revision, with the part of (its start, its end] that is asked about."""
    ends = [revision.started_at for revision in revisions[1:]]
    for revision, ended in zip(revisions, [*ends, end], strict=True):
        after, until = max(revision.started_at, start - TICK), min(ended, end)
        if revision.enabled and after < until:
            yield trigger_of(revision), after, until


def _missing(
    trigger: Trigger, after: datetime, until: datetime, rows: Sequence[Slot], cursor: datetime
) -> Iterator[Fate]:
    """The slots of a stretch that lie between its rows."""
    for row in rows:
        yield from _gap(trigger, after, min(row.scheduled_for - TICK, until), cursor)
        after = max(after, row.until or row.scheduled_for)
    yield from _gap(trigger, after, until, cursor)


def _gap(trigger: Trigger, after: datetime, until: datetime, cursor: datetime) -> Iterator[Fate]:
    decided_until = min(until, cursor)
    if after < decided_until:
        for slot in islice(triggers.between(trigger, after, decided_until), MOST_NAMED):
            yield Fate(slot, "unaccounted", "no row of the ledger tells of it")
    pending_after = max(after, cursor)
    if pending_after < until and (count := trigger.count(pending_after, until)):
        first, last = trigger.after(pending_after), trigger.latest(until)
        assert first is not None
        yield Fate(first, "pending", "no leader has decided it yet", last if count > 1 else None, count)


def _miscounted(trigger: Trigger, rows: Sequence[Slot]) -> Iterator[Fate]:
    """Runs of slots that say another number than there were."""
    for row in rows:
        if row.until is not None:
            there = trigger.count(row.scheduled_for - TICK, row.until)
            if there != row.slots:
                reason = f"the ledger tells of {row.slots} slots up to {row.until.isoformat()}, there were {there}"
                yield Fate(row.scheduled_for, "unaccounted", reason, row=row)


def _overlapping(revisions: Sequence[Revision], rows: Sequence[Slot]) -> Iterator[Fate]:
    """Slots that have a row of their own, and are part of a run of slots too."""
    terms = {revision.revision: revision for revision in revisions}
    reached: Slot | None = None
    for row in rows:
        inside = reached is not None and reached.until is not None and row.scheduled_for <= reached.until
        if reached is not None and inside and not _is_beside(row, terms.get(reached.revision)):
            yield Fate(row.scheduled_for, "doubled", f"it is also in the run from {reached.scheduled_for.isoformat()}")
        if row.until is not None and (reached is None or reached.until is None or row.until > reached.until):
            reached = row


def _unasked(revisions: Sequence[Revision], rows: Sequence[Slot]) -> Iterator[Fate]:
    """Rows of slots that their revision does not have, or that came before it began or after it ended."""
    ends = [revision.started_at for revision in revisions[1:]]
    lives = {revision.revision: (revision, ended) for revision, ended in zip_longest(revisions, ends)}
    for row in rows:
        if row.verdict == "manual":
            continue
        revision, ended = lives.get(row.revision, (None, None))
        if revision is None or not _asks_for(revision, ended, row):
            yield Fate(row.scheduled_for, "unexpected", f"revision {row.revision} has no such slot", row=row)


def _asks_for(revision: Revision, ended: datetime | None, row: Slot) -> bool:
    began_before = revision.enabled and revision.started_at < row.scheduled_for
    ended_after = ended is None or (row.until or row.scheduled_for) <= ended
    return began_before and ended_after and trigger_of(revision).has(row.scheduled_for)


def _is_beside(row: Slot, revision: Revision | None) -> bool:
    """Whether a row in the span of a run is none of its slots: a run by hand, or a slot by hand of a later rule."""
    if row.reason == "run_now":
        return True
    return row.verdict == "manual" and revision is not None and not trigger_of(revision).has(row.scheduled_for)
